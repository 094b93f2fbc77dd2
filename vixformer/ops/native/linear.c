/* Linear attention over random features for one image and head at a time: features are made, used and forgotten in the cache.
 *
 * The same mathematics as ops.linear_attention and ops.stable_exp, which are the places to read it. Letters: n tokens, d head width, m features
 * (d and m multiples of 16; features that only fill m up are marked by a zero in keep). Of bfloat16, features and contexts are rounded where they
 * are multiplied; exponents, sums and divisions are not.
 */
#include "bfloat.h"
#include "network.h"

static const float LEAST = 1e8f * FLT_MIN; /* normaliser: see ops._divide */

/* What phi is. Of u, which is x scale or x times directions: */
enum {
    RELU,        /* max(u, 0) + eps */
    EXPONENTIAL, /* exp(u - weight |x|^2 - c) + eps */
    ELU,         /* u, or weight (exp(u) - 1) where u is negative, + eps */
    GELU,        /* u Phi(u) + eps */
    NETWORK,     /* max(y, 0) + eps, with y what a network makes of x; it has `scale` hidden units */
    SMOOTH,      /* the same with softplus of y */
    COSINE,      /* r times the cosine and r times the sine of a token, 2 d features, with r = max(x, 0) + eps */
    HEDGEHOG,    /* softmax of [x W, -x W], at least eps, 2 d features: W is d x d, of each head, one for queries and one for keys */
    FOCUSED,     /* y to the power of scale, a whole number, at the length of y = (max(x, 0) + eps) times numbers of each head */
    SHARES,      /* softmax of u, at least eps */
    TAYLOR,      /* 1, u and the products of each two parts of u, squares over the root of 2: 1 + d + d (d + 1) / 2 features */
};

typedef struct {
    int half, d, m, kind, learned; /* learned: directions get gradients */
    float scale, weight, eps;
    const float *directions, *keep; /* d x m, or none; and m */
    Network network;                /* HEDGEHOG: `first` for queries and `second` for keys. COSINE and FOCUSED: what they multiply by is `bias` */
} Map;

/* How many numbers of an image and head backward makes for what is learned. */
static size_t learned_of(const Map *f) {
    const size_t d = f->d;
    if (f->kind == NETWORK || f->kind == SMOOTH) return weights_of(&f->network, f->d, f->m);
    return f->kind == HEDGEHOG ? 2 * d * d : f->kind == FOCUSED ? d : f->learned ? d * f->m : 0;
}

/* Room for one thread. Of bfloat16, `left` and `right` hold operands in pairs, and `first`, `rest` and `back` the directions: rounded, what rounding
 * took from them, without which many features would be on the wrong side of zero, and turned. `keys` says that tokens are keys, of this head. */
typedef struct {
    int keys;
    long head;
    float *all, *u, *change, *z, *wide, *tokens, *dsums, *squares, *values, *left, *right, *beside, *first, *rest, *back;
    float *context, *dcontext, *across, *dtotal;
} Room;

static float *piece(float **rest, size_t floats) {
    float *here = *rest;
    *rest += (floats + 15) / 16 * 16;
    return here;
}

/* the matrix of these tokens, and its transpose */
static const float *weights_for(const Map *f, const Room *room) { return (room->keys ? f->network.second : f->network.first) + room->head * f->d * f->d; }
static const float *turned_for(const Map *f, const Room *room) {
    return f->network.first_turned ? (room->keys ? f->network.second_turned : f->network.first_turned) + room->head * f->d * f->d : NULL;
}

/* d x m directions, and what is turned if backward needs it */
static void in_pairs(const Map *f, const float *directions, const float *turned, int m, Room *room) {
    if (!f->half) return;
    pair_floats(directions, m, f->d, m, room->first);
    for (int i = 0; i < m * f->d; i += W) store(room->across + i, load(directions + i) - widen(narrow(load(directions + i))));
    pair_floats(room->across, m, f->d, m, room->rest);
    if (turned) pair_floats(turned, f->d, m, f->d, room->back);
}

static Room room_for(const Map *f, const float *turned) {
    const size_t d = f->d, m = f->m, block = BLOCK * m, thin = BLOCK * d, small = m * d;
    const size_t units = f->network.hidden ? 2 * (size_t)BLOCK * f->network.hidden : block; /* or slopes */
    Room room;
    float *rest = room.all = scratch(2 * block + units + 3 * thin + (block + thin) / 2 + 6 * small + 2 * m + d + BLOCK + 2 * small + 20 * 16);
    if (!rest) return room;
    room.u = piece(&rest, block);
    room.change = piece(&rest, block);
    room.z = piece(&rest, units);
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
    if (f->directions) in_pairs(f, f->directions, turned, m, &room);
    return room;
}

