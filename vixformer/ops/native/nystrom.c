/* Nystrom attention for one image and head at a time, so that everything but q, k and v stays in the cache. bfloat16 is widened there: the
 * pseudo-inverse would amplify what rounding does to the weights.
 *
 * The same mathematics as nystrom.py, which is the place to read it. Letters: n tokens, l landmarks, d head width (l and d multiples of 16).
 */
#include "bfloat.h"

/* means of uneven segments of x, transposed, times scale: out is d x l */
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

/* The column of a with the largest sum, and that sum: NaN if any sum is NaN, and always a column of a. */
static float fullest(const float *a, int l, int *which) {
    float most = 0.0f;
    *which = 0;
    for (int j = 0; j < l; j++) {
        float column = 0.0f;
        for (int i = 0; i < l; i++) column += a[i * l + j];
        if (column > most || column != column) most = column, *which = j;
    }
    return most;
}

/* x <- pinv(a) x by the iteration of ops.iterative_pinv.
 *
 * With e = 1 - a z a step is z <- z (1 + e + e^2 + e^3 / 4), and it takes e to e^3 (3 + e) / 4. All these matrices commute, so the last two steps
 * go to x, which is narrower than z; the earlier ones keep z, because a z computed anew corrects what rounding did. */
static void pinv_apply(const float *a, float *x, int iterations, int l, int d, float *z, float *p, float *y, float *r) {
    int column;
    turn(a, l, l, l, l, 1.0f / fullest(a, l, &column), z);
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
        for (int c = 0; c < d; c += LANES) {
            vec sums[4][LANES / W] = {{{0}}};
            for (int t = from; t < to; t++)
                for (int e = 0; e < LANES / W; e++) {
                    const vec x = load(v + (first + t) * s + c + e * W);
                    for (int i = 0; i < 4; i++) sums[i][e] += spread(w[3 + t - i]) * x;
                }
            for (int i = 0; i < count; i++)
                for (int e = 0; e < LANES / W; e++) {
                    float *o = out + (r + i) * so + c + e * W;
                    store(o, load(o) + sums[i][e]);
                }
        }
    }
}

/* The same iteration with everything kept: for each step z, p = a z, t2 = 15 - p t1 with t1 = 7 - p, and t3 = 13 - p t2; z t3 / 4 is the next z.
 * Returns the last. */
enum { KEPT = 4 };
static const float *pinv_keep(const float *a, int iterations, int l, float *z) {
    const int square = l * l;
    int column;
    turn(a, l, l, l, l, 1.0f / fullest(a, l, &column), z);
    for (int step = 0; step < iterations; step++, z += KEPT * square) {
        float *p = z + square, *t2 = p + square, *t3 = t2 + square, *next = t3 + square;
        gemm(l, l, l, a, l, 1, z, l, p, l, 0);
        gemm(l, l, l, p, l, 1, p, l, t2, l, 0);
        for (int i = 0; i < square; i += W) store(t2 + i, load(t2 + i) - spread(7.0f) * load(p + i));
        for (int i = 0; i < l; i++) t2[i * l + i] += 15.0f;
        gemm(l, l, l, p, l, 1, t2, l, t3, l, 0);
        for (int i = 0; i < square; i += W) store(t3 + i, -load(t3 + i));
        for (int i = 0; i < l; i++) t3[i * l + i] += 13.0f;
        gemm(l, l, l, z, l, 1, t3, l, next, l, 0);
        for (int i = 0; i < square; i += W) store(next + i, load(next + i) * spread(0.25f));
    }
    return z;
}

/* The gradient of a from dz, that of its pseudo-inverse. Every p, and so every t, is symmetric, being a polynomial in a a'. x, y and s are room. */
static void pinv_backward(const float *a, int iterations, int l, const float *kept, float *dz, float *da, float *x, float *y, float *s) {
    const int square = l * l;
    memset(da, 0, sizeof(float) * square);
    for (int step = iterations - 1; step >= 0; step--) {
        const float *z = kept + KEPT * square * step, *p = z + square, *t2 = p + square, *t3 = t2 + square;
        for (int i = 0; i < square; i += W) store(dz + i, load(dz + i) * spread(0.25f));
        gemm(l, l, l, z, 1, l, dz, l, x, l, 0); /* that of t3 */
        gemm(l, l, l, dz, l, 1, t3, l, s, l, 0);
        memcpy(dz, s, sizeof(float) * square);
        gemm(l, l, l, x, l, 1, t2, l, s, l, 0);
        gemm(l, l, l, p, l, 1, x, l, y, l, 0); /* minus that of t2 */
        gemm(l, l, l, y, l, 1, p, l, s, l, 1);
        gemm(l, l, l, p, l, 1, y, l, x, l, 0); /* that of t1 */
        for (int i = 0; i < square; i += W) store(s + i, spread(7.0f) * load(y + i) - load(s + i) - load(x + i));
        gemm(l, l, l, a, 1, l, s, l, dz, l, 1);
        turn(z, l, l, l, l, 1.0f, x);
        gemm(l, l, l, s, l, 1, x, l, da, l, 1);
    }
    int column;
    const float share = 1.0f / fullest(a, l, &column), pull = -dot(dz, kept, square) * share;
    turn(dz, l, l, l, l, share, x);
    for (int i = 0; i < square; i += W) store(da + i, load(da + i) + load(x + i));
    for (int i = 0; i < l; i++) da[i * l + column] += pull;
}

