/* Products along the tokens, for Linformer: tokens are mixed by a matrix, n x r floats (r a multiple of 8), of all heads or of each.
 *
 * x is b x h x n x d, mixed b x h x r x d, floats or bfloat16; strides holds those of b, h and the third for each in turn. `apart` is the distance
 * between the matrices of two heads, 0 where they share one. All return 0, or 1 when there is no memory.
 */
#include "bfloat.h"

/* mixed = matrix' x */
int along(const void *x, void *mixed, const long *strides, long b, int h, int n, int d, int half, int r, const float *matrix, long apart) {
    const long *sx = strides, *sm = strides + 3;
    int failed = 0;
#pragma omp parallel reduction(| : failed)
    {
        float *sums = scratch((size_t)r * d + (size_t)BLOCK * (r + W + d) / 2), *left = sums + (size_t)r * d, *right = left + (size_t)BLOCK * (r + W) / 2;
        failed |= !sums;
#pragma omp for schedule(dynamic)
        for (long item = 0; item < b * h; item++) {
            if (!sums) continue;
            const long i = item / h, j = item % h;
            for (int start = 0; start < n; start += BLOCK) {
                const int rows = n - start < BLOCK ? n - start : BLOCK;
                const void *from_x = from(half, x, i * sx[0] + j * sx[1] + start * sx[2]);
                const float *weights = matrix + j * apart + (long)start * r;
                if (half) pair_floats(weights, r, rows, r, left), pair_rows(from_x, sx[2], rows, d, rows, right);
                multiply(half, r, d, words(half, rows), half ? left : weights, 1, r, half ? right : from_x, half ? d : sx[2], sums, d, start > 0);
            }
            put_rows(half, sums, d, r, d, NULL, into(half, mixed, i * sm[0] + j * sm[1]), sm[2]);
        }
        free(sums);
    }
    return failed;
}

/* dx = matrix dmixed and dmatrix = x dmixed', summed over images and over heads that share it. `turned` is the transpose of dmixed, b x h x d x r, or of
 * its pairs. A thread has a piece of dmatrix of its own, so that sums are always in the same order. */
int along_backward(const void *x, const void *dmixed, void *dx, const long *strides, long b, int h, int n, int d, int half, int r, const float *matrix,
                   float *dmatrix, long apart, const float *turned) {
    const long *sx = strides, *sm = strides + 3, *sd = strides + 6;
    const int groups = apart ? h : 1, merged = !apart && sx[1] == d; /* heads that share a matrix and lie side by side are one wide head */
    const int heads = apart || merged ? 1 : h, width = merged ? h * d : d;
    const long blocks = (n + BLOCK - 1) / BLOCK, columns = (r + 2 * W - 1) / (2 * W), inner = words(half, d);
    int failed = 0;
#pragma omp parallel reduction(| : failed)
    {
        float *made = scratch((size_t)BLOCK * d + (size_t)BLOCK * (r + W) / 2 + (size_t)(r + 1) / 2 * d), *left = made + (size_t)BLOCK * d;
        float *right = left + (size_t)BLOCK * (r + W) / 2;
        failed |= !made;
#pragma omp for schedule(dynamic) nowait
        for (long item = 0; item < b * h; item++) {
            if (!made) continue;
            const long i = item / h, j = item % h;
            const void *change = from(half, dmixed, i * sm[0] + j * sm[1]);
            if (half) pair_rows(change, sm[2], r, d, r, right);
            for (int start = 0; start < n; start += BLOCK) {
                const int rows = n - start < BLOCK ? n - start : BLOCK;
                const float *weights = matrix + j * apart + (long)start * r;
                if (half) narrow_rows(weights, r, rows, r, (bfloat *)left, r);
                multiply(half, rows, d, words(half, r), half ? left : weights, words(half, r), 1, half ? right : change, half ? d : sm[2], made, d, 0);
                put_rows(half, made, d, rows, d, NULL, into(half, dx, i * sd[0] + j * sd[1] + start * sd[2]), sd[2]);
            }
        }
#pragma omp for schedule(dynamic)
        for (long item = 0; item < groups * blocks * columns; item++) {
            const long group = item / columns / blocks, start = item / columns % blocks * BLOCK, column = item % columns * 2 * W;
            const int rows = n - start < BLOCK ? n - start : BLOCK, wide = r - column < 2 * W ? r - column : 2 * W;
            for (long i = 0; i < b; i++)
                for (long j = group; j < group + heads; j++)
                    multiply(half, rows, wide, words(half, width), from(half, x, i * sx[0] + j * sx[1] + start * sx[2]), words(half, sx[2]), 1,
                             turned + (i * h + j) * inner * r + column, r, dmatrix + group * apart + start * r + column, r, i > 0 || j > group);
        }
        free(made);
    }
    return failed;
}
