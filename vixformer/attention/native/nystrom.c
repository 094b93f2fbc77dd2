/* Nystrom attention for one image and head at a time, so that everything but q, k and v stays in the cache.
 *
 * The same mathematics as nystrom.py, which is the place to read it. Letters: n tokens, l landmarks, d head width (l and d multiples of 16).
 */
#include "small.h"

/* means of uneven segments of x, transposed: out is d x l */
static void landmarks(const float *x, long sx, int n, int l, int d, float scale, float *out) {
    int length = n / l, shorter = (length + 1) * l - n;
    for (int i = 0, row = 0; i < l; i++) {
        int size = i < shorter ? length : length + 1;
        for (int c = 0; c < d; c += W) {
            vec sum = spread(0.0f);
            for (int r = 0; r < size; r++) sum += load(x + (row + r) * sx + c);
            sum *= spread(scale / size);
            for (int j = 0; j < W; j++) out[(c + j) * l + i] = sum[j];
        }
        row += size;
    }
}

/* softmax(marks x') v, streaming over the tokens: marks is d x l (scaled), out is l x d */
static void summarise(const float *marks, const float *k, long sk, const float *v, long sv, int n, int l, int d, float *scores, float *top,
                      float *sum, float *out) {
    for (int i = 0; i < l; i++) top[i] = -INFINITY, sum[i] = 0.0f;
    memset(out, 0, sizeof(float) * l * d);
    for (int start = 0; start < n; start += BLOCK) {
        int rows = n - start < BLOCK ? n - start : BLOCK;
        gemm(rows, l, d, k + start * sk, sk, 1, marks, l, scores, l, 0);
        for (int j = 0; j < l; j += W) {
            vec before = load(top + j), now = before, total = spread(0.0f);
            for (int r = 0; r < rows; r++) now = greater(now, load(scores + r * l + j));
            for (int r = 0; r < rows; r++) {
                vec e = vexp(load(scores + r * l + j) - now);
                store(scores + r * l + j, e);
                total += e;
            }
            vec shrink = vexp(before - now);
            store(top + j, now);
            store(sum + j, load(sum + j) * shrink + total);
            for (int i = 0; i < W; i++)
                for (int c = 0; c < d; c += W) store(out + (j + i) * d + c, load(out + (j + i) * d + c) * spread(shrink[i]));
        }
        gemm(l, d, rows, scores, 1, l, v + start * sv, sv, out, d, 1);
    }
    for (int i = 0; i < l; i++)
        for (int c = 0; c < d; c += W) store(out + i * d + c, load(out + i * d + c) * spread(1.0f / sum[i]));
}

/* x <- pinv(a) x by the iteration of ops.iterative_pinv.
 *
 * With e = 1 - a z a step is z <- z (1 + e + e^2 + e^3 / 4), and it takes e to e^3 (3 + e) / 4. All these matrices commute, so the last two steps
 * go to x, which is narrower than z; the earlier ones keep z, because a z computed anew corrects what rounding did. */
static void pinv_apply(const float *a, float *x, int iterations, int l, int d, float *z, float *p, float *y, float *r) {
    float most = 0.0f;
    for (int j = 0; j < l; j++) {
        float column = 0.0f;
        for (int i = 0; i < l; i++) column += a[i * l + j];
        most = column > most ? column : most;
    }
    for (int i = 0; i < l; i++)
        for (int j = 0; j < l; j++) z[i * l + j] = a[j * l + i] / most;
    for (int step = 2; step < iterations; step++) {
        gemm(l, l, l, a, l, 1, z, l, p, l, 0);
        gemm(l, l, l, p, l, 1, p, l, y, l, 0);
        gemm(l, l, l, p, l, 1, y, l, r, l, 0);
        for (int i = 0; i < l * l; i += W) store(r + i, spread(-3.75f) * load(p + i) + spread(1.75f) * load(y + i) - spread(0.25f) * load(r + i));
        for (int i = 0; i < l; i++) r[i * l + i] += 3.25f;
        gemm(l, l, l, z, l, 1, r, l, y, l, 0);
        float *swap = z;
        z = y;
        y = swap;
    }
    float *e = p;
    gemm(l, l, l, a, l, 1, z, l, e, l, 0);
    for (int i = 0; i < l * l; i += W) store(e + i, -load(e + i));
    for (int i = 0; i < l; i++) e[i * l + i] += 1.0f;
    for (int step = iterations > 1 ? 0 : 1; step < 2; step++) {
        memcpy(y, x, sizeof(float) * l * d);
        for (int power = 0; power < 3; power++) { /* y <- x + e y, the innermost time x + e x / 4 */
            gemm(l, d, l, e, l, 1, y, d, r, d, 0);
            vec weight = spread(power == 0 ? 0.25f : 1.0f);
            for (int i = 0; i < l * d; i += W) store(y + i, load(x + i) + weight * load(r + i));
        }
        memcpy(x, y, sizeof(float) * l * d);
        if (step == 0) {
            gemm(l, l, l, e, l, 1, e, l, y, l, 0);
            for (int i = 0; i < l * l; i += W) store(r + i, spread(0.75f) * load(e + i) + spread(0.25f) * load(y + i));
            gemm(l, l, l, y, l, 1, r, l, e, l, 0);
        }
    }
    gemm(l, d, l, z, l, 1, x, d, y, d, 0);
    memcpy(x, y, sizeof(float) * l * d);
}

