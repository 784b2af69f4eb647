/* Reductions over neighbourhoods: all aggregates of one channel while its messages are in cache.

   The mathematics of gad.nn.aggregation, column-major [C, .], nodes by decreasing degree, edges slot
   by slot. Slot s holds the s-th message of the first count[s] nodes, so every loop below runs over
   consecutive numbers. Of linear messages m_ij = received_i + sent_j + bond_ij what depends on i alone
   is added to the results, not to m; those that go through a LeakyReLU are made whole.
   Channels are independent: each is one iteration of a parallel loop. */

#include <math.h>

#include "kernels.h"

enum { MEAN, MAX, MIN, SUM, STD, AV, DX };

/* where aggregate i of channel c stands in [T, A, C/T, N] */
static int64_t result(const Messages *f, int64_t c, int64_t i)
{
    const int64_t width = f->rows.width;
    return ((c / width * f->aggregators + i) * width + c % width) * f->rows.ld;
}

/* For every slot: k runs over its nodes, j over its edges. */
#define EACH_SLOT(g) for (int64_t s = 0, a = 0; s < (g)->slots; a += (g)->count[s++])
#define EACH_NODE(n) for (int64_t k = 0, j = a; k < (n); k++, j++)

static int64_t reached(const Graphs *g) { return g->slots ? g->count[0] : 0; }

static float larger(float a, float b) { return (b > a) | (b != b) ? b : a; }
static float smaller(float a, float b) { return (b < a) | (b != b) ? b : a; }

static int is_linear(const Messages *f) { return f->slope == 1; }

/* the factor of the gradient before a LeakyReLU, whose result has the sign of what it was made from */
static float steepness(const Messages *f, float y) { return y > 0 ? 1 : f->slope; }

/* m_j = sent_source(j) + bond_j of channel c; all of it where messages are not linear */
static void gather(const Graphs *g, const Messages *f, int64_t c, float *m)
{
    const float *sent = f->sent + at(&f->rows, c), *received = f->received + at(&f->rows, c);
    const float *bonds = f->bonds ? f->bonds + c * f->between_bonds : NULL;
    if (bonds)
        for (int64_t j = 0; j < g->edges; j++) m[j] = sent[g->source[j]] + bonds[j];
    else
        for (int64_t j = 0; j < g->edges; j++) m[j] = sent[g->source[j]];
    if (is_linear(f)) return;
    EACH_SLOT(g) EACH_NODE(g->count[s]) {
        m[j] += received[k];
        m[j] *= steepness(f, m[j]);
    }
}

/* out_k = sum of m, or of w m */
static void sum(const Graphs *g, const float *restrict m, const float *restrict w,
                float *restrict out)
{
    for (int64_t k = 0; k < reached(g); k++) out[k] = 0;
    EACH_SLOT(g) {
        if (w) EACH_NODE(g->count[s]) out[k] += w[j] * m[j];
        else EACH_NODE(g->count[s]) out[k] += m[j];
    }
}

/* out_k = sum of w (m - c_k): the difference first, so that equal messages give 0, not rounding */
static void derive(const Graphs *g, const float *restrict m, const float *restrict c,
                   float *restrict out)
{
    const float *restrict w = g->first;
    for (int64_t k = 0; k < reached(g); k++) out[k] = 0;
    EACH_SLOT(g) EACH_NODE(g->count[s]) out[k] += w[j] * (m[j] - c[k]);
}

/* the derivatives along the directions after the first [R] */
static void derive_others(const Graphs *g, const float *m, const float *c, float *others)
{
    for (int64_t r = 0; r < g->rows; r++) others[r] = 0;
    for (int64_t x = 0; x < g->entries; x++) {
        int64_t r = g->row[x];
        others[r] += g->value[x] * (m[g->edge[x]] - c[g->node[r]]);
    }
}

static void extreme(const Graphs *g, int64_t name, const float *restrict m, float *restrict out)
{
    for (int64_t k = 0; k < reached(g); k++) out[k] = m[k];
    EACH_SLOT(g) {
        if (name == MAX) EACH_NODE(g->count[s]) out[k] = larger(out[k], m[j]);
        else EACH_NODE(g->count[s]) out[k] = smaller(out[k], m[j]);
    }
}

/* centred_j = m_j minus the mean, by way of the first message; out_k = the standard deviation */
static void deviate(const Graphs *g, const float *restrict m, float *restrict centred,
                    float *restrict out)
{
    int64_t n = reached(g);
    EACH_SLOT(g) EACH_NODE(g->count[s]) centred[j] = m[j] - m[k];
    sum(g, centred, NULL, out);
    for (int64_t k = 0; k < n; k++) out[k] /= g->degree[k];
    EACH_SLOT(g) EACH_NODE(g->count[s]) centred[j] -= out[k];
    for (int64_t k = 0; k < n; k++) out[k] = 0;
    EACH_SLOT(g) EACH_NODE(g->count[s]) out[k] += centred[j] * centred[j];
    for (int64_t k = 0; k < n; k++) out[k] = sqrtf(out[k] / g->degree[k]);
}

