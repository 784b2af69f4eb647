/* Batch normalisation of column-major activations x [C, N], after a factor for every node.

   y = gain (s x - mean) / sqrt(var + eps) + shift, mean and var over the nodes of a channel. */

#include <math.h>
#include <stdint.h>

/* s [N] or NULL; xi [C, N] = (s x - mean) inverse, kept for the backward pass */
void norm_forward(int64_t channels, int64_t n, const float *x, const float *s, const float *gain,
                  const float *shift, const float *eps, float *xi, float *y, float *mean,
                  float *var, float *inverse)
{
#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < channels; c++) {
        float *restrict z = xi + c * n, *restrict out = y + c * n;
        const float *restrict in = x + c * n;
        double total = 0, square = 0;
        if (s) for (int64_t k = 0; k < n; k++) z[k] = s[k] * in[k];
        else for (int64_t k = 0; k < n; k++) z[k] = in[k];
#pragma omp simd reduction(+ : total)
        for (int64_t k = 0; k < n; k++) total += z[k];
        const float middle = (float)(total / (double)n);
#pragma omp simd reduction(+ : square)
        for (int64_t k = 0; k < n; k++) { z[k] -= middle; square += (double)z[k] * z[k]; }
        mean[c] = middle;
        var[c] = (float)(square / (double)n);
        inverse[c] = 1 / sqrtf(var[c] + *eps);
        const float i = inverse[c], a = gain[c], b = shift[c];
        for (int64_t k = 0; k < n; k++) { z[k] *= i; out[k] = a * z[k] + b; }
    }
}

/* dx = s (gain / sigma) (g - mean g - xi mean(g xi)) */
void norm_backward(int64_t channels, int64_t n, const float *grad, const float *xi, const float *s,
                   const float *gain, const float *inverse, float *grad_x, float *grad_gain,
                   float *grad_shift)
{
#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < channels; c++) {
        const float *restrict g = grad + c * n, *restrict z = xi + c * n;
        float *restrict out = grad_x + c * n;
        double total = 0, along = 0;
#pragma omp simd reduction(+ : total, along)
        for (int64_t k = 0; k < n; k++) { total += g[k]; along += (double)g[k] * z[k]; }
        grad_shift[c] = (float)total;
        grad_gain[c] = (float)along;
        const float a = gain[c] * inverse[c];
        const float m = (float)(total / (double)n), l = (float)(along / (double)n);
        if (s) for (int64_t k = 0; k < n; k++) out[k] = s[k] * a * (g[k] - m - z[k] * l);
        else for (int64_t k = 0; k < n; k++) out[k] = a * (g[k] - m - z[k] * l);
    }
}
