/* One block of Graph Anisotropic Diffusion, forward and backward: the order of the other kernels.

   h = LeakyReLU(diffuse(x)); f = norm(filters(h)); u = LeakyReLU(across f); y = x + combine [h, u].

   Parts that are not given (NULL) are left out: without a basis h = x; without `combine` the block
   ends with u; without `across` it ends with f. x and y are row-major [N, C], as the eigenbases and
   the world outside want them; everything between is column-major [C, N], rows `ld` apart. */

#include "block.h"

/* gradients of the weights, in the shapes of the weights */
typedef struct {
    float *source, *target, *own, *bias, *mix_bias, *mix, *gain, *shift;
    float *across, *across_bias, *combine, *combine_bias, *edge_weight, *times, *edges;
} Gradients;

/* ---------------------------------------------------------------- memory */

/* lays everything out in `memory` (or nowhere, if it is NULL) and returns the floats it takes */
static int64_t keep(const Block *block, float *memory, Kept *k)
{
    const Groups g = groups_of(block);
    const int64_t C = block->channels, all = C * g.ld;
    int64_t pairs = 0, used = 0;
    for (int64_t u = 0; block->basis && u < block->basis->units; u++)
        pairs += block->basis->count[u];
    k->h = take(memory, &used, all);
    k->parts = take(memory, &used, 3 * all);
    k->aggregates = take(memory, &used, block->aggregators * all);
    k->xi = take(memory, &used, block->norm ? all : 0);
    k->f = take(memory, &used, all);
    k->u = take(memory, &used, block->across ? all : 0);
    k->bonds = take(memory, &used, block->edge_weight ? C * leading(block->graphs->edges) : 0);
    k->coefficients = take(memory, &used, C * pairs);
    k->products = take(memory, &used, 3 * C * g.outputs);
    k->mixes = take(memory, &used, g.towers * g.groups * g.outputs * g.inputs);
    k->shifts = take(memory, &used, 3 * C);
    k->inverse = take(memory, &used, C);
    return used;
}

/* the floats that a forward pass keeps; the backward pass needs as many again */
int block_forward_size(const Block *block, int64_t *floats)
{
    Kept nowhere;
    *floats = keep(block, NULL, &nowhere);
    return DONE;
}

/* how large the structures are, for those who describe them elsewhere */
int struct_sizes(int64_t *sizes)
{
    const int64_t all[] = {sizeof(Graphs), sizeof(Basis), sizeof(Norm), sizeof(Response),
                           sizeof(Block), sizeof(Gradients)};
    memcpy(sizes, all, sizeof all);
    return DONE;
}

/* of the thread that calls; PyTorch may have an OpenMP of its own, whose number is not ours */
int set_threads(int64_t threads)
{
    omp_set_num_threads((int)threads);
    return DONE;
}

/* ---------------------------------------------------------------- pieces */

/* the gradient before a LeakyReLU, whose result has the sign of what it was made from */
static void leak_back(float slope, int64_t rows, int64_t columns, const float *y, float *grad,
                      int64_t ld)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < columns; j++)
            grad[r * ld + j] *= y[r * ld + j] > 0 ? 1 : slope;
}

static void sum_rows(int64_t rows, int64_t n, const float *x, int64_t ld, float *sums)
{
    for (int64_t r = 0; r < rows; r++) {
        double total = 0;
#pragma omp simd reduction(+ : total)
        for (int64_t j = 0; j < n; j++) total += x[r * ld + j];
        sums[r] = (float)total;
    }
}

static Rows rows_of(const Block *block)
{
    const int64_t w = block->channels / block->towers, ld = leading(block->graphs->nodes);
    return (Rows){block->channels, w, 3 * w * ld, ld};
}

static Messages messages_of(const Block *block, const Kept *k)
{
    const Rows rows = rows_of(block);
    return (Messages){rows, block->aggregators, block->names, k->parts,
                      k->parts + rows.width * rows.ld,
                      block->edge_weight ? k->bonds : NULL, leading(block->graphs->edges),
                      block->centre_is_node ? k->h : NULL, block->message_slope};
}

