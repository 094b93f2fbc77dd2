/* Products along the tokens, for Linformer: tokens are mixed by a matrix, n x r (r a multiple of 8), of all heads or of each.
 *
 * x is b x h x n x d, mixed b x h x r x d; strides holds those of b, h and the third for each in turn. `apart` is the distance between the
 * matrices of two heads, 0 where they share one.
 */
#include "small.h"

/* mixed = matrix' x */
int along(const float *x, float *mixed, const long *strides, long b, int h, int n, int d, int r, const float *matrix, long apart) {
    const long *sx = strides, *sm = strides + 3;
#pragma omp parallel for schedule(dynamic)
    for (long item = 0; item < b * h; item++) {
        long i = item / h, j = item % h;
        for (int start = 0; start < n; start += BLOCK) {
            int rows = n - start < BLOCK ? n - start : BLOCK;
            gemm(r, d, rows, matrix + j * apart + (long)start * r, 1, r, x + i * sx[0] + j * sx[1] + start * sx[2], sx[2],
                 mixed + i * sm[0] + j * sm[1], sm[2], start > 0);
        }
    }
    return 0;
}

/* dx = matrix dmixed and dmatrix = x dmixed', summed over images and over heads that share it. `turned` is the transpose of dmixed, b x h x d x r.
 * A thread has a piece of dmatrix of its own, so that sums are always in the same order. */
int along_backward(const float *x, const float *dmixed, float *dx, const long *strides, long b, int h, int n, int d, int r, const float *matrix,
                   float *dmatrix, long apart, const float *turned) {
    const long *sx = strides, *sm = strides + 3, *sd = strides + 6;
    const int groups = apart ? h : 1, merged = !apart && sx[1] == d; /* heads that share a matrix and lie side by side are one wide head */
    const int heads = apart || merged ? 1 : h, width = merged ? h * d : d;
    const long blocks = (n + BLOCK - 1) / BLOCK, columns = (r + 2 * W - 1) / (2 * W);
#pragma omp parallel
    {
#pragma omp for schedule(dynamic) nowait
        for (long item = 0; item < b * h; item++) {
            const long i = item / h, j = item % h;
            gemm(n, d, r, matrix + j * apart, r, 1, dmixed + i * sm[0] + j * sm[1], sm[2], dx + i * sd[0] + j * sd[1], sd[2], 0);
        }
#pragma omp for schedule(dynamic)
        for (long item = 0; item < groups * blocks * columns; item++) {
            const long group = item / columns / blocks, start = item / columns % blocks * BLOCK, column = item % columns * 2 * W;
            const int rows = n - start < BLOCK ? n - start : BLOCK, wide = r - column < 2 * W ? r - column : 2 * W;
            for (long i = 0; i < b; i++)
                for (long j = group; j < group + heads; j++)
                    gemm(rows, wide, width, x + i * sx[0] + j * sx[1] + start * sx[2], sx[2], 1, turned + (i * h + j) * d * r + column, r,
                         dmatrix + group * apart + start * r + column, r, i > 0 || j > group);
        }
    }
    return 0;
}
