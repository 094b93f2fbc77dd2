/* A depthwise convolution over the grid that the last tokens of an image lie on; those in front of it only pass. */
#include "bfloat.h"

/* which of `side` taps around place i of n lie inside */
static inline void inside(int i, int n, int side, int *from, int *to) {
    *from = side / 2 - i > 0 ? side / 2 - i : 0;
    *to = n - i + side / 2 < side ? n - i + side / 2 : side;
}

/* out = base + the convolution of v; filters are side x side x h x d, tensors as in linear.c */
int local(const void *base, const void *v, void *out, const long *strides, long b, int h, int n, int d, int half, int side, const float *filters,
          int height, int width) {
    const long *sb = strides, *sv = strides + 3, *so = strides + 6;
    const int front = n - height * width, reach = side / 2;
#pragma omp parallel for schedule(dynamic)
    for (long item = 0; item < b * h; item++) {
        const long i = item / h, j = item % h;
        const void *bi = from(half, base, i * sb[0] + j * sb[1]), *vi = from(half, v, i * sv[0] + j * sv[1]);
        const float *f = filters + j * d;
        void *oi = into(half, out, i * so[0] + j * so[1]);
        for (int t = 0; t < front; t++) memcpy(into(half, oi, t * so[2]), from(half, bi, t * sb[2]), half ? 2 * d : 4 * d);
        for (int y = 0; y < height; y++) {
            if (y + 1 < height) fetch(from(half, bi, (front + (y + 1L) * width) * sb[2]), words(half, sb[2]), width, words(half, d));
            if (y + reach + 1 < height) fetch(from(half, vi, (front + (y + reach + 1L) * width) * sv[2]), words(half, sv[2]), width, words(half, d));
            for (int x = 0; x < width; x++) {
                const int t = front + y * width + x;
                int top, bottom, left, right;
                inside(y, height, side, &top, &bottom);
                inside(x, width, side, &left, &right);
                for (int c = 0; c < d; c += LANES) {
                    vec sums[LANES / W];
                    for (int e = 0; e < LANES / W; e++) sums[e] = take(half, bi, t * sb[2] + c + e * W);
                    for (int p = top; p < bottom; p++)
                        for (int q = left; q < right; q++) {
                            const long there = (t + (p - reach) * width + q - reach) * sv[2] + c;
                            const float *tap = f + (long)(p * side + q) * h * d + c;
                            for (int e = 0; e < LANES / W; e++) sums[e] += take(half, vi, there + e * W) * load(tap + e * W);
                        }
                    for (int e = 0; e < LANES / W; e++) put(half, oi, t * so[2] + c + e * W, sums[e]);
                }
            }
        }
    }
    return 0;
}

/* The gradient of the filters, for each image by itself: b x side x side x h x d floats */
int local_filters(const void *grad, const void *v, const long *strides, long b, int h, int n, int d, int half, int side, int height,
                  int width, float *filters) {
    const long *sg = strides, *sv = strides + 3;
    const int front = n - height * width, reach = side / 2;
#pragma omp parallel for schedule(dynamic)
    for (long item = 0; item < b * h; item++) {
        const long i = item / h, j = item % h;
        const void *gi = from(half, grad, i * sg[0] + j * sg[1]), *vi = from(half, v, i * sv[0] + j * sv[1]);
        for (int p = 0; p < side; p++)
            for (int q = 0; q < side; q++)
                for (int c = 0; c < d; c += LANES) {
                    vec sums[LANES / W] = {0};
                    const int dy = p - reach, dx = q - reach;
                    for (int y = dy < 0 ? -dy : 0; y < height && y + dy < height; y++)
                        for (int x = dx < 0 ? -dx : 0; x < width && x + dx < width; x++) {
                            const int t = front + y * width + x;
                            const long here = t * sg[2] + c, there = (t + dy * width + dx) * sv[2] + c;
                            for (int e = 0; e < LANES / W; e++) sums[e] += take(half, gi, here + e * W) * take(half, vi, there + e * W);
                        }
                    float *to = filters + ((i * side * side + p * side + q) * h + j) * d + c;
                    for (int e = 0; e < LANES / W; e++) store(to + e * W, sums[e]);
                }
    }
    return 0;
}
