/* What is done to each token or number on its own between products: GELU and layer norm, of floats or bfloat16. All return 0. */
#include "bfloat.h"

enum { PIECE = 4096 /* numbers at a time */ };

static inline __attribute__((always_inline)) void bend(int half, const void *x, const void *grad, void *out, long i, int part) {
    vec slope;
    const vec u = take_part(half, x, i, part), share = normal(u, &slope);
    put_part(half, out, i, grad ? take_part(half, grad, i, part) * slope : u * share, part);
}

static void bend_some(int half, const void *x, const void *grad, void *out, long start, int count) {
    int i = 0;
    if (half)
        for (; i + W <= count; i += W) bend(1, x, grad, out, start + i, 0);
    else if (grad)
        for (; i + W <= count; i += W) bend(0, x, grad, out, start + i, 0);
    else
        for (; i + W <= count; i += W) bend(0, x, NULL, out, start + i, 0);
    if (i < count) bend(half, x, grad, out, start + i, count - i);
}

/* out = GELU(x), or where there is a gradient, that times the slope at x */
int gelu(const void *x, const void *grad, void *out, long n, int half) {
#pragma omp parallel for schedule(static)
    for (long start = 0; start < n; start += PIECE)
        bend_some(half, x, grad, out, start, n - start < PIECE ? n - start : PIECE);
    return 0;
}

/* out = (x - mean) / deviation scale + shift of each row of d, a multiple of 16; `stats` is left with mean and 1 / deviation */
int layer_norm(const void *x, const float *scale, const float *shift, void *out, float *stats, long rows, int d, int half, float eps) {
#pragma omp parallel for schedule(static)
    for (long r = 0; r < rows; r++) {
        vec sum = spread(0.0f), square = sum;
        for (int c = 0; c < d; c += W) sum += take(half, x, r * d + c);
        const float middle = sum_of(sum) / d;
        const vec mean = spread(middle);
        for (int c = 0; c < d; c += W) {
            const vec y = take(half, x, r * d + c) - mean;
            square += y * y;
        }
        const float unit = 1.0f / sqrtf(sum_of(square) / d + eps);
        for (int c = 0; c < d; c += W)
            put(half, out, r * d + c, (take(half, x, r * d + c) - mean) * spread(unit) * load(scale + c) + load(shift + c));
        stats[2 * r] = middle;
        stats[2 * r + 1] = unit;
    }
    return 0;
}

/* The gradient of x; those of scale and shift are summed in `parts` pieces of rows, 2 d floats each, so that sums do not depend on who came first. */
int layer_norm_backward(const void *x, const void *grad, const float *scale, const float *stats, void *dx, float *sums, long rows, int d, int half, int parts) {
#pragma omp parallel for schedule(static)
    for (int p = 0; p < parts; p++) {
        float *dscale = sums + (long)p * 2 * d, *dshift = dscale + d;
        memset(dscale, 0, sizeof(float) * 2 * d);
        for (long r = rows * p / parts; r < rows * (p + 1) / parts; r++) {
            const vec mean = spread(stats[2 * r]), unit = spread(stats[2 * r + 1]);
            vec along = spread(0.0f), across = along;
            for (int c = 0; c < d; c += W) {
                const vec g = take(half, grad, r * d + c), y = (take(half, x, r * d + c) - mean) * unit, change = g * load(scale + c);
                along += change;
                across += change * y;
                store(dscale + c, load(dscale + c) + g * y);
                store(dshift + c, load(dshift + c) + g);
            }
            const vec level = spread(sum_of(along) / d), tilt = spread(sum_of(across) / d);
            for (int c = 0; c < d; c += W) {
                const vec y = (take(half, x, r * d + c) - mean) * unit;
                put(half, dx, r * d + c, (take(half, grad, r * d + c) * load(scale + c) - level - y * tilt) * unit);
            }
        }
    }
    return 0;
}
