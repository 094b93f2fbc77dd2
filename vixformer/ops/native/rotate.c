/* Rotary positions: pairs of channels turned by the angles of their token. */
#include "small.h"

/* 1, 0, 3, 2, ... */
static vec partners(vec x) {
#if defined(__clang__) || __GNUC__ >= 12
    return __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
#else
    return __builtin_shuffle(x, (ivec){1, 0, 3, 2, 5, 4, 7, 6});
#endif
}

/* `pairs` has for each token what its channels are multiplied by, and then what their partners are; `way` is 1, or -1 for back. x may be out. */
int rotate(const float *x, float *out, const long *strides, long b, int h, int n, int d, int unused, const float *pairs, float way) {
    (void)unused;
#pragma omp parallel for collapse(2)
    for (long i = 0; i < b; i++)
        for (int t = 0; t < n; t++)
            for (int j = 0; j < h; j++) {
                const float *from = x + i * strides[0] + j * strides[1] + t * strides[2], *own = pairs + (size_t)t * 2 * d;
                float *to = out + i * strides[3] + j * strides[4] + t * strides[5];
                for (int c = 0; c < d; c += W) {
                    vec y = load(from + c);
                    store(to + c, y * load(own + c) + partners(y) * load(own + d + c) * spread(way));
                }
            }
    return 0;
}
