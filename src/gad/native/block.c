/* One block of Graph Anisotropic Diffusion, forward and backward: the order of the other kernels.

   h = LeakyReLU(diffuse(x)); f = norm(filters(h)); u = LeakyReLU(V f + a); y = x + W [h, u] + b.

   Parts that are not given (NULL) are left out: without a basis h = x; without W the block ends
   with u; without V it ends with f. x and y are row-major [N, C], as the eigenbases and the world
   outside want them; everything between is column-major [C, N], rows `ld` apart. */

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
    const float *scales;                            /* [S, G], G = largest degree + 1 */
    const float *factor;                            /* [N] or NULL: 1 / sqrt(size of the graph) */
    const float *source, *target, *own;             /* [T, C/T, C/T] */
    const float *bias, *mix_bias;                   /* [C] */
    const float *mix;                               /* [T, S C/T, A C/T] */
    const float *V, *a, *W, *b;                     /* [C, C], [C], [C, 2C], [C]; or NULL */
    const float *edges, *edge;                      /* [E, D] features, [C, D] weights; or NULL */
    int64_t edge_channels;                          /* D */
    int64_t centre_is_node, residual;
    float slope;                                    /* of LeakyReLU below 0 */
} Block;

/* gradients of the weights, in the shapes of the weights */
typedef struct {
    float *source, *target, *own, *bias, *mix_bias, *mix, *gain, *shift, *V, *a, *W, *b;
    float *edge, *times, *edges;
} Gradients;

enum { CHUNK = 64, BUNDLE = 12 }; /* columns of a product, rows of a sum over columns, at a time */
enum { LARGE = 1 << 22 };          /* bytes for which large pages are worth asking */

/* Rows an odd number of cache lines apart, or they would all fall into the same few sets. */
static int64_t leading(int64_t nodes) { return padded(nodes) | COLUMNS; }

static Groups groups_of(const Block *b)
{
    const int64_t width = b->channels / b->towers;
    return (Groups){b->towers, b->graphs->slots + 1, width, b->aggregators * width,
                    leading(b->graphs->nodes), b->graphs->begin};
}

/* ---------------------------------------------------------------- memory */

/* what the backward pass reads, all in one piece */
typedef struct {
    float *h;          /* [C, N] */
    float *parts;      /* [T, 3 C/T, N]: p, q, and a node's own part, to which aggregates are added */
    float *aggregates; /* [T, A C/T, N] */
    float *xi, *f, *u; /* [C, N] */
    float *e;          /* [C, E] the edges' part of the messages */
    float *coefficients; /* [sum of K, C] of the diffusion */
    float *products;   /* [T, 3 C/T, C/T] the weights of the parts */
    float *mixes;      /* [T, G, C/T, A C/T] the weights of the aggregates by degree */
    float *shifts;     /* [T, 3 C/T] */
    float *inverse;    /* [C] */
} Kept;

static float *take(float **from, int64_t floats)
{
    float *here = *from;
    *from += padded(floats);
    return here;
}

static Kept keep(const Block *b, float **memory)
{
    const Groups g = groups_of(b);
    const int64_t C = b->channels, A = b->aggregators, all = C * g.ld;
    int64_t pairs = 0;
    for (int64_t u = 0; b->basis && u < b->basis->units; u++) pairs += b->basis->count[u];
    return (Kept){
        .h = take(memory, all),
        .parts = take(memory, 3 * all),
        .aggregates = take(memory, A * all),
        .xi = take(memory, b->norm ? all : 0),
        .f = take(memory, all),
        .u = take(memory, b->V ? all : 0),
        .e = take(memory, b->edge ? C * leading(b->graphs->edges) : 0),
        .coefficients = take(memory, C * pairs),
        .products = take(memory, 3 * C * g.outputs),
        .mixes = take(memory, g.towers * g.groups * g.outputs * g.inputs),
        .shifts = take(memory, 3 * C),
        .inverse = take(memory, C),
    };
}

