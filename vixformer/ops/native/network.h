/* A small network of each token on its own, second max(first x + bias, 0) + shift, or softplus of that, from d channels to m features. Matrices,
 * d x hidden and hidden x m, have rows for what goes in; the turned ones, for gradients, for what comes out. All three are multiples of 16. */
#pragma once
#include "small.h"

typedef struct {
    int smooth; /* it ends in softplus */
    int hidden;
    const float *first, *bias, *second, *shift, *first_turned, *second_turned;
} Network;

/* how many weights there are: first, bias, second and shift, in this order where gradients lie side by side */
static inline size_t weights_of(const Network *f, int d, int m) { return (size_t)(d + 1) * f->hidden + (size_t)(f->hidden + 1) * m; }

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

/* `z` is left with the hidden units, rows x hidden, `out` with what comes out, rows x m */
static inline void through_network(const Network *f, int d, int m, const float *x, long s, int rows, float *z, float *out) {
    const int e = f->hidden;
    gemm(rows, e, d, x, s, 1, f->first, e, z, e, 0);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < e; c += W) store(z + r * e + c, greater(spread(0.0f), load(z + r * e + c) + load(f->bias + c)));
    gemm(rows, m, e, z, e, 1, f->second, m, out, m, 0);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < m; c += W) {
            const vec y = load(out + r * m + c) + load(f->shift + c);
            store(out + r * m + c, f->smooth ? softplus(y) : y);
        }
}

/* From `change`, the gradient before softplus, if any, and the hidden units z to the gradient of x, and added to that of the weights. `dz` is
 * room for rows x hidden. */
static inline void back_through_network(const Network *f, int d, int m, const float *x, long s, int rows, const float *z, float *dz,
                                        const float *change, float *dx, long sd, float *weights) {
    const int e = f->hidden;
    float *dfirst = weights, *dbias = dfirst + d * e, *dsecond = dbias + e, *dshift = dsecond + e * m;
    for (int c = 0; c < m; c += W) {
        vec sum = load(dshift + c);
        for (int r = 0; r < rows; r++) sum += load(change + r * m + c);
        store(dshift + c, sum);
    }
    gemm(e, m, rows, z, 1, e, change, m, dsecond, m, 1);
    gemm(rows, e, m, change, m, 1, f->second_turned, e, dz, e, 0);
    for (int c = 0; c < e; c += W) {
        vec sum = load(dbias + c);
        for (int r = 0; r < rows; r++) {
            const vec kept = (vec)((ivec)load(dz + r * e + c) & ~(load(z + r * e + c) <= spread(0.0f))); /* NaN passes */
            store(dz + r * e + c, kept);
            sum += kept;
        }
        store(dbias + c, sum);
    }
    gemm(d, e, rows, x, 1, s, dz, e, dfirst, e, 1);
    gemm(rows, d, e, dz, e, 1, f->first_turned, d, dx, sd, 0);
}
