/* Boosted trees: every row goes down every tree, and the leaves it ends in are added up.

   A node sends a row to the left where x[column] <= threshold; a leaf sends it to itself. Some rows go
   down a tree together, since each step waits for the one before. A row within `soft` of a threshold goes
   both ways, see `shared`. */

#include "kernels.h"

#include <math.h>

enum { DAMAGED = 2, TOGETHER = 8 };

typedef struct {
    float threshold, soft;
    int32_t column, next[2]; /* left, right */
} Fork;

/* The value of the leaves that a row ends in, each by its share: within soft of a threshold a row goes to
   the left by a share that falls from 1 to 0, so that rounding moves what comes out by as little. */
static float shared(const Fork *forks, const float *value, const float *x, int32_t at, int64_t steps)
{
    for (; steps > 0; steps--) {
        const Fork *fork = forks + at;
        const float over = x[fork->column] - fork->threshold;
        if (fabsf(over) < fork->soft && fork->next[0] != fork->next[1]) {
            const float left = 0.5f - 0.5f * over / fork->soft;
            return left * shared(forks, value, x, fork->next[0], steps - 1)
                   + (1 - left) * shared(forks, value, x, fork->next[1], steps - 1);
        }
        at = fork->next[!(over <= 0)];
    }
    return value[at];
}

/* y [n, W] = start [W] + the leaves of T trees over x [n, D]; soft [D] */
int trees(int64_t n, int64_t D, const float *x, int64_t nodes, const int64_t *column,
          const int64_t *left, const int64_t *right, const float *threshold, const float *value,
          int64_t T, const int64_t *root, const int64_t *output, int64_t W, const float *start,
          int64_t depth, const float *soft, float *y)
{
    for (int64_t t = 0; t < T; t++)
        if (root[t] < 0 || root[t] >= nodes || output[t] < 0 || output[t] >= W) return DAMAGED;
    Fork *forks = malloc((size_t)(nodes + 1) * sizeof(Fork));
    if (!forks) return NO_MEMORY;
    for (int64_t i = 0; i < nodes; i++) {
        const int64_t next[] = {left[i], right[i]};
        for (int k = 0; k < 2; k++)
            if (next[k] < 0 || next[k] >= nodes || column[i] < 0 || column[i] >= D) {
                free(forks);
                return DAMAGED;
            }
        forks[i] = (Fork){
            threshold[i], soft[column[i]], (int32_t)column[i], {(int32_t)next[0], (int32_t)next[1]}};
    }
    memset(y, 0, (size_t)(n * W) * sizeof(float));
#pragma omp parallel for schedule(static)
    for (int64_t from = 0; from < n; from += TOGETHER) {
        const int64_t rows = n - from < TOGETHER ? n - from : TOGETHER;
        for (int64_t t = 0; t < T; t++) {
            int32_t at[TOGETHER];
            int near[TOGETHER] = {0};
            for (int64_t i = 0; i < TOGETHER; i++) at[i] = (int32_t)root[t];
            for (int64_t step = 0; step < depth; step++)
                for (int64_t i = 0; i < rows; i++) {
                    const Fork *fork = forks + at[i];
                    const float over = x[(from + i) * D + fork->column] - fork->threshold;
                    near[i] |= fabsf(over) < fork->soft;
                    at[i] = fork->next[!(over <= 0)];
                }
            for (int64_t i = 0; i < rows; i++)
                y[(from + i) * W + output[t]] +=
                    near[i] ? shared(forks, value, x + (from + i) * D, (int32_t)root[t], depth)
                            : value[at[i]];
        }
        for (int64_t i = from * W; i < (from + rows) * W; i++) y[i] = start[i % W] + y[i];
    }
    free(forks);
    return DONE;
}