/* from the gradient of weights, rows x l, to that of the scores they are a softmax of along their rows, in place */
static void softmax_backward(const float *weights, float *change, int rows, int l) {
    for (int r = 0; r < rows; r++, weights += l, change += l) {
        vec mean = spread(dot(weights, change, l));
        for (int j = 0; j < l; j += W) store(change + j, load(weights + j) * (load(change + j) - mean));
    }
}

/* the gradient of means, l x d, times scale, added to that of what they are the means of */
static void through_landmarks(const float *dmarks, int n, int l, int d, float scale, float *dx, long s) {
    int length = n / l, shorter = (length + 1) * l - n;
    for (int i = 0, row = 0; i < l; i++) {
        int size = i < shorter ? length : length + 1;
        for (int r = 0; r < size; r++, row++)
            for (int c = 0; c < d; c += W) store(dx + row * s + c, load(dx + row * s + c) + spread(scale / size) * load(dmarks + i * d + c));
    }
}

/* the gradient of a head's 2 side + 1 taps */
static void filter_backward(const float *grad, long sg, const float *v, long sv, int n, int d, int side, float *taps) {
    for (int t = -side; t <= side; t++) {
        vec sum = spread(0.0f);
        for (int i = t < 0 ? -t : 0; i < n && i + t < n; i++)
            for (int c = 0; c < d; c += W) sum += load(grad + i * sg + c) * load(v + (i + t) * sv + c);
        taps[side + t] = sum_of(sum);
    }
}

/* The rows of one image and head: floats as they lie, bfloat16 widened in `room`. */
typedef struct {
    const float *at;
    long s;
} Rows;
typedef struct {
    float *at;
    long s;
} Made;
static Rows floats_of(int half, const void *x, const long *strides, long i, long j, int n, int d, float *room) {
    const long first = i * strides[0] + j * strides[1];
    if (!half) return (Rows){(const float *)x + first, strides[2]};
    for (int r = 0; r < n; r++)
        for (int c = 0; c < d; c += W) store(room + (long)r * d + c, take(1, x, first + r * strides[2] + c));
    return (Rows){room, d};
}
static Made floats_for(int half, void *x, const long *strides, long i, long j, int d, float *room) {
    if (half) return (Made){room, d};
    return (Made){(float *)x + i * strides[0] + j * strides[1], strides[2]};
}
static void put_back(int half, Made made, int n, int d, void *x, const long *strides, long i, long j) {
    if (half) put_rows(1, made.at, d, n, d, NULL, into(1, x, i * strides[0] + j * strides[1]), strides[2]);
}

/* Tensors are b x h x n x d; strides holds those of b, h and n for q, k, v and out in turn. filter is h x (2 side + 7), or null.
 * Returns 0, or 1 when there is no memory. */
