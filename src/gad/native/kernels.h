/* What the kernels share: graphs, bases and messages in memory, and one tile of a matrix product.

   Activations are column-major, [C, N]: row c holds channel c of all nodes, and the next row begins
   `ld` floats later. Nodes stand by decreasing degree. */

#ifndef GAD_KERNELS_H
#define GAD_KERNELS_H

#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* what every kernel returns */
enum { DONE = 0, NO_MEMORY = 1 };

typedef struct {
    int64_t nodes, edges, slots, groups; /* N, E, the largest degree; how many degrees there are */
    const int64_t *count;                /* [slots] nodes of degree > s */
    const int64_t *begin;                /* [groups + 1] nodes by degree, the highest first */
    const int32_t *source, *reverse;     /* [E] who sends; where the edge's reverse stands */
    const float *degree;                 /* [N] */
    const float *first, *norm;           /* [E] the field and its length, or NULL */
    const float *first_sum, *norm_sum;   /* [N] their sums into each node */
    int64_t rows, entries;               /* directions after the first: R rows, X entries */
    const int64_t *node, *row, *edge;    /* [R], [X], [X] */
    const float *value, *row_sum;        /* [X], [R] */
} Graphs;

typedef struct {
    int64_t units;                /* U components */
    const int64_t *size, *count;  /* [U] nodes n and eigenpairs K of each */
    const int64_t *members;       /* [N] nodes, component by component */
    const float *mass, *vectors;  /* [N]; [sum of n K], Phi row by row */
    const float *values;          /* [sum of K] eigenvalues */
} Basis;

/* Channels in towers: row c % width of tower c / width, towers `tower` floats apart. */
typedef struct {
    int64_t channels, width, tower, ld;
} Rows;

static inline int64_t at(const Rows *r, int64_t c)
{
    return c / r->width * r->tower + c % r->width * r->ld;
}

/* m_ij = received_i + sent_j + bond_ij, or the LeakyReLU of it */
typedef struct {
    Rows rows;                    /* of what is sent and received */
    int64_t aggregators;          /* A */
    const int64_t *names;         /* [A] */
    const float *sent, *received; /* [C, N] */
    const float *bonds;           /* [C, E], rows `between_bonds` apart, or NULL */
    int64_t between_bonds;
    const float *centre;          /* [C, N], rows `ld` apart: what dx subtracts; NULL is m_ii */
    float slope;                  /* of their LeakyReLU below 0; 1 leaves them as they are */
} Messages;

int reduce_forward(const Graphs *, const Messages *, float *out);
int reduce_backward(const Graphs *, const Messages *, const float *grad, float *grad_sent,
                    float *grad_received, float *grad_bonds, float *grad_centre);

/* What multiplies the coefficient of an eigenvalue lambda, for every channel: given as it is
   [sum of K, C], or by the times [C], those below 0 counting as 0. Then it solves
   dr/dt = -lambda r^power: power 1 is exp(-t lambda), the heat equation, 2 is 1 / (1 + t lambda), the
   implicit step. */
typedef struct {
    const float *given, *times;
    int64_t power;
} Response;

int diffuse(const Basis *, const Response *, int64_t channels, const float *x, float *coefficients,
            float *y, int64_t adjoint);
int diffuse_backward(const Basis *, const Response *, int64_t channels, const float *grad,
                     const float *coefficients, float *grad_x, float *grad_times);

typedef struct {
    int64_t towers, groups, outputs, inputs, ld; /* T, G, O, K */
    const int64_t *begin;                        /* [G + 1] columns of each group */
} Groups;

int product_by_group(const Groups *, const float *weights, const float *x, int64_t x_tower,
                     float *y, int64_t y_tower, int64_t transposed);
void product_by_group_weights(const Groups *, const float *grad, int64_t grad_tower, const float *x,
                              float *weights);

typedef struct {
    const float *gain, *shift;    /* [C] */
    float *mean, *var;            /* [C] running statistics */
    float eps, momentum;
    int64_t training;             /* whether the batch's own statistics are used */
} Norm;

void norm_forward(const Norm *, const Rows *, int64_t nodes, const float *x, const float *factor,
                  float *xi, float *y, float *inverse);
void norm_backward(const Norm *, const Rows *, int64_t nodes, const float *grad, const float *xi,
                   const float *factor, const float *inverse, float *grad_x, float *grad_gain,
                   float *grad_shift);

/* ---------------------------------------------------------------- products */

/* Sixteen columns of a product are one vector or two; as many rows as there are registers for. */
#ifdef __AVX512F__
typedef float vec __attribute__((vector_size(64)));
enum { LANES = 16, TILE = 12 };
#else
typedef float vec __attribute__((vector_size(32)));
enum { LANES = 8, TILE = 6 };
#endif
enum { COLUMNS = 16, VECTORS = COLUMNS / LANES, SPAN = 1024 };

