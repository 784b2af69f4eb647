/* Whole numbers: how graphs are chosen out of a packed set, and how a batch is arranged. */

#include "kernels.h"

/* items of `size` bytes from first[g] on, count[g] of them */
int take_spans(int64_t spans, const int64_t *first, const int64_t *count, int64_t size,
               const char *from, char *to)
{
    for (int64_t g = 0; g < spans; g++) {
        const size_t bytes = (size_t)(count[g] * size);
        if (!bytes) continue;
        memcpy(to, from + first[g] * size, bytes);
        to += bytes;
    }
    return DONE;
}

/* the same of numbers, less[g] smaller; without any, the places of the items themselves */
int take_numbers(int64_t spans, const int64_t *first, const int64_t *count, const int64_t *from,
                 const int64_t *less, int64_t *to)
{
    for (int64_t g = 0; g < spans; g++)
        for (int64_t i = first[g]; i < first[g] + count[g]; i++)
            *to++ = from ? from[i] - less[g] : i;
    return DONE;
}

/* Nodes by decreasing number of neighbours, equal ones as they stood, and edges slot by slot: the
   s-th edges of all nodes that have more than s, in the order of the nodes.

   Given are N nodes with their degrees, and E edges sorted by target. order, rank and new_degree
   [N]; edges, new_source and new_reverse [E]; count [N], as many of them as the largest degree. */
int arrange(int64_t N, int64_t E, const int64_t *source, const int64_t *degree,
            const int64_t *reverse, int64_t *order, int64_t *rank, int64_t *new_degree,
            int64_t *edges, int64_t *new_source, int64_t *new_reverse, int64_t *count,
            int64_t *slots)
{
    int64_t *begin = malloc(sizeof(int64_t) * (size_t)(2 * N + E + 2));
    if (!begin) return NO_MEMORY;
    int64_t *next = begin + N, *place = next + N + 1, most = 0, before = 0;
    for (int64_t i = 0; i < N; i++) {
        begin[i] = before;
        before += degree[i];
        most = degree[i] > most ? degree[i] : most;
    }
    /* count[s] nodes have more than s neighbours: that is where those with s of them begin. */
    for (int64_t s = 0; s < most; s++) count[s] = 0;
    for (int64_t i = 0; i < N; i++)
        if (degree[i]) count[degree[i] - 1]++;
    for (int64_t s = most - 1; s > 0; s--) count[s - 1] += count[s];
    for (int64_t s = 0; s <= most; s++) next[s] = s < most ? count[s] : 0;
    for (int64_t i = 0; i < N; i++) {
        rank[i] = next[degree[i]]++;
        order[rank[i]] = i;
        new_degree[rank[i]] = degree[i];
    }
    for (int64_t s = 0, a = 0; s < most; a += count[s++])
        for (int64_t k = 0; k < count[s]; k++) {
            edges[a + k] = begin[order[k]] + s;
            place[edges[a + k]] = a + k;
        }
    for (int64_t e = 0; e < E; e++) {
        new_source[e] = rank[source[edges[e]]];
        new_reverse[e] = place[reverse[edges[e]]];
    }
    *slots = most;
    free(begin);
    return DONE;
}