/* what dx subtracts: m_ii or the centre, with received_i left out where it is in m */
static const float *centre(const Graphs *g, const Messages *f, int64_t c, float *own)
{
    const float *sent = f->sent + at(&f->rows, c), *received = f->received + at(&f->rows, c);
    const float *given = f->centre ? f->centre + c * f->rows.ld : NULL;
    if (is_linear(f) && !given) return sent;
    if (!is_linear(f) && given) return given;
    for (int64_t k = 0; k < g->nodes; k++)
        own[k] = given ? given[k] - received[k] : sent[k] + received[k];
    for (int64_t k = 0; !given && k < g->nodes; k++) own[k] *= steepness(f, own[k]);
    return own;
}

/* what is added to the results because it is not in m */
static const float *common(const Graphs *g, const Messages *f, int64_t c, float *nothing)
{
    if (is_linear(f)) return f->received + at(&f->rows, c);
    for (int64_t k = 0; k < g->nodes; k++) nothing[k] = 0;
    return nothing;
}

/* out [T, A, C/T, N] */
int reduce_forward(const Graphs *g, const Messages *f, float *out)
{
    const int64_t N = g->nodes, n = reached(g), size = 2 * g->edges + 2 * N + g->rows;
    float *room = scratches(size);
    if (!room) return NO_MEMORY;
#pragma omp parallel
    {
        float *m = own_part(room, size);
        float *centred = m + g->edges, *own = centred + g->edges, *nothing = own + N;
        float *others = nothing + N;
#pragma omp for schedule(static)
        for (int64_t c = 0; c < f->rows.channels; c++) {
            const float *q = common(g, f, c, nothing);
            const float *d = g->degree;
            gather(g, f, c, m);
            for (int64_t i = 0; i < f->aggregators; i++) {
                float *y = out + result(f, c, i);
                switch (f->names[i]) {
                case MEAN:
                    sum(g, m, NULL, y);
                    for (int64_t k = 0; k < n; k++) y[k] = q[k] + y[k] / d[k];
                    break;
                case SUM:
                    sum(g, m, NULL, y);
                    for (int64_t k = 0; k < n; k++) y[k] += q[k] * d[k];
                    break;
                case MAX:
                case MIN:
                    extreme(g, f->names[i], m, y);
                    for (int64_t k = 0; k < n; k++) y[k] += q[k];
                    break;
                case STD:
                    deviate(g, m, centred, y);
                    break;
                case AV:
                    sum(g, m, g->norm, y);
                    for (int64_t k = 0; k < n; k++) y[k] += q[k] * g->norm_sum[k];
                    break;
                case DX: {
                    const float *from = centre(g, f, c, own);
                    derive(g, m, from, y);
                    derive_others(g, m, from, others);
                    for (int64_t k = 0; k < n; k++) y[k] = fabsf(y[k]);
                    for (int64_t r = 0; r < g->rows; r++)
                        y[g->node[r]] = hypotf(y[g->node[r]], others[r]);
                }
                }
                for (int64_t k = n; k < N; k++) y[k] = 0;
            }
        }
    }
    free(room);
    return DONE;
}

/* equal best messages share the gradient evenly */
static void share(const Graphs *g, const float *restrict m, const float *restrict best,
                  const float *restrict gy, float *restrict each, float *restrict gm)
{
    for (int64_t k = 0; k < reached(g); k++) each[k] = 0;
    EACH_SLOT(g) EACH_NODE(g->count[s]) each[k] += m[j] == best[k] ? 1.0f : 0.0f;
    for (int64_t k = 0; k < reached(g); k++) each[k] = gy[k] / each[k];
    EACH_SLOT(g) EACH_NODE(g->count[s]) gm[j] += m[j] == best[k] ? each[k] : 0.0f;
}

/* grad [T, A, C/T, N] -> gradients of what is sent, received and, unless NULL, of the bonds [C, E];
   that of the centre is added */