/* Whose tokens come next. */
static void turn_to(const Map *f, Room *room, long head, int keys) {
    room->head = head;
    room->keys = keys;
    if (f->kind == HEDGEHOG) in_pairs(f, weights_for(f, room), turned_for(f, room), f->d, room);
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

static void widened(int half, const void *x, long s, int rows, int d, float *to) {
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < d; c += W) store(to + r * d + c, take(half, x, r * s + c));
}

/* TAYLOR, whose products begin with those of the first part with all, of the second with all but the first, and so on */
static void multiply_parts(const float *y, int d, int m, float *u) {
    vec root = spread(1.0f);
    root[0] = sqrtf(0.5f); /* a product of two parts comes twice in the square of a sum, so at one half it has the weight 1 */
    *u++ = 1.0f;
    memcpy(u, y, sizeof(float) * d);
    float *to = u + d;
    for (int i = 0; i < d; to += d - i, i++)
        for (int c = i; c < d; c += W) {
            const vec product = spread(y[i]) * load_part(y + c, d - c < W ? d - c : 0);
            store_part(to + c - i, product * (c == i ? root : spread(1.0f)), d - c < W ? d - c : 0);
        }
    memset(to, 0, sizeof(float) * (u - 1 + m - to));
}

/* from the gradient g of these to that of y */
static void through_parts(const float *y, int d, const float *g, float *dy) {
    vec root = spread(1.0f);
    root[0] = sqrtf(0.5f);
    memcpy(dy, ++g, sizeof(float) * d);
    g += d;
    for (int i = 0; i < d; g += d - i, i++) {
        vec own = spread(0.0f);
        for (int c = i; c < d; c += W) {
            const int part = d - c < W ? d - c : 0;
            const vec change = load_part(g + c - i, part) * (c == i ? root : spread(1.0f));
            own += change * load_part(y + c, part);
            store_part(dy + c, load_part(dy + c, part) + change * spread(y[i]), part);
        }
        dy[i] += sum_of(own);
    }
}

/* u for some tokens, the first of which has this number, and for exponentials the exponents' own part, weight |x|^2; z is left with the hidden
 * units of a network, and `wide` with the tokens that it took */
static void project(const Map *f, const void *x, long s, int number, int rows, const Room *room) {
    const int half = f->half, d = f->d, m = f->m, hedgehog = f->kind == HEDGEHOG;
    float *u = room->u;
    fetch(from(half, x, rows * s), words(half, s), rows, words(half, d));
    if (f->kind == NETWORK || f->kind == SMOOTH) {
        widened(half, x, s, rows, d, room->wide);
        through_network(&f->network, d, m, room->wide, d, rows, room->z, u);
    } else if (f->directions || hedgehog) {
        const float *matrix = half ? room->first : hedgehog ? weights_for(f, room) : f->directions;
        const int wide = hedgehog ? d : m;
        multiply(half, rows, wide, words(half, d), x, words(half, s), 1, matrix, wide, u, m, 0);
        if (half) multiply(half, rows, wide, words(half, d), x, words(half, s), 1, room->rest, wide, u, m, 1);
        for (int r = 0; hedgehog && r < rows; r++)
            for (int c = 0; c < d; c += W) store(u + r * m + d + c, -load(u + r * m + c));
    } else if (f->kind == COSINE)
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < d; c += W) {
                const vec y = greater(spread(0.0f), take(half, x, r * s + c)) + spread(f->eps);
                store(u + r * m + c, y * spread(f->network.bias[2 * (number + r)]));
                store(u + r * m + d + c, y * spread(f->network.bias[2 * (number + r) + 1]));
            }
    else if (f->kind == FOCUSED)
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < d; c += W)
                store(u + r * m + c, (greater(spread(0.0f), take(half, x, r * s + c)) + spread(f->eps)) * load(f->network.bias + room->head * d + c));
    else {
        float *to = f->kind == TAYLOR ? room->wide : u;
        const int wide = f->kind == TAYLOR ? d : m;
        for (int r = 0; r < rows; r++) {
            for (int c = 0; c < d; c += W) store(to + r * wide + c, take(half, x, r * s + c) * spread(f->scale));
            if (f->kind == TAYLOR) multiply_parts(to + r * d, d, m, u + r * m);
        }
    }
    if (f->kind != EXPONENTIAL && f->kind != SHARES) return;
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

