/* The eigenbases of many small graphs: L phi = lambda M phi of every component, in double precision.

   Through the symmetric M^(-1/2) L M^(-1/2), by Householder's reduction to three diagonals and the
   implicit QL method. A component is a few dozen nodes: its matrix stays in the nearest cache, and a
   library call would take longer than the arithmetic. */

#include <float.h>
#include <math.h>

#include "kernels.h"

enum { NOT_CONVERGED = 2, MOST_STEPS = 100, DOUBLES = 8 };

/* Rows are padded with zeros to whole vectors, which every loop below runs over. */
static int64_t padded_doubles(int64_t n) { return (n + DOUBLES - 1) / DOUBLES * DOUBLES; }

/* a [n, P] symmetric -> its diagonals d [n] and e [n] (e[k] beside d[k] and d[k + 1]), and the
   orthogonal q [n, P] with a = q T q^T. work has room for 3 P and n numbers. */
static void reduce_to_diagonals(int64_t n, int64_t P, double *restrict a, double *d, double *e,
                                double *restrict q, double *work)
{
    double *restrict v = work, *restrict p = work + P, *restrict scale = work + 2 * P;
    for (int64_t k = 0; k + 2 < n; k++) {
        double *row = a + k * P, square = 0;
        for (int64_t j = k + 2; j < n; j++) square += row[j] * row[j];
        d[k] = row[k];
        scale[k] = 0;
        e[k] = row[k + 1];
        if (square == 0) continue;
        const double length = sqrt(row[k + 1] * row[k + 1] + square);
        e[k] = row[k + 1] > 0 ? -length : length;
        row[k + 1] -= e[k];
        scale[k] = 2 / (row[k + 1] * row[k + 1] + square);
        /* The reflection 1 - s v v^T: v lies in the row from k + 1 on, where it stays for q. */
        const int64_t from = (k + 1) / DOUBLES * DOUBLES;
        for (int64_t j = from; j < P; j++) { v[j] = j > k ? row[j] : 0; p[j] = 0; }
        for (int64_t i = k + 1; i < n; i++)
            for (int64_t j = from; j < P; j++) p[j] += v[i] * a[i * P + j];
        double along = 0;
        for (int64_t j = k + 1; j < n; j++) along += p[j] * v[j];
        along *= scale[k] / 2;
        for (int64_t j = from; j < P; j++) p[j] = scale[k] * (p[j] - along * v[j]);
        for (int64_t i = k + 1; i < n; i++) {
            const double vi = v[i], pi = p[i];
            for (int64_t j = from; j < P; j++) a[i * P + j] -= vi * p[j] + pi * v[j];
        }
    }
    for (int64_t k = n < 2 ? 0 : n - 2; k < n; k++) d[k] = a[k * P + k];
    if (n > 1) e[n - 2] = a[(n - 2) * P + n - 1];
    e[n - 1] = 0;
    memset(q, 0, (size_t)(n * P) * sizeof(double));
    for (int64_t i = 0; i < n; i++) q[i * P + i] = 1;
    for (int64_t k = n - 3; k >= 0; k--) {
        if (scale[k] == 0) continue;
        const int64_t from = (k + 1) / DOUBLES * DOUBLES;
        const double *restrict w = a + k * P;
        for (int64_t j = from; j < P; j++) p[j] = 0;
        for (int64_t i = k + 1; i < n; i++)
            for (int64_t j = from; j < P; j++) p[j] += w[i] * q[i * P + j];
        for (int64_t i = k + 1; i < n; i++) {
            const double s = scale[k] * w[i];
            for (int64_t j = from; j < P; j++) q[i * P + j] -= s * p[j];
        }
    }
}

/* The eigenvalues of the diagonals d, e, left in d; the rows of z [n, P], which were those of q^T,
   become the eigenvectors. */
static int implicit_ql(int64_t n, int64_t P, double *d, double *e, double *restrict z)
{
    for (int64_t l = 0; l < n; l++)
        for (int64_t step = 0;; step++) {
            int64_t m = l;
            for (; m + 1 < n; m++)
                if (fabs(e[m]) <= DBL_EPSILON * (fabs(d[m]) + fabs(d[m + 1]))) break;
            if (m == l) break;
            if (step == MOST_STEPS) return NOT_CONVERGED;
            const double half = (d[l + 1] - d[l]) / (2 * e[l]), r = sqrt(half * half + 1);
            double g = d[m] - d[l] + e[l] / (half + (half < 0 ? -r : r));
            double s = 1, c = 1, p = 0;
            int64_t i = m - 1;
            for (; i >= l; i--) {
                const double f = s * e[i], b = c * e[i], length = sqrt(f * f + g * g);
                e[i + 1] = length;
                if (length == 0) {
                    d[i + 1] -= p;
                    e[m] = 0;
                    break;
                }
                const double inverse = 1 / length;
                s = f * inverse;
                c = g * inverse;
                g = d[i + 1] - p;
                const double t = (d[i] - g) * s + 2 * c * b;
                p = s * t;
                d[i + 1] = g + p;
                g = c * t - b;
                double *restrict low = z + i * P, *restrict high = low + P;
                for (int64_t j = 0; j < P; j++) {
                    const double x = high[j], y = low[j];
                    high[j] = s * y + c * x;
                    low[j] = c * y - s * x;
                }
            }
            if (i >= l) continue;
            d[l] -= p;
            e[l] = g;
            e[m] = 0;
        }
    return DONE;
}

