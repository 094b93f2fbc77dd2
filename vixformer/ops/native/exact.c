/* Exact attention, made for many heads and few keys: a row of scores stays in the cache from the product to the sum.
 *
 * q and out are b x h x n x d, k and v b x h x l x d (d a multiple of 16); strides holds those of b, h and the third for q, k, v and out, and
 * for backward those of the gradient of out and of q, k and v. `logs`, b x h x n, is the logarithm of what the exponentials of a row sum to.
 * Both return 0, or 1 when there is no memory.
 */
#include "small.h"

enum { PIECE = 4 * BLOCK /* queries: enough pieces for every core, few enough to turn the keys once for each */ };

int exact(const float *q, const float *k, const float *v, float *out, const long *strides, long b, int h, int n, int d, int l, float *logs) {
    const long *sq = strides, *sk = strides + 3, *sv = strides + 6, *so = strides + 9;
    const float scale = 1.0f / sqrtf((float)d);
    const long pieces = (n + PIECE - 1) / PIECE;
    const int wide = (l + W - 1) / W * W;
    int failed = 0;
#pragma omp parallel reduction(| : failed)
    {
        float *keys = scratch((size_t)d * wide + (size_t)BLOCK * wide + 2 * BLOCK);
        float *scores = keys + (size_t)d * wide, *totals = scores + (size_t)BLOCK * wide, *tops = totals + BLOCK;
        failed |= !keys;
#pragma omp for schedule(dynamic)
        for (long item = 0; item < b * h * pieces; item++) {
            if (!keys) continue;
            long i = item / pieces / h, j = item / pieces % h;
            int first = item % pieces * PIECE, end = first + PIECE < n ? first + PIECE : n;
            turn(k + i * sk[0] + j * sk[1], sk[2], l, d, wide, scale, keys);
            for (int start = first; start < end; start += BLOCK) {
                int rows = end - start < BLOCK ? end - start : BLOCK;
                float *to = out + i * so[0] + j * so[1] + start * so[2];
                gemm(rows, wide, d, q + i * sq[0] + j * sq[1] + start * sq[2], sq[2], 1, keys, wide, scores, wide, 0);
                for (int r = 0; r < rows; r++) /* below anything: never the largest, and exp of it is nothing */
                    for (int c = l; c < wide; c++) scores[r * wide + c] = -INFINITY;
                softmax_rows(scores, rows, wide, totals, tops);
                gemm(rows, d, l, scores, wide, 1, v + i * sv[0] + j * sv[1], sv[2], to, so[2], 0);
                divide_rows(to, so[2], rows, d, totals);
                for (int r = 0; logs && r < rows; r++) logs[(i * h + j) * n + start + r] = tops[r] + logf(totals[r]);
            }
        }
        free(keys);
    }
    return failed;
}

int exact_backward(const float *q, const float *k, const float *v, const float *out, const float *grad, float *dq, float *dk, float *dv,
                   const long *strides, long b, int h, int n, int d, int l, const float *logs) {
    const long *sq = strides, *sk = strides + 3, *sv = strides + 6, *so = strides + 9, *sg = strides + 12;
    const long *sdq = strides + 15, *sdk = strides + 18, *sdv = strides + 21;
    const float scale = 1.0f / sqrtf((float)d);
    const int wide = (l + W - 1) / W * W;
    int failed = 0;
#pragma omp parallel reduction(| : failed)
    {
        float *keys = scratch(2 * ((size_t)d * wide + (size_t)BLOCK * wide));
        float *values = keys + (size_t)d * wide, *weights = values + (size_t)d * wide, *change = weights + (size_t)BLOCK * wide;
        failed |= !keys;
#pragma omp for schedule(dynamic)
        for (long item = 0; item < b * h; item++) {
            if (!keys) continue;
            long i = item / h, j = item % h;
            const float *ki = k + i * sk[0] + j * sk[1];
            turn(ki, sk[2], l, d, wide, scale, keys);
            turn(v + i * sv[0] + j * sv[1], sv[2], l, d, wide, 1.0f, values);
            for (int start = 0; start < n; start += BLOCK) {
                int rows = n - start < BLOCK ? n - start : BLOCK;
                const float *qi = q + i * sq[0] + j * sq[1] + start * sq[2], *gi = grad + i * sg[0] + j * sg[1] + start * sg[2];
                const float *oi = out + i * so[0] + j * so[1] + start * so[2];
                gemm(rows, wide, d, qi, sq[2], 1, keys, wide, weights, wide, 0);
                gemm(rows, wide, d, gi, sg[2], 1, values, wide, change, wide, 0);
                for (int r = 0; r < rows; r++) {
                    vec log = spread(logs[item * n + start + r]), sum = spread(0.0f);
                    for (int c = 0; c < d; c += W) sum += load(gi + r * sg[2] + c) * load(oi + r * so[2] + c);
                    vec mean = spread(sum_of(sum));
                    for (int c = 0; c < wide; c += W) {
                        float *w = weights + r * wide + c, *x = change + r * wide + c;
                        store(w, vexp(load(w) - log));
                        store(x, load(w) * (load(x) - mean) * spread(scale));
                    }
                }
                gemm(l, d, rows, weights, 1, wide, gi, sg[2], dv + i * sdv[0] + j * sdv[1], sdv[2], start > 0);
                gemm(rows, d, l, change, wide, 1, ki, sk[2], dq + i * sdq[0] + j * sdq[1] + start * sdq[2], sdq[2], 0);
                gemm(l, d, rows, change, 1, wide, qi, sq[2], dk + i * sdk[0] + j * sdk[1], sdk[2], start > 0);
            }
        }
        free(keys);
    }
    return failed;
}
