/* A depthwise convolution over the grid that the last tokens of an image lie on; those in front of it only pass. */
#include "small.h"

/* which of `side` taps around place i of n lie inside */
static inline void inside(int i, int n, int side, int *from, int *to) {
    *from = side / 2 - i > 0 ? side / 2 - i : 0;
    *to = n - i + side / 2 < side ? n - i + side / 2 : side;
}

/* out = base + the convolution of v; filters are side x side x h x d, tensors as in linear.c */
int local(const float *base, const float *v, float *out, const long *strides, long b, int h, int n, int d, int side, const float *filters,
          int height, int width) {
    const long *sb = strides, *sv = strides + 3, *so = strides + 6;
    const int front = n - height * width, half = side / 2;
#pragma omp parallel for schedule(dynamic)
    for (long item = 0; item < b * h; item++) {
        const long i = item / h, j = item % h;
        const float *bi = base + i * sb[0] + j * sb[1], *vi = v + i * sv[0] + j * sv[1], *f = filters + j * d;
        float *oi = out + i * so[0] + j * so[1];
        for (int t = 0; t < front; t++) memcpy(oi + t * so[2], bi + t * sb[2], sizeof(float) * d);
        for (int y = 0; y < height; y++) {
            if (y + 1 < height) fetch(bi + (front + (y + 1L) * width) * sb[2], sb[2], width, d);
            if (y + half + 1 < height) fetch(vi + (front + (y + half + 1L) * width) * sv[2], sv[2], width, d);
            for (int x = 0; x < width; x++) {
                const int t = front + y * width + x;
                int top, bottom, left, right;
                inside(y, height, side, &top, &bottom);
                inside(x, width, side, &left, &right);
                for (int c = 0; c < d; c += 2 * W) {
                    vec s0 = load(bi + t * sb[2] + c), s1 = load(bi + t * sb[2] + c + W);
                    for (int p = top; p < bottom; p++)
                        for (int q = left; q < right; q++) {
                            const float *from = vi + (t + (p - half) * width + q - half) * sv[2] + c, *tap = f + (long)(p * side + q) * h * d + c;
                            s0 += load(from) * load(tap);
                            s1 += load(from + W) * load(tap + W);
                        }
                    store(oi + t * so[2] + c, s0);
                    store(oi + t * so[2] + c + W, s1);
                }
            }
        }
    }
    return 0;
}

/* The gradient of the filters, for each image by itself: b x side x side x h x d */
int local_filters(const float *grad, const float *v, float *filters, const long *strides, long b, int h, int n, int d, int side, int height,
                  int width) {
    const long *sg = strides, *sv = strides + 3;
    const int front = n - height * width, half = side / 2;
#pragma omp parallel for schedule(dynamic)
    for (long item = 0; item < b * h; item++) {
        const long i = item / h, j = item % h;
        const float *gi = grad + i * sg[0] + j * sg[1], *vi = v + i * sv[0] + j * sv[1];
        for (int p = 0; p < side; p++)
            for (int q = 0; q < side; q++)
                for (int c = 0; c < d; c += 2 * W) {
                    vec s0 = spread(0.0f), s1 = spread(0.0f);
                    const int dy = p - half, dx = q - half;
                    for (int y = dy < 0 ? -dy : 0; y < height && y + dy < height; y++)
                        for (int x = dx < 0 ? -dx : 0; x < width && x + dx < width; x++) {
                            const int t = front + y * width + x;
                            const float *g = gi + t * sg[2] + c, *from = vi + (t + dy * width + dx) * sv[2] + c;
                            s0 += load(g) * load(from);
                            s1 += load(g + W) * load(from + W);
                        }
                    float *to = filters + ((i * side * side + p * side + q) * h + j) * d + c;
                    store(to, s0);
                    store(to + W, s1);
                }
    }
    return 0;
}
