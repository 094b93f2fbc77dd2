/* bfloat16 in and out of kernels that compute in float32.
 *
 * Tensors come as floats or, where `half` says so, as bfloat16; strides count elements. Products of bfloat16 take pairs of neighbors along the sum:
 * rows as they lie in memory on the left, and on the right two rows shuffled into one row of words.
 */
#pragma once
#include "small.h"

static inline vec widen(bvec x) { return (vec)(__builtin_convertvector(x, uvec) << 16); }
/* to the nearest, ties to even; NaN stays NaN */
static inline bvec narrow(vec x) {
#if defined(__AVX512BF16__)
    return (bvec)_mm512_cvtneps_pbh((__m512)x);
#else
    const uvec bits = (uvec)x, odd = (bits >> 16) & 1, nan = (uvec)(x != x);
    return __builtin_convertvector((((bits + 0x7fff + odd) & ~nan) | ((bits | 0x400000) & nan)) >> 16, bvec);
#endif
}
static inline vec load_half(const bfloat *p) { return widen(*(const bvec *)p); }
static inline void store_half(bfloat *p, vec v) { *(bvec *)p = narrow(v); }

/* element i */
static inline const void *from(int half, const void *x, long i) { return (const char *)x + i * (half ? 2 : 4); }
static inline void *into(int half, void *x, long i) { return (char *)x + i * (half ? 2 : 4); }
static inline vec take(int half, const void *x, long i) {
    return half ? load_half((const bfloat *)x + i) : load((const float *)x + i);
}
static inline void put(int half, void *x, long i, vec v) {
    if (half)
        store_half((bfloat *)x + i, v);
    else
        store((float *)x + i, v);
}
/* the first `count` of them, all where it is 0 */
static inline vec take_part(int half, const void *x, long i, int count) {
    if (!count) return take(half, x, i);
    if (!half) return load_some((const float *)x + i, count);
    bvec some = {0};
    memcpy(&some, (const bfloat *)x + i, sizeof(bfloat) * count);
    return widen(some);
}
static inline void put_part(int half, void *x, long i, vec v, int count) {
    const bvec narrowed = narrow(v);
    if (!count)
        put(half, x, i, v);
    else if (half)
        memcpy((bfloat *)x + i, &narrowed, sizeof(bfloat) * count);
    else
        store_some((float *)x + i, v, count);
}

/* how many four-byte elements n of them are */
static inline long words(int half, long n) { return half ? (n + 1) / 2 : n; }

/* rows x d floats to bfloat16 */
static inline void narrow_rows(const float *x, long s, int rows, int d, bfloat *to, long st) {
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < d; c += W) {
            const int part = d - c < W ? d - c : 0;
            put_part(1, to, r * st + c, load_part(x + r * s + c, part), part);
        }
}

/* two rows each to one of words, as the right side of a product has them; where rows run out, zeros, up to `all` rows */
static inline void pair_rows(const bfloat *x, long s, int rows, int d, int all, float *to) {
    for (int r = 0; r < all; r += 2, to += d)
        for (int c = 0; c < d; c += W) {
            const uvec first = r < rows ? __builtin_convertvector(*(const bvec *)(x + r * s + c), uvec) : (uvec){0};
            const uvec second = r + 1 < rows ? __builtin_convertvector(*(const bvec *)(x + (r + 1) * s + c), uvec) << 16 : (uvec){0};
            *(vec *)(to + c) = (vec)(first | second);
        }
}
/* the same from floats */
static inline void pair_floats(const float *x, long s, int rows, int d, float *to) {
    for (int r = 0; r < rows; r += 2, to += d)
        for (int c = 0; c < d; c += W) {
            const int part = d - c < W ? d - c : 0;
            const uvec first = __builtin_convertvector(narrow(load_part(x + r * s + c, part)), uvec);
            const uvec second = r + 1 < rows ? __builtin_convertvector(narrow(load_part(x + (r + 1) * s + c, part)), uvec) << 16 : (uvec){0};
            store_part(to + c, (vec)(first | second), part);
        }
}

/* rows x d elements to columns x wide four-byte elements, as the right side of a product over the columns has them; beyond the rows, zeros */
static inline void turn_rows(int half, const void *x, long s, int rows, int d, int wide, float *to) {
    typedef uint32_t element __attribute__((may_alias, aligned(2)));
    const element *elements = x;
    element *turned = (element *)to;
    const long step = words(half, s), columns = words(half, d);
    for (int c = 0; c < columns; c++) {
        for (int r = 0; r < rows; r++) turned[c * wide + r] = elements[r * step + c];
        for (int r = rows; r < wide; r++) turned[c * wide + r] = 0;
    }
}

/* rows x d floats, times a share of each row, to where they belong */
static inline void put_rows(int half, const float *x, long s, int rows, int d, const float *shares, void *to, long st) {
    for (int r = 0; r < rows; r++) {
        const vec share = spread(shares ? shares[r] : 1.0f);
        for (int c = 0; c < d; c += W) put(half, to, r * st + c, load(x + r * s + c) * share);
    }
}