/* out += w * v along the tokens, one filter for the head, four tokens at a time. w has side taps on each side of its middle, and three zeros
 * more at both ends, so that the four can share what they load. */
static void convolve(const float *v, long s, int n, int d, const float *w, int side, int start, int rows, float *out, long so) {
    for (int r = 0; r < rows; r += 4) {
        int first = start + r - side, from = first < 0 ? -first : 0, last = 2 * side + 4, to = first + last > n ? n - first : last;
        int count = rows - r < 4 ? rows - r : 4;
        for (int c = 0; c < d; c += 16) {
            vec s0[4], s1[4];
            for (int i = 0; i < 4; i++) s0[i] = s1[i] = spread(0.0f);
            for (int t = from; t < to; t++) {
                vec v0 = load(v + (first + t) * s + c), v1 = load(v + (first + t) * s + c + W);
                for (int i = 0; i < 4; i++) {
                    vec tap = spread(w[3 + t - i]);
                    s0[i] += tap * v0;
                    s1[i] += tap * v1;
                }
            }
            for (int i = 0; i < count; i++) {
                float *o = out + (r + i) * so + c;
                store(o, load(o) + s0[i]);
                store(o + W, load(o + W) + s1[i]);
            }
        }
    }
}

/* Tensors are b x h x n x d; strides holds those of b, h and n for q, k, v and out in turn. filter is h x (2 side + 7), or null.
 * Returns 0, or 1 when there is no memory. */
int nystrom(const float *q, const float *k, const float *v, float *out, const long *strides, long b, int h, int n, int d, int l, int iterations,
            const float *filter, int side) {
    const long *sq = strides, *sk = strides + 3, *sv = strides + 6, *so = strides + 9;
    const float scale = 1.0f / sqrtf((float)d);
    const size_t big = (size_t)l * (l > d ? l : d); /* room for l x l and for l x d */
    int failed = 0;
#pragma omp parallel reduction(| : failed)
    {
        float *work = scratch(3 * (size_t)d * l + 5 * big + (size_t)BLOCK * (l + 1) + 2 * (size_t)l);
        failed |= !work;
#pragma omp for schedule(dynamic)
        for (long item = 0; item < b * h; item++) {
            if (!work) continue;
            float *q_marks = work, *k_marks = q_marks + d * l, *x = k_marks + d * l, *a = x + l * d, *z = a + big, *p = z + big, *y = p + big;
            float *r = y + big, *scores = r + big, *top = scores + BLOCK * l, *sum = top + l, *totals = sum + l;
            long i = item / h, j = item % h;
            const float *qi = q + i * sq[0] + j * sq[1], *ki = k + i * sk[0] + j * sk[1], *vi = v + i * sv[0] + j * sv[1];
            float *oi = out + i * so[0] + j * so[1];
            landmarks(qi, sq[2], n, l, d, scale, q_marks);
            landmarks(ki, sk[2], n, l, d, 1.0f, k_marks);
            gemm(l, l, d, q_marks, 1, l, k_marks, l, a, l, 0);
            softmax_rows(a, l, l, sum, NULL);
            divide_rows(a, l, l, l, sum);
            summarise(q_marks, ki, sk[2], vi, sv[2], n, l, d, scores, top, sum, x);
            pinv_apply(a, x, iterations, l, d, z, p, y, r);
            for (int c = 0; c < d * l; c++) k_marks[c] *= scale;
            for (int start = 0; start < n; start += BLOCK) {
                int rows = n - start < BLOCK ? n - start : BLOCK;
                float *to = oi + start * so[2];
                gemm(rows, l, d, qi + start * sq[2], sq[2], 1, k_marks, l, scores, l, 0);
                softmax_rows(scores, rows, l, totals, NULL);
                gemm(rows, d, l, scores, l, 1, x, d, to, so[2], 0);
                divide_rows(to, so[2], rows, d, totals);
                if (filter) convolve(vi, sv[2], n, d, filter + j * (2 * side + 7), side, start, rows, to, so[2]);
            }
        }
        free(work);
    }
    return failed;
}
