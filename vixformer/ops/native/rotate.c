/* Rotary positions: pairs of channels turned by the angles of their token. */
#include "bfloat.h"

/* 1, 0, 3, 2, ... */
static vec partners(vec x) {
#if defined(__AVX512F__)
    return (vec)_mm512_permute_ps((__m512)x, 0xb1);
#elif defined(__clang__) || __GNUC__ >= 12
    return __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
#else
    return __builtin_shuffle(x, (ivec){1, 0, 3, 2, 5, 4, 7, 6});
#endif
}

/* `pairs` has for each token what its channels are multiplied by, and then what their partners are; `way` is 1, or -1 for back. x may be out. */
int rotate(const void *x, void *out, const long *strides, long b, int h, int n, int d, int half, int unused, const float *pairs, float way) {
    (void)unused;
#pragma omp parallel for collapse(2)
    for (long i = 0; i < b; i++)
        for (int t = 0; t < n; t++)
            for (int j = 0; j < h; j++) {
                const long here = i * strides[0] + j * strides[1] + t * strides[2], there = i * strides[3] + j * strides[4] + t * strides[5];
                const float *own = pairs + (size_t)t * 2 * d;
                for (int c = 0; c < d; c += W) {
                    const int part = d - c < W ? d - c : 0;
                    const vec y = take_part(half, x, here + c, part);
                    put_part(half, out, there + c, y * load_part(own + c, part) + partners(y) * load_part(own + d + c, part) * spread(way), part);
                }
            }
    return 0;
}