int nystrom(const void *q, const void *k, const void *v, void *out, const long *strides, long b, int h, int n, int d, int half, int l, int iterations,
            const float *filter, int side) {
    const long *sq = strides, *sk = strides + 3, *sv = strides + 6, *so = strides + 9;
    const float scale = 1.0f / sqrtf((float)d);
    const size_t big = (size_t)l * (l > d ? l : d); /* room for l x l and for l x d */
    int failed = 0;
#pragma omp parallel reduction(| : failed)
    {
        const size_t tokens = half ? (size_t)n * d : 0;
        float *work = scratch(3 * (size_t)d * l + 5 * big + (size_t)BLOCK * (l + 1) + 2 * (size_t)l + 4 * tokens);
        failed |= !work;
#pragma omp for schedule(dynamic)
        for (long item = 0; item < b * h; item++) {
            if (!work) continue;
            float *q_marks = work, *k_marks = q_marks + d * l, *x = k_marks + d * l, *a = x + l * d, *z = a + big, *p = z + big, *y = p + big;
            float *r = y + big, *scores = r + big, *top = scores + BLOCK * l, *sum = top + l, *totals = sum + l;
            float *widened = totals + BLOCK;
            const long i = item / h, j = item % h;
            const Rows qs = floats_of(half, q, sq, i, j, n, d, widened), ks = floats_of(half, k, sk, i, j, n, d, widened + tokens);
            const Rows vs = floats_of(half, v, sv, i, j, n, d, widened + 2 * tokens);
            const Made made = floats_for(half, out, so, i, j, d, widened + 3 * tokens);
            const float *qi = qs.at, *ki = ks.at, *vi = vs.at;
            float *oi = made.at;
            landmarks(qi, qs.s, n, l, d, scale, q_marks);
            landmarks(ki, ks.s, n, l, d, 1.0f, k_marks);
            gemm(l, l, d, q_marks, 1, l, k_marks, l, a, l, 0);
            softmax_rows(a, l, l, sum, NULL);
            divide_rows(a, l, l, l, sum);
            summarise(q_marks, ki, ks.s, vi, vs.s, n, l, d, scores, top, sum, x);
            pinv_apply(a, x, iterations, l, d, z, p, y, r);
            for (int c = 0; c < d * l; c++) k_marks[c] *= scale;
            for (int start = 0; start < n; start += BLOCK) {
                int rows = n - start < BLOCK ? n - start : BLOCK;
                float *to = oi + start * made.s;
                gemm(rows, l, d, qi + start * qs.s, qs.s, 1, k_marks, l, scores, l, 0);
                softmax_rows(scores, rows, l, totals, NULL);
                gemm(rows, d, l, scores, l, 1, x, d, to, made.s, 0);
                divide_rows(to, made.s, rows, d, totals);
                if (filter) convolve(vi, vs.s, n, d, filter + j * (2 * side + 7), side, start, rows, to, made.s);
            }
            put_back(half, made, n, d, out, so, i, j);
        }
        free(work);
    }
    return failed;
}

/* The gradients of q, k, v and, for each image by itself, of the filter (b x h x (2 side + 1)), from that of out, with everything computed again.
 * `filter` runs backwards here. */
