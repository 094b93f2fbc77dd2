/* Products of matrices small enough to stay in the cache.
 *
 * Operands are floats, or `pairs`: words of two bfloat16, neighbors along the sum. Sums are floats. Where the processor cannot multiply pairs, they
 * are widened as they are used.
 */
#include "small.h"

/* sum + a b of floats, or of each pair: a0 b0 + a1 b1 */
static inline __attribute__((always_inline)) vec product(int pairs, vec a, vec b, vec sum) {
    if (!pairs) return sum + a * b;
#if defined(__AVX512BF16__)
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b)); /* gcc 12 moves sums to memory and back around its intrinsic */
    return sum;
#else
    const uvec high = (uvec){0} + 0xffff0000u;
    sum += (vec)((uvec)a << 16) * (vec)((uvec)b << 16);
    return sum + (vec)((uvec)a & high) * (vec)((uvec)b & high);
#endif
}

/* Some rows of C, `vecs` vectors wide, of the last of which only `part` floats count (0: all). */
static inline __attribute__((always_inline)) void tile(int pairs, int rows, int vecs, int part, int inner, const float *a, long ra, long ca,
                                                       const float *b, long ldb, float *c, long ldc, int add) {
    vec s[12][2];
    for (int i = 0; i < rows; i++) s[i][0] = s[i][1] = spread(0.0f);
    for (int p = 0; p < inner; p++) {
        vec y[2];
        for (int j = 0; j < vecs; j++) y[j] = load_part(b + p * ldb + j * W, j == vecs - 1 ? part : 0);
        for (int i = 0; i < rows; i++) {
            const vec x = spread(a[i * ra + p * ca]);
            for (int j = 0; j < vecs; j++) s[i][j] = product(pairs, x, y[j], s[i][j]);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vecs; j++) {
            float *to = c + i * ldc + j * W;
            const int only = j == vecs - 1 ? part : 0;
            if (add) s[i][j] += load_part(to, only);
            store_part(to, s[i][j], only);
        }
}

/* Some rows of C. Each number of rows is a function of its own: compilers then keep its sums in registers. */
typedef void Band(int n, int inner, const float *a, long ra, long ca, const float *b, long ldb, float *c, long ldc, int add);
#define BAND(name, pairs, rows)                                                                                                               \
    static void name##rows(int n, int inner, const float *a, long ra, long ca, const float *b, long ldb, float *c, long ldc, int add) {       \
        int j = 0;                                                                                                                            \
        for (; j + 2 * W <= n; j += 2 * W) tile(pairs, rows, 2, 0, inner, a, ra, ca, b + j, ldb, c + j, ldc, add);                            \
        for (; j + W <= n; j += W) tile(pairs, rows, 1, 0, inner, a, ra, ca, b + j, ldb, c + j, ldc, add);                                    \
        if (j < n) tile(pairs, rows, 1, n - j, inner, a, ra, ca, b + j, ldb, c + j, ldc, add);                                                \
    }
#define BANDS(name, pairs) \
    BAND(name, pairs, 1) BAND(name, pairs, 2) BAND(name, pairs, 3) BAND(name, pairs, 4) BAND(name, pairs, 5) BAND(name, pairs, 6)
BANDS(floats, 0)
BANDS(pairs, 1)
#if defined(__AVX512F__) /* twice the registers */
#define MORE_BANDS(name, pairs) \
    BAND(name, pairs, 7) BAND(name, pairs, 8) BAND(name, pairs, 9) BAND(name, pairs, 10) BAND(name, pairs, 11) BAND(name, pairs, 12)
MORE_BANDS(floats, 0)
MORE_BANDS(pairs, 1)
enum { TALL = 12 };
static Band *const bands[2][TALL] = {
    {floats1, floats2, floats3, floats4, floats5, floats6, floats7, floats8, floats9, floats10, floats11, floats12},
    {pairs1, pairs2, pairs3, pairs4, pairs5, pairs6, pairs7, pairs8, pairs9, pairs10, pairs11, pairs12},
};
#else
enum { TALL = 6 };
static Band *const bands[2][TALL] = {{floats1, floats2, floats3, floats4, floats5, floats6}, {pairs1, pairs2, pairs3, pairs4, pairs5, pairs6}};
#endif

/* in bands as high as the registers allow and as even as they can be */
void multiply(int pairs, int m, int n, int inner, const void *a, long ra, long ca, const void *b, long ldb, float *c, long ldc, int add) {
    const int count = (m + TALL - 1) / TALL;
    for (int t = 0, i = 0; t < count; t++) {
        const int rows = m / count + (t < m % count);
        bands[pairs][rows - 1](n, inner, (const float *)a + i * ra, ra, ca, b, ldb, c + i * ldc, ldc, add);
        i += rows;
    }
}
