/* Exact attention of many queries to few keys, as in Linformer: a row of scores stays in the cache from the product to the sum.
 *
 * q and out are b x h x n x d, k and v b x h x l x d (l and d multiples of 16); strides holds those of b, h and the third for q, k, v and out.
 * Returns 0, or 1 when there is no memory.
 */
#include "small.h"

int few_keys(const float *q, const float *k, const float *v, float *out, const long *strides, long b, int h, int n, int d, int l) {
    const long *sq = strides, *sk = strides + 3, *sv = strides + 6, *so = strides + 9;
    const float scale = 1.0f / sqrtf((float)d);
    const long blocks = (n + 4 * BLOCK - 1) / (4 * BLOCK); /* enough pieces for every core, few enough to turn the keys once for each */
    int failed = 0;
#pragma omp parallel reduction(| : failed)
    {
        float *keys = scratch((size_t)d * l + (size_t)BLOCK * l + BLOCK);
        float *scores = keys + (size_t)d * l, *totals = scores + (size_t)BLOCK * l;
        failed |= !keys;
#pragma omp for schedule(dynamic)
        for (long item = 0; item < b * h * blocks; item++) {
            if (!keys) continue;
            long i = item / blocks / h, j = item / blocks % h;
            int first = item % blocks * 4 * BLOCK, end = first + 4 * BLOCK < n ? first + 4 * BLOCK : n;
            const float *ki = k + i * sk[0] + j * sk[1];
            for (int r = 0; r < l; r++)
                for (int c = 0; c < d; c++) keys[c * l + r] = ki[r * sk[2] + c] * scale;
            for (int start = first; start < end; start += BLOCK) {
                int rows = end - start < BLOCK ? end - start : BLOCK;
                float *to = out + i * so[0] + j * so[1] + start * so[2];
                gemm(rows, l, d, q + i * sq[0] + j * sq[1] + start * sq[2], sq[2], 1, keys, l, scores, l, 0);
                softmax_rows(scores, rows, l, totals);
                gemm(rows, d, l, scores, l, 1, v + i * sv[0] + j * sv[1], sv[2], to, so[2], 0);
                divide_rows(to, so[2], rows, d, totals);
            }
        }
        free(keys);
    }
    return failed;
}
