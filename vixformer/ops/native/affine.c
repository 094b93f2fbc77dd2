/* A linear layer: out = x w' + bias, and its gradients. x is m x k, w n x k and out m x n, floats or bfloat16, with contiguous rows; k and n are
 * multiples of 16, the bias is floats.
 *
 * The right side of each product is packed into panels as wide as the sums that fit the registers, so that what is read together lies together.
 * All return 0, or 1 when there is no memory.
 */
#include "bfloat.h"

enum { PANEL = 2 * W, DEEP = 256 /* of a sum at a time: a panel of it fits the first cache */ };

static inline int least(long a, long b) { return a < b ? a : b; }

/* out = a b + bias, where b is there in panels; `inner` is how long sums are, in words */
static void times_panels(int half, long m, int n, int inner, const void *a, const float *panels, const float *bias, void *out) {
#pragma omp for collapse(2) schedule(dynamic, 4) nowait
    for (long start = 0; start < m; start += BLOCK)
        for (int column = 0; column < n; column += PANEL) {
            const int rows = least(m - start, BLOCK), wide = least(n - column, PANEL);
            const float *left = (const float *)a + start * inner;
            float sums[BLOCK * PANEL] __attribute__((aligned(64)));
            for (int p = 0; p < inner; p += DEEP)
                multiply(half, rows, wide, least(inner - p, DEEP), left + p, inner, 1, panels + (long)column * inner + p * PANEL, PANEL, sums, PANEL, p > 0);
            for (int c = 0; c < wide; c += W) {
                const int part = wide - c < W ? wide - c : 0; /* W is 8 or 16, and n a multiple of 16 */
                const vec more = bias ? load_part(bias + column + c, part) : spread(0.0f);
                for (int r = 0; r < rows; r++) put_part(half, out, (start + r) * n + column + c, load(sums + r * PANEL + c) + more, part);
            }
        }
}

int affine(const void *x, const void *w, const float *bias, void *out, long m, int k, int n, int half) {
    const int inner = words(half, k), panels = (n + PANEL - 1) / PANEL;
    float *packed = scratch((size_t)panels * PANEL * inner);
    if (!packed) return 1;
#pragma omp parallel
    {
#pragma omp for
        for (int i = 0; i < panels; i++)
            turn_rows(half, from(half, w, (long)i * PANEL * k), k, least(n - i * PANEL, PANEL), k, PANEL, packed + (long)i * PANEL * inner);
        times_panels(half, m, n, inner, x, packed, bias, out);
    }
    free(packed);
    return 0;
}

/* rows x width to rows of a panel each, or of bfloat16 to half as many rows of pairs */
static void pack_columns(int half, const void *x, long s, int rows, int column, int wide, int deep, float *to) {
    if (half) {
        const bfloat *from_x = (const bfloat *)x + column;
        for (int r = 0; r < deep; r += 2, to += PANEL) pair_rows(from_x + r * s, s, rows - r, wide, 1, to);
    } else
        for (int r = 0; r < rows; r++) memcpy(to + r * PANEL, (const float *)x + r * s + column, sizeof(float) * wide);
}

/* dx = grad w */
int affine_input(const void *grad, const void *w, void *dx, long m, int k, int n, int half) {
    const int inner = words(half, n), panels = (k + PANEL - 1) / PANEL;
    float *packed = scratch((size_t)panels * PANEL * inner);
    if (!packed) return 1;
#pragma omp parallel
    {
#pragma omp for
        for (int i = 0; i < panels; i++)
            pack_columns(half, w, k, n, i * PANEL, least(k - i * PANEL, PANEL), n, packed + (long)i * PANEL * inner);
        times_panels(half, m, k, inner, grad, packed, NULL, dx);
    }
    free(packed);
    return 0;
}

/* dw = grad' x, in floats: a thread has rows of its own, so that sums are always in the same order */
int affine_weight(const void *grad, const void *x, float *dw, long m, int k, int n, int half) {
    enum { TALL = 48 };
    const int panels = (k + PANEL - 1) / PANEL, deep = half ? 2 * DEEP : DEEP, blocks = (n + TALL - 1) / TALL;
    float *packed = scratch((size_t)panels * PANEL * DEEP + (half ? (size_t)n * DEEP : 0)), *left = packed ? packed + (size_t)panels * PANEL * DEEP : NULL;
    if (!packed) return 1;
    if (!m) memset(dw, 0, sizeof(float) * n * k);
#pragma omp parallel
    for (long start = 0; start < m; start += deep) {
        const int rows = least(m - start, deep), inner = words(half, rows);
        const void *x_rows = from(half, x, start * k), *g_rows = from(half, grad, start * n);
#pragma omp for nowait
        for (int i = 0; i < panels; i++)
            pack_columns(half, x_rows, k, rows, i * PANEL, least(k - i * PANEL, PANEL), rows, packed + (long)i * PANEL * DEEP);
        if (half) {
#pragma omp for nowait
            for (int r = 0; r < rows; r += 2) pair_rows((const bfloat *)g_rows + (long)r * n, n, rows - r, n, 1, left + (long)r / 2 * n);
        }
#pragma omp barrier
        const float *turned = half ? left : g_rows;
#pragma omp for schedule(static)
        for (int i = 0; i < blocks; i++)
            for (int p = 0; p < panels; p++)
                multiply(half, least(n - i * TALL, TALL), least(k - p * PANEL, PANEL), inner, turned + i * TALL, 1, n, packed + (long)p * PANEL * DEEP, PANEL,
                         dw + (long)i * TALL * k + p * PANEL, k, start > 0);
    }
    free(packed);
    return 0;
}