int nystrom_backward(const void *q, const void *k, const void *v, const void *grad, void *dq, void *dk, void *dv, const long *strides, long b, int h, int n, int d, int half, int l, int iterations, const float *filter, int side, float *dfilter) {
    const long *sq = strides, *sk = strides + 3, *sv = strides + 6, *sg = strides + 9;
    const long *sdq = strides + 12, *sdk = strides + 15, *sdv = strides + 18;
    const float scale = 1.0f / sqrtf((float)d);
    const size_t thin = (size_t)l * d, square = (size_t)l * l;
    int failed = 0;
#pragma omp parallel reduction(| : failed)
    {
        const size_t tokens = half ? (size_t)n * d : 0;
        float *work = scratch(11 * thin + 6 * square + (KEPT * (size_t)iterations + 1) * square + 2 * (size_t)BLOCK * l + 3 * (size_t)l + BLOCK + 7 * tokens);
        failed |= !work;
#pragma omp for schedule(dynamic)
        for (long item = 0; item < b * h; item++) {
            if (!work) continue;
            const long i = item / h, j = item % h;
            /* marks are d x l and, turned, l x d; those of q hold the scale */
            float *q_marks = work, *k_marks = q_marks + thin, *q_rows = k_marks + thin, *k_rows = q_rows + thin, *sums = k_rows + thin;
            float *values = sums + thin, *dvalues = values + thin, *dsums = dvalues + thin, *turned = dsums + thin, *dq_marks = turned + thin;
            float *dk_marks = dq_marks + thin, *a = dk_marks + thin, *dz = a + square, *da = dz + square, *x = da + square, *y = x + square;
            float *s = y + square, *kept = s + square, *scores = kept + (KEPT * (size_t)iterations + 1) * square;
            float *change = scores + (size_t)BLOCK * l, *top = change + (size_t)BLOCK * l, *sum = top + l, *mean = sum + l, *totals = mean + l;
            float *widened = totals + BLOCK;
            const Rows qs = floats_of(half, q, sq, i, j, n, d, widened), ks = floats_of(half, k, sk, i, j, n, d, widened + tokens);
            const Rows vs = floats_of(half, v, sv, i, j, n, d, widened + 2 * tokens), gs = floats_of(half, grad, sg, i, j, n, d, widened + 3 * tokens);
            const Made dqs = floats_for(half, dq, sdq, i, j, d, widened + 4 * tokens), dks = floats_for(half, dk, sdk, i, j, d, widened + 5 * tokens);
            const Made dvs = floats_for(half, dv, sdv, i, j, d, widened + 6 * tokens);
            const float *qi = qs.at, *ki = ks.at, *vi = vs.at, *gi = gs.at;
            float *dqi = dqs.at, *dki = dks.at, *dvi = dvs.at;

            landmarks(qi, qs.s, n, l, d, scale, q_marks);
            landmarks(ki, ks.s, n, l, d, 1.0f, k_marks);
            turn(q_marks, l, d, l, d, 1.0f, q_rows);
            turn(k_marks, l, d, l, d, 1.0f, k_rows);
            gemm(l, l, d, q_marks, 1, l, k_marks, l, a, l, 0);
            softmax_rows(a, l, l, sum, NULL);
            divide_rows(a, l, l, l, sum);
            summarise(q_marks, ki, ks.s, vi, vs.s, n, l, d, scores, top, sum, sums);
            for (int r = 0; r < l; r++) top[r] += logf(sum[r]);
            const float *z = pinv_keep(a, iterations, l, kept);
            gemm(l, d, l, z, l, 1, sums, d, values, d, 0);

            /* out = softmax(scale q k_marks') values */
            for (size_t c = 0; c < thin; c++) k_marks[c] *= scale;
            turn(values, d, l, d, l, 1.0f, turned);
            for (int start = 0; start < n; start += BLOCK) {
                int rows = n - start < BLOCK ? n - start : BLOCK;
                const float *from = qi + start * qs.s, *g = gi + start * gs.s;
                gemm(rows, l, d, from, qs.s, 1, k_marks, l, scores, l, 0);
                softmax_rows(scores, rows, l, totals, NULL);
                divide_rows(scores, l, rows, l, totals);
                gemm(l, d, rows, scores, 1, l, g, gs.s, dvalues, d, start > 0);
                gemm(rows, l, d, g, gs.s, 1, turned, l, change, l, 0);
                softmax_backward(scores, change, rows, l);
                for (int c = 0; c < rows * l; c += W) store(change + c, load(change + c) * spread(scale));
                gemm(rows, d, l, change, l, 1, k_rows, d, dqi + start * dqs.s, dqs.s, 0);
                gemm(l, d, rows, change, 1, l, from, qs.s, dk_marks, d, start > 0);
            }

            /* values = z sums, z = pinv(a), a = softmax(q_marks k_marks') */
            turn(sums, d, l, d, l, 1.0f, turned);
            gemm(l, l, d, dvalues, d, 1, turned, l, dz, l, 0);
            gemm(l, d, l, z, 1, l, dvalues, d, dsums, d, 0);
            pinv_backward(a, iterations, l, kept, dz, da, x, y, s);
            softmax_backward(a, da, l, l);
            gemm(l, d, l, da, l, 1, k_rows, d, dq_marks, d, 0);
            gemm(l, d, l, da, 1, l, q_rows, d, dk_marks, d, 1);

            /* sums = softmax(q_marks k') v, a row for each landmark, a column here */
            turn(dsums, d, l, d, l, 1.0f, turned);
            for (int r = 0; r < l; r++) mean[r] = dot(dsums + r * d, sums + r * d, d);
            for (int start = 0; start < n; start += BLOCK) {
                int rows = n - start < BLOCK ? n - start : BLOCK;
                gemm(rows, l, d, ki + start * ks.s, ks.s, 1, q_marks, l, scores, l, 0);
                gemm(rows, l, d, vi + start * vs.s, vs.s, 1, turned, l, change, l, 0);
                for (int r = 0; r < rows; r++)
                    for (int c = 0; c < l; c += W) {
                        float *w = scores + r * l + c, *to = change + r * l + c;
                        store(w, vexp(load(w) - load(top + c)));
                        store(to, load(w) * (load(to) - load(mean + c)));
                    }
                gemm(rows, d, l, scores, l, 1, dsums, d, dvi + start * dvs.s, dvs.s, 0);
                gemm(rows, d, l, change, l, 1, q_rows, d, dki + start * dks.s, dks.s, 0);
                gemm(l, d, rows, change, 1, l, ki + start * ks.s, ks.s, dq_marks, d, 1);
            }
            through_landmarks(dq_marks, n, l, d, scale, dqi, dqs.s);
            through_landmarks(dk_marks, n, l, d, 1.0f, dki, dks.s);
            if (filter) {
                convolve(gi, gs.s, n, d, filter + j * (2 * side + 7), side, 0, n, dvi, dvs.s);
                filter_backward(gi, gs.s, vi, vs.s, n, d, side, dfilter + item * (2 * side + 1));
            }
            put_back(half, dqs, n, d, dq, sdq, i, j);
            put_back(half, dks, n, d, dk, sdk, i, j);
            put_back(half, dvs, n, d, dv, sdv, i, j);
        }
        free(work);
    }
    return failed;
}