/* bonds = W edges^T */
static int edge_forward(const Block *block, float *bonds)
{
    const int64_t C = block->channels, D = block->edge_channels, E = block->graphs->edges;
    const int64_t ld = leading(E);
    float *room = scratches(D * WIDE);
    if (!room) return NO_MEMORY;
#pragma omp parallel
    {
        float *turned = own_part(room, D * WIDE);
        memset(turned, 0, (size_t)(D * WIDE) * sizeof(float));
#pragma omp for schedule(dynamic, 4)
        for (int64_t from = 0; from < E; from += WIDE) {
            const int64_t n = from + WIDE < E ? WIDE : E - from;
            transpose(n, D, block->edges + from * D, D, turned, WIDE);
            multiply(0, NULL, C, padded(n), D, block->edge_weight, D, 1, turned, WIDE,
                     bonds + from, ld);
        }
    }
    free(room);
    return DONE;
}

/* x [rows, D] with zeros behind every row up to P, a multiple of sixteen */
static void with_margin(int64_t rows, int64_t D, int64_t P, const float *x, float *y)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < P; i++) y[r * P + i] = i < D ? x[r * D + i] : 0;
}

/* from the gradient of the bonds those of the edges' features, grad^T W, and of W, grad edges */
static int edge_backward(const Block *block, const float *grad, const Gradients *grads)
{
    const int64_t C = block->channels, D = block->edge_channels, E = block->graphs->edges;
    const int64_t ld = leading(E), P = padded(D), size = (WIDE > BUNDLE ? WIDE : BUNDLE) * P;
    float *W = scratch((C + E) * P), *edges = W + C * P, *room = W ? scratches(size) : NULL;
    if (!room) {
        free(W);
        return NO_MEMORY;
    }
    with_margin(C, D, P, block->edge_weight, W);
    with_margin(E, D, P, block->edges, edges);
#pragma omp parallel
    {
        float *result = own_part(room, size);
#pragma omp for schedule(dynamic, 4) nowait
        for (int64_t from = 0; from < E; from += WIDE) {
            const int64_t n = from + WIDE < E ? WIDE : E - from;
            multiply(0, NULL, n, P, C, grad + from, 1, ld, W, P, result, P);
            for (int64_t i = 0; i < n; i++)
                memcpy(grads->edges + (from + i) * D, result + i * P, (size_t)D * sizeof(float));
        }
#pragma omp for schedule(dynamic, 1)
        for (int64_t o = 0; o < C; o += BUNDLE) {
            const int64_t m = o + BUNDLE < C ? BUNDLE : C - o;
            multiply(0, NULL, m, P, E, grad + o * ld, ld, 1, edges, P, result, P);
            for (int64_t i = 0; i < m; i++)
                memcpy(grads->edge_weight + (o + i) * D, result + i * P, (size_t)D * sizeof(float));
        }
    }
    free(W);
    free(room);
    return DONE;
}

/* ---------------------------------------------------------------- forward

   x, y [N, C]; what the backward pass needs is left in `memory`. */

int block_forward(const Block *block, const float *x, float *memory, float *y)
{
    Kept k;
    on_large_pages(memory, memory + keep(block, memory, &k));
    const Groups g = groups_of(block);
    const Rows rows = rows_of(block);
    const Messages messages = messages_of(block, &k);
    const int64_t C = block->channels, N = block->graphs->nodes, w = rows.width, ld = rows.ld;
    if (block->basis) TRY(diffuse(block->basis, &block->response, C, x, k.coefficients, y, 0));
    const float *diffused = block->basis ? y : x;
    prepare_weights(block, &k);
    if (block->edge_weight) TRY(edge_forward(block, k.bonds));
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t from = 0; from < N; from += WIDE) {
        const int64_t end = from + WIDE < padded(N) ? from + WIDE : padded(N), n = end - from;
        to_columns(block, diffused, from, end, k.h, ld);
        if (block->basis) leak(block->slope, C, n, k.h + from, ld);
        for (int64_t t = 0; t < block->towers; t++)
            multiply(0, k.shifts + 3 * t * w, 3 * w, n, w, k.products + 3 * t * w * w, w, 1,
                     k.h + t * w * ld + from, ld, k.parts + t * rows.tower + from, ld);
    }
    TRY(reduce_forward(block->graphs, &messages, k.aggregates));
    float *mixed = k.parts + 2 * w * ld;
    TRY(product_by_group(&g, k.mixes, k.aggregates, g.inputs * ld, mixed, rows.tower, 0));
    float *room = scratches(C * WIDE);
    if (!room) return NO_MEMORY;
    if (block->norm)
        norm_forward(block->norm, &rows, N, mixed, block->factor, k.xi, k.f, k.inverse);
    else
        for (int64_t c = 0; c < C; c++)
            for (int64_t i = 0; i < N; i++)
                k.f[c * ld + i] = mixed[at(&rows, c) + i] * (block->factor ? block->factor[i] : 1);
