/* The real part of a two-dimensional transform of real numbers, from the half of it that is not redundant: Re X[-n, -d] = Re X[n, d].
 *
 * half is b x n x (d / 2 + 1) complex numbers, out b x n x d.
 */
#include "small.h"

int unfold(const float *half, float *out, long b, long n, long d) {
    const long kept = d / 2 + 1;
#pragma omp parallel for
    for (long row = 0; row < b * n; row++) {
        const long i = row / n, j = row % n;
        const float *here = half + row * kept * 2, *there = half + (i * n + (n - j) % n) * kept * 2;
        float *to = out + row * d;
        for (long c = 0; c < kept; c++) to[c] = here[2 * c];
        for (long c = kept; c < d; c++) to[c] = there[2 * (d - c)];
    }
    return 0;
}
