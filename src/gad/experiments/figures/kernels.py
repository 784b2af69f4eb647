"""The numbers behind the figures: heat, filters and kernels at one node.

The *kernel* of a node is what it receives from a unit at every node in turn: a row of the operator.
Diffusion for time t has the rows of H = r_t(M⁻¹L); a filter after it has those of B_av H and
B_dx H, so that the local filter becomes a global, directed one (the paper's Figure 3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gad.data.store.molecules import NoMoleculesError, Preparation, read_molecules
from gad.nn import GADBlock
from gad.nn.diffusion import Diffusion
from gad.operators import IMPLICIT, Eigenbasis, GraphOperators, Scheme, Solver, build_operators
from gad.prediction.model_file import Model
from gad.settings.model import preparation_of

# The paper's graph: a hexagon, 0 to 5, with a branched chain that hangs from node 0.
PAPER_EDGES = (
    (0, 1), (0, 5), (1, 2), (5, 4), (4, 3), (2, 3), (0, 6),
    (6, 7), (6, 8), (8, 9), (9, 10), (10, 11), (10, 12),
)  # fmt: skip
# The black node, and the neighbour towards which the figures are positive.
PAPER_NODE, PAPER_TOWARDS = 0, 6
FIGURE_1A_TIMES = (0.0, 1.0, 5.0)
# "The largest channel time in the first layer of GAD trained on ZINC": its numbers say 1.1.
FIGURE_3_TIME = 1.1
FILTERS = ("av", "dx")


def paper_graph(*, transposed: bool = False) -> GraphOperators:
    """The operators of the paper's 13-node graph, in float64.

    The paper's figures draw the filters of the *transposed* field: row i of F̂ᵀ has what i's
    neighbours give i in their own rows, so it does not add up to 1.

    >>> paper_graph()
    GraphOperators(1 graph, 13 nodes, 26 edges, 1 component, full basis, directions)
    """
    edges = torch.tensor(PAPER_EDGES)
    both = torch.cat([edges, edges.flip(1)]).t()
    return build_operators(both, 13, transposed=transposed, dtype=torch.float64)


def spread(
    operators: GraphOperators, time: float, scheme: Scheme = IMPLICIT, solver: Solver | None = None
) -> Tensor:
    """H [N, N]: column j is what becomes of a unit of heat at node j after a time.

    >>> spread(paper_graph(), 1.0)[0, 0].mul(100).round(decimals=1)
    tensor(56.9000, dtype=torch.float64)
    """
    units = torch.eye(operators.num_nodes, dtype=operators.dtype)
    times = units.new_full((operators.num_nodes,), time)
    if time == 0:
        return units
    return (solver or Eigenbasis())(operators, units, times, scheme)


def filter_kernels(
    operators: GraphOperators, node: int, heat: Tensor, towards: int | None = None
) -> dict[str, Tensor]:
    """Rows of B_av H and B_dx H [N] at a node; H = 1 leaves the local filters.

    B_dx is known up to the sign of φ₁: here it is positive ``towards`` a neighbour, by default the
    one that counts most. Where φ₁ is degenerate there is no sign, and dx is the length over its
    directions.
    """
    signed = has_signs(operators)
    derivative = operators.directional_derivative(heat, signed=signed)[node]
    return {
        "av": operators.directional_average(heat)[node],
        "dx": derivative * _sign(operators, node, towards) if signed else derivative,
    }


def has_signs(operators: GraphOperators) -> bool:
    """Whether the field has one direction everywhere."""
    directions = operators.field_directions
    return directions is not None and bool((directions <= 1).all())


def _sign(operators: GraphOperators, node: int, towards: int | None) -> float:
    """The sign that makes F̂ at (node, towards) positive; 1 where it is 0."""
    field, _ = operators.need_field()
    row = operators.target == node
    if towards is not None:
        row &= operators.source == towards
    values = field[row]
    # Of two that are equally strong the one of the lower number counts, whatever rounding says.
    strong = values.abs() >= values.abs().max() * (1 - 1e-9) if values.numel() else values > 0
    return -1.0 if bool((values[strong][:1] < 0).any()) else 1.0


def central_node(operators: GraphOperators) -> int:
    """A node to look from: where the graph branches, nearest to all others, then the first.

    >>> central_node(paper_graph())
    6
    """
    n = operators.num_nodes
    near = torch.eye(n)
    near[operators.target, operators.source] = 1
    reached, farthest = torch.eye(n, dtype=torch.bool), torch.zeros(n, dtype=torch.int64)
    while True:
        further = (reached.float() @ near) > 0
        if bool((further == reached).all()):
            break
        farthest += (further != reached).any(1)
        reached = further
    branches = operators.degree.clamp_max(3)
    return min(range(n), key=lambda i: (-int(branches[i]), int(farthest[i]), i))


@dataclass(frozen=True, eq=False)
class FirstLayer:
    """What of a trained model makes the kernels of its first layer.

    Attributes:
        diffusion: None in a model without.
        filters: the directional filters the model has.
        preparation: how it sees a molecule.
    """

    diffusion: Diffusion | None
    filters: tuple[str, ...]
    preparation: Preparation

    @staticmethod
    def of(model: Model) -> FirstLayer:
        """The first layer of a model, of the first member of an ensemble."""
        recipe, member = model.recipe, model.members[0]
        diffusions = member.diffusions()
        used = recipe.model.aggregators if isinstance(member.blocks[0], GADBlock) else ()
        filters = tuple(name for name in FILTERS if name in used)
        if not diffusions and not filters:
            raise ValueError(
                "this model has neither diffusion nor directional filters, so there are no kernels "
                "to draw: give another --model"
            )
        preparation = model.preparation
        if preparation is None:  # trained on the graphs of a known set
            hydrogens = model.notes.get("data", {}).get("title", "").startswith("qm9")
            preparation = preparation_of(recipe.override({"explicit_hydrogens": hydrogens}))
        preparation = replace(preparation, descriptors=False)
        return FirstLayer(diffusions[0] if diffusions else None, filters, preparation)

    @property
    def time(self) -> float:
        """The largest of its channels' times; 0 without diffusion."""
        return 0.0 if self.diffusion is None else float(self.diffusion.times.detach().max())

    def operators(self, smiles: str) -> GraphOperators:
        """The graph of a molecule as this model sees it."""
        try:
            packed = read_molecules([smiles], self.preparation)
        except NoMoleculesError as error:
            raise ValueError(f"{smiles}: {error.rejects[0]}") from error
        return packed.operators.to(dtype=torch.float64)

    def kernels(self, operators: GraphOperators, node: int) -> dict[str, Tensor]:
        """Rows at a node: of the diffusion ("heat"), then of each filter after it."""
        heat = torch.eye(operators.num_nodes, dtype=operators.dtype)
        layer = self.diffusion
        if layer is not None:
            heat = spread(operators, self.time, layer.scheme, layer.choose_solver(operators))
        filtered = filter_kernels(operators, node, heat)
        shown = {"heat": heat[node]} if layer is not None else {}
        return shown | {name: filtered[name] for name in self.filters}
