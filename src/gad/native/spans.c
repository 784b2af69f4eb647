/* Spans of flat arrays, one after another: how graphs are chosen out of a packed set. */

#include "kernels.h"

/* items of `size` bytes from first[g] on, count[g] of them */
void take_spans(int64_t spans, const int64_t *first, const int64_t *count, int64_t size,
                const char *from, char *to)
{
    for (int64_t g = 0; g < spans; g++) {
        const size_t bytes = (size_t)(count[g] * size);
        memcpy(to, from + first[g] * size, bytes);
        to += bytes;
    }
}

/* the same of numbers, less[g] smaller; without any, the places of the items themselves */
void take_numbers(int64_t spans, const int64_t *first, const int64_t *count, const int64_t *from,
                  const int64_t *less, int64_t *to)
{
    for (int64_t g = 0; g < spans; g++)
        for (int64_t i = first[g]; i < first[g] + count[g]; i++)
            *to++ = from ? from[i] - less[g] : i;
}