#pragma omp parallel
    {
        float *sum = own_part(room, C * WIDE);
#pragma omp for schedule(dynamic, 1)
        for (int64_t from = 0; from < N; from += WIDE) {
            const int64_t end = from + WIDE < N ? from + WIDE : N, n = padded(end - from);
            const float *result = k.f + from;
            int64_t between = ld;
            for (int64_t c = 0; end == N && c < C; c++) /* no rubbish after the last node */
                memset(k.f + c * ld + N, 0, (size_t)(padded(N) - N) * sizeof(float));
            if (block->across) {
                multiply(0, block->across_bias, C, n, C, block->across, C, 1, k.f + from, ld,
                         k.u + from, ld);
                leak(block->slope, C, n, k.u + from, ld);
                result = k.u + from;
            }
            if (block->combine) {
                const float *of_h = block->combine, *of_u = of_h + C;
                multiply(0, block->combine_bias, C, n, C, of_h, 2 * C, 1, k.h + from, ld, sum, WIDE);
                multiply(1, NULL, C, n, C, of_u, 2 * C, 1, k.u + from, ld, sum, WIDE);
                result = sum;
                between = WIDE;
            }
            transpose(C, end - from, result, between, y + from * C, C);
            for (int64_t i = from * C; block->residual && i < end * C; i++) y[i] += x[i];
        }
    }
    free(room);
    return DONE;
}

/* ---------------------------------------------------------------- backward

   grad [N, C]; memory as block_forward left it, and as much to spare; results: grad_x [N, C] and the
   gradients of the weights. */

/* w [m, k] = a b^T over all nodes, some rows of it by each thread */
static void gradient_of(const Block *block, int64_t m, int64_t k, const float *x, const float *y,
                        float *w, int64_t ldw)
{
    const int64_t ld = leading(block->graphs->nodes);
#pragma omp for schedule(dynamic, 1) nowait
    for (int64_t o = 0; o < m; o += BUNDLE)
        dots(m - o < BUNDLE ? m - o : BUNDLE, k, 0, block->graphs->nodes, x + o * ld, ld, y, ld,
             w + o * ldw, ldw);
}

int block_backward(const Block *block, const float *grad, float *memory, float *spare,
                   float *grad_x, const Gradients *grads)
{
    Kept k, s;
    keep(block, memory, &k);
    on_large_pages(spare, spare + keep(block, spare, &s));
    const Groups g = groups_of(block);
    const Rows rows = rows_of(block);
    const Messages messages = messages_of(block, &k);
    const int64_t C = block->channels, N = block->graphs->nodes, w = rows.width, ld = rows.ld;
    /* Gradients of y, u, f and h, where there is room for them. */
    float *gy = block->across ? s.u : s.f, *gu = block->combine ? s.aggregates : gy;
    float *gf = s.f, *gh = s.h;
    float *own = s.parts + 2 * w * ld;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t from = 0; from < N; from += WIDE) {
        const int64_t end = from + WIDE < padded(N) ? from + WIDE : padded(N), n = end - from;
        to_columns(block, grad, from, end, gy, ld);
        for (int64_t c = 0; !block->combine && c < C; c++)
            memset(gh + c * ld + from, 0, (size_t)n * sizeof(float));
        if (block->combine) {
            multiply(0, NULL, C, n, C, block->combine, 1, 2 * C, gy + from, ld, gh + from, ld);
            multiply(0, NULL, C, n, C, block->combine + C, 1, 2 * C, gy + from, ld, gu + from, ld);
        }
        if (block->across) {
            leak_back(block->slope, C, n, k.u + from, gu + from, ld);
            multiply(0, NULL, C, n, C, block->across, 1, C, gu + from, ld, gf + from, ld);
        }
    }