/* phi in place of u for a row of features that need nothing else; z is left with slopes of GELU */
static void bend(const Map *f, float *row, float *z) {
    const int m = f->m;
    const vec zero = spread(0.0f), eps = spread(f->eps);
    if (f->kind == HEDGEHOG || f->kind == SHARES) {
        const vec top = spread(largest(row, m));
        vec sum = zero;
        for (int j = 0; j < m; j += W) {
            const vec e = vexp(load(row + j) - top);
            store(row + j, e);
            sum += e;
        }
        const vec share = spread(1.0f / sum_of(sum));
        for (int j = 0; j < m; j += W) store(row + j, counted(greater(eps, load(row + j) * share), f->keep + j));
    } else if (f->kind == FOCUSED) {
        const vec unit = spread(1.0f / largest(row, m)); /* in range whatever the power */
        vec length = zero, raised = zero;
        for (int j = 0; j < m; j += W) {
            const vec y = load(row + j), z = y * unit;
            vec power = z;
            for (int i = 1; i < f->scale; i++) power *= z;
            length += y * y;
            raised += power * power;
            store(row + j, power);
        }
        const vec share = spread(sqrtf(sum_of(length)) / sqrtf(sum_of(raised)));
        for (int j = 0; j < m; j += W) store(row + j, load(row + j) * share);
    } else if (f->kind != COSINE && f->kind != TAYLOR)
        for (int j = 0; j < m; j += W) {
            const vec u = load(row + j);
            vec y = greater(zero, u);
            if (f->kind == ELU)
                y += spread(f->weight) * (vexp(-greater(zero, -u)) - spread(1.0f));
            else if (f->kind == GELU) {
                vec slope;
                y = u * normal(u, &slope);
                store(z + j, slope);
            }
            store(row + j, counted(y + eps, f->keep + j));
        }
}

/* Rows of masked tokens to zero; `mask`, if there is one, is true for those that count. */
static void hide(const uint8_t *mask, float *rows, int count, int width) {
    for (int r = 0; mask && r < count; r++)
        if (!mask[r]) memset(rows + (long)r * width, 0, sizeof(float) * width);
}

/* One pass over the keys. For exponentials the largest so far takes the place of c, and what is summed is scaled down when it grows; eps is
 * relative to the last c, so its share is added at the end. The context, m x d, the total, m, and c are left in `sums`. */
static void summarise(const Map *f, const void *k, long sk, const void *v, long sv, int n, const uint8_t *mask, const Room *room, float *sums) {
    const int half = f->half, d = f->d, m = f->m;
    float *u = room->u, *context = sums, *total = sums + m * d, *values = room->values, top = -INFINITY;
    int counting = 0;
    const float *squares = room->squares;
    memset(context, 0, sizeof(float) * m * d);
    memset(total, 0, sizeof(float) * m);
    memset(values, 0, sizeof(float) * d);
    for (int start = 0; start < n; start += BLOCK) {
        const int rows = n - start < BLOCK ? n - start : BLOCK;
        const void *v_rows = from(half, v, start * sv);
        const uint8_t *seen = mask ? mask + start : NULL;
        project(f, from(half, k, start * sk), sk, start, rows, room);
        if (f->kind == EXPONENTIAL) {
            float before = top;
            for (int r = 0; r < rows; r++) {
                float now = seen && !seen[r] ? -INFINITY : stabiliser(f, u + r * m, squares[r]);
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
                counting += !seen || seen[r];
                if (f->eps != 0.0f && (!seen || seen[r]))
                    for (int c = 0; c < d; c += W) store(values + c, load(values + c) + take(half, v_rows, r * sv + c));
            }
        } else
            for (int r = 0; r < rows; r++) bend(f, u + r * m, room->z + r * m);
        hide(seen, u, rows, m);
        for (int j = 0; j < m; j += W) {
            vec sum = load(total + j);
            for (int r = 0; r < rows; r++) sum += load(u + r * m + j);
            store(total + j, sum);
        }
        if (half) pair_rows(v_rows, sv, rows, d, rows, room->right);
        multiply(half, m, d, words(half, rows), paired(half, u, rows, m, room->left), 1, m, half ? room->right : v_rows, half ? d : sv, context, d, 1);
    }
    if (f->kind == EXPONENTIAL && f->eps != 0.0f)
        for (int i = 0; i < m; i++) {
            if (f->keep[i] == 0.0f) continue;
            total[i] += f->eps * counting;
            for (int c = 0; c < d; c += W) store(context + i * d + c, load(context + i * d + c) + spread(f->eps) * load(values + c));
        }
    total[m] = top;
}

