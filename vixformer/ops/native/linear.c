/* Linear attention over random features for one image and head at a time: features are made, used and forgotten in the cache.
 *
 * The same mathematics as ops.linear_attention and ops.stable_exp, which are the places to read it. Letters: n tokens, d head width, m features
 * (d and m multiples of 16; features that only fill m up are marked by a zero in keep).
 */
#include "network.h"

static const float LEAST = 1e8f * FLT_MIN; /* normaliser: see ops._divide */

typedef struct {
    int d, m, exponential; /* phi is exp(u - weight |x|^2 - c) + eps, or max(u, 0) + eps */
    float scale, weight, eps;
    const float *directions, *keep; /* d x m, or none: then u is x scale, and m is d; and m */
    Network network;                /* or u is what this makes of x, and m is d */
} Map;

/* x, or zero where the feature only fills m up: a product with zero would keep NaN */
static vec counted(vec x, const float *keep) { return (vec)((ivec)x & (load(keep) > spread(0.0f))); }

static void scaled(int rows, int d, const float *x, long s, float scale, float *to, long st) {
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < d; c += W) store(to + r * st + c, load(x + r * s + c) * spread(scale));
}

/* room that project and through_features need for themselves: hidden units and their gradients */
static size_t within(const Map *f) { return f->network.first ? 2 * (size_t)BLOCK * f->d : 0; }

/* u = x W for some tokens, and for exponentials the exponents' own part, weight |x|^2; z is left with the hidden units of a network */
static void project(const Map *f, const float *x, long s, int rows, float *u, float *half, float *z) {
    fetch(x + rows * s, s, rows, f->d);
    if (f->network.first)
        through_network(&f->network, f->d, x, s, rows, z, u);
    else if (f->directions)
        gemm(rows, f->m, f->d, x, s, 1, f->directions, f->m, u, f->m, 0);
    else
        scaled(rows, f->d, x, s, f->scale, u, f->d);
    if (!f->exponential) return;
    for (int r = 0; r < rows; r++) {
        vec square = spread(0.0f);
        for (int c = 0; c < f->d; c += W) square += load(x + r * s + c) * load(x + r * s + c);
        half[r] = f->weight == 0.0f ? 0.0f : f->weight * sum_of(square); /* the sum may be infinite */
        for (int j = 0; j < f->m; j += W) { /* below anything: never the largest, and exp of it is nothing */
            const ivec filling = load(f->keep + j) == spread(0.0f);
            float *to = u + r * f->m + j;
            store(to, (vec)(((ivec)load(to) & ~filling) | ((ivec)spread(-INFINITY) & filling)));
        }
    }
}

static float largest(const float *row, int m) {
    vec top = load(row);
    for (int j = W; j < m; j += W) top = greater(top, load(row + j));
    return max_of(top);
}

/* what the largest exponent is measured by: without eps with, with eps without the part of |x|^2 */
static float stabiliser(const Map *f, const float *row, float half) { return largest(row, f->m) - (f->eps == 0.0f ? half : 0.0f); }

static void relu(const Map *f, float *row) {
    for (int j = 0; j < f->m; j += W) store(row + j, counted(greater(spread(0.0f), load(row + j)) + spread(f->eps), f->keep + j));
}

/* One pass over the keys. For exponentials the largest so far takes the place of c, and what is summed is scaled down when it grows; eps is
 * relative to the last c, so its share is added at the end. Returns c. */