int reduce_backward(const Graphs *g, const Messages *f, const float *grad, float *grad_sent,
                    float *grad_received, float *grad_bonds, float *grad_centre)
{
    const int64_t N = g->nodes, E = g->edges, n = reached(g), size = 3 * E + 5 * N + g->rows;
    float *room = scratches(size);
    if (!room) return NO_MEMORY;
#pragma omp parallel
    {
        float *m = own_part(room, size);
        float *centred = m + E, *spare = centred + E, *best = spare + E, *each = best + N;
        float *flat = each + N, *own = flat + N, *apart = own + N, *others = apart + N;
#pragma omp for schedule(static)
        for (int64_t c = 0; c < f->rows.channels; c++) {
            float *gm = grad_bonds ? grad_bonds + c * f->between_bonds : spare;
            float *gp = grad_sent + at(&f->rows, c), *gq = grad_received + at(&f->rows, c);
            const float *d = g->degree;
            const float *from = centre(g, f, c, own);
            float *gc = f->centre || !is_linear(f) ? apart : gp;
            gather(g, f, c, m);
            for (int64_t k = 0; k < N; k++) gq[k] = gp[k] = flat[k] = 0;
            if (gc == apart) for (int64_t k = 0; k < N; k++) gc[k] = 0;
            /* What is the same for all messages of a node comes first and is written, not added. */
            for (int64_t i = 0; i < f->aggregators; i++) {
                const float *gy = grad + result(f, c, i);
                if (f->names[i] == MEAN)
                    for (int64_t k = 0; k < n; k++) { gq[k] += gy[k]; flat[k] += gy[k] / d[k]; }
                if (f->names[i] == SUM)
                    for (int64_t k = 0; k < n; k++) { gq[k] += gy[k] * d[k]; flat[k] += gy[k]; }
            }
            EACH_SLOT(g) EACH_NODE(g->count[s]) gm[j] = flat[k];
            for (int64_t i = 0; i < f->aggregators; i++) {
                const float *restrict gy = grad + result(f, c, i);
                switch (f->names[i]) {
                case MAX:
                case MIN:
                    extreme(g, f->names[i], m, best);
                    share(g, m, best, gy, each, gm);
                    for (int64_t k = 0; k < n; k++) gq[k] += gy[k];
                    break;
                case STD:
                    deviate(g, m, centred, best);
                    for (int64_t k = 0; k < n; k++)
                        each[k] = best[k] > 0 ? gy[k] / (best[k] * d[k]) : 0.0f;
                    EACH_SLOT(g) EACH_NODE(g->count[s]) gm[j] += centred[j] * each[k];
                    break;
                case AV:
                    EACH_SLOT(g) EACH_NODE(g->count[s]) gm[j] += g->norm[j] * gy[k];
                    for (int64_t k = 0; k < n; k++) gq[k] += gy[k] * g->norm_sum[k];
                    break;
                case DX:
                    derive(g, m, from, best);
                    derive_others(g, m, from, others);
                    for (int64_t k = 0; k < n; k++)
                        each[k] = best[k] > 0 ? gy[k] : best[k] < 0 ? -gy[k] : best[k] * gy[k];
                    /* Where there are more directions: the gradient of a length, 0 at 0. */
                    for (int64_t r = 0; r < g->rows; r++)
                        flat[g->node[r]] = best[g->node[r]] * best[g->node[r]];
                    for (int64_t r = 0; r < g->rows; r++)
                        flat[g->node[r]] += others[r] * others[r];
                    for (int64_t r = 0; r < g->rows; r++) {
                        int64_t k = g->node[r];
                        float part = flat[k] > 0 ? gy[k] / sqrtf(flat[k]) : 0.0f;
                        each[k] = part * best[k];
                        others[r] *= part;
                        gc[k] -= others[r] * g->row_sum[r];
                    }
                    for (int64_t x = 0; x < g->entries; x++)
                        gm[g->edge[x]] += others[g->row[x]] * g->value[x];
                    EACH_SLOT(g) EACH_NODE(g->count[s]) gm[j] += g->first[j] * each[k];
                    for (int64_t k = 0; k < n; k++) gc[k] -= each[k] * g->first_sum[k];
                }
            }
            if (!is_linear(f)) { /* What a node receives was in its messages, and in m_ii. */
                for (int64_t k = 0; k < N; k++) {
                    float part = f->centre ? 0.0f : gc[k] * steepness(f, from[k]);
                    gq[k] = part;
                    gp[k] += part;
                }
                for (int64_t j = 0; j < E; j++) gm[j] *= steepness(f, m[j]);
                EACH_SLOT(g) EACH_NODE(g->count[s]) gq[k] += gm[j];
            }
            /* What node k sent, it finds at the reverses of the edges it receives. */
            EACH_SLOT(g) EACH_NODE(g->count[s]) gp[k] += gm[g->reverse[j]];
            if (f->centre)
                for (int64_t k = 0; k < N; k++) {
                    if (is_linear(f)) gq[k] -= gc[k];
                    grad_centre[c * f->rows.ld + k] += gc[k];
                }
        }
    }
    free(room);
    return DONE;
}
