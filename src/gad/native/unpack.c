/* Molecules out of RDKit's own binary form (Mol.ToBinary, format 16): atoms, bonds and rings.

   Asking RDKit atom by atom takes longer than having it write everything down and reading that. What
   is not understood ends the reading: a query, a residue, more than 255 atoms, another format. */

#include "kernels.h"

enum { MAGIC = (int32_t)0xDEADBEEF, FORMAT = 16, ATOMS = 0x01, BONDS = 0x0b, RINGS = 0x42 };
enum { SINGLE, DOUBLE, TRIPLE, AROMATIC, DATIVE, UNUSUAL }; /* as in gad.chem.fast.raw */
enum { MOST = 255 };

typedef struct {
    const uint8_t *at, *end;
    int odd;
} Cursor;

/* atoms, bonds, rings and entries of rings so far */
typedef struct {
    int64_t molecules, atoms, bonds, rings, entries;
} Totals;

/* where it all goes; nowhere if `sizes` is NULL */
typedef struct {
    int64_t *sizes;                                   /* [G] */
    int64_t *number, *charge, *connections, *valence; /* [N] */
    uint8_t *marked;                                  /* [N] whether an atom may have a label */
    int64_t *first, *second;                          /* [b] ends */
    uint8_t *kind, *first_idle, *second_idle, *marked_bond; /* [b] */
    int64_t *ring_sizes, *ring_atoms;
} Arrays;

static int32_t next(Cursor *c, int bytes)
{
    uint32_t value = 0;
    if (c->end - c->at < bytes) {
        c->odd = 1;
        return 0;
    }
    for (int i = 0; i < bytes; i++) value |= (uint32_t)c->at[i] << 8 * i;
    c->at += bytes;
    return (int32_t)value;
}

static void skip(Cursor *c, int64_t bytes)
{
    if (bytes < 0 || c->end - c->at < bytes) c->odd = 1;
    else c->at += bytes;
}

static void expect(Cursor *c, int bytes, int32_t value)
{
    if (next(c, bytes) != value) c->odd = 1;
}

static void atom(Cursor *c, int64_t i, const Arrays *to)
{
    const int32_t number = next(c, 1), flags = next(c, 1), has = next(c, 4);
    if (flags & 0x93 || has & ~0x1fe) c->odd = 1; /* coordinates, a query, a residue, what is new */
    const int32_t charge = has & 2 ? (int8_t)next(c, 1) : 0, tag = has & 4 ? next(c, 1) : 0;
    if (has & 8) skip(c, 1); /* hybridisation */
    const int32_t hydrogens = has & 16 ? next(c, 1) : 0, drawn = has & 32 ? next(c, 1) : 0;
    const int32_t hidden = has & 64 ? next(c, 1) : 0;
    skip(c, (has & 128 ? 1 : 0) + (has & 256 ? 4 : 0)); /* unpaired electrons, isotope */
    if (flags & 8) { /* a number in a reaction's map */
        skip(c, 1);
        if (next(c, 1) > 127) skip(c, 4);
    }
    if (flags & 4) { /* a label */
        skip(c, 1);
        skip(c, next(c, 4));
    }
    if (!to->sizes) return;
    to->number[i] = number;
    to->charge[i] = charge;
    to->connections[i] = hydrogens + hidden; /* neighbours come with the bonds */
    to->valence[i] = drawn + hidden;
    to->marked[i] = tag != 0;
}

/* bonds are sorted by their ends as they come: nearly all of them come in order */
static void bond(Cursor *c, int64_t atoms, int64_t start, int64_t from, int64_t at, const Arrays *to)
{
    const int32_t begin = next(c, 1), end = next(c, 1), flags = next(c, 1);
    if (flags & 0x91 || begin >= atoms || end >= atoms || begin == end) c->odd = 1;
    const int32_t type = flags & 8 ? next(c, 1) : 1;
    if (flags & 4) skip(c, 1); /* direction */
    if (flags & 2) {           /* E or Z, and by which neighbours */
        skip(c, 1);
        skip(c, next(c, 1));
    }
    if (!to->sizes || c->odd) return;
    const uint8_t kind = type == 1    ? SINGLE
                         : type == 2  ? DOUBLE
                         : type == 3  ? TRIPLE
                         : type == 12 ? AROMATIC
                         : type == 17 ? DATIVE
                                      : UNUSUAL;
    /* A dative bond points from the atom that gives. */
    const uint8_t gives = kind >= DATIVE, takes = kind == UNUSUAL, turned = begin > end;
    const int64_t low = start + (turned ? end : begin), high = start + (turned ? begin : end);
    int64_t k = at;
    for (; k > from; k--) {
        if (to->first[k - 1] < low || (to->first[k - 1] == low && to->second[k - 1] < high)) break;
        to->first[k] = to->first[k - 1];
        to->second[k] = to->second[k - 1];
        to->kind[k] = to->kind[k - 1];
        to->first_idle[k] = to->first_idle[k - 1];
        to->second_idle[k] = to->second_idle[k - 1];
        to->marked_bond[k] = to->marked_bond[k - 1];
    }
    to->first[k] = low;
    to->second[k] = high;
    to->kind[k] = kind;
    to->first_idle[k] = turned ? takes : gives;
    to->second_idle[k] = turned ? gives : takes;
    to->marked_bond[k] = (flags & 2) != 0;
    to->connections[low]++;
    to->connections[high]++;
}

static void molecule(Cursor *c, Totals *so_far, const Arrays *to)
{
    const Totals start = *so_far;
    expect(c, 4, MAGIC);
    expect(c, 4, 0);
    expect(c, 4, FORMAT);
    skip(c, 8);
    const int64_t atoms = next(c, 4), bonds = next(c, 4);
    if (atoms < 0 || atoms > MOST || bonds < 0) c->odd = 1;
    skip(c, 1);
    expect(c, 1, ATOMS);
    for (int64_t i = 0; i < atoms && !c->odd; i++) atom(c, start.atoms + i, to);
    expect(c, 1, BONDS);
    for (int64_t i = 0; i < bonds && !c->odd; i++)
        bond(c, atoms, start.atoms, start.bonds, start.bonds + i, to);
    expect(c, 1, RINGS);
    const int64_t rings = next(c, 4);
    int64_t entries = start.entries;
    for (int64_t r = 0; r < rings && !c->odd; r++) {
        const int64_t size = next(c, 1);
        if (to->sizes) to->ring_sizes[start.rings + r] = size;
        for (int64_t i = 0; i < size && !c->odd; i++) {
            const int32_t member = next(c, 1);
            if (member >= atoms) c->odd = 1;
            else if (to->sizes) to->ring_atoms[entries + i] = start.atoms + member;
        }
        entries += size;
    }
    if (c->odd || rings < 0) return;
    if (to->sizes) to->sizes[start.molecules] = atoms;
    *so_far = (Totals){start.molecules + 1, start.atoms + atoms, start.bonds + bonds,
                       start.rings + rings, entries};
}

/* Molecules one after the other in `bytes`, each ending at its `end` [count], up to the first that is
   not understood. How many of everything there are; then, with arrays of these sizes, everything. */
int unpack(int64_t count, const uint8_t *bytes, const int64_t *end, Totals *totals, const Arrays *to)
{
    const Arrays nowhere = {0};
    *totals = (Totals){0};
    for (int64_t g = 0; g < count; g++) {
        Cursor c = {bytes + (g ? end[g - 1] : 0), bytes + end[g], 0};
        molecule(&c, totals, to ? to : &nowhere);
        if (totals->molecules == g) break;
    }
    return DONE;
}