static float summarise(const Map *f, const float *k, long sk, const float *v, long sv, int n, float *u, float *half, float *z, float *context,
                      float *total, float *values) {
    const int d = f->d, m = f->m;
    float top = -INFINITY;
    memset(context, 0, sizeof(float) * m * d);
    memset(total, 0, sizeof(float) * m);
    memset(values, 0, sizeof(float) * d);
    for (int start = 0; start < n; start += BLOCK) {
        int rows = n - start < BLOCK ? n - start : BLOCK;
        project(f, k + start * sk, sk, rows, u, half, z);
        if (f->exponential) {
            float before = top;
            for (int r = 0; r < rows; r++) {
                float now = stabiliser(f, u + r * m, half[r]);
                top = now > top ? now : top;
            }
            if (top > before && start) {
                vec shrink = vexp(spread(before - top));
                for (int i = 0; i < m * d; i += W) store(context + i, load(context + i) * shrink);
                for (int j = 0; j < m; j += W) store(total + j, load(total + j) * shrink);
            }
            for (int r = 0; r < rows; r++) {
                for (int j = 0; j < m; j += W)
                    store(u + r * m + j, counted(vexp(load(u + r * m + j) - spread(half[r]) - spread(top)), f->keep + j));
                if (f->eps != 0.0f)
                    for (int c = 0; c < d; c += W) store(values + c, load(values + c) + load(v + (start + r) * sv + c));
            }
        } else
            for (int r = 0; r < rows; r++) relu(f, u + r * m);
        for (int j = 0; j < m; j += W) {
            vec sum = load(total + j);
            for (int r = 0; r < rows; r++) sum += load(u + r * m + j);
            store(total + j, sum);
        }
        gemm(m, d, rows, u, 1, m, v + start * sv, sv, context, d, 1);
    }
    if (f->exponential && f->eps != 0.0f)
        for (int i = 0; i < m; i++) {
            if (f->keep[i] == 0.0f) continue;
            total[i] += f->eps * n;
            for (int c = 0; c < d; c += W) store(context + i * d + c, load(context + i * d + c) + spread(f->eps) * load(values + c));
        }
    return top;
}

/* phi from u in place. For exponentials `shift` is the c of keys; queries, without it, have their own, and without eps their |x|^2 cancels. What is
 * subtracted one after the other leaves no exponent above zero; the sum of both, rounded, would. */
static void features(const Map *f, float *u, const float *half, int rows, const float *shift) {
    for (int r = 0; r < rows; r++) {
        float *row = u + r * f->m;
        if (!f->exponential) {
            relu(f, row);
            continue;
        }
        const vec square = spread(shift || f->eps != 0.0f ? half[r] : 0.0f), c = spread(shift ? *shift : largest(row, f->m));
        for (int j = 0; j < f->m; j += W) store(row + j, counted(vexp(load(row + j) - square - c) + spread(f->eps), f->keep + j));
    }
}

static void answer(const Map *f, const float *q, long sq, int n, const float *context, const float *total, float total_eps, float *u, float *half,
                   float *z, float *out, long so) {
    const int d = f->d, m = f->m;
    for (int start = 0; start < n; start += BLOCK) {
        int rows = n - start < BLOCK ? n - start : BLOCK;
        project(f, q + start * sq, sq, rows, u, half, z);
        float *to = out + start * so;
        features(f, u, half, rows, NULL);
        gemm(rows, d, m, u, m, 1, context, d, to, so, 0);
        for (int r = 0; r < rows; r++) {
            float normaliser = dot(u + r * m, total, m) + total_eps;
            vec share = spread(1.0f / (normaliser < LEAST ? LEAST : normaliser));
            for (int c = 0; c < d; c += W) store(to + r * so + c, load(to + r * so + c) * share);
        }
    }
}

/* Tensors are b x h x n x d; strides holds those of b, h and n for q, k, v and out in turn. `summaries`, where backward will need them, is room
 * for the context (m x d), the total (m) and c of each image and head. Returns 0, or 1 when there is no memory. */