/* phi from u in place. For exponentials `shift` is the c of keys; queries, without it, have their own, and without eps their |x|^2 cancels. What is
 * subtracted one after the other leaves no exponent above zero; the sum of both, rounded, would. */
static void features(const Map *f, const Room *room, int rows, const float *shift) {
    for (int r = 0; r < rows; r++) {
        float *row = room->u + r * f->m;
        if (f->kind != EXPONENTIAL) {
            bend(f, row, room->z + r * f->m);
            continue;
        }
        const vec square = spread(shift || f->eps != 0.0f ? room->squares[r] : 0.0f), c = spread(shift ? *shift : largest(row, f->m));
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
        project(f, from(half, q, start * sq), sq, start, rows, room);
        features(f, room, rows, NULL);
        multiply(half, rows, d, words(half, m), rows_left(half, u, rows, m, room->left), words(half, m), 1, beside, d, room->tokens, d, 0);
        for (int r = 0; r < rows; r++) { /* the squares have done their work */
            const float normaliser = dot(u + r * m, total, m) + total_eps;
            shares[r] = 1.0f / (normaliser < LEAST ? LEAST : normaliser);
        }
        put_rows(half, room->tokens, d, rows, d, shares, into(half, out, start * so), so);
    }
}

/* Tensors are b x h x n x d; strides holds those of b, h and n for q, k, v and out in turn. `summaries`, where backward will need them, is room
 * for the context (m x d), the total (m) and c of each image and head. `mask`, b x n, may be null. Returns 0, or 1 when there is no memory. */
int linear_attention(const void *q, const void *k, const void *v, void *out, const long *strides, long b, int h, int n, int d, int half, int m,
                     float *summaries, const float *directions, const float *keep, int kind, float scale, float weight, float eps,
                     float total_eps, int learned, const uint8_t *mask, const float *first, const float *bias, const float *second, const float *shift) {
    const long *sq = strides, *sk = strides + 3, *sv = strides + 6, *so = strides + 9;
    const int hidden = kind == NETWORK || kind == SMOOTH ? (int)scale : 0;
    const Map f = {half, d, m, kind, learned, scale, weight, eps, directions, keep, {kind == SMOOTH, hidden, first, bias, second, shift, NULL, NULL}};
    int failed = 0;
#pragma omp parallel reduction(| : failed)
    {
        Room room = room_for(&f, NULL);
        failed |= !room.all;
#pragma omp for schedule(dynamic)
        for (long item = 0; item < b * h; item++) {
            if (!room.all) continue;
            const long i = item / h, j = item % h;
            float *sums = summaries ? summaries + item * ((long)m * d + m + 1) : room.context;
            turn_to(&f, &room, j, 1);
            summarise(&f, from(half, k, i * sk[0] + j * sk[1]), sk[2], from(half, v, i * sv[0] + j * sv[1]), sv[2], n,
                      mask ? mask + i * n : NULL, &room, sums);
            turn_to(&f, &room, j, 0);
            answer(&f, from(half, q, i * sq[0] + j * sq[1]), sq[2], n, sums, sums + m * d, total_eps, &room,
                   into(half, out, i * so[0] + j * so[1]), so[2]);
        }
        free(room.all);
    }
    return failed;
}

/* FOCUSED: from the gradient g of a token's features w |y| / |w|, w = z^p and z = y / max y, to that of x, and added to that of the head's numbers.
 * The largest y cancels. */
static void through_power(const Map *f, const Room *room, const float *g, const void *x, float *dx, float *numbers) {
    const int d = f->d, half = f->half;
    const float *own = f->network.bias + room->head * d;
    float y[d], w[d], slope[d];
    vec length = spread(0.0f), raised = length, along = length;
    for (int c = 0; c < d; c += W) store(y + c, (greater(spread(0.0f), take(half, x, c)) + spread(f->eps)) * load(own + c));
    const vec unit = spread(1.0f / largest(y, d));
    for (int c = 0; c < d; c += W) {
        const vec z = load(y + c) * unit;
        vec power = spread(1.0f);
        for (int i = 1; i < f->scale; i++) power *= z;
        store(slope + c, power * spread(f->scale) * unit);
        store(w + c, power * z);
        length += load(y + c) * load(y + c);
        raised += power * z * power * z;
        along += load(g + c) * power * z;
    }
    const float big = sqrtf(sum_of(length)), size = sqrtf(sum_of(raised)), gw = sum_of(along);
    for (int c = 0; c < d; c += W) {
        const vec dw = load(g + c) * spread(big / size) - load(w + c) * spread(gw * big / (size * size * size));
        const vec dy = dw * load(slope + c) + load(y + c) * spread(gw / size / big);
        const vec part = greater(spread(0.0f), take(half, x, c)) + spread(f->eps);
        store(numbers + c, load(numbers + c) + dy * part);
        store(dx + c, (vec)((ivec)(dy * load(own + c)) & (take(half, x, c) > spread(0.0f))));
    }
}

