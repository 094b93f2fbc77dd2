/* Vectors as wide as the processor's, exp, and matrix products small enough to stay in the cache. */
#pragma once
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__AVX512F__)
enum { W = 16 };
#else
enum { W = 8 };
#endif
#if defined(__AVX__)
#include <immintrin.h>
#endif
enum { BLOCK = 96 /* tokens at a time */, LANES = 16 /* head widths are multiples of it */ };

typedef uint16_t bfloat __attribute__((may_alias));
typedef float vec __attribute__((vector_size(4 * W), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(4 * W)));
typedef uint32_t uvec __attribute__((vector_size(4 * W)));
typedef uint16_t bvec __attribute__((vector_size(2 * W), aligned(2), may_alias));

/* room for one thread, aligned to cache lines */
static inline float *scratch(size_t floats) { return aligned_alloc(64, (floats * sizeof(float) + 63) / 64 * 64); }

static inline vec load(const float *p) { return *(const vec *)p; }
static inline void store(float *p, vec v) { *(vec *)p = v; }
static inline vec spread(float x) { return x - (vec){0}; } /* a broadcast: compilers know that x - 0 is x */
/* the larger of the two, or b where either is NaN: so NaN goes where data goes second */
static inline vec greater(vec a, vec b) {
#if defined(__AVX512F__)
    return (vec)_mm512_max_ps((__m512)a, (__m512)b); /* one instruction, which compilers do not dare to choose because of NaN */
#elif defined(__AVX__)
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
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

/* Phi, the normal distribution: erf of Abramowitz and Stegun, 7.1.26, within 1.5e-7; and u times its density */
static inline vec normal(vec u, vec *slope) {
    const vec x = greater(-u, u) * spread(0.70710678f), t = spread(1.0f) / (spread(1.0f) + spread(0.3275911f) * x), e = vexp(-x * x);
    vec p = spread(1.061405429f);
    p = p * t + spread(-1.453152027f);
    p = p * t + spread(1.421413741f);
    p = p * t + spread(-0.284496736f);
    p = p * t + spread(0.254829592f);
    const vec tail = spread(0.5f) * p * t * e; /* of what lies beyond |u| */
    const ivec below = u < spread(0.0f);
    const vec part = (vec)(((ivec)tail & below) | ((ivec)(spread(1.0f) - tail) & ~below));
    *slope = part + u * e * spread(0.39894228f);
    return part;
}

/* the first `count` floats of a vector, the others zero */
static inline vec load_some(const float *p, int count) {
#if defined(__AVX512F__)
    return (vec)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), p);
#else
    vec v = {0};
    memcpy(&v, p, sizeof(float) * count);
    return v;
#endif
}
static inline void store_some(float *p, vec v, int count) {
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << count) - 1), (__m512)v);
#else
    memcpy(p, &v, sizeof(float) * count);
#endif
}
/* the same, and all of it where count is 0 */
static inline vec load_part(const float *p, int count) {
    if (count) return load_some(p, count);
    return load(p);
}
static inline void store_part(float *p, vec v, int count) {
    if (count)
        store_some(p, v, count);
    else
        store(p, v);
}

/* m x n of C (+)= A B, of floats or, where `pairs` says so, of words of two bfloat16. A has any strides, B and C have contiguous rows; strides and
 * the length of the sum count four-byte elements. */
__attribute__((visibility("hidden"))) void multiply(int pairs, int m, int n, int inner, const void *a, long ra, long ca, const void *b, long ldb,
                                                    float *c, long ldc, int add);
static inline void gemm(int m, int n, int inner, const float *a, long ra, long ca, const float *b, long ldb, float *c, long ldc, int add) {
    multiply(0, m, n, inner, a, ra, ca, b, ldb, c, ldc, add);
}

/* Ask for rows that come next: heads lie side by side, so a row of one is a leap in memory that the processor does not foresee. Nothing is read. */
static inline void fetch(const void *x, long s, int rows, int d) {
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < d; c += 16) __builtin_prefetch((const float *)x + r * s + c);
}

static inline float sum_of(vec v) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)v);
#endif
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
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps((__m512)v);
#endif
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