int linear_attention(const float *q, const float *k, const float *v, float *out, const long *strides, long b, int h, int n, int d, int m,
                     float *summaries, const float *directions, const float *keep, int exponential, float scale, float weight, float eps,
                     float total_eps, int smooth, const float *first, const float *bias, const float *second, const float *shift) {
    const long *sq = strides, *sk = strides + 3, *sv = strides + 6, *so = strides + 9;
    const Map f = {d, m, exponential, scale, weight, eps, directions, keep, {smooth, first, bias, second, shift}};
    int failed = 0;
#pragma omp parallel reduction(| : failed)
    {
        const size_t small = (size_t)m * d + m + 1;
        float *work = scratch((size_t)BLOCK * m + within(&f) + d + BLOCK + small);
        failed |= !work;
#pragma omp for schedule(dynamic)
        for (long item = 0; item < b * h; item++) {
            if (!work) continue;
            float *u = work, *z = u + (size_t)BLOCK * m, *values = z + within(&f), *half = values + d;
            float *context = summaries ? summaries + item * small : half + BLOCK, *total = context + (size_t)m * d;
            long i = item / h, j = item % h;
            total[m] = summarise(&f, k + i * sk[0] + j * sk[1], sk[2], v + i * sv[0] + j * sv[1], sv[2], n, u, half, z, context, total, values);
            answer(&f, q + i * sq[0] + j * sq[1], sq[2], n, context, total, total_eps, u, half, z, out + i * so[0] + j * so[1], so[2]);
        }
        free(work);
    }
    return failed;
}

/* From the gradient of phi, in place, to that of x, and of the weights of a network, whose hidden units are in z: c is no part of it, because it
 * cancels or, beside eps, counts as a constant. */
static void through_features(const Map *f, const float *turned, const float *phi, float *change, int rows, const float *x, long s, float *z,
                             float *dx, long sd, float *weights) {
    const int d = f->d, m = f->m;
    for (int i = 0; i < rows * m; i += W) {
        vec without = load(phi + i) - spread(f->eps);
        if (f->network.smooth) /* the slope of softplus, from its value */
            without = spread(1.0f) - vexp(-without);
        else if (f->exponential)
            without = without * load(f->keep + i % m);
        else
            without = (vec)((ivec)spread(1.0f) & (without > spread(0.0f)));
        store(change + i, load(change + i) * without);
    }
    if (f->network.first)
        back_through_network(&f->network, d, x, s, rows, z, z + (size_t)BLOCK * d, change, dx, sd, weights);
    else if (turned)
        gemm(rows, d, m, change, m, 1, turned, d, dx, sd, 0);
    else
        scaled(rows, d, change, m, f->scale, dx, sd);
    for (int r = 0; f->exponential && r < rows; r++) {
        vec sum = spread(0.0f);
        for (int j = 0; j < m; j += W) sum += load(change + r * m + j);
        vec pull = spread(2.0f * f->weight * sum_of(sum));
        for (int c = 0; c < d; c += W) store(dx + r * sd + c, load(dx + r * sd + c) - pull * load(x + r * s + c));
    }
}

/* The gradients of q, k and v from that of out, with features made again, and the summaries too where there are none. `turned` is directions'
 * transpose; strides holds those of q, k, v, out, the gradient of out, and of q, k and v. `weights` is room for the gradients of a network's, for
 * each image and head on its own, so that their sum does not depend on which thread came first. */