/* the floats that a forward pass keeps; the backward pass needs as many again */
void block_size(const Block *b, int64_t *floats)
{
    float *memory = NULL;
    keep(b, &memory);
    *floats = memory - (float *)NULL;
}

/* Between two steps malloc gives the memory of large batches back to the system, and each page of it
   then faults when it is touched again; large pages are few. */
static void on_large_pages(const float *from, const float *to)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = ((uintptr_t)from + page - 1) / page * page, end = (uintptr_t)to;
    if (begin + LARGE <= end) madvise((void *)begin, (end - begin) / page * page, MADV_HUGEPAGE);
}

/* ---------------------------------------------------------------- pieces */

/* to [columns, rows] = from [rows, columns] transposed */
static void transpose(int64_t rows, int64_t columns, const float *from, int64_t ld_from, float *to,
                      int64_t ld_to)
{
    for (int64_t i = 0; i < rows; i += LANES)
        for (int64_t j = 0; j < columns; j++)
            for (int64_t k = i; k < rows && k < i + LANES; k++)
                to[j * ld_to + k] = from[k * ld_from + j];
}

/* rows `from` to `end` of x [N, C] as columns of y, which has zeros in the columns after the last */
static void to_columns(const Block *b, const float *x, int64_t from, int64_t end, float *y,
                       int64_t ld)
{
    const int64_t C = b->channels, N = b->graphs->nodes, last = end < N ? end : N;
    if (last > from) transpose(last - from, C, x + from * C, C, y + from, ld);
    for (int64_t c = 0; end > N && c < C; c++)
        memset(y + c * ld + last, 0, (size_t)(end - last) * sizeof(float));
}

static void leak(float slope, int64_t rows, int64_t columns, float *y, int64_t ld)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < columns; j++) {
            float *v = y + r * ld + j;
            *v = *v > 0 ? *v : *v * slope;
        }
}

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

/* y = scale x for the first of several, += for the others */
static void gather_scaled(int first, int64_t n, float scale, const float *restrict x,
                          float *restrict y)
{
    for (int64_t i = 0; i < n; i++) y[i] = (first ? 0 : y[i]) + scale * x[i];
}

/* the weights of the three parts as one, and those of the aggregates for every degree */
static void prepare_weights(const Block *b, const Kept *k)
{
    const Groups g = groups_of(b);
    const int64_t w = g.outputs, square = w * w, whole = w * g.inputs;
    for (int64_t t = 0; t < b->towers; t++) {
        const float *of[] = {b->source, b->target, b->own}, *shift[] = {NULL, b->bias, b->mix_bias};
        for (int64_t i = 0; i < 3; i++) {
            memcpy(k->products + (3 * t + i) * square, of[i] + t * square,
                   (size_t)square * sizeof(float));
            for (int64_t r = 0; r < w; r++)
                k->shifts[(3 * t + i) * w + r] = shift[i] ? shift[i][t * w + r] : 0;
        }
        for (int64_t d = 0; d < g.groups; d++)
            for (int64_t s = 0; s < b->scalers; s++)
                gather_scaled(!s, whole, b->scales[s * g.groups + d],
                              b->mix + (t * b->scalers + s) * whole,
                              k->mixes + (t * g.groups + d) * whole);
    }
}

static Rows rows_of(const Block *b)
{
    const int64_t w = b->channels / b->towers, ld = leading(b->graphs->nodes);
    return (Rows){b->channels, w, 3 * w * ld, ld};
}

static Messages messages_of(const Block *b, const Kept *k)
{
    const Rows rows = rows_of(b);
    return (Messages){rows, b->aggregators, b->names, k->parts, k->parts + rows.width * rows.ld,
                      b->edge ? k->e : NULL, leading(b->graphs->edges),
                      b->centre_is_node ? k->h : NULL};
}