/* From the gradient of phi, in place, to that of x, and of the weights of a network, whose hidden units are in z: c is no part of it, because it
 * cancels or, beside eps, counts as a constant. */
static void through_features(const Map *f, const float *turned, int number, int rows, const void *x, long s, const Room *room, void *dx, long sd, float *weights) {
    const int half = f->half, d = f->d, m = f->m;
    float *change = room->change, *made = room->tokens;
    const vec zero = spread(0.0f), one = spread(1.0f), eps = spread(f->eps);
    for (int i = 0; f->kind < COSINE && i < rows * m; i += W) {
        const vec phi = load(room->u + i), keep = load(f->keep + i % m);
        vec slope = (vec)((ivec)one & (phi - eps > zero));
        if (f->kind == SMOOTH) /* the slope of softplus, from its value */
            slope = one - vexp(eps - phi);
        else if (f->kind == EXPONENTIAL)
            slope = (phi - eps) * keep;
        else if (f->kind == ELU)
            slope = greater(slope, (vec)((ivec)(phi - eps + spread(f->weight)) & (phi <= eps))) * keep;
        else if (f->kind == GELU)
            slope = load(room->z + i) * keep;
        store(change + i, load(change + i) * slope);
    }
    for (int r = 0; (f->kind == HEDGEHOG || f->kind == SHARES) && r < rows; r++) { /* softmax; those at eps have no slope */
        const float *phi = room->u + r * m;
        float *g = change + r * m;
        vec sum = zero;
        for (int j = 0; j < m; j += W) sum += (vec)((ivec)(load(phi + j) * load(g + j)) & (load(phi + j) > eps));
        const vec mean = spread(sum_of(sum));
        for (int j = 0; j < m; j += W) store(g + j, (vec)((ivec)(load(phi + j) * (load(g + j) - mean)) & (load(phi + j) > eps)));
    }
    if (f->kind == NETWORK || f->kind == SMOOTH)
        back_through_network(&f->network, d, m, room->wide, d, rows, room->z, room->z + (size_t)BLOCK * f->network.hidden, change, made, d, weights);
    else if (turned) {
        multiply(half, rows, d, words(half, m), rows_left(half, change, rows, m, room->left), words(half, m), 1, half ? room->back : turned, d, made, d, 0);
        if (f->learned) {
            widened(half, x, s, rows, d, room->wide);
            gemm(d, m, rows, room->wide, 1, d, change, m, weights, m, 1);
        }
    } else if (f->kind == HEDGEHOG) {
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < d; c += W) store(change + r * d + c, load(change + r * m + c) - load(change + r * m + d + c));
        multiply(half, rows, d, words(half, d), rows_left(half, change, rows, d, room->left), words(half, d), 1,
                 half ? room->back : turned_for(f, room), d, made, d, 0);
        widened(half, x, s, rows, d, room->wide);
        gemm(d, d, rows, room->wide, 1, d, change, d, weights + (room->keys ? d * d : 0), d, 1);
    } else if (f->kind == COSINE)
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < d; c += W) {
                const float *angle = f->network.bias + 2 * (number + r);
                const vec y = load(change + r * m + c) * spread(angle[0]) + load(change + r * m + d + c) * spread(angle[1]);
                store(made + r * d + c, (vec)((ivec)y & (take(half, x, r * s + c) > zero)));
            }
    else if (f->kind == FOCUSED)
        for (int r = 0; r < rows; r++) through_power(f, room, change + r * d, from(half, x, r * s), made + r * d, weights);
    else {
        for (int r = 0; f->kind == TAYLOR && r < rows; r++) through_parts(room->wide + r * d, d, change + r * m, made + r * d);
        for (int i = 0; i < rows * d; i += W) store(made + i, load((f->kind == TAYLOR ? made : change) + i) * spread(f->scale));
    }
    for (int r = 0; f->kind == EXPONENTIAL && r < rows; r++) {
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
                              const float *directions, const float *keep, int kind, float scale, float weight, float eps,
                              float total_eps, int learned, const uint8_t *mask, const float *first, const float *bias, const float *second, const float *shift,
                              const float *first_turned, const float *second_turned, float *weights) {
    const long *sq = strides, *sk = strides + 3, *sv = strides + 6, *so = strides + 9, *sg = strides + 12;
    const long *sdq = strides + 15, *sdk = strides + 18, *sdv = strides + 21;
    const int hidden = kind == NETWORK || kind == SMOOTH ? (int)scale : 0;
    const Map f = {half, d, m, kind, learned, scale, weight, eps, directions, keep, {kind == SMOOTH, hidden, first, bias, second, shift, first_turned, second_turned}};
    int failed = 0;
#pragma omp parallel reduction(| : failed)
    {
        Room room = room_for(&f, turned);
        const size_t small = (size_t)m * d;
        float *u = room.u, *change = room.change, *dsums = room.dsums, *dcontext = room.dcontext, *dtotal = room.dtotal, *pull = room.squares;
        failed |= !room.all;
#pragma omp for schedule(dynamic)
        for (long item = 0; item < b * h; item++) {
            if (!room.all) continue;
            const long i = item / h, j = item % h;
            const void *qi = from(half, q, i * sq[0] + j * sq[1]), *ki = from(half, k, i * sk[0] + j * sk[1]);
            const void *vi = from(half, v, i * sv[0] + j * sv[1]);
            turn_to(&f, &room, j, 1);
            const uint8_t *seen = mask ? mask + i * n : NULL;
            if (!summaries) summarise(&f, ki, sk[2], vi, sv[2], n, seen, &room, room.context);
            const float *context = summaries ? summaries + item * (small + m + 1) : room.context, *total = context + small, *top = total + m;
            memset(dtotal, 0, sizeof(float) * m);
            float *own = learned_of(&f) ? weights + item * learned_of(&f) : NULL;
            if (own) memset(own, 0, sizeof(float) * learned_of(&f));
            turn_to(&f, &room, j, 0);
            turn(context, d, m, d, m, 1.0f, room.across);
            const float *across = paired(half, room.across, d, m, room.beside);
            for (int start = 0; start < n; start += BLOCK) {
                const int rows = n - start < BLOCK ? n - start : BLOCK;
                const void *x = from(half, qi, start * sq[2]), *g = from(half, grad, i * sg[0] + j * sg[1] + start * sg[2]);
                const void *o = from(half, out, i * so[0] + j * so[1] + start * so[2]);
                project(&f, x, sq[2], start, rows, &room);
                features(&f, &room, rows, NULL);
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
                through_features(&f, turned, start, rows, x, sq[2], &room, into(half, dq, i * sdq[0] + j * sdq[1] + start * sdq[2]), sdq[2], own);
            }
            turn_to(&f, &room, j, 1);
            turn(dcontext, d, m, d, m, 1.0f, room.across);
            across = paired(half, room.across, d, m, room.beside);
            const float *after = paired(half, dcontext, m, d, room.across); /* which has done its work */
            for (int start = 0; start < n; start += BLOCK) {
                const int rows = n - start < BLOCK ? n - start : BLOCK;
                const void *x = from(half, ki, start * sk[2]);
                project(&f, x, sk[2], start, rows, &room);
                features(&f, &room, rows, top);
                hide(seen ? seen + start : NULL, u, rows, m);
                const float *phi = rows_left(half, u, rows, m, room.left);
                multiply(half, rows, d, words(half, m), phi, words(half, m), 1, after, d, room.tokens, d, 0);
                put_rows(half, room.tokens, d, rows, d, NULL, into(half, dv, i * sdv[0] + j * sdv[1] + start * sdv[2]), sdv[2]);
                multiply(half, rows, m, words(half, d), from(half, vi, start * sv[2]), words(half, sv[2]), 1, across, m, change, m, 0);
                for (int r = 0; r < rows; r++)
                    for (int p = 0; p < m; p += W) store(change + r * m + p, load(change + r * m + p) + load(dtotal + p));
                hide(seen ? seen + start : NULL, change, rows, m);
                through_features(&f, turned, start, rows, x, sk[2], &room, into(half, dk, i * sdk[0] + j * sdk[1] + start * sdk[2]), sdk[2], own);
            }
        }
        free(room.all);
    }
    return failed;
}
