/* Many small matrix products: the eigenbasis of every component, the weights of every degree.

   One tile does all the work: a few rows times sixteen columns in registers, over the whole inner
   dimension. Shapes differ from one product to the next and are far too small for a library call
   each. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef float vec __attribute__((vector_size(32)));
enum { LANES = 8, COLUMNS = 16, ROWS = 6 };

static inline vec load(const float *from) { vec v; memcpy(&v, from, sizeof v); return v; }
static inline void store(float *to, vec v) { memcpy(to, &v, sizeof v); }

/* y [rows, 16] = a [rows, inner] b [inner, 16], or += where add is 1; a has any strides, and rows
   is known when compiled */
static inline __attribute__((always_inline)) void
tile(const int rows, int add, int64_t inner, const float *a, int64_t down, int64_t right,
     const float *b, int64_t ldb, float *y, int64_t ldy)
{
    vec left[ROWS] = {0}, rest[ROWS] = {0};
    for (int i = 0; add && i < rows; i++) {
        left[i] = load(y + i * ldy);
        rest[i] = load(y + i * ldy + LANES);
    }
    for (int64_t k = 0; k < inner; k++) {
        vec b0 = load(b + k * ldb), b1 = load(b + k * ldb + LANES);
        for (int i = 0; i < rows; i++) {
            float scalar = a[i * down + k * right];
            left[i] += scalar * b0;
            rest[i] += scalar * b1;
        }
    }
    for (int i = 0; i < rows; i++) {
        store(y + i * ldy, left[i]);
        store(y + i * ldy + LANES, rest[i]);
    }
}

/* y [m, n] = or += a [m, inner] b [inner, n], n a multiple of sixteen */
static void multiply(int add, int64_t m, int64_t n, int64_t inner, const float *a, int64_t down,
                     int64_t right, const float *b, int64_t ldb, float *y, int64_t ldy)
{
    for (int64_t j = 0; j < n; j += COLUMNS) {
        int64_t i = 0;
        for (; i + ROWS <= m; i += ROWS)
            tile(ROWS, add, inner, a + i * down, down, right, b + j, ldb, y + i * ldy + j, ldy);
        const float *last = a + i * down;
        float *to = y + i * ldy + j;
        switch (m - i) {
        case 5: tile(5, add, inner, last, down, right, b + j, ldb, to, ldy); break;
        case 4: tile(4, add, inner, last, down, right, b + j, ldb, to, ldy); break;
        case 3: tile(3, add, inner, last, down, right, b + j, ldb, to, ldy); break;
        case 2: tile(2, add, inner, last, down, right, b + j, ldb, to, ldy); break;
        case 1: tile(1, add, inner, last, down, right, b + j, ldb, to, ldy); break;
        }
    }
}

static int64_t padded(int64_t n) { return (n + COLUMNS - 1) / COLUMNS * COLUMNS; }

static float *scratch(int64_t floats)
{
    return aligned_alloc(64, (size_t)padded(floats) * sizeof(float));
}

/* ---------------------------------------------------------------- the eigenbases of all components

   y = right (R o left x), where left is Phi^T M and right Phi, or, for the gradient, left is Phi^T
   and right M Phi. x, y [N, C]; R and the coefficients left x [sum of K, C]. */

typedef struct {
    int64_t units;                /* U components */
    const int64_t *size, *count;  /* [U] nodes n and eigenpairs K of each */
    const int64_t *members;       /* [N] nodes, component by component */
    const float *mass, *vectors;  /* [N]; [sum of n K], Phi row by row */
} Basis;

void filter(const Basis *b, int64_t channels, const float *x, const float *response,
            float *coefficients, float *y, int64_t mass_on_the_right)
{
    const int64_t C = channels, P = padded(C);
    int64_t (*first)[3] = malloc(sizeof(int64_t[3]) * (size_t)(b->units + 1));
    int64_t most = 1;
    first[0][0] = first[0][1] = first[0][2] = 0;
    for (int64_t u = 0; u < b->units; u++) {
        first[u + 1][0] = first[u][0] + b->size[u];
        first[u + 1][1] = first[u][1] + b->count[u];
        first[u + 1][2] = first[u][2] + b->size[u] * b->count[u];
        most = b->size[u] > most ? b->size[u] : most;
    }
#pragma omp parallel
    {
        float *own = scratch(most * P), *filtered = scratch(most * P);
        memset(own, 0, (size_t)(most * P) * sizeof(float));
#pragma omp for schedule(dynamic, 4)
        for (int64_t u = 0; u < b->units; u++) {
            const int64_t n = b->size[u], K = b->count[u];
            const int64_t *node = b->members + first[u][0];
            const float *phi = b->vectors + first[u][2];
            const float *r = response + first[u][1] * C;
            float *kept = coefficients + first[u][1] * C;
            for (int64_t i = 0; i < n; i++) {
                const float m = mass_on_the_right ? 1 : b->mass[node[i]];
                for (int64_t c = 0; c < C; c++) own[i * P + c] = m * x[node[i] * C + c];
            }
            multiply(0, K, P, n, phi, 1, K, own, P, filtered, P);
            for (int64_t k = 0; k < K; k++)
                for (int64_t c = 0; c < C; c++) {
                    kept[k * C + c] = filtered[k * P + c];
                    filtered[k * P + c] *= r[k * C + c];
                }
            multiply(0, n, P, K, phi, K, 1, filtered, P, own, P);
            for (int64_t i = 0; i < n; i++) {
                const float m = mass_on_the_right ? b->mass[node[i]] : 1;
                for (int64_t c = 0; c < C; c++) y[node[i] * C + c] = m * own[i * P + c];
            }
        }
        free(own);
        free(filtered);
    }
    free(first);
}