int linear_attention_backward(const float *q, const float *k, const float *v, const float *out, const float *grad, float *dq, float *dk, float *dv,
                              const long *strides, long b, int h, int n, int d, int m, const float *summaries, const float *turned,
                              const float *directions, const float *keep, int exponential, float scale, float weight, float eps,
                              float total_eps, int smooth, const float *first, const float *bias, const float *second, const float *shift,
                              const float *first_turned, const float *second_turned, float *weights) {
    const long *sq = strides, *sk = strides + 3, *sv = strides + 6, *so = strides + 9, *sg = strides + 12;
    const long *sdq = strides + 15, *sdk = strides + 18, *sdv = strides + 21;
    const Map f = {d, m, exponential, scale, weight, eps, directions, keep, {smooth, first, bias, second, shift, first_turned, second_turned}};
    int failed = 0;
#pragma omp parallel reduction(| : failed)
    {
        const size_t block = (size_t)BLOCK * m, small = (size_t)m * d;
        float *u = scratch(2 * block + within(&f) + 3 * small + (size_t)BLOCK * d + 2 * m + d + BLOCK + 1);
        float *change = u + block, *z = change + block, *dcontext = z + within(&f), *across = dcontext + small, *dsums = across + small;
        float *dtotal = dsums + (size_t)BLOCK * d, *half = dtotal + m, *values = half + BLOCK, *again = values + d;
        failed |= !u;
#pragma omp for schedule(dynamic)
        for (long item = 0; item < b * h; item++) {
            if (!u) continue;
            long i = item / h, j = item % h;
            const float *qi = q + i * sq[0] + j * sq[1], *ki = k + i * sk[0] + j * sk[1], *vi = v + i * sv[0] + j * sv[1];
            if (!summaries) again[small + m] = summarise(&f, ki, sk[2], vi, sv[2], n, u, half, z, again, again + small, values);
            const float *context = summaries ? summaries + item * (small + m + 1) : again, *total = context + small, *top = total + m;
            memset(dtotal, 0, sizeof(float) * m);
            float *own = f.network.first ? weights + item * weights_of(d) : NULL;
            if (own) memset(own, 0, sizeof(float) * weights_of(d));
            turn(context, d, m, d, m, 1.0f, across);
            for (int start = 0; start < n; start += BLOCK) {
                int rows = n - start < BLOCK ? n - start : BLOCK;
                project(&f, qi + start * sq[2], sq[2], rows, u, half, z);
                features(&f, u, half, rows, NULL);
                for (int r = 0; r < rows; r++) { /* half has done its work; from here it holds the gradient of the normaliser */
                    const float *g = grad + i * sg[0] + j * sg[1] + (start + r) * sg[2], *o = out + i * so[0] + j * so[1] + (start + r) * so[2];
                    float normaliser = dot(u + r * m, total, m) + total_eps;
                    int clamped = normaliser < LEAST;
                    float share = 1.0f / (clamped ? LEAST : normaliser);
                    half[r] = clamped ? 0.0f : -dot(g, o, d) * share;
                    for (int c = 0; c < d; c += W) store(dsums + r * d + c, load(g + c) * spread(share));
                    for (int p = 0; p < m; p += W) store(dtotal + p, load(dtotal + p) + spread(half[r]) * load(u + r * m + p));
                }
                gemm(m, d, rows, u, 1, m, dsums, d, dcontext, d, start > 0);
                gemm(rows, m, d, dsums, d, 1, across, m, change, m, 0);
                for (int r = 0; r < rows; r++)
                    for (int p = 0; p < m; p += W) store(change + r * m + p, load(change + r * m + p) + spread(half[r]) * load(total + p));
                through_features(&f, turned, u, change, rows, qi + start * sq[2], sq[2], z, dq + i * sdq[0] + j * sdq[1] + start * sdq[2], sdq[2], own);
            }
            turn(dcontext, d, m, d, m, 1.0f, across);
            for (int start = 0; start < n; start += BLOCK) {
                int rows = n - start < BLOCK ? n - start : BLOCK;
                project(&f, ki + start * sk[2], sk[2], rows, u, half, z);
                features(&f, u, half, rows, top);
                gemm(rows, d, m, u, m, 1, dcontext, d, dv + i * sdv[0] + j * sdv[1] + start * sdv[2], sdv[2], 0);
                gemm(rows, m, d, vi + start * sv[2], sv[2], 1, across, m, change, m, 0);
                for (int r = 0; r < rows; r++)
                    for (int p = 0; p < m; p += W) store(change + r * m + p, load(change + r * m + p) + load(dtotal + p));
                through_features(&f, turned, u, change, rows, ki + start * sk[2], sk[2], z, dk + i * sdk[0] + j * sdk[1] + start * sdk[2], sdk[2], own);
            }
        }
        free(u);
    }
    return failed;
}
