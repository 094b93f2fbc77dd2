/* Linear attention over random features for one image and head at a time: features are made, used and forgotten in the cache.
 *
 * The same mathematics as ops.linear_attention and ops.stable_exp, which are the places to read it. Letters: n tokens, d head width, m features
 * (d and m multiples of 16; features that only fill m up are marked by a zero in keep). Of bfloat16, features and contexts are rounded where they
 * are multiplied; exponents, sums and divisions are not.
 */
#include "bfloat.h"
#include "network.h"

static const float LEAST = 1e8f * FLT_MIN; /* normaliser: see ops._divide */

typedef struct {
    int half, d, m, exponential; /* phi is exp(u - weight |x|^2 - c) + eps, or max(u, 0) + eps */
    float scale, weight, eps;
    const float *directions, *keep; /* d x m, or none: then u is x scale, and m is d; and m */
    Network network;                /* or u is what this makes of x, and m is d */
} Map;

/* Room for one thread. Of bfloat16, `left` and `right` hold operands in pairs, and `first`, `rest` and `back` the directions: rounded, what rounding
 * took from them, without which many features would be on the wrong side of zero, and turned. */
typedef struct {
    float *all, *u, *change, *z, *wide, *tokens, *dsums, *squares, *values, *left, *right, *beside, *first, *rest, *back;
    float *context, *dcontext, *across, *total, *dtotal;
} Room;

static float *piece(float **rest, size_t floats) {
    float *here = *rest;
    *rest += (floats + 15) / 16 * 16;
    return here;
}

static Room room_for(const Map *f, const float *turned) {
    const size_t d = f->d, m = f->m, block = BLOCK * m, thin = BLOCK * d, small = m * d;
    Room room;
    float *rest = room.all = scratch(2 * block + 5 * thin + (block + thin) / 2 + 6 * small + 2 * m + d + BLOCK + 2 * small + 20 * 16);
    if (!rest) return room;
    room.u = piece(&rest, block);
    room.change = piece(&rest, block);
    room.z = piece(&rest, 2 * thin);
    room.wide = piece(&rest, thin);
    room.tokens = piece(&rest, thin);
    room.dsums = piece(&rest, thin);
    room.squares = piece(&rest, BLOCK);
    room.values = piece(&rest, d);
    room.left = piece(&rest, block / 2);
    room.right = piece(&rest, thin / 2);
    room.beside = piece(&rest, small / 2);
    room.first = piece(&rest, small / 2);
    room.rest = piece(&rest, small / 2);
    room.back = piece(&rest, small / 2);
    room.context = piece(&rest, small + m + 1);
    room.dcontext = piece(&rest, small);
    room.across = piece(&rest, small);
    room.dtotal = piece(&rest, m);
    if (!f->half || !f->directions) return room;
    pair_floats(f->directions, m, d, m, room.first);
    for (size_t i = 0; i < small; i += W) store(room.across + i, load(f->directions + i) - widen(narrow(load(f->directions + i))));
    pair_floats(room.across, m, d, m, room.rest);
    if (turned) pair_floats(turned, d, m, d, room.back);
    return room;
}

/* Operands of products, as they are or in pairs: rows x d on the left, d multiplied; rows x d on the left, rows multiplied, or on the right. */
static const float *rows_left(int half, const float *x, int rows, int d, float *room) {
    if (half) narrow_rows(x, d, rows, d, (bfloat *)room, d);
    return half ? room : x;
}
static const float *paired(int half, const float *x, int rows, int d, float *room) {
    if (half) pair_floats(x, d, rows, d, room);
    return half ? room : x;
}

/* x, or zero where the feature only fills m up: a product with zero would keep NaN */
static vec counted(vec x, const float *keep) { return (vec)((ivec)x & (load(keep) > spread(0.0f))); }

/* u = x W for some tokens, and for exponentials the exponents' own part, weight |x|^2; z is left with the hidden units of a network, and `wide`
 * with the tokens that it took */