/* ---------------------------------------------------------------- a weight for every degree

   y = or += W_g x on the columns of group g: x [T, K, N], y [T, O, N], W [T, G, O, K]; group g has the
   columns begin[g] to begin[g + 1]. */

typedef struct {
    int64_t towers, groups, outputs, inputs, nodes; /* T, G, O, K, N */
    const int64_t *begin;                           /* [G + 1] */
} Groups;

enum { CHUNK = 128, SPAN = 512 }; /* columns at a time: of products, and of sums over columns */

/* columns from to end of y [m, .] = or += a b, the last few by way of padded copies */
static void columns(int add, int64_t m, int64_t inner, const float *a, int64_t down, int64_t right,
                    const float *b, float *y, int64_t ld, int64_t from, int64_t end, float *pad)
{
    const int64_t even = (end - from) / COLUMNS * COLUMNS, left = end - from - even;
    multiply(add, m, even, inner, a, down, right, b + from, ld, y + from, ld);
    if (!left) return;
    float *in = pad, *out = pad + inner * COLUMNS;
    for (int64_t k = 0; k < inner; k++)
        for (int64_t j = 0; j < COLUMNS; j++)
            in[k * COLUMNS + j] = j < left ? b[k * ld + from + even + j] : 0;
    multiply(0, m, COLUMNS, inner, a, down, right, in, COLUMNS, out, COLUMNS);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < left; j++) {
            float *to = y + i * ld + from + even + j;
            *to = (add ? *to : 0) + out[i * COLUMNS + j];
        }
}

/* forward: added to y, from x; backward: the gradient of x from that of y, weights transposed */
void product_by_group(const Groups *g, const float *weights, const float *x, float *y,
                      int64_t transposed)
{
    const int64_t O = g->outputs, K = g->inputs, N = g->nodes;
    const int64_t m = transposed ? K : O, inner = transposed ? O : K;
    const int64_t down = transposed ? 1 : K, right = transposed ? K : 1;
#pragma omp parallel
    {
        float *pad = scratch((m + inner) * COLUMNS);
#pragma omp for collapse(2) schedule(dynamic, 1)
        for (int64_t t = 0; t < g->towers; t++)
            for (int64_t group = 0; group < g->groups; group++) {
                const float *w = weights + (t * g->groups + group) * O * K;
                for (int64_t a = g->begin[group]; a < g->begin[group + 1]; a += CHUNK) {
                    int64_t end = a + CHUNK < g->begin[group + 1] ? a + CHUNK : g->begin[group + 1];
                    columns(!transposed, m, inner, w, down, right, x + t * inner * N, y + t * m * N, N, a, end,
                            pad);
                }
            }
        free(pad);
    }
}

/* the gradient of the weights: W_g [O, K] = grad y [O, columns] x^T [columns, K] */
void product_by_group_weights(const Groups *g, const float *grad, const float *x, float *weights)
{
    const int64_t O = g->outputs, K = g->inputs, N = g->nodes;
#pragma omp parallel for collapse(2) schedule(dynamic, 1)
    for (int64_t t = 0; t < g->towers; t++)
        for (int64_t group = 0; group < g->groups; group++) {
            float *w = weights + (t * g->groups + group) * O * K;
            const float *gy = grad + t * O * N, *xs = x + t * K * N;
            const int64_t begin = g->begin[group], end = g->begin[group + 1];
            memset(w, 0, (size_t)(O * K) * sizeof(float));
            for (int64_t from = begin; from < end; from += SPAN) {
                const int64_t to = from + SPAN < end ? from + SPAN : end;
                for (int64_t o = 0; o < O; o += 3)
                    for (int64_t k = 0; k < K; k += 4) {
                        vec sums[3][4] = {{{0}}};
                        int64_t j = from;
                        const int rows = O - o < 3 ? (int)(O - o) : 3;
                        const int cols = K - k < 4 ? (int)(K - k) : 4;
                        if (rows == 3 && cols == 4)
                            for (; j + LANES <= to; j += LANES) {
                                vec xv[4];
                                for (int c = 0; c < 4; c++) xv[c] = load(xs + (k + c) * N + j);
                                for (int r = 0; r < 3; r++) {
                                    vec gv = load(gy + (o + r) * N + j);
                                    for (int c = 0; c < 4; c++) sums[r][c] += gv * xv[c];
                                }
                            }
                        for (int r = 0; r < rows; r++)
                            for (int c = 0; c < cols; c++) {
                                float total = 0;
                                for (int l = 0; l < LANES; l++) total += sums[r][c][l];
                                for (int64_t i = j; i < to; i++)
                                    total += gy[(o + r) * N + i] * xs[(k + c) * N + i];
                                w[(o + r) * K + k + c] += total;
                            }
                    }
            }
        }
}
