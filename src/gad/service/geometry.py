"""What the page needs to show heat on a molecule: its drawing, its eigenbasis, its directions.

The browser computes h = Φ r_t(Λ) Φᵀ M x itself, so that a slider answers at once; B_av and B_dx of
h are sums over bonds.
"""

from __future__ import annotations

import base64

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gad.chem.molecule import MoleculeError
from gad.chem.sketch import Sketch, sketch
from gad.operators import GraphOperators, build_operators
from gad.operators.eigenbasis import starts
from gad.service.limits import Limits, atoms_in, too_large
from gad.service.schemas import Drawing, DrawRequest, Geometry

MOST = 300
"""Atoms of the largest molecule whose basis is sent: N² numbers."""


def drawings(asked: DrawRequest, limits: Limits) -> list[Drawing]:
    """Every molecule, or why it cannot be drawn."""
    return [_drawing(text, asked, limits) for text in asked.smiles]


def _drawing(text: str, asked: DrawRequest, limits: Limits) -> Drawing:
    count = atoms_in(text)
    if count > limits.atoms:
        return Drawing(smiles=text, error=too_large(count, limits))
    try:
        drawn = sketch(text, (asked.width, asked.height))
    except MoleculeError as error:
        return Drawing(smiles=text, error=str(error))
    return Drawing.model_construct(
        smiles=text,
        svg=drawn.svg,
        places=list(drawn.places),
        symbols=list(drawn.symbols),
        bonds=list(drawn.bonds),
        geometry=geometry(drawn) if asked.geometry and len(drawn.places) <= MOST else None,
    )


def geometry(drawn: Sketch) -> Geometry:
    """The operators of a molecule's graph, as a page can use them.

    >>> ring = geometry(sketch("c1ccccc1"))
    >>> len(ring.source), ring.directions
    (12, 2)
    """
    bonds = torch.tensor(drawn.bonds, dtype=torch.int64).reshape(-1, 2)
    operators = build_operators(torch.cat([bonds, bonds.flip(1)]).t(), len(drawn.places))
    _, norm = operators.need_field()
    field = directions(operators)
    values, vectors = dense_basis(operators)
    return Geometry.model_construct(
        eigenvalues=encoded(values),
        eigenvectors=encoded(vectors),
        mass=encoded(operators.mass),
        source=operators.source.tolist(),
        target=operators.target.tolist(),
        weight=encoded(norm),
        field=encoded(field),
        directions=field.shape[1],
    )


def dense_basis(operators: GraphOperators) -> tuple[Tensor, Tensor]:
    """λ [K] and Φ [N, K] of one graph; an eigenvector is 0 outside its component."""
    values, flat, counts = operators.need_basis()
    vectors = flat.new_zeros(operators.num_nodes, values.numel())
    sizes = operators.component_sizes
    first_row, first_column = starts(sizes), starts(counts)
    read = 0
    for unit, (size, count) in enumerate(zip(sizes.tolist(), counts.tolist(), strict=True)):
        nodes = operators.members[int(first_row[unit]) :][:size]
        column = int(first_column[unit])
        block = flat[read : read + size * count].reshape(size, count)
        vectors[nodes, column : column + count] = block
        read += size * count
    return values, vectors


def directions(operators: GraphOperators) -> Tensor:
    """F̂ on every edge, in all directions of the eigenspace of φ₁: [E, m]."""
    first, _ = operators.need_field()
    node, row, edge, value = operators.other_directions
    if not node.numel():
        return first[:, None]
    # Rows are numbered node by node: where in its node's rows one stands is its direction.
    place = row - torch.searchsorted(node, node)[row]
    field = first.new_zeros(operators.num_edges, int(place.max()) + 2)
    field[:, 0] = first
    field[edge, place + 1] = value
    return field


def encoded(values: Tensor) -> str:
    """Little-endian float32 in base64."""
    return base64.b64encode(values.detach().numpy().astype("<f4").tobytes()).decode("ascii")


def decoded(text: str) -> npt.NDArray[np.float32]:
    """Read back :func:`encoded`."""
    return np.frombuffer(base64.b64decode(text), dtype="<f4")
