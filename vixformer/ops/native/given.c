/* Linear attention over features that are there already: phi(q) is b x h x n x m, phi(k) b x h x l x m, v b x h x l x d (d a multiple of 8, m any).
 *
 * The same mathematics as ops.feature_attention, which is the place to read it. strides holds those of b, h and the third for phi(q), phi(k), v and
 * out, and for backward those of the gradients of out, phi(q), phi(k) and v. `sums`, b x h x m x (d + 1), are the context and after it the total of
 * each image and head, kept for backward. Both return 0, or 1 when there is no memory.
 */
#include "small.h"

static const float LEAST = 1e8f * FLT_MIN; /* normaliser: see ops.feature_attention._divide */

/* the normaliser, kept away from zero; `floor` below zero stands for none */
static inline float kept_off(float total, float floor) {
    if (floor < 0.0f) return total < LEAST ? LEAST : total;
    return total < 0.0f ? (total > -floor ? -floor : total) : (total < floor ? floor : total);
}

/* to = weight x */
static inline void scale_row(float *to, const float *x, float weight, int m) {
    int j = 0;
    for (; j + W <= m; j += W) store(to + j, spread(weight) * load(x + j));
    for (; j < m; j++) to[j] = weight * x[j];
}

static inline float dot_any(const float *a, const float *b, int m) {
    const int even = m / W * W;
    float sum = dot(a, b, even);
    for (int j = even; j < m; j++) sum += a[j] * b[j];
    return sum;
}

/* to += weight x */
static inline void add_scaled(float *to, const float *x, float weight, int m) {
    int j = 0;
    for (; j + W <= m; j += W) store(to + j, load(to + j) + spread(weight) * load(x + j));
    for (; j < m; j++) to[j] += weight * x[j];
}

int feature_attention(const float *q, const float *k, const float *v, float *out, const long *strides, long b, int h, int n, int d, int half, int l, int m,
                      float *sums, float eps, float floor) {
    const long *sq = strides, *sk = strides + 3, *sv = strides + 6, *so = strides + 9;
#pragma omp parallel for schedule(dynamic)
    for (long item = 0; item < b * h; item++) {
        const long i = item / h, j = item % h;
        const float *qi = q + i * sq[0] + j * sq[1], *ki = k + i * sk[0] + j * sk[1], *vi = v + i * sv[0] + j * sv[1];
        float *context = sums + item * m * (d + 1), *total = context + (long)m * d, *oi = out + i * so[0] + j * so[1];
        memset(context, 0, sizeof(float) * m * (d + 1));
        for (int start = 0; start < l; start += BLOCK) {
            const int rows = l - start < BLOCK ? l - start : BLOCK;
            const float *from = ki + start * sk[2];
            gemm(m, d, rows, from, 1, sk[2], vi + start * sv[2], sv[2], context, d, 1);
            for (int r = 0; r < rows; r++) add_scaled(total, from + r * sk[2], 1.0f, m);
        }
        for (int start = 0; start < n; start += BLOCK) {
            const int rows = n - start < BLOCK ? n - start : BLOCK;
            const float *from = qi + start * sq[2];
            float *to = oi + start * so[2];
            gemm(rows, d, m, from, sq[2], 1, context, d, to, so[2], 0);
            for (int r = 0; r < rows; r++) {
                float *row = to + r * so[2];
                scale_row(row, row, 1.0f / kept_off(dot_any(from + r * sq[2], total, m) + eps, floor), d);
            }
        }
    }
    return 0;
}

/* gradients of features, rows x m: made in `room`, rows x wide, and put where they belong; where `weight` says, a share of `total` is added */
static void put_back(const float *room, int wide, int rows, int m, const float *weight, const float *total, float *to, long s) {
    for (int r = 0; r < rows; r++, room += wide, to += s) {
        memcpy(to, room, sizeof(float) * m);
        add_scaled(to, total, weight ? weight[r] : 1.0f, m);
    }
}

int feature_attention_backward(const float *q, const float *k, const float *v, const float *out, const float *grad, float *dq, float *dk, float *dv,
                               const long *strides, long b, int h, int n, int d, int half, int l, int m, const float *sums, float eps, float floor) {
    const long *sq = strides, *sk = strides + 3, *sv = strides + 6, *so = strides + 9, *sg = strides + 12;
    const long *sdq = strides + 15, *sdk = strides + 18, *sdv = strides + 21;
    const int wide = (m + W - 1) / W * W;
    int failed = 0;
#pragma omp parallel reduction(| : failed)
    {
        float *across = scratch((size_t)d * wide + (size_t)BLOCK * (wide + d + 1) + (size_t)m * (d + 1));
        float *change = across + (size_t)d * wide, *dsums = change + (size_t)BLOCK * wide, *pull = dsums + (size_t)BLOCK * d;
        float *dcontext = pull + BLOCK, *dtotal = dcontext + (size_t)m * d;
        failed |= !across;
#pragma omp for schedule(dynamic)
        for (long item = 0; item < b * h; item++) {
            if (!across) continue;
            const long i = item / h, j = item % h;
            const float *qi = q + i * sq[0] + j * sq[1], *ki = k + i * sk[0] + j * sk[1], *vi = v + i * sv[0] + j * sv[1];
            const float *context = sums + item * m * (d + 1), *total = context + (long)m * d;
            memset(dcontext, 0, sizeof(float) * m * (d + 1));
            turn(context, d, m, d, wide, 1.0f, across);
            for (int start = 0; start < n; start += BLOCK) {
                const int rows = n - start < BLOCK ? n - start : BLOCK;
                const float *from = qi + start * sq[2];
                for (int r = 0; r < rows; r++) {
                    const float *g = grad + i * sg[0] + j * sg[1] + (start + r) * sg[2], *o = out + i * so[0] + j * so[1] + (start + r) * so[2];
                    const float given = dot_any(from + r * sq[2], total, m) + eps, used = kept_off(given, floor);
                    pull[r] = used == given || used != used ? -dot_any(g, o, d) / used : 0.0f;
                    scale_row(dsums + r * d, g, 1.0f / used, d);
                    add_scaled(dtotal, from + r * sq[2], pull[r], m);
                }
                gemm(m, d, rows, from, 1, sq[2], dsums, d, dcontext, d, 1);
                gemm(rows, wide, d, dsums, d, 1, across, wide, change, wide, 0);
                put_back(change, wide, rows, m, pull, total, dq + i * sdq[0] + j * sdq[1] + start * sdq[2], sdq[2]);
            }
            turn(dcontext, d, m, d, wide, 1.0f, across);
            for (int start = 0; start < l; start += BLOCK) {
                const int rows = l - start < BLOCK ? l - start : BLOCK;
                gemm(rows, d, m, ki + start * sk[2], sk[2], 1, dcontext, d, dv + i * sdv[0] + j * sdv[1] + start * sdv[2], sdv[2], 0);
                gemm(rows, wide, d, vi + start * sv[2], sv[2], 1, across, wide, change, wide, 0);
                put_back(change, wide, rows, m, NULL, dtotal, dk + i * sdk[0] + j * sdk[1] + start * sdk[2], sdk[2]);
            }
        }
        free(across);
    }
    return failed;
}
