/* Exact attention of any length: a block of queries at a time, and of keys that fit the cache beside it, so that no score goes to memory.
 *
 * q and out are b x h x n x d, k and v b x h x l x d (d a multiple of 16), floats or bfloat16; strides holds those of b, h and the third for q, k, v
 * and out, and for backward those of the gradient of out and of q, k and v. `logs`, b x h x n, is the logarithm of what the exponentials of a row sum
 * to. Both return 0, or 1 when there is no memory.
 */
#include "bfloat.h"

enum { PIECE = 4 * BLOCK /* queries: enough pieces for every core */, QUERIES = 96, KEYS = 128, COLUMNS = 128 /* queries, in backward */ };

/* One block of scores to weights, but for the division: rows x wide, the columns from `some` on being none. `tops` and `totals` are of all blocks so
 * far, and `sums`, which is scaled down where a top grows. */
static void weigh(int half, float *scores, int rows, int some, int wide, int d, float scale, float *tops, float *totals, float *sums) {
    for (int r = 0; r < rows; r++) {
        float *row = scores + r * wide;
        for (int c = some; c < wide; c++) row[c] = -INFINITY; /* never the largest, and exp of it is nothing */
        vec top = load(row);
        for (int c = W; c < wide; c += W) top = greater(top, load(row + c));
        const float now = max_of(top) * scale;
        if (now > tops[r]) {
            const vec shrink = vexp(spread(tops[r] - now));
            for (int c = 0; c < d; c += W) store(sums + r * d + c, load(sums + r * d + c) * shrink);
            totals[r] *= shrink[0];
            tops[r] = now;
        }
        vec sum = spread(0.0f);
        for (int c = 0; c < wide; c += W) {
            const vec e = vexp(load(row + c) * spread(scale) - spread(tops[r]));
            sum += e;
            put(half, row, c, e); /* bfloat16 in the first half of its row */
        }
        totals[r] += sum_of(sum);
    }
}

int exact(const void *q, const void *k, const void *v, void *out, const long *strides, long b, int h, int n, int d, int half, int l, float *logs) {
    const long *sq = strides, *sk = strides + 3, *sv = strides + 6, *so = strides + 9;
    const float scale = 1.0f / sqrtf((float)d);
    const long pieces = (n + PIECE - 1) / PIECE, wide = (l + W - 1) / W * W;
    const long inner = words(half, d);
    int failed = 0;
#pragma omp parallel reduction(| : failed)
    {
        const size_t kept = half ? (size_t)wide / 2 * d : 0;
        float *keys = scratch(inner * wide + kept + (size_t)QUERIES * (KEYS + d + 2)), *values = keys + inner * wide, *scores = values + kept;
        float *sums = scores + QUERIES * KEYS, *totals = sums + QUERIES * d, *tops = totals + QUERIES;
        long before = -1;
        failed |= !keys;
#pragma omp for schedule(dynamic)
        for (long item = 0; item < b * h * pieces; item++) {
            if (!keys) continue;
            const long head = item / pieces, i = head / h, j = head % h;
            const int first = item % pieces * PIECE, end = first + PIECE < n ? first + PIECE : n;
            const void *vi = from(half, v, i * sv[0] + j * sv[1]);
            if (head != before) {
                turn_rows(half, from(half, k, i * sk[0] + j * sk[1]), sk[2], l, d, wide, keys);
                if (half) pair_rows(vi, sv[2], l, d, wide, values);
                before = head;
            }
            for (int start = first; start < end; start += QUERIES) {
                const int rows = end - start < QUERIES ? end - start : QUERIES;
                const void *qi = from(half, q, i * sq[0] + j * sq[1] + start * sq[2]);
                memset(sums, 0, sizeof(float) * rows * d);
                for (int r = 0; r < rows; r++) totals[r] = 0.0f, tops[r] = -INFINITY;
                for (int key = 0; key < l; key += KEYS) {
                    const int some = l - key < KEYS ? l - key : KEYS, full = (some + W - 1) / W * W;
                    multiply(half, rows, full, inner, qi, words(half, sq[2]), 1, keys + key, wide, scores, full, 0);
                    weigh(half, scores, rows, some, full, d, scale, tops, totals, sums);
                    if (half)
                        multiply(half, rows, d, full / 2, scores, full, 1, values + key / 2 * d, d, sums, d, 1);
                    else
                        multiply(half, rows, d, some, scores, full, 1, from(half, vi, key * sv[2]), sv[2], sums, d, 1);
                }
                for (int r = 0; r < rows; r++) {
                    if (logs) logs[head * n + start + r] = tops[r] + logf(totals[r]);
                    totals[r] = 1.0f / totals[r];
                }
                put_rows(half, sums, d, rows, d, totals, into(half, out, i * so[0] + j * so[1] + start * so[2]), so[2]);
            }
        }
        free(keys);
    }
    return failed;
}

