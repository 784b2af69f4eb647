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

/* The same of as many of the channels from c0 on as are summed at once: how many. */
static inline int64_t gather_some(int64_t left, int64_t c0, int64_t ld, int64_t begin, int64_t end,
                                  int64_t last, const int32_t *source, const float *value,
                                  const float *x, float *sum)
{
    /* Channels that nobody needs are no reason to go one by one. */
    if (left > EIGHT && c0 + COLUMNS <= ld) {
        gather(2, COLUMNS, ld, begin, end, last, source, value, x, sum);
        return left < COLUMNS ? left : COLUMNS;
    }
    if (c0 + EIGHT <= ld) {
        gather(1, EIGHT, ld, begin, end, last, source, value, x, sum);
        return left < EIGHT ? left : EIGHT;
    }
    gather(0, left, ld, begin, end, last, source, value, x, sum);
    return left;
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
            const int64_t left = active - c0, at = i * ld + c0;
            float sum[COLUMNS];
            width = gather_some(left, c0, ld, start[i], start[i + 1], last, source, value,
                                now + c0, sum);
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

/* The polynomial of 1 / (1 + t lambda), whose coefficients are a geometric series in q: with
   z = x / (1 - q^2) at first and 0 before it, z <- 2 q P z - q^2 (z before) + x; after steps[c] of
   them channel order[c] of out is scale (z - q^2 (z two before)). Channels of x stand by decreasing steps [C], at least 1;
   one and two [N, C] are to work in. */
int walk_resolvent(int64_t nodes, int64_t ld, const int64_t *start, const int32_t *source,
                   const float *value, const float *x, const float *q, const float *scale,
                   const int64_t *steps, const int64_t *order, float *one, float *two, float *out)
{
    const int64_t last = start[nodes] - 1;
    float *plus = malloc(sizeof(float) * (size_t)(2 * ld + 1)), *minus = plus + ld;
    if (!plus) return NO_MEMORY;
    for (int64_t j = 1, active = ld, staying; j <= steps[0]; j++, active = staying) {
        const float *now = j == 1 ? x : j % 2 ? two : one;
        float *next = j % 2 ? one : two;
        const float *before = j == 1 ? NULL : j == 2 ? x : next;
        for (staying = active; staying && steps[staying - 1] == j;) staying--;
        for (int64_t c = 0; c < active; c++) { /* x stands for the first z */
            const float square = q[c] * q[c], first = 1 / (1 - square);
            plus[c] = 2 * q[c] * (j == 1 ? first : 1);
            minus[c] = square * (j == 2 ? first : 1);
        }
#pragma omp parallel for schedule(dynamic, 4096)
        for (int64_t i = 0; i < nodes; i++)
            for (int64_t c0 = 0, width; c0 < active; c0 += width) {
                const int64_t left = active - c0, at = i * ld + c0;
                float sum[COLUMNS], less[COLUMNS] = {0};
                width = gather_some(left, c0, ld, start[i], start[i + 1], last, source, value,
                                    now + c0, sum);
                for (int64_t c = 0; before && c < width; c++)
                    less[c] = minus[c0 + c] * before[at + c];
                for (int64_t c = 0; c < width; c++)
                    sum[c] = plus[c0 + c] * sum[c] + x[at + c] - less[c];
                for (int64_t c = staying > c0 ? staying - c0 : 0; c < width; c++)
                    out[i * ld + order[c0 + c]] = scale[c0 + c] * (sum[c] - less[c]);
                if (staying > c0)
                    for (int64_t c = 0; c < width; c++) next[at + c] = sum[c];
            }
    }
    free(plus);
    return DONE;
}

/* Conjugate gradients, first half of a step: r -= alpha kp, dot [C] = sum of mass r r. */
int walk_descend(int64_t nodes, int64_t channels, const float *alpha, const float *kp, float *r,
                 const float *mass, double *dot)
{
    for (int64_t c = 0; c < channels; c++) dot[c] = 0;
#pragma omp parallel for schedule(static) reduction(+ : dot[:channels])
    for (int64_t i = 0; i < nodes; i++)
        for (int64_t c = 0, j = i * channels; c < channels; c++, j++) {
            r[j] -= alpha[c] * kp[j];
            dot[c] += (double)mass[i] * r[j] * r[j];
        }
    return DONE;
}

/* Second half: x += alpha p, p = r + beta p. */
int walk_turn(int64_t nodes, int64_t channels, const float *alpha, const float *beta,
              const float *r, float *x, float *p)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < nodes; i++)
        for (int64_t c = 0, j = i * channels; c < channels; c++, j++) {
            x[j] += alpha[c] * p[j];
            p[j] = r[j] + beta[c] * p[j];
        }
    return DONE;
}