static void project(const Map *f, const void *x, long s, int rows, const Room *room) {
    const int half = f->half, d = f->d, m = f->m;
    float *u = room->u;
    fetch(from(half, x, rows * s), words(half, s), rows, words(half, d));
    if (f->network.first) {
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < d; c += W) store(room->wide + r * d + c, take(half, x, r * s + c));
        through_network(&f->network, d, room->wide, d, rows, room->z, u);
    } else if (f->directions) {
        multiply(half, rows, m, words(half, d), x, words(half, s), 1, half ? room->first : f->directions, m, u, m, 0);
        if (half) multiply(half, rows, m, words(half, d), x, words(half, s), 1, room->rest, m, u, m, 1);
    } else
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < d; c += W) store(u + r * m + c, take(half, x, r * s + c) * spread(f->scale));
    if (!f->exponential) return;
    for (int r = 0; r < rows; r++) {
        vec square = spread(0.0f);
        for (int c = 0; c < d; c += W) square += take(half, x, r * s + c) * take(half, x, r * s + c);
        room->squares[r] = f->weight == 0.0f ? 0.0f : f->weight * sum_of(square); /* the sum may be infinite */
        for (int j = 0; j < m; j += W) { /* below anything: never the largest, and exp of it is nothing */
            const ivec filling = load(f->keep + j) == spread(0.0f);
            float *to = u + r * m + j;
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
 * relative to the last c, so its share is added at the end. The context, m x d, the total, m, and c are left in `sums`. */
static void summarise(const Map *f, const void *k, long sk, const void *v, long sv, int n, const Room *room, float *sums) {
    const int half = f->half, d = f->d, m = f->m;
    float *u = room->u, *context = sums, *total = sums + m * d, *values = room->values, top = -INFINITY;
    const float *squares = room->squares;
    memset(context, 0, sizeof(float) * m * d);
    memset(total, 0, sizeof(float) * m);
    memset(values, 0, sizeof(float) * d);
    for (int start = 0; start < n; start += BLOCK) {
        const int rows = n - start < BLOCK ? n - start : BLOCK;
        const void *v_rows = from(half, v, start * sv);
        project(f, from(half, k, start * sk), sk, rows, room);
        if (f->exponential) {
            float before = top;
            for (int r = 0; r < rows; r++) {
                float now = stabiliser(f, u + r * m, squares[r]);
                top = now > top ? now : top;
            }
            if (top > before && start) {
                vec shrink = vexp(spread(before - top));
                for (int i = 0; i < m * d; i += W) store(context + i, load(context + i) * shrink);
                for (int j = 0; j < m; j += W) store(total + j, load(total + j) * shrink);
            }
            for (int r = 0; r < rows; r++) {
                for (int j = 0; j < m; j += W)
                    store(u + r * m + j, counted(vexp(load(u + r * m + j) - spread(squares[r]) - spread(top)), f->keep + j));
                if (f->eps != 0.0f)
                    for (int c = 0; c < d; c += W) store(values + c, load(values + c) + take(half, v_rows, r * sv + c));
            }
        } else
            for (int r = 0; r < rows; r++) relu(f, u + r * m);
        for (int j = 0; j < m; j += W) {
            vec sum = load(total + j);
            for (int r = 0; r < rows; r++) sum += load(u + r * m + j);
            store(total + j, sum);
        }
        if (half) pair_rows(v_rows, sv, rows, d, rows, room->right);
        multiply(half, m, d, words(half, rows), paired(half, u, rows, m, room->left), 1, m, half ? room->right : v_rows, half ? d : sv, context, d, 1);
    }
    if (f->exponential && f->eps != 0.0f)
        for (int i = 0; i < m; i++) {
            if (f->keep[i] == 0.0f) continue;
            total[i] += f->eps * n;
            for (int c = 0; c < d; c += W) store(context + i * d + c, load(context + i * d + c) + spread(f->eps) * load(values + c));
        }
    total[m] = top;
}

/* phi from u in place. For exponentials `shift` is the c of keys; queries, without it, have their own, and without eps their |x|^2 cancels. What is
 * subtracted one after the other leaves no exponent above zero; the sum of both, rounded, would. */
static void features(const Map *f, float *u, const float *squares, int rows, const float *shift) {
    for (int r = 0; r < rows; r++) {
        float *row = u + r * f->m;
        if (!f->exponential) {
            relu(f, row);
            continue;
        }
        const vec square = spread(shift || f->eps != 0.0f ? squares[r] : 0.0f), c = spread(shift ? *shift : largest(row, f->m));
        for (int j = 0; j < f->m; j += W) store(row + j, counted(vexp(load(row + j) - square - c) + spread(f->eps), f->keep + j));
    }
}

static void answer(const Map *f, const void *q, long sq, int n, const float *context, const float *total, float total_eps, const Room *room,
                   void *out, long so) {
    const int half = f->half, d = f->d, m = f->m;
    const float *beside = paired(half, context, m, d, room->beside);
    for (int start = 0; start < n; start += BLOCK) {
        const int rows = n - start < BLOCK ? n - start : BLOCK;
        float *u = room->u, *shares = room->squares;
        project(f, from(half, q, start * sq), sq, rows, room);
        features(f, u, room->squares, rows, NULL);
        multiply(half, rows, d, words(half, m), rows_left(half, u, rows, m, room->left), words(half, m), 1, beside, d, room->tokens, d, 0);
        for (int r = 0; r < rows; r++) { /* the squares have done their work */
            const float normaliser = dot(u + r * m, total, m) + total_eps;
            shares[r] = 1.0f / (normaliser < LEAST ? LEAST : normaliser);
        }
        put_rows(half, room->tokens, d, rows, d, shares, into(half, out, start * so), so);
    }
}

/* Tensors are b x h x n x d; strides holds those of b, h and n for q, k, v and out in turn. `summaries`, where backward will need them, is room
 * for the context (m x d), the total (m) and c of each image and head. Returns 0, or 1 when there is no memory. */
int linear_attention(const void *q, const void *k, const void *v, void *out, const long *strides, long b, int h, int n, int d, int half, int m,
                     float *summaries, const float *directions, const float *keep, int exponential, float scale, float weight, float eps,
                     float total_eps, int smooth, const float *first, const float *bias, const float *second, const float *shift) {
    const long *sq = strides, *sk = strides + 3, *sv = strides + 6, *so = strides + 9;
    const Map f = {half, d, m, exponential, scale, weight, eps, directions, keep, {smooth, first, bias, second, shift, NULL, NULL}};
    int failed = 0;
#pragma omp parallel reduction(| : failed)
    {
        const Room room = room_for(&f, NULL);
        failed |= !room.all;
#pragma omp for schedule(dynamic)
        for (long item = 0; item < b * h; item++) {
            if (!room.all) continue;
            const long i = item / h, j = item % h;
            float *sums = summaries ? summaries + item * ((long)m * d + m + 1) : room.context;
            summarise(&f, from(half, k, i * sk[0] + j * sk[1]), sk[2], from(half, v, i * sv[0] + j * sv[1]), sv[2], n, &room, sums);
            answer(&f, from(half, q, i * sq[0] + j * sq[1]), sq[2], n, sums, sums + m * d, total_eps, &room,
                   into(half, out, i * so[0] + j * so[1]), so[2]);
        }
        free(room.all);
    }
    return failed;
}

/* From the gradient of phi, in place, to that of x, and of the weights of a network, whose hidden units are in z: c is no part of it, because it
 * cancels or, beside eps, counts as a constant. */
static void through_features(const Map *f, const float *turned, int rows, const void *x, long s, const Room *room, void *dx, long sd, float *weights) {
    const int half = f->half, d = f->d, m = f->m;
    float *change = room->change, *made = room->tokens;
    for (int i = 0; i < rows * m; i += W) {
        vec without = load(room->u + i) - spread(f->eps);
        if (f->network.smooth) /* the slope of softplus, from its value */
            without = spread(1.0f) - vexp(-without);
        else if (f->exponential)
            without = without * load(f->keep + i % m);
        else
            without = (vec)((ivec)spread(1.0f) & (without > spread(0.0f)));
        store(change + i, load(change + i) * without);
    }
    if (f->network.first)
        back_through_network(&f->network, d, room->wide, d, rows, room->z, room->z + (size_t)BLOCK * d, change, made, d, weights);
    else if (turned)
        multiply(half, rows, d, words(half, m), rows_left(half, change, rows, m, room->left), words(half, m), 1, half ? room->back : turned, d, made, d, 0);
    else
        for (int i = 0; i < rows * d; i += W) store(made + i, load(change + i) * spread(f->scale));
    for (int r = 0; f->exponential && r < rows; r++) {
        vec sum = spread(0.0f);
        for (int j = 0; j < m; j += W) sum += load(change + r * m + j);
        const vec pull = spread(2.0f * f->weight * sum_of(sum));
        for (int c = 0; c < d; c += W) store(made + r * d + c, load(made + r * d + c) - pull * take(half, x, r * s + c));
    }
    put_rows(half, made, d, rows, d, NULL, dx, sd);
}

/* The gradients of q, k and v from that of out, with features made again, and the summaries too where there are none. `turned` is directions'
 * transpose; strides holds those of q, k, v, out, the gradient of out, and of q, k and v. `weights` is room for the gradients of a network's, for
 * each image and head on its own, so that their sum does not depend on which thread came first. */
int linear_attention_backward(const void *q, const void *k, const void *v, const void *out, const void *grad, void *dq, void *dk, void *dv,
                              const long *strides, long b, int h, int n, int d, int half, int m, const float *summaries, const float *turned,
                              const float *directions, const float *keep, int exponential, float scale, float weight, float eps,
                              float total_eps, int smooth, const float *first, const float *bias, const float *second, const float *shift,
                              const float *first_turned, const float *second_turned, float *weights) {
    const long *sq = strides, *sk = strides + 3, *sv = strides + 6, *so = strides + 9, *sg = strides + 12;
    const long *sdq = strides + 15, *sdk = strides + 18, *sdv = strides + 21;
    const Map f = {half, d, m, exponential, scale, weight, eps, directions, keep, {smooth, first, bias, second, shift, first_turned, second_turned}};
    int failed = 0;
#pragma omp parallel reduction(| : failed)
    {
        const Room room = room_for(&f, turned);
        const size_t small = (size_t)m * d;
        float *u = room.u, *change = room.change, *dsums = room.dsums, *dcontext = room.dcontext, *dtotal = room.dtotal, *pull = room.squares;
        failed |= !room.all;
#pragma omp for schedule(dynamic)
        for (long item = 0; item < b * h; item++) {
            if (!room.all) continue;
            const long i = item / h, j = item % h;
            const void *qi = from(half, q, i * sq[0] + j * sq[1]), *ki = from(half, k, i * sk[0] + j * sk[1]);
            const void *vi = from(half, v, i * sv[0] + j * sv[1]);
            if (!summaries) summarise(&f, ki, sk[2], vi, sv[2], n, &room, room.context);
            const float *context = summaries ? summaries + item * (small + m + 1) : room.context, *total = context + small, *top = total + m;
            memset(dtotal, 0, sizeof(float) * m);
            float *own = f.network.first ? weights + item * weights_of(d) : NULL;
            if (own) memset(own, 0, sizeof(float) * weights_of(d));
            turn(context, d, m, d, m, 1.0f, room.across);
            const float *across = paired(half, room.across, d, m, room.beside);
            for (int start = 0; start < n; start += BLOCK) {
                const int rows = n - start < BLOCK ? n - start : BLOCK;
                const void *x = from(half, qi, start * sq[2]), *g = from(half, grad, i * sg[0] + j * sg[1] + start * sg[2]);
                const void *o = from(half, out, i * so[0] + j * so[1] + start * so[2]);
                project(&f, x, sq[2], rows, &room);
                features(&f, u, room.squares, rows, NULL);
                for (int r = 0; r < rows; r++) { /* the squares have done their work; from here it is the gradient of the normaliser */
                    float normaliser = dot(u + r * m, total, m) + total_eps;
                    int clamped = normaliser < LEAST;
                    float share = 1.0f / (clamped ? LEAST : normaliser);
                    vec product = spread(0.0f);
                    for (int c = 0; c < d; c += W) {
                        const vec change_here = take(half, g, r * sg[2] + c);
                        product += change_here * take(half, o, r * so[2] + c);
                        store(dsums + r * d + c, change_here * spread(share));
                    }
                    pull[r] = clamped ? 0.0f : -sum_of(product) * share;
                    for (int p = 0; p < m; p += W) store(dtotal + p, load(dtotal + p) + spread(pull[r]) * load(u + r * m + p));
                }
                const float *phi = paired(half, u, rows, m, room.left);
                multiply(half, m, d, words(half, rows), phi, 1, m, paired(half, dsums, rows, d, room.right), d, dcontext, d, start > 0);
                multiply(half, rows, m, words(half, d), rows_left(half, dsums, rows, d, room.right), words(half, d), 1, across, m, change, m, 0);
                for (int r = 0; r < rows; r++)
                    for (int p = 0; p < m; p += W) store(change + r * m + p, load(change + r * m + p) + spread(pull[r]) * load(total + p));
                through_features(&f, turned, rows, x, sq[2], &room, into(half, dq, i * sdq[0] + j * sdq[1] + start * sdq[2]), sdq[2], own);
            }
            turn(dcontext, d, m, d, m, 1.0f, room.across);
            across = paired(half, room.across, d, m, room.beside);
            const float *after = paired(half, dcontext, m, d, room.across); /* which has done its work */
            for (int start = 0; start < n; start += BLOCK) {
                const int rows = n - start < BLOCK ? n - start : BLOCK;
                const void *x = from(half, ki, start * sk[2]);
                project(&f, x, sk[2], rows, &room);
                features(&f, u, room.squares, rows, top);
                const float *phi = rows_left(half, u, rows, m, room.left);
                multiply(half, rows, d, words(half, m), phi, words(half, m), 1, after, d, room.tokens, d, 0);
                put_rows(half, room.tokens, d, rows, d, NULL, into(half, dv, i * sdv[0] + j * sdv[1] + start * sdv[2]), sdv[2]);
                multiply(half, rows, m, words(half, d), from(half, vi, start * sv[2]), words(half, sv[2]), 1, across, m, change, m, 0);
                for (int r = 0; r < rows; r++)
                    for (int p = 0; p < m; p += W) store(change + r * m + p, load(change + r * m + p) + load(dtotal + p));
                through_features(&f, turned, rows, x, sk[2], &room, into(half, dk, i * sdk[0] + j * sdk[1] + start * sdk[2]), sdk[2], own);
            }
        }
        free(room.all);
    }
    return failed;
}