/* e = W edges^T */
static void edge_forward(const Block *b, float *e)
{
    const int64_t C = b->channels, D = b->edge_channels, E = b->graphs->edges, ld = leading(E);
#pragma omp parallel
    {
        float *turned = scratch(D * CHUNK);
        memset(turned, 0, (size_t)(D * CHUNK) * sizeof(float));
#pragma omp for schedule(dynamic, 4)
        for (int64_t from = 0; from < E; from += CHUNK) {
            const int64_t n = from + CHUNK < E ? CHUNK : E - from;
            transpose(n, D, b->edges + from * D, D, turned, CHUNK);
            multiply(0, NULL, C, padded(n), D, b->edge, D, 1, turned, CHUNK, e + from, ld);
        }
        free(turned);
    }
}

/* x [rows, D] with zeros behind every row up to P, a multiple of sixteen */
static float *with_margin(int64_t rows, int64_t D, int64_t P, const float *x)
{
    float *y = scratch(rows * P);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < P; i++) y[r * P + i] = i < D ? x[r * D + i] : 0;
    return y;
}

/* from the gradient of e those of the edges' features, grad_e^T W, and of W, grad_e edges */
static void edge_backward(const Block *b, const float *grad_e, const Gradients *d)
{
    const int64_t C = b->channels, D = b->edge_channels, E = b->graphs->edges, ld = leading(E);
    const int64_t P = padded(D);
    float *W = with_margin(C, D, P, b->edge), *edges = with_margin(E, D, P, b->edges);
#pragma omp parallel
    {
        float *result = scratch((CHUNK > BUNDLE ? CHUNK : BUNDLE) * P);
#pragma omp for schedule(dynamic, 4) nowait
        for (int64_t from = 0; from < E; from += CHUNK) {
            const int64_t n = from + CHUNK < E ? CHUNK : E - from;
            multiply(0, NULL, n, P, C, grad_e + from, 1, ld, W, P, result, P);
            for (int64_t i = 0; i < n; i++)
                memcpy(d->edges + (from + i) * D, result + i * P, (size_t)D * sizeof(float));
        }
#pragma omp for schedule(dynamic, 1)
        for (int64_t o = 0; o < C; o += BUNDLE) {
            const int64_t m = o + BUNDLE < C ? BUNDLE : C - o;
            multiply(0, NULL, m, P, E, grad_e + o * ld, ld, 1, edges, P, result, P);
            for (int64_t i = 0; i < m; i++)
                memcpy(d->edge + (o + i) * D, result + i * P, (size_t)D * sizeof(float));
        }
        free(result);
    }
    free(W);
    free(edges);
}

/* ---------------------------------------------------------------- forward

   x, y [N, C]; what the backward pass needs is left in `memory`. */

void block_forward(const Block *b, const float *x, float *memory, float *y)
{
    const float *begin = memory;
    const Kept k = keep(b, &memory);
    on_large_pages(begin, memory);
    const Groups g = groups_of(b);
    const Rows rows = rows_of(b);
    const Messages messages = messages_of(b, &k);
    const int64_t C = b->channels, N = b->graphs->nodes, w = rows.width, ld = rows.ld;
    if (b->basis) diffuse(b->basis, &b->response, C, x, k.coefficients, y, 0);
    const float *diffused = b->basis ? y : x;
    prepare_weights(b, &k);
    if (b->edge) edge_forward(b, k.e);
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t from = 0; from < N; from += CHUNK) {
        const int64_t end = from + CHUNK < padded(N) ? from + CHUNK : padded(N), n = end - from;
        to_columns(b, diffused, from, end, k.h, ld);
        if (b->basis) leak(b->slope, C, n, k.h + from, ld);
        for (int64_t t = 0; t < b->towers; t++)
            multiply(0, k.shifts + 3 * t * w, 3 * w, n, w, k.products + 3 * t * w * w, w, 1,
                     k.h + t * w * ld + from, ld, k.parts + t * rows.tower + from, ld);
    }
    reduce_forward(b->graphs, &messages, k.aggregates);
    float *mixed = k.parts + 2 * w * ld;
    product_by_group(&g, k.mixes, k.aggregates, g.inputs * ld, mixed, rows.tower, 0);
    if (b->norm)
        norm_forward(b->norm, &rows, N, mixed, b->factor, k.xi, k.f, k.inverse);
    else
        for (int64_t c = 0; c < C; c++)
            for (int64_t i = 0; i < N; i++)
                k.f[c * ld + i] = mixed[at(&rows, c) + i] * (b->factor ? b->factor[i] : 1);
