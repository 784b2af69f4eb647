/* Batch normalisation of column-major activations x [C, N], after a factor s for every node.

   y = gain (s x - mean) / sqrt(var + eps) + shift, mean and var over the nodes of a channel. */

#include <math.h>

#include "kernels.h"

static void follow(float *running, float new, float momentum)
{
    *running += momentum * (new - *running);
}

/* s [N] or NULL; xi [C, N] = (s x - mean) inverse, kept for the backward pass */
void norm_forward(const Norm *norm, const Rows *rows, int64_t n, const float *x, const float *s,
                  float *xi, float *y, float *inverse)
{
#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < rows->channels; c++) {
        float *restrict z = xi + c * rows->ld, *restrict out = y + c * rows->ld;
        const float *restrict in = x + at(rows, c);
        float middle = norm->mean[c], var = norm->var[c];
        if (s) for (int64_t k = 0; k < n; k++) z[k] = s[k] * in[k];
        else for (int64_t k = 0; k < n; k++) z[k] = in[k];
        if (norm->training) {
            double total = 0, square = 0;
#pragma omp simd reduction(+ : total)
            for (int64_t k = 0; k < n; k++) total += z[k];
            middle = (float)(total / (double)n);
#pragma omp simd reduction(+ : square)
            for (int64_t k = 0; k < n; k++) { double d = z[k] - middle; square += d * d; }
            var = (float)(square / (double)n);
            follow(norm->mean + c, middle, norm->momentum);
            follow(norm->var + c, (float)(square / (double)(n > 1 ? n - 1 : 1)), norm->momentum);
        }
        const float i = inverse[c] = 1 / sqrtf(var + norm->eps);
        const float a = norm->gain[c], b = norm->shift[c];
        for (int64_t k = 0; k < n; k++) { z[k] = (z[k] - middle) * i; out[k] = a * z[k] + b; }
    }
}

/* dx = s (gain / sigma) (g - mean g - xi mean(g xi)); the means are those of training alone */
void norm_backward(const Norm *norm, const Rows *rows, int64_t n, const float *grad, const float *xi,
                   const float *s, const float *inverse, float *grad_x, float *grad_gain,
                   float *grad_shift)
{
#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < rows->channels; c++) {
        const float *restrict g = grad + c * rows->ld, *restrict z = xi + c * rows->ld;
        float *restrict out = grad_x + at(rows, c);
        double total = 0, along = 0;
#pragma omp simd reduction(+ : total, along)
        for (int64_t k = 0; k < n; k++) { total += g[k]; along += (double)g[k] * z[k]; }
        grad_shift[c] = (float)total;
        grad_gain[c] = (float)along;
        const float a = norm->gain[c] * inverse[c];
        const double share = norm->training ? 1 / (double)n : 0;
        const float m = (float)(total * share), l = (float)(along * share);
        if (s) for (int64_t k = 0; k < n; k++) out[k] = s[k] * a * (g[k] - m - z[k] * l);
        else for (int64_t k = 0; k < n; k++) out[k] = a * (g[k] - m - z[k] * l);
    }
}
