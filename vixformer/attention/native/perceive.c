/* A small network of each token and head on its own, softplus(W2 max(W1 x + b1, 0) + b2), the same weights for all heads. Letters: n tokens,
 * d head width, e hidden units (multiples of 16). Tensors as in linear.c; `first` is d x e, `second` e x d. */
#include "small.h"

typedef struct {
    int d, e;
    const float *first, *bias, *second, *shift;
} Net;

static void hidden(const Net *f, const float *x, long s, int rows, float *z) {
    const int e = f->e;
    gemm(rows, e, f->d, x, s, 1, f->first, e, z, e, 0);
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < e; j += W) store(z + r * e + j, greater(spread(0.0f), load(z + r * e + j) + load(f->bias + j)));
}

/* log(1 + exp y) = max(y, 0) + 2 artanh(z / (2 + z)) with z = exp(-|y|), by its series: z / (2 + z) is at most 1/3 */
static inline vec softplus(vec y) {
    const vec z = vexp(-greater(-y, y)), s = z / (spread(2.0f) + z), t = s * s;
    vec p = spread(1.0f / 13.0f);
    p = p * t + spread(1.0f / 11.0f);
    p = p * t + spread(1.0f / 9.0f);
    p = p * t + spread(1.0f / 7.0f);
    p = p * t + spread(1.0f / 5.0f);
    p = p * t + spread(1.0f / 3.0f);
    return greater(spread(0.0f), y) + spread(2.0f) * s * (p * t + spread(1.0f));
}

int perceive(const float *x, float *out, const long *strides, long b, int h, int n, int d, int e, const float *first, const float *bias,
             const float *second, const float *shift) {
    const long *sx = strides, *so = strides + 3;
    const Net f = {d, e, first, bias, second, shift};
    int failed = 0;
#pragma omp parallel reduction(| : failed)
    {
        float *z = scratch((size_t)BLOCK * e);
        failed |= !z;
#pragma omp for schedule(dynamic)
        for (long item = 0; item < b * h; item++) {
            const float *xi = x + item / h * sx[0] + item % h * sx[1];
            float *oi = out + item / h * so[0] + item % h * so[1];
            for (int start = 0; z && start < n; start += BLOCK) {
                const int rows = n - start < BLOCK ? n - start : BLOCK;
                float *to = oi + start * so[2];
                hidden(&f, xi + start * sx[2], sx[2], rows, z);
                gemm(rows, d, e, z, e, 1, second, d, to, so[2], 0);
                for (int r = 0; r < rows; r++)
                    for (int c = 0; c < d; c += W) store(to + r * so[2] + c, softplus(load(to + r * so[2] + c) + load(shift + c)));
            }
        }
        free(z);
    }
    return failed;
}

/* The gradient of x, and of the weights for each image by itself: `weights` is b x (d e + e + e d + d), as they come in Net. `out` is what
 * forward gave: the slope of softplus is 1 - exp(-out). `turned` are the transposes of first (e x d) and second (d x e). */
int perceive_backward(const float *x, const float *out, const float *grad, float *dx, const long *strides, long b, int h, int n, int d, int e,
                      const float *first, const float *bias, const float *second, const float *shift, const float *first_turned,
                      const float *second_turned, float *weights) {
    const long *sx = strides, *so = strides + 3, *sg = strides + 6, *sd = strides + 9;
    const Net f = {d, e, first, bias, second, shift};
    int failed = 0;
#pragma omp parallel reduction(| : failed)
    {
        float *z = scratch((size_t)BLOCK * (2 * e + d)), *dz = z + (size_t)BLOCK * e, *dy = dz + (size_t)BLOCK * e;
        failed |= !z;
#pragma omp for schedule(dynamic)
        for (long i = 0; i < b; i++) {
            float *dfirst = weights + i * (2L * d * e + e + d), *dbias = dfirst + d * e, *dsecond = dbias + e, *dshift = dsecond + e * d;
            memset(dfirst, 0, sizeof(float) * (2L * d * e + e + d));
            for (int j = 0; z && j < h; j++)
                for (int start = 0; start < n; start += BLOCK) {
                    const int rows = n - start < BLOCK ? n - start : BLOCK;
                    const float *xi = x + i * sx[0] + j * sx[1] + start * sx[2];
                    hidden(&f, xi, sx[2], rows, z);
                    for (int r = 0; r < rows; r++) {
                        const float *o = out + i * so[0] + j * so[1] + (start + r) * so[2], *g = grad + i * sg[0] + j * sg[1] + (start + r) * sg[2];
                        for (int c = 0; c < d; c += W) {
                            const vec change = load(g + c) * (spread(1.0f) - vexp(-load(o + c)));
                            store(dy + r * d + c, change);
                            store(dshift + c, load(dshift + c) + change);
                        }
                    }
                    gemm(e, d, rows, z, 1, e, dy, d, dsecond, d, 1);
                    gemm(rows, e, d, dy, d, 1, second_turned, e, dz, e, 0);
                    for (int r = 0; r < rows; r++)
                        for (int p = 0; p < e; p += W) {
                            const vec change = (vec)((ivec)load(dz + r * e + p) & (load(z + r * e + p) > spread(0.0f)));
                            store(dz + r * e + p, change);
                            store(dbias + p, load(dbias + p) + change);
                        }
                    gemm(d, e, rows, xi, 1, sx[2], dz, e, dfirst, e, 1);
                    gemm(rows, d, e, dz, e, 1, first_turned, d, dx + i * sd[0] + j * sd[1] + start * sd[2], sd[2], 0);
                }
        }
        free(z);
    }
    return failed;
}