static inline vec load(const float *from) { vec v; memcpy(&v, from, sizeof v); return v; }
static inline void store(float *to, vec v) { memcpy(to, &v, sizeof v); }

static inline int64_t padded(int64_t n) { return (n + COLUMNS - 1) / COLUMNS * COLUMNS; }

static inline float *scratch(int64_t floats)
{
    return aligned_alloc(64, (size_t)padded(floats + 1) * sizeof(float));
}

/* room for every thread, asked for before they part, and the place of this one in it */
static inline float *scratches(int64_t floats)
{
    return scratch(omp_get_max_threads() * padded(floats));
}

static inline float *own_part(float *all, int64_t floats)
{
    return all + omp_get_thread_num() * padded(floats);
}

/* y [rows, 16] = shift + a [rows, inner] b [inner, 16], or += where add is 1. a has any strides,
   shift [rows] may be NULL, and rows is known when compiled. */
static inline __attribute__((always_inline)) void
tile(const int rows, int add, const float *shift, int64_t inner, const float *a, int64_t down,
     int64_t right, const float *b, int64_t ldb, float *y, int64_t ldy)
{
    vec sums[TILE][VECTORS];
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < VECTORS; v++)
            sums[i][v] = add ? load(y + i * ldy + v * LANES) : (vec){0} + (shift ? shift[i] : 0);
    for (int64_t k = 0; k < inner; k++) {
        vec row[VECTORS];
        for (int v = 0; v < VECTORS; v++) row[v] = load(b + k * ldb + v * LANES);
        for (int i = 0; i < rows; i++)
            for (int v = 0; v < VECTORS; v++) sums[i][v] += a[i * down + k * right] * row[v];
    }
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < VECTORS; v++) store(y + i * ldy + v * LANES, sums[i][v]);
}

/* y [m, n] = shift + a [m, inner] b [inner, n], or +=, n a multiple of sixteen; the rows are cut
   evenly, since a tile of one or two waits for its own sums */
static inline void
multiply(int add, const float *shift, int64_t m, int64_t n, int64_t inner, const float *a,
         int64_t down, int64_t right, const float *b, int64_t ldb, float *y, int64_t ldy)
{
    for (int64_t j = 0; j < n; j += COLUMNS)
        for (int64_t i = 0; i < m;) {
            const int64_t tiles = (m - i + TILE - 1) / TILE, rows = (m - i + tiles - 1) / tiles;
            const float *at_a = a + i * down, *s = shift ? shift + i : NULL, *at_b = b + j;
            float *to = y + i * ldy + j;
#define ROWS(n) case n: tile(n, add, s, inner, at_a, down, right, at_b, ldb, to, ldy); break;
            switch (rows) {
#if defined __AVX512F__
                ROWS(12) ROWS(11) ROWS(10) ROWS(9) ROWS(8) ROWS(7)
#endif
                ROWS(6) ROWS(5) ROWS(4) ROWS(3) ROWS(2) ROWS(1)
            }
#undef ROWS
            i += rows;
        }
}

/* w [m, k] = a [m, columns] b [k, columns]^T over the columns from begin to end */
static inline void
dots(int64_t m, int64_t k, int64_t begin, int64_t end, const float *a, int64_t lda, const float *b,
     int64_t ldb, float *w, int64_t ldw)
{
    for (int64_t o = 0; o < m; o++) memset(w + o * ldw, 0, (size_t)k * sizeof(float));
    for (int64_t from = begin; from < end; from += SPAN) {
        const int64_t to = from + SPAN < end ? from + SPAN : end;
        for (int64_t o = 0; o < m; o += 3)
            for (int64_t i = 0; i < k; i += 4) {
                vec sums[3][4] = {{{0}}};
                int64_t j = from;
                const int rows = m - o < 3 ? (int)(m - o) : 3;
                const int cols = k - i < 4 ? (int)(k - i) : 4;
                if (rows == 3 && cols == 4)
                    for (; j + LANES <= to; j += LANES) {
                        vec v[4];
                        for (int c = 0; c < 4; c++) v[c] = load(b + (i + c) * ldb + j);
                        for (int r = 0; r < 3; r++) {
                            vec u = load(a + (o + r) * lda + j);
                            for (int c = 0; c < 4; c++) sums[r][c] += u * v[c];
                        }
                    }
                else
                    for (; j + LANES <= to; j += LANES)
                        for (int r = 0; r < rows; r++) {
                            vec u = load(a + (o + r) * lda + j);
                            for (int c = 0; c < cols; c++)
                                sums[r][c] += u * load(b + (i + c) * ldb + j);
                        }
                for (int r = 0; r < rows; r++)
                    for (int c = 0; c < cols; c++) {
                        float total = 0;
                        for (int l = 0; l < LANES; l++) total += sums[r][c][l];
                        for (int64_t x = j; x < to; x++)
                            total += a[(o + r) * lda + x] * b[(i + c) * ldb + x];
                        w[(o + r) * ldw + i + c] += total;
                    }
            }
    }
}

#endif
