/* Vectors of eight floats, exp, and matrix products small enough to stay in the cache. */
#pragma once
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef float vec __attribute__((vector_size(32), aligned(4)));
typedef int32_t ivec __attribute__((vector_size(32)));
typedef uint32_t uvec __attribute__((vector_size(32)));
enum { W = 8, BLOCK = 96 /* tokens at a time */ };

/* room for one thread, aligned to cache lines */
static inline float *scratch(size_t floats) { return aligned_alloc(64, (floats * sizeof(float) + 63) / 64 * 64); }

static inline vec load(const float *p) { return *(const vec *)p; }
static inline void store(float *p, vec v) { *(vec *)p = v; }
static inline vec spread(float x) { return (vec){x, x, x, x, x, x, x, x}; }
/* the larger of the two, or b where either is NaN: so NaN goes where data goes second */
static inline vec greater(vec a, vec b) {
#ifdef __AVX__
    return __builtin_ia32_maxps256(a, b); /* one instruction, which compilers do not dare to choose because of NaN */
#endif
    ivec pick = a > b;
    return (vec)(((ivec)a & pick) | ((ivec)b & ~pick));
}

/* exp by reduction to [-ln 2 / 2, ln 2 / 2] and a polynomial; relative error below 2e-7. Arguments are at most 0 here, or NaN, which stays NaN:
 * the power of two is made of the bits of 1.5 * 2^23 + k, because to convert NaN to an integer is undefined. */
static inline vec vexp(vec x) {
    x = greater(spread(-87.0f), x);
    const vec shifted = x * spread(1.44269504f) + spread(12582912.0f);
    const vec k = shifted - spread(12582912.0f);
    vec r = x - k * spread(0.693359375f) - k * spread(-2.12194440e-4f);
    vec p = spread(1.9875691500e-4f);
    p = p * r + spread(1.3981999507e-3f);
    p = p * r + spread(8.3334519073e-3f);
    p = p * r + spread(4.1665795894e-2f);
    p = p * r + spread(1.6666665459e-1f);
    p = p * r + spread(5.0000001201e-1f);
    p = p * r * r + r + spread(1.0f);
    const uvec power = ((uvec)shifted + 127) << 23;
    return p * (vec)power;
}

/* rows x (8 or 16) of C (+)= A B. A has any strides, B and C have contiguous rows. */
static inline __attribute__((always_inline)) void tile(int rows, int vecs, int inner, const float *a, long ra, long ca, const float *b, long ldb,
                                                       float *c, long ldc, int add) {
    vec s[6][2];
    for (int i = 0; i < rows; i++) s[i][0] = s[i][1] = spread(0.0f);
    for (int p = 0; p < inner; p++)
        for (int i = 0; i < rows; i++) {
            vec x = spread(a[i * ra + p * ca]);
            for (int j = 0; j < vecs; j++) s[i][j] += x * load(b + p * ldb + j * W);
        }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vecs; j++) {
            float *to = c + i * ldc + j * W;
            store(to, add ? load(to) + s[i][j] : s[i][j]);
        }
}

/* m x (8 or 16), in tiles as high as the registers allow and as even as they can be */
static inline __attribute__((always_inline)) void stripe(int m, int vecs, int inner, const float *a, long ra, long ca, const float *b, long ldb,
                                                         float *c, long ldc, int add) {
    const int tiles = (m + 5) / 6, tall = m % tiles;
    for (int t = 0, i = 0; t < tiles; t++) {
        const int rows = m / tiles + (t < tall);
        switch (rows) {
            case 6: tile(6, vecs, inner, a + i * ra, ra, ca, b, ldb, c + i * ldc, ldc, add); break;
            case 5: tile(5, vecs, inner, a + i * ra, ra, ca, b, ldb, c + i * ldc, ldc, add); break;
            case 4: tile(4, vecs, inner, a + i * ra, ra, ca, b, ldb, c + i * ldc, ldc, add); break;
            case 3: tile(3, vecs, inner, a + i * ra, ra, ca, b, ldb, c + i * ldc, ldc, add); break;
            case 2: tile(2, vecs, inner, a + i * ra, ra, ca, b, ldb, c + i * ldc, ldc, add); break;
            case 1: tile(1, vecs, inner, a + i * ra, ra, ca, b, ldb, c + i * ldc, ldc, add); break;
        }
        i += rows;
    }
}

/* m x n of C (+)= A B, n a multiple of 8 */
static inline void gemm(int m, int n, int inner, const float *a, long ra, long ca, const float *b, long ldb, float *c, long ldc, int add) {
    int j = 0;
    for (; j + 2 * W <= n; j += 2 * W) stripe(m, 2, inner, a, ra, ca, b + j, ldb, c + j, ldc, add);
    if (j < n) stripe(m, 1, inner, a, ra, ca, b + j, ldb, c + j, ldc, add);
}

/* Ask for rows that come next: heads lie side by side, so a row of one is a leap in memory that the processor does not foresee. Nothing is read. */
static inline void fetch(const float *x, long s, int rows, int d) {
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < d; c += 16) __builtin_prefetch(x + r * s + c);
}

static inline float sum_of(vec v) {
    float total = 0.0f;
    for (int j = 0; j < W; j++) total += v[j];
    return total;
}
static inline float dot(const float *a, const float *b, int n) {
    vec sum = spread(0.0f);
    for (int j = 0; j < n; j += W) sum += load(a + j) * load(b + j);
    return sum_of(sum);
}
static inline float max_of(vec v) {
    float most = v[0];
    for (int j = 1; j < W; j++) most = v[j] > most ? v[j] : most;
    return most;
}

/* softmax of each row of x (rows x l) in place, but for its division: what a row sums to is left in totals, its largest value in tops */
static inline void softmax_rows(float *x, int rows, int l, float *totals, float *tops) {
    for (int i = 0; i < rows; i++, x += l) {
        vec top = load(x);
        for (int j = W; j < l; j += W) top = greater(top, load(x + j));
        float max = max_of(top);
        vec sum = spread(0.0f);
        for (int j = 0; j < l; j += W) {
            vec e = vexp(load(x + j) - spread(max));
            store(x + j, e);
            sum += e;
        }
        totals[i] = sum_of(sum);
        if (tops) tops[i] = max;
    }
}

/* divide each row of x (rows x d) by its total: cheaper on the few columns of a product than on the scores before it */
static inline void divide_rows(float *x, long s, int rows, int d, const float *totals) {
    for (int r = 0; r < rows; r++) {
        vec share = spread(1.0f / totals[r]);
        for (int c = 0; c < d; c += W) store(x + r * s + c, load(x + r * s + c) * share);
    }
}

/* rows x d to d x wide, times a factor; what is beyond the rows is zero */
static inline void turn(const float *x, long s, int rows, int d, int wide, float factor, float *to) {
    for (int c = 0; c < d; c++) {
        for (int r = 0; r < rows; r++) to[c * wide + r] = x[r * s + c] * factor;
        for (int r = rows; r < wide; r++) to[c * wide + r] = 0.0f;
    }
}
