/* One block of Graph Anisotropic Diffusion, forward alone: as block_forward without anything kept for
   a backward pass. Tower by tower, and from the norm on chunk by chunk, so that what is made stays
   near the processor. The norm is that of running statistics. */

#include <math.h>

#include "block.h"

/* the norm after a factor s for every node is y = gain s x + shift: both [C] */
static void fold_norm(const Norm *norm, int64_t C, float *gain, float *shift)
{
    for (int64_t c = 0; c < C; c++) {
        gain[c] = norm ? norm->gain[c] / sqrtf(norm->var[c] + norm->eps) : 1;
        shift[c] = norm ? norm->shift[c] - norm->mean[c] * gain[c] : 0;
    }
}

/* what the filters of tower t give before the norm, f [C/T, N], from h [C/T, N] */
static int infer_tower(const Block *block, const Kept *k, int64_t t, const float *edges, float *f)
{
    Groups g = groups_of(block);
    const int64_t N = block->graphs->nodes, w = g.outputs, D = block->edge_channels, ld = g.ld;
    const int64_t E = block->graphs->edges, ld_edges = leading(E);
    const float *h = k->h + t * w * ld, *weights = k->products + 3 * t * w * w;
    const float *shifts = k->shifts + 3 * t * w;
    if (edges)
#pragma omp parallel for schedule(static)
        for (int64_t from = 0; from < padded(E); from += WIDE) {
            const int64_t n = from + WIDE < padded(E) ? WIDE : padded(E) - from;
            multiply(0, NULL, w, n, D, block->edge_weight + t * w * D, D, 1, edges + from, ld_edges,
                     k->bonds + from, ld_edges);
        }
#pragma omp parallel for schedule(static)
    for (int64_t from = 0; from < padded(N); from += WIDE) {
        const int64_t n = from + WIDE < padded(N) ? WIDE : padded(N) - from;
        multiply(0, shifts, 2 * w, n, w, weights, w, 1, h + from, ld, k->parts + from, ld);
        multiply(0, shifts + 2 * w, w, n, w, weights + 2 * w * w, w, 1, h + from, ld, f + from, ld);
    }
    const Messages messages = {{w, w, 0, ld}, block->aggregators, block->names, k->parts,
                               k->parts + w * ld, edges ? k->bonds : NULL, ld_edges,
                               block->centre_is_node ? h : NULL, block->message_slope};
    TRY(reduce_forward(block->graphs, &messages, k->aggregates));
    g.towers = 1;
    return product_by_group(&g, k->mixes + t * g.groups * w * g.inputs, k->aggregates, 0, f, 0, 0);
}

/* as much of `keep` as is needed, with room for the edges' features as columns and for f [C, N] */
static int64_t keep_little(const Block *block, float *memory, Kept *k)
{
    const Groups g = groups_of(block);
    const int64_t C = block->channels, w = g.outputs, E = leading(block->graphs->edges);
    int64_t used = 0;
    k->h = take(memory, &used, C * g.ld);
    k->f = take(memory, &used, C * g.ld);
    k->parts = take(memory, &used, 2 * w * g.ld);
    k->aggregates = take(memory, &used, g.inputs * g.ld);
    k->bonds = take(memory, &used, block->edge_weight ? w * E : 0);
    k->xi = take(memory, &used, block->edge_weight ? block->edge_channels * E : 0);
    k->products = take(memory, &used, 3 * C * w);
    k->mixes = take(memory, &used, g.towers * g.groups * w * g.inputs);
    k->shifts = take(memory, &used, 3 * C);
    k->inverse = take(memory, &used, 2 * C);
    return used;
}

/* the floats of memory that block_infer works in */
int block_infer_size(const Block *block, int64_t *floats)
{
    Kept nowhere;
    *floats = keep_little(block, NULL, &nowhere);
    return DONE;
}

int block_infer(const Block *block, const float *x, float *memory, float *y)
{
    Kept k;
    on_large_pages(memory, memory + keep_little(block, memory, &k));
    const int64_t C = block->channels, N = block->graphs->nodes, D = block->edge_channels;
    const int64_t ld = leading(N), E = block->graphs->edges, w = C / block->towers;
    float *edges = block->edge_weight ? k.xi : NULL, *gain = k.inverse, *shift = gain + C;
    if (block->basis) TRY(diffuse(block->basis, &block->response, C, x, NULL, y, 0));
    prepare_weights(block, &k);
    fold_norm(block->norm, C, gain, shift);
    if (edges) {
        transpose(E, D, block->edges, D, edges, leading(E));
        for (int64_t d = 0; d < D; d++)
            memset(edges + d * leading(E) + E, 0, (size_t)(padded(E) - E) * sizeof(float));
    }
#pragma omp parallel for schedule(static)
    for (int64_t from = 0; from < N; from += WIDE) {
        const int64_t end = from + WIDE < padded(N) ? from + WIDE : padded(N);
        to_columns(block, block->basis ? y : x, from, end, k.h, ld);
        if (block->basis) leak(block->slope, C, end - from, k.h + from, ld);
    }
    for (int64_t t = 0; t < block->towers; t++)
        TRY(infer_tower(block, &k, t, edges, k.f + t * w * ld));
    float *room = scratches(2 * C * WIDE);
    if (!room) return NO_MEMORY;
#pragma omp parallel
    {
        float *one = own_part(room, 2 * C * WIDE), *other = one + C * WIDE;
#pragma omp for schedule(static)
        for (int64_t from = 0; from < N; from += WIDE) {
            const int64_t end = from + WIDE < N ? from + WIDE : N, n = padded(end - from);
            const float *result = one;
            float s[WIDE];
            for (int64_t i = 0; i < n; i++)
                s[i] = from + i >= N ? 0 : block->factor ? block->factor[from + i] : 1;
            for (int64_t c = 0; c < C; c++)
                for (int64_t i = 0; i < n; i++)
                    one[c * WIDE + i] = gain[c] * (s[i] * k.f[c * ld + from + i]) + shift[c];
            if (block->across) {
                multiply(0, block->across_bias, C, n, C, block->across, C, 1, one, WIDE, other,
                         WIDE);
                leak(block->slope, C, n, other, WIDE);
                result = other;
            }
            if (block->combine) {
                const float *of_h = block->combine, *of_u = of_h + C;
                multiply(0, block->combine_bias, C, n, C, of_h, 2 * C, 1, k.h + from, ld, one, WIDE);
                multiply(1, NULL, C, n, C, of_u, 2 * C, 1, other, WIDE, one, WIDE);
                result = one;
            }
            transpose(C, end - from, result, WIDE, y + from * C, C);
            for (int64_t i = from * C; block->residual && i < end * C; i++) y[i] += x[i];
        }
    }
    free(room);
    return DONE;
}