/* One component: lambda [n], phi [n, n]. a [n, P] is the off-diagonal part of the symmetric matrix.

   The null vector M^(1/2) 1 is known, so it is moved out of the way (to 3, above every lambda <= 2)
   and put first afterwards: lambda_0 is 0 and phi_0 constant, both exactly. */
static int solve(int64_t n, int64_t P, double *a, double *room, const double *mass,
                 const int64_t *node, double *lambda, double *phi)
{
    double *z = room, *work = z + n * P, *d = work + 3 * P, *e = d + P, *root = e + P;
    double *null = root + P, total = 0;
    int64_t *rank = (int64_t *)(null + P);
    for (int64_t i = 0; i < n; i++) total += mass[node[i]];
    for (int64_t i = 0; i < n; i++) root[i] = sqrt(mass[node[i]]);
    for (int64_t i = 0; i < n; i++) null[i] = root[i] / sqrt(total);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) a[i * P + j] += 3 * null[i] * null[j] + (i == j);
    double *q = z;
    if (n > 1) {
        reduce_to_diagonals(n, P, a, d, e, q, work);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < P; j++) a[i * P + j] = j < n ? q[j * P + i] : 0;
        const int failed = implicit_ql(n, P, d, e, a);
        if (failed) return failed;
    }
    for (int64_t k = 0; k < n; k++) { /* ascending, by insertion */
        int64_t at = k;
        for (; at > 0 && d[rank[at - 1]] > d[k]; at--) rank[at] = rank[at - 1];
        rank[at] = k;
    }
    lambda[0] = 0;
    for (int64_t i = 0; i < n; i++) phi[i * n] = 1 / sqrt(total);
    for (int64_t k = 1; k < n; k++) { /* the last is the null vector */
        const double value = d[rank[k - 1]], *vector = a + rank[k - 1] * P;
        lambda[k] = value < 0 ? 0 : value > 2 ? 2 : value;
        for (int64_t i = 0; i < n; i++) phi[i * n + k] = vector[i] / root[i];
    }
    return DONE;
}

/* The eigenpairs of some components, `unit` [units]. Component u has size[u] nodes, listed in
   `members` from member_at[u] on; its eigenvalues go to the same place of `values`, its eigenvectors
   to `vectors` from vector_at[u] on. Node i has place slot[i] in its component, and of the edges
   j -> i, with their source and weight, those into i are begin[i] to begin[i + 1] of `order`. */
int decompose(int64_t units, const int64_t *unit, const int64_t *size, const int64_t *member_at,
              const int64_t *vector_at, const int64_t *members, const int64_t *slot,
              const double *mass, const int64_t *begin, const int64_t *order,
              const int64_t *source, const double *weight, double *values, double *vectors)
{
    int64_t most = 1;
    for (int64_t u = 0; u < units; u++) most = size[unit[u]] > most ? size[unit[u]] : most;
    const int64_t P = padded_doubles(most), floats = 2 * (2 * most * P + 8 * P);
    float *room = scratches(floats);
    if (!room) return NO_MEMORY;
    int failed = DONE;
#pragma omp parallel for schedule(dynamic, 16) reduction(max : failed)
    for (int64_t each = 0; each < units; each++) {
        const int64_t u = unit[each], n = size[u], p = padded_doubles(n);
        const int64_t *node = members + member_at[u];
        double *a = (double *)own_part(room, floats);
        memset(a, 0, (size_t)(n * p) * sizeof(double));
        for (int64_t i = 0; i < n; i++)
            for (int64_t at = begin[node[i]]; at < begin[node[i] + 1]; at++) {
                const int64_t e = order[at], j = source[e], k = slot[j];
                if (k <= i) a[i * p + k] = a[k * p + i] = -weight[e] / sqrt(mass[node[i]] * mass[j]);
            }
        const int one = solve(n, p, a, a + n * p, mass, node, values + member_at[u],
                              vectors + vector_at[u]);
        failed = one > failed ? one : failed;
    }
    free(room);
    return failed;
}
