/* What a block is in memory, and the pieces that its passes share. */

#ifndef GAD_BLOCK_H
#define GAD_BLOCK_H

#include <sys/mman.h>
#include <unistd.h>

#include "kernels.h"

typedef struct {
    const Graphs *graphs;
    const Basis *basis;                             /* or NULL */
    const Norm *norm;                               /* or NULL */
    Response response;                              /* of the times */
    int64_t channels, towers, aggregators, scalers; /* C, T, A, S */
    const int64_t *names;                           /* [A] */
    const float *scales;                            /* [S, G] of every group of nodes */
    const float *factor;                            /* [N] or NULL: 1 / sqrt(size of the graph) */
    const float *source, *target, *own;             /* [T, C/T, C/T] */
    const float *bias, *mix_bias;                   /* [C] */
    const float *mix;                               /* [T, S C/T, A C/T] */
    const float *across, *across_bias;              /* [C, C], [C]; or NULL */
    const float *combine, *combine_bias;            /* [C, 2C], [C]; or NULL */
    const float *edges, *edge_weight;               /* [E, D] features, [C, D]; or NULL */
    int64_t edge_channels;                          /* D */
    int64_t centre_is_node, residual;
    float slope, message_slope;                     /* of LeakyReLU below 0 */
} Block;

enum { WIDE = 64, BUNDLE = 12 }; /* columns of a product, rows of a sum over columns, at a time */
enum { LARGE = 1 << 22 };         /* bytes for which large pages are worth asking */

/* Rows an odd number of cache lines apart, or they would all fall into the same few sets. */
static inline int64_t leading(int64_t nodes) { return padded(nodes) | COLUMNS; }

static inline Groups groups_of(const Block *block)
{
    const int64_t width = block->channels / block->towers;
    return (Groups){block->towers, block->graphs->groups, width, block->aggregators * width,
                    leading(block->graphs->nodes), block->graphs->begin};
}

/* what the backward pass reads, all in one piece */
typedef struct {
    float *h;          /* [C, N] */
    float *parts;      /* [T, 3 C/T, N]: sent, received, and a node's own part, with the aggregates */
    float *aggregates; /* [T, A C/T, N] */
    float *xi, *f, *u; /* [C, N] */
    float *bonds;      /* [C, E] the edges' part of the messages */
    float *coefficients; /* [sum of K, C] of the diffusion */
    float *products;   /* [T, 3 C/T, C/T] the weights of the parts */
    float *mixes;      /* [T, G, C/T, A C/T] the weights of the aggregates by degree */
    float *shifts;     /* [T, 3 C/T] */
    float *inverse;    /* [C] */
} Kept;

static inline float *take(float *memory, int64_t *used, int64_t floats)
{
    float *here = memory ? memory + *used : NULL;
    *used += padded(floats);
    return here;
}

/* Between two steps malloc gives the memory of large batches back to the system, and each page of it
   then faults when it is touched again; large pages are few. */
static inline void on_large_pages(const float *from, const float *to)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = ((uintptr_t)from + page - 1) / page * page, end = (uintptr_t)to;
    if (begin + LARGE <= end) madvise((void *)begin, (end - begin) / page * page, MADV_HUGEPAGE);
}

/* to [columns, rows] = from [rows, columns] transposed */
static inline void transpose(int64_t rows, int64_t columns, const float *from, int64_t ld_from,
                             float *to, int64_t ld_to)
{
    for (int64_t i = 0; i < rows; i += LANES)
        for (int64_t j = 0; j < columns; j++)
            for (int64_t k = i; k < rows && k < i + LANES; k++)
                to[j * ld_to + k] = from[k * ld_from + j];
}

/* rows `from` to `end` of x [N, C] as columns of y, which has zeros in the columns after the last */
static inline void to_columns(const Block *block, const float *x, int64_t from, int64_t end, float *y,
                       int64_t ld)
{
    const int64_t C = block->channels, N = block->graphs->nodes, last = end < N ? end : N;
    if (last > from) transpose(last - from, C, x + from * C, C, y + from, ld);
    for (int64_t c = 0; end > N && c < C; c++)
        memset(y + c * ld + last, 0, (size_t)(end - last) * sizeof(float));
}

static inline void leak(float slope, int64_t rows, int64_t columns, float *y, int64_t ld)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < columns; j++) {
            float *v = y + r * ld + j;
            *v = *v > 0 ? *v : *v * slope;
        }
}

/* y = scale x for the first of several, += for the others */
static inline void gather_scaled(int first, int64_t n, float scale, const float *restrict x,
                          float *restrict y)
{
    for (int64_t i = 0; i < n; i++) y[i] = (first ? 0 : y[i]) + scale * x[i];
}

/* the weights of the three parts as one, and those of the aggregates for every degree */
static inline void prepare_weights(const Block *block, const Kept *k)
{
    const Groups g = groups_of(block);
    const int64_t w = g.outputs, square = w * w, whole = w * g.inputs;
    for (int64_t t = 0; t < block->towers; t++) {
        const float *of[] = {block->source, block->target, block->own};
        const float *shift[] = {NULL, block->bias, block->mix_bias};
        for (int64_t i = 0; i < 3; i++) {
            memcpy(k->products + (3 * t + i) * square, of[i] + t * square,
                   (size_t)square * sizeof(float));
            for (int64_t r = 0; r < w; r++)
                k->shifts[(3 * t + i) * w + r] = shift[i] ? shift[i][t * w + r] : 0;
        }
        for (int64_t d = 0; d < g.groups; d++)
            for (int64_t s = 0; s < block->scalers; s++)
                gather_scaled(!s, whole, block->scales[s * g.groups + d],
                              block->mix + (t * block->scalers + s) * whole,
                              k->mixes + (t * g.groups + d) * whole);
    }
}

/* on with the next step unless this one failed */
#define TRY(step) do { const int failed = (step); if (failed) return failed; } while (0)

#endif
