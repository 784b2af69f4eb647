/* Steps of the random walk on a large graph: sparse products with what follows them, in one pass.

   Signals are row-major [N, C], so that what a neighbour has is one piece of memory; of the C
   channels only the first `active` are worked on. */

#include "kernels.h"

enum { AHEAD = 12 }; /* edges between asking for a neighbour's row and reading it */

typedef float eight __attribute__((vector_size(32)));
enum { EIGHT = 8 };

static inline eight read_eight(const float *from) { eight v; memcpy(&v, from, sizeof v); return v; }

/* sum = of the neighbours' rows: of sixteen channels, of eight, or of a few */
static inline __attribute__((always_inline)) void
gather(const int vecs, int64_t channels, int64_t ld, int64_t begin, int64_t end, int64_t last,
       const int32_t *source, const float *value, const float *x, float *sum)
{
    eight left = {0}, rest = {0};
    float few[EIGHT] = {0};
    for (int64_t e = begin; e < end; e++) {
        const int64_t ahead = e + AHEAD < last ? e + AHEAD : last;
        __builtin_prefetch(x + source[ahead] * ld);
        const float *row = x + source[e] * ld;
        const float w = value[e];
        if (vecs > 0) left += w * read_eight(row);
        if (vecs > 1) rest += w * read_eight(row + EIGHT);
        for (int64_t c = 0; !vecs && c < channels; c++) few[c] += w * row[c];
    }
    if (vecs > 1) memcpy(sum + EIGHT, &rest, sizeof rest);
    if (vecs > 0) memcpy(sum, &left, sizeof left);
    else memcpy(sum, few, sizeof few);
}

/* next = a P now + b before, with P's rows from `start` on; a and b belong to channels [C].
   Then, unless they are NULL: total += weight next, and dot [C] = sum of mass other next.
   next may be before. */
int walk_step(int64_t nodes, int64_t ld, int64_t active, const int64_t *start, const int32_t *source,
              const float *value, const float *now, const float *a, const float *b,
              const float *before, float *next, const float *weight, float *total,
              const float *mass, const float *other, double *dot)
{
    const int64_t last = start[nodes] - 1;
    double unused[1], *sums = dot ? dot : unused;
    const int64_t size = dot ? active : 1;
    for (int64_t c = 0; c < size; c++) sums[c] = 0;
#pragma omp parallel for schedule(dynamic, 4096) reduction(+ : sums[:size])
    for (int64_t i = 0; i < nodes; i++)
        for (int64_t c0 = 0, width; c0 < active; c0 += width) {
            const int64_t left = active - c0, at = i * ld + c0, begin = start[i], end = start[i + 1];
            const float *x = now + c0;
            float sum[COLUMNS];
            width = left < COLUMNS ? left : COLUMNS;
            /* Channels that nobody needs are no reason to go one by one. */
            if (left > EIGHT && c0 + COLUMNS <= ld)
                gather(2, width, ld, begin, end, last, source, value, x, sum);
            else if (c0 + EIGHT <= ld) {
                width = left < EIGHT ? left : EIGHT;
                gather(1, width, ld, begin, end, last, source, value, x, sum);
            } else
                gather(0, width, ld, begin, end, last, source, value, x, sum);
            for (int64_t c = 0; c < width; c++) sum[c] *= a[c0 + c];
            if (before)
                for (int64_t c = 0; c < width; c++) sum[c] += b[c0 + c] * before[at + c];
            for (int64_t c = 0; c < width; c++) next[at + c] = sum[c];
            if (total)
                for (int64_t c = 0; c < width; c++) total[at + c] += weight[c0 + c] * sum[c];
            if (dot)
                for (int64_t c = 0; c < width; c++)
                    sums[c0 + c] += (double)mass[i] * other[at + c] * sum[c];
        }
    return DONE;
}

/* A step of conjugate gradients: x += alpha p, r -= alpha kp, dot [C] = sum of mass r r. */
int walk_descend(int64_t nodes, int64_t channels, const float *alpha, const float *p,
                 const float *kp, float *x, float *r, const float *mass, double *dot)
{
    for (int64_t c = 0; c < channels; c++) dot[c] = 0;
#pragma omp parallel for schedule(static) reduction(+ : dot[:channels])
    for (int64_t i = 0; i < nodes; i++)
        for (int64_t c = 0, j = i * channels; c < channels; c++, j++) {
            x[j] += alpha[c] * p[j];
            r[j] -= alpha[c] * kp[j];
            dot[c] += (double)mass[i] * r[j] * r[j];
        }
    return DONE;
}
