/* A small network of each token on its own, second max(first x + bias, 0) + shift, or softplus of that, as wide within as x is: d, a multiple
 * of 16. Matrices are d x d, rows for what goes in; the turned ones, for gradients, have rows for what comes out. */
#pragma once
#include "small.h"

typedef struct {
    int smooth; /* it ends in softplus */
    const float *first, *bias, *second, *shift, *first_turned, *second_turned;
} Network;

/* how many weights there are: first, bias, second and shift, in this order where gradients lie side by side */
static inline size_t weights_of(int d) { return 2 * ((size_t)d * d + d); }

/* log(1 + exp y) = max(y, 0) + 2 artanh(z / (2 + z)) with z = exp(-|y|), by its series: z / (2 + z) is at most 1/3 */
static inline vec softplus(vec y) {
    const vec z = vexp(-greater(-y, y)), s = z / (spread(2.0f) + z), t = s * s;
    vec p = spread(1.0f / 13.0f);
    p = p * t + spread(1.0f / 11.0f);
    p = p * t + spread(1.0f / 9.0f);
    p = p * t + spread(1.0f / 7.0f);
    p = p * t + spread(1.0f / 5.0f);
    p = p * t + spread(1.0f / 3.0f);
    return greater(spread(0.0f), y) + spread(2.0f) * s * (p * t + spread(1.0f));
}

/* `z` is left with the hidden units, `out` with what comes out: rows x d both */
static inline void through_network(const Network *f, int d, const float *x, long s, int rows, float *z, float *out) {
    gemm(rows, d, d, x, s, 1, f->first, d, z, d, 0);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < d; c += W) store(z + r * d + c, greater(spread(0.0f), load(z + r * d + c) + load(f->bias + c)));
    gemm(rows, d, d, z, d, 1, f->second, d, out, d, 0);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < d; c += W) {
            const vec y = load(out + r * d + c) + load(f->shift + c);
            store(out + r * d + c, f->smooth ? softplus(y) : y);
        }
}

/* From `change`, the gradient before softplus, if any, and the hidden units z to the gradient of x, and added to that of the weights. `dz` is
 * room for rows x d. */
static inline void back_through_network(const Network *f, int d, const float *x, long s, int rows, const float *z, float *dz, const float *change,
                                        float *dx, long sd, float *weights) {
    float *dfirst = weights, *dbias = dfirst + d * d, *dsecond = dbias + d, *dshift = dsecond + d * d;
    for (int c = 0; c < d; c += W) {
        vec sum = load(dshift + c);
        for (int r = 0; r < rows; r++) sum += load(change + r * d + c);
        store(dshift + c, sum);
    }
    gemm(d, d, rows, z, 1, d, change, d, dsecond, d, 1);
    gemm(rows, d, d, change, d, 1, f->second_turned, d, dz, d, 0);
    for (int c = 0; c < d; c += W) {
        vec sum = load(dbias + c);
        for (int r = 0; r < rows; r++) {
            const vec kept = (vec)((ivec)load(dz + r * d + c) & ~(load(z + r * d + c) <= spread(0.0f))); /* NaN passes */
            store(dz + r * d + c, kept);
            sum += kept;
        }
        store(dbias + c, sum);
    }
    gemm(d, d, rows, x, 1, s, dz, d, dfirst, d, 1);
    gemm(rows, d, d, dz, d, 1, f->first_turned, d, dx, sd, 0);
}
