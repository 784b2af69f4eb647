/* Many small matrix products: the eigenbasis of every component, the weights of every degree.

   Shapes differ from one product to the next and are far too small for a library call each. */

#include <math.h>

#include "kernels.h"

/* ---------------------------------------------------------------- the eigenbases of all components

   y = right (R o left x), where left is Phi^T M and right Phi, or, for the adjoint, left is Phi^T
   and right M Phi. x, y [N, C]; R and the coefficients left x [sum of K, C]. */

/* exp(x) for x <= 0, to the last bit or two: 2^k times a polynomial on [-ln 2 / 2, ln 2 / 2] */
static inline float decay(float x)
{
    const float y = x > -87 ? x : -87; /* what is not a number has no whole part */
    const float k = rintf(y * 1.44269504f);
    const float f = (y - k * 0.693145752f) - k * 1.42860677e-6f;
    const float p = 1 + f * (1 + f * (0.5f + f * (0.166666655f + f * (4.16664853e-2f
                  + f * (8.33389442e-3f + f * 1.39304355e-3f)))));
    const int32_t bits = ((int32_t)k + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return x != x ? x : p * power;
}

/* r [K, C], rows P apart */
static void respond(const Response *response, int64_t first, int64_t K, int64_t C, int64_t P,
                    const float *lambda, float *restrict r)
{
    for (int64_t k = 0; k < K; k++) {
        const float l = lambda[k], *t = response->times;
        float *row = r + k * P;
        if (response->given)
            memcpy(row, response->given + (first + k) * C, (size_t)C * sizeof(float));
        else if (response->power == 2)
            for (int64_t c = 0; c < C; c++) row[c] = 1 / (1 + (t[c] < 0 ? 0 : t[c]) * l);
        else
            for (int64_t c = 0; c < C; c++) row[c] = decay(-(t[c] < 0 ? 0 : t[c]) * l);
    }
}

/* Gives the coefficients away, or, for the gradient of the times, multiplies them with the `others`
   of the forward pass and with dr/dt, and sums over the eigenpairs of a component: sums [U, C]. */
static int spectral(const Basis *basis, const Response *response, int64_t C, const float *x,
                    int adjoint, float *coefficients, const float *others, float *sums, float *y)
{
    const int64_t P = padded(C);
    int64_t (*first)[3] = malloc(sizeof(int64_t[3]) * (size_t)(basis->units + 1));
    if (!first) return NO_MEMORY;
    int64_t most = 1;
    first[0][0] = first[0][1] = first[0][2] = 0;
    for (int64_t u = 0; u < basis->units; u++) {
        first[u + 1][0] = first[u][0] + basis->size[u];
        first[u + 1][1] = first[u][1] + basis->count[u];
        first[u + 1][2] = first[u][2] + basis->size[u] * basis->count[u];
        most = basis->size[u] > most ? basis->size[u] : most;
    }
    float *room = scratches(3 * most * P);
    if (!room) {
        free(first);
        return NO_MEMORY;
    }
#pragma omp parallel
    {
        float *own = own_part(room, 3 * most * P), *filtered = own + most * P;
        float *r = filtered + most * P;
        memset(own, 0, (size_t)(most * P) * sizeof(float));
        memset(r, 0, (size_t)(most * P) * sizeof(float));
#pragma omp for schedule(dynamic, 4)
        for (int64_t u = 0; u < basis->units; u++) {
            const int64_t n = basis->size[u], K = basis->count[u], pair = first[u][1];
            const int64_t *node = basis->members + first[u][0];
            const float *phi = basis->vectors + first[u][2], *lambda = basis->values + pair;
            for (int64_t i = 0; i < n; i++) {
                const float m = adjoint ? 1 : basis->mass[node[i]];
                for (int64_t c = 0; c < C; c++) own[i * P + c] = m * x[node[i] * C + c];
            }
            multiply(0, NULL, K, P, n, phi, 1, K, own, P, filtered, P);
            respond(response, pair, K, C, P, lambda, r);
            if (coefficients)
                for (int64_t k = 0; k < K; k++)
                    memcpy(coefficients + (pair + k) * C, filtered + k * P,
                           (size_t)C * sizeof(float));
            if (sums) {
                float *sum = sums + u * C;
                for (int64_t c = 0; c < C; c++) sum[c] = 0;
                for (int64_t k = 0; k < K; k++) {
                    const float *rk = r + k * P, *other = others + (pair + k) * C;
                    for (int64_t c = 0; c < C; c++) {
                        const float slope = -lambda[k] * rk[c] * (response->power == 2 ? rk[c] : 1);
                        sum[c] += slope * filtered[k * P + c] * other[c];
                    }
                }
            }
            for (int64_t i = 0; i < K * P; i++) filtered[i] *= r[i];
            multiply(0, NULL, n, P, K, phi, K, 1, filtered, P, own, P);
            for (int64_t i = 0; i < n; i++) {
                const float m = adjoint ? basis->mass[node[i]] : 1;
                for (int64_t c = 0; c < C; c++) y[node[i] * C + c] = m * own[i * P + c];
            }
        }
    }
    free(room);
    free(first);
    return DONE;
}

int diffuse(const Basis *basis, const Response *response, int64_t channels, const float *x,
            float *coefficients, float *y, int64_t adjoint)
{
    return spectral(basis, response, channels, x, (int)adjoint, coefficients, NULL, NULL, y);
}

/* The gradients of x and of the times, from the coefficients of the forward pass. At a time of 0 or
   less only a gradient that would raise it counts. */
int diffuse_backward(const Basis *basis, const Response *response, int64_t channels,
                     const float *grad, const float *coefficients, float *grad_x, float *grad_times)
{
    float *sums = scratch(basis->units * channels);
    if (!sums) return NO_MEMORY;
    const int failed =
        spectral(basis, response, channels, grad, 1, NULL, coefficients, sums, grad_x);
    for (int64_t c = 0; !failed && c < channels; c++) {
        double total = 0;
        for (int64_t u = 0; u < basis->units; u++) total += sums[u * channels + c];
        grad_times[c] = response->times[c] > 0 || total < 0 ? (float)total : 0;
    }
    free(sums);
    return failed;
}

/* ---------------------------------------------------------------- a weight for every degree

   y = or += W_g x on the columns of group g: x [T, K, N], y [T, O, N], W [T, G, O, K]; group g has
   the columns begin[g] to begin[g + 1]. */

enum { CHUNK = 128 }; /* columns at a time */

/* columns from to end of y [m, .] = or += a b, the last few by way of padded copies, in the same order of
   sums: what comes out for a column does not depend on its neighbours */
static void columns(int add, int64_t m, int64_t inner, const float *a, int64_t down, int64_t right,
                    const float *b, float *y, int64_t ld, int64_t from, int64_t end, float *pad)
{
    const int64_t even = (end - from) / COLUMNS * COLUMNS, left = end - from - even;
    multiply(add, NULL, m, even, inner, a, down, right, b + from, ld, y + from, ld);
    if (!left) return;
    float *in = pad, *out = pad + inner * COLUMNS;
    for (int64_t k = 0; k < inner; k++)
        for (int64_t j = 0; j < COLUMNS; j++)
            in[k * COLUMNS + j] = j < left ? b[k * ld + from + even + j] : 0;
    float *to = y + from + even;
    if (add)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < COLUMNS; j++)
                out[i * COLUMNS + j] = j < left ? to[i * ld + j] : 0;
    multiply(add, NULL, m, COLUMNS, inner, a, down, right, in, COLUMNS, out, COLUMNS);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < left; j++) to[i * ld + j] = out[i * COLUMNS + j];
}