#pragma omp parallel
    {
        if (block->combine) {
            gradient_of(block, C, C, gy, k.h, grads->combine, 2 * C);
            gradient_of(block, C, C, gy, k.u, grads->combine + C, 2 * C);
        }
        if (block->across) gradient_of(block, C, C, gu, k.f, grads->across, C);
#pragma omp single
        {
            if (block->combine) sum_rows(C, N, gy, ld, grads->combine_bias);
            if (block->across) sum_rows(C, N, gu, ld, grads->across_bias);
        }
    }
    if (block->norm)
        norm_backward(block->norm, &rows, N, gf, k.xi, block->factor, k.inverse, own, grads->gain,
                      grads->shift);
    else
        for (int64_t c = 0; c < C; c++)
            for (int64_t i = 0; i < N; i++)
                own[at(&rows, c) + i] = gf[c * ld + i] * (block->factor ? block->factor[i] : 1);
    product_by_group_weights(&g, own, rows.tower, k.aggregates, s.mixes);
    TRY(product_by_group(&g, k.mixes, own, rows.tower, s.aggregates, g.inputs * ld, 1));
    TRY(reduce_backward(block->graphs, &messages, s.aggregates, s.parts, s.parts + w * ld,
                        block->edge_weight ? s.bonds : NULL, gh));
    if (block->edge_weight) TRY(edge_backward(block, s.bonds, grads));
    for (int64_t r = 0; r < 3 * C; r++) /* no rubbish after the last node */
        memset(s.parts + r * ld + N, 0, (size_t)(padded(N) - N) * sizeof(float));
#pragma omp parallel
    {
#pragma omp for schedule(dynamic, 1) nowait
        for (int64_t from = 0; from < N; from += WIDE) {
            const int64_t end = from + WIDE < N ? from + WIDE : N, n = padded(end - from);
            for (int64_t t = 0; t < block->towers; t++)
                multiply(1, NULL, w, n, 3 * w, k.products + 3 * t * w * w, 1, w,
                         s.parts + t * rows.tower + from, ld, gh + t * w * ld + from, ld);
            if (block->basis) leak_back(block->slope, C, n, k.h + from, gh + from, ld);
            transpose(C, end - from, gh + from, ld, grad_x + from * C, C);
        }
#pragma omp for schedule(dynamic, 1)
        for (int64_t t = 0; t < block->towers; t++) {
            const float *parts = s.parts + t * rows.tower, *h = k.h + t * w * ld;
            float *const of[] = {grads->source, grads->target, grads->own};
            for (int64_t i = 0; i < 3; i++)
                dots(w, w, 0, N, parts + i * w * ld, ld, h, ld, of[i] + t * w * w, w);
            sum_rows(w, N, parts + w * ld, ld, grads->bias + t * w);
            sum_rows(w, N, parts + 2 * w * ld, ld, grads->mix_bias + t * w);
        }
    }
    const int64_t whole = w * g.inputs;
    for (int64_t t = 0; t < block->towers; t++)
        for (int64_t r = 0; r < block->scalers; r++)
            for (int64_t i = 0; i < g.groups; i++)
                gather_scaled(!i, whole, block->scales[r * g.groups + i],
                              s.mixes + (t * g.groups + i) * whole,
                              grads->mix + (t * block->scalers + r) * whole);
    if (block->basis) {
        float *diffused = s.aggregates; /* [N, C] */
        memcpy(diffused, grad_x, (size_t)(N * C) * sizeof(float));
        TRY(diffuse_backward(block->basis, &block->response, C, diffused, k.coefficients, grad_x,
                             grads->times));
    }
    for (int64_t i = 0; block->residual && i < N * C; i++) grad_x[i] += grad[i];
    return DONE;
}