#pragma omp parallel
    {
        float *sum = scratch(C * CHUNK);
#pragma omp for schedule(dynamic, 1)
        for (int64_t from = 0; from < N; from += CHUNK) {
            const int64_t end = from + CHUNK < N ? from + CHUNK : N, n = padded(end - from);
            const float *result = k.f + from;
            int64_t between = ld;
            for (int64_t c = 0; end == N && c < C; c++) /* no rubbish after the last node */
                memset(k.f + c * ld + N, 0, (size_t)(padded(N) - N) * sizeof(float));
            if (b->V) {
                multiply(0, b->a, C, n, C, b->V, C, 1, k.f + from, ld, k.u + from, ld);
                leak(b->slope, C, n, k.u + from, ld);
                result = k.u + from;
            }
            if (b->W) {
                multiply(0, b->b, C, n, C, b->W, 2 * C, 1, k.h + from, ld, sum, CHUNK);
                multiply(1, NULL, C, n, C, b->W + C, 2 * C, 1, k.u + from, ld, sum, CHUNK);
                result = sum;
                between = CHUNK;
            }
            transpose(C, end - from, result, between, y + from * C, C);
            if (b->residual)
                for (int64_t i = from * C; i < end * C; i++) y[i] += x[i];
        }
        free(sum);
    }
}

/* ---------------------------------------------------------------- backward

   grad [N, C]; memory as block_forward left it, and as much to spare; results: grad_x [N, C] and the
   gradients of the weights. */

/* w [m, k] = a b^T over all nodes, some rows of it by each thread */
static void gradient_of(const Block *b, int64_t m, int64_t k, const float *x, const float *y,
                        float *w, int64_t ldw)
{
    const int64_t ld = leading(b->graphs->nodes);
#pragma omp for schedule(dynamic, 1) nowait
    for (int64_t o = 0; o < m; o += BUNDLE)
        dots(m - o < BUNDLE ? m - o : BUNDLE, k, 0, b->graphs->nodes, x + o * ld, ld, y, ld,
             w + o * ldw, ldw);
}

void block_backward(const Block *b, const float *grad, float *memory, float *spare, float *grad_x,
                    const Gradients *d)
{
    const float *begin = spare;
    const Kept k = keep(b, &memory), s = keep(b, &spare);
    on_large_pages(begin, spare);
    const Groups g = groups_of(b);
    const Rows rows = rows_of(b);
    const Messages messages = messages_of(b, &k);
    const int64_t C = b->channels, N = b->graphs->nodes, w = rows.width, ld = rows.ld;
    /* Gradients of y, u, f and h, where there is room for them. */
    float *gy = b->V ? s.u : s.f, *gu = b->W ? s.aggregates : gy, *gf = s.f, *gh = s.h;
    float *own = s.parts + 2 * w * ld;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t from = 0; from < N; from += CHUNK) {
        const int64_t end = from + CHUNK < padded(N) ? from + CHUNK : padded(N), n = end - from;
        to_columns(b, grad, from, end, gy, ld);
        for (int64_t c = 0; !b->W && c < C; c++)
            memset(gh + c * ld + from, 0, (size_t)n * sizeof(float));
        if (b->W) {
            multiply(0, NULL, C, n, C, b->W, 1, 2 * C, gy + from, ld, gh + from, ld);
            multiply(0, NULL, C, n, C, b->W + C, 1, 2 * C, gy + from, ld, gu + from, ld);
        }
        if (b->V) {
            leak_back(b->slope, C, n, k.u + from, gu + from, ld);
            multiply(0, NULL, C, n, C, b->V, 1, C, gu + from, ld, gf + from, ld);
        }
    }