/* Scores stand upright here, keys x queries, so that what belongs to a query is a vector. */
int exact_backward(const void *q, const void *k, const void *v, const void *out, const void *grad, void *dq, void *dk, void *dv, const long *strides,
                   long b, int h, int n, int d, int half, int l, const float *logs) {
    const long *sq = strides, *sk = strides + 3, *sv = strides + 6, *so = strides + 9, *sg = strides + 12;
    const long *sdq = strides + 15, *sdk = strides + 18, *sdv = strides + 21;
    const float scale = 1.0f / sqrtf((float)d);
    const long inner = words(half, d);
    int failed = 0;
#pragma omp parallel reduction(| : failed)
    {
        const size_t square = (size_t)KEYS * COLUMNS, block = (size_t)COLUMNS * d, kept = half ? (size_t)(l + 1) / 2 * d : 0;
        float *dkeys = scratch(2 * (size_t)l * d + kept + 3 * square + 5 * block + 2 * COLUMNS), *dvalues = dkeys + (size_t)l * d;
        float *keys = dvalues + (size_t)l * d, *weights = keys + kept, *change = weights + square, *across = change + square;
        float *queries = across + square, *grads = queries + block, *query_pairs = grads + block, *grad_pairs = query_pairs + block;
        float *dqueries = grad_pairs + block, *log = dqueries + block, *mean = log + COLUMNS;
        failed |= !dkeys;
#pragma omp for schedule(dynamic)
        for (long item = 0; item < b * h; item++) {
            if (!dkeys) continue;
            const long i = item / h, j = item % h;
            const void *ki = from(half, k, i * sk[0] + j * sk[1]), *vi = from(half, v, i * sv[0] + j * sv[1]);
            memset(dkeys, 0, sizeof(float) * 2 * l * d);
            if (half) pair_rows(ki, sk[2], l, d, l, keys);
            for (int start = 0; start < n; start += COLUMNS) {
                const int rows = n - start < COLUMNS ? n - start : COLUMNS, full = (rows + W - 1) / W * W;
                const void *qi = from(half, q, i * sq[0] + j * sq[1] + start * sq[2]), *gi = from(half, grad, i * sg[0] + j * sg[1] + start * sg[2]);
                const void *oi = from(half, out, i * so[0] + j * so[1] + start * so[2]);
                turn_rows(half, qi, sq[2], rows, d, full, queries);
                turn_rows(half, gi, sg[2], rows, d, full, grads);
                if (half) pair_rows(qi, sq[2], rows, d, full, query_pairs), pair_rows(gi, sg[2], rows, d, full, grad_pairs);
                for (int r = 0; r < full; r++) {
                    vec sum = spread(0.0f);
                    for (int c = 0; r < rows && c < d; c += W) sum += take(half, gi, r * sg[2] + c) * take(half, oi, r * so[2] + c);
                    mean[r] = sum_of(sum);
                    log[r] = r < rows ? logs[item * n + start + r] : INFINITY;
                }
                memset(dqueries, 0, sizeof(float) * rows * d);
                for (int key = 0; key < l; key += KEYS) {
                    const int some = l - key < KEYS ? l - key : KEYS;
                    multiply(half, some, full, inner, from(half, ki, key * sk[2]), words(half, sk[2]), 1, queries, full, weights, full, 0);
                    multiply(half, some, full, inner, from(half, vi, key * sv[2]), words(half, sv[2]), 1, grads, full, change, full, 0);
                    for (int r = 0; r < some; r++) {
                        float *w = weights + r * full, *x = change + r * full;
                        for (int c = 0; c < full; c += W) {
                            const vec weight = vexp(load(w + c) * spread(scale) - load(log + c));
                            const vec changed = weight * (load(x + c) - load(mean + c)) * spread(scale);
                            put(half, w, c, weight);
                            put(half, x, c, changed);
                        }
                    }
                    if (half) {
                        multiply(half, some, d, full / 2, weights, full, 1, grad_pairs, d, dvalues + (size_t)key * d, d, 1);
                        multiply(half, some, d, full / 2, change, full, 1, query_pairs, d, dkeys + (size_t)key * d, d, 1);
                        pair_rows((bfloat *)change, 2 * full, some, full, some, across);
                        multiply(half, rows, d, (some + 1) / 2, across, 1, full, keys + (size_t)key / 2 * d, d, dqueries, d, 1);
                    } else {
                        multiply(half, some, d, rows, weights, full, 1, gi, sg[2], dvalues + (size_t)key * d, d, 1);
                        multiply(half, some, d, rows, change, full, 1, qi, sq[2], dkeys + (size_t)key * d, d, 1);
                        multiply(half, rows, d, some, change, 1, full, from(half, ki, key * sk[2]), sk[2], dqueries, d, 1);
                    }
                }
                put_rows(half, dqueries, d, rows, d, NULL, into(half, dq, i * sdq[0] + j * sdq[1] + start * sdq[2]), sdq[2]);
            }
            put_rows(half, dkeys, d, l, d, NULL, into(half, dk, i * sdk[0] + j * sdk[1]), sdk[2]);
            put_rows(half, dvalues, d, l, d, NULL, into(half, dv, i * sdv[0] + j * sdv[1]), sdv[2]);
        }
        free(dkeys);
    }
    return failed;
}