/* forward: added to y, from x; backward: the gradient of x from that of y, weights transposed */
int product_by_group(const Groups *g, const float *weights, const float *x, int64_t x_tower,
                     float *y, int64_t y_tower, int64_t transposed)
{
    const int64_t O = g->outputs, K = g->inputs;
    const int64_t m = transposed ? K : O, inner = transposed ? O : K;
    const int64_t down = transposed ? 1 : K, right = transposed ? K : 1;
    float *room = scratches((m + inner) * COLUMNS);
    if (!room) return NO_MEMORY;
#pragma omp parallel for collapse(2) schedule(dynamic, 1)
    for (int64_t t = 0; t < g->towers; t++)
        for (int64_t group = 0; group < g->groups; group++) {
            float *pad = own_part(room, (m + inner) * COLUMNS);
            const float *w = weights + (t * g->groups + group) * O * K;
            const int64_t last = g->begin[group + 1];
            for (int64_t a = g->begin[group]; a < last; a += CHUNK)
                columns(!transposed, m, inner, w, down, right, x + t * x_tower, y + t * y_tower,
                        g->ld, a, a + CHUNK < last ? a + CHUNK : last, pad);
        }
    free(room);
    return DONE;
}

/* the gradient of the weights: W_g [O, K] = grad y [O, columns] x^T [columns, K] */
void product_by_group_weights(const Groups *g, const float *grad, int64_t grad_tower, const float *x,
                              float *weights)
{
    const int64_t O = g->outputs, K = g->inputs;
#pragma omp parallel for collapse(2) schedule(dynamic, 1)
    for (int64_t t = 0; t < g->towers; t++)
        for (int64_t group = 0; group < g->groups; group++)
            dots(O, K, g->begin[group], g->begin[group + 1], grad + t * grad_tower, g->ld,
                 x + t * K * g->ld, g->ld, weights + (t * g->groups + group) * O * K, K);
}