#pragma omp parallel
    {
        if (b->W) {
            gradient_of(b, C, C, gy, k.h, d->W, 2 * C);
            gradient_of(b, C, C, gy, k.u, d->W + C, 2 * C);
        }
        if (b->V) gradient_of(b, C, C, gu, k.f, d->V, C);
#pragma omp single
        {
            if (b->W) sum_rows(C, N, gy, ld, d->b);
            if (b->V) sum_rows(C, N, gu, ld, d->a);
        }
    }
    if (b->norm)
        norm_backward(b->norm, &rows, N, gf, k.xi, b->factor, k.inverse, own, d->gain, d->shift);
    else
        for (int64_t c = 0; c < C; c++)
            for (int64_t i = 0; i < N; i++)
                own[at(&rows, c) + i] = gf[c * ld + i] * (b->factor ? b->factor[i] : 1);
    product_by_group_weights(&g, own, rows.tower, k.aggregates, s.mixes);
    product_by_group(&g, k.mixes, own, rows.tower, s.aggregates, g.inputs * ld, 1);
    reduce_backward(b->graphs, &messages, s.aggregates, s.parts, s.parts + w * ld,
                    b->edge ? s.e : NULL, gh);
    if (b->edge) edge_backward(b, s.e, d);
    for (int64_t r = 0; r < 3 * C; r++) /* no rubbish after the last node */
        memset(s.parts + r * ld + N, 0, (size_t)(padded(N) - N) * sizeof(float));
#pragma omp parallel
    {
#pragma omp for schedule(dynamic, 1) nowait
        for (int64_t from = 0; from < N; from += CHUNK) {
            const int64_t end = from + CHUNK < N ? from + CHUNK : N, n = padded(end - from);
            for (int64_t t = 0; t < b->towers; t++)
                multiply(1, NULL, w, n, 3 * w, k.products + 3 * t * w * w, 1, w,
                         s.parts + t * rows.tower + from, ld, gh + t * w * ld + from, ld);
            if (b->basis) leak_back(b->slope, C, n, k.h + from, gh + from, ld);
            transpose(C, end - from, gh + from, ld, grad_x + from * C, C);
        }
#pragma omp for schedule(dynamic, 1)
        for (int64_t t = 0; t < b->towers; t++) {
            const float *parts = s.parts + t * rows.tower, *h = k.h + t * w * ld;
            float *const of[] = {d->source, d->target, d->own};
            for (int64_t i = 0; i < 3; i++)
                dots(w, w, 0, N, parts + i * w * ld, ld, h, ld, of[i] + t * w * w, w);
            sum_rows(w, N, parts + w * ld, ld, d->bias + t * w);
            sum_rows(w, N, parts + 2 * w * ld, ld, d->mix_bias + t * w);
        }
    }
    const int64_t whole = w * g.inputs;
    for (int64_t t = 0; t < b->towers; t++)
        for (int64_t r = 0; r < b->scalers; r++)
            for (int64_t i = 0; i < g.groups; i++)
                gather_scaled(!i, whole, b->scales[r * g.groups + i],
                              s.mixes + (t * g.groups + i) * whole,
                              d->mix + (t * b->scalers + r) * whole);
    if (b->basis) {
        float *diffused = s.aggregates; /* [N, C] */
        memcpy(diffused, grad_x, (size_t)(N * C) * sizeof(float));
        diffuse_backward(b->basis, &b->response, C, diffused, k.coefficients, grad_x, d->times);
    }
    for (int64_t i = 0; b->residual && i < N * C; i++) grad_x[i] += grad[i];
}
