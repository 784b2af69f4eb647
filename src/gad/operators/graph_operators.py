"""GraphOperators: the one object that carries a batch of graphs' geometry to the layers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from typing import Annotated, Any, TypeVar, cast, get_type_hints

import torch
from torch import Tensor

from gad import native
from gad.operators.eigenbasis import ragged_arange, starts
from gad.operators.layouts import Basis, FlatBasis, Neighbours, PaddedBasis, jagged
from gad.operators.packing import Flat, concatenate, pick, present, well_formed
from gad.operators.sparse import csr_matrix

_T = TypeVar("_T")


class MissingOperatorError(ValueError):
    """Something was asked of operators that were built without it; the message says what to do."""


@dataclass(frozen=True, eq=False)
class GraphOperators:
    """What the layers need to know of one graph or a batch of graphs.

    N nodes, E directed edges j → i (without loops), B graphs, U connected components. Made by
    :func:`gad.build_operators`; immutable. Everything is flat, so that ragged sizes batch by
    concatenation; how it is laid out for multiplication is worked out on first use.

    Attributes:
        batch: the graph of each node, int64 [N].
        num_graphs: B.
        mass: the diagonal of M, weighted degrees with 1 for isolated nodes [N].
        source, target, weight: the edges j → i [E], sorted by (target, source) in each graph.
        reverse: where the edge i → j stands [E].
        edge_position: where each edge stood in the list the operators were built from [E].
        members: nodes, component by component [N], with component_sizes [U].
        eigenvalues, eigenvectors, basis_counts: K eigenpairs of each component: [ΣK], [Σ n·K] row
            by row, [U]; None without a basis.
        field, field_norm, field_directions, field_others: the normalised field F̂
            (:class:`gad.operators.directions.Field`); None without directions.
        residual: the largest relative residual of the eigensolver behind the directions [B], 0
            where the solve was dense.

    Example:
        >>> import torch, gad
        >>> ring = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
        >>> gad.build_operators(ring, 3)
        GraphOperators(1 graph, 3 nodes, 6 edges, 1 component, full basis, directions)
    """

    batch: Annotated[Tensor, Flat("node", shift="graph")]
    num_graphs: int
    mass: Annotated[Tensor, Flat("node")]
    source: Annotated[Tensor, Flat("edge", shift="node")]
    target: Annotated[Tensor, Flat("edge", shift="node")]
    weight: Annotated[Tensor, Flat("edge")]
    reverse: Annotated[Tensor, Flat("edge", shift="edge")]
    edge_position: Annotated[Tensor, Flat("edge", shift="given_edge")]
    num_given_edges: int
    members: Annotated[Tensor, Flat("member", shift="node")]
    component_sizes: Annotated[Tensor, Flat("unit")]
    eigenvalues: Annotated[Tensor | None, Flat("value")] = None
    eigenvectors: Annotated[Tensor | None, Flat("vector")] = None
    basis_counts: Annotated[Tensor | None, Flat("unit")] = None
    field: Annotated[Tensor | None, Flat("edge")] = None
    field_norm: Annotated[Tensor | None, Flat("edge")] = None
    field_directions: Annotated[Tensor | None, Flat("edge")] = None
    field_others: Annotated[Tensor | None, Flat("other")] = None
    residual: Annotated[Tensor | None, Flat("graph")] = None
    # Not an argument: a copy with other tensors works its layouts out anew.
    _cache: dict[str, object] = dataclasses.field(default_factory=dict, init=False, repr=False)

    @staticmethod
    @cache
    def arrays() -> dict[str, Flat]:
        """What each array holds, by its name; the two numbers are not among them."""
        hints = get_type_hints(GraphOperators, include_extras=True).items()
        return {name: hint.__metadata__[0] for name, hint in hints if hasattr(hint, "__metadata__")}

    # ------------------------------------------------------------------ sizes

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.mass.shape[0]

    @property
    def num_edges(self) -> int:
        """E, the number of directed edges without loops."""
        return self.source.shape[0]

    @property
    def dtype(self) -> torch.dtype:
        """The floating type of the operators."""
        return self.mass.dtype

    @property
    def device(self) -> torch.device:
        """Where the operators live."""
        return self.mass.device

    @property
    def has_basis(self) -> bool:
        """Whether an eigenbasis (full or truncated) is there."""
        return self.eigenvalues is not None

    @property
    def truncated(self) -> bool:
        """Whether the basis lacks eigenpairs (it was built with k)."""
        counts = self.basis_counts
        return counts is not None and self.once(
            "truncated", lambda: bool((counts < self.component_sizes).any())
        )

    @property
    def has_directions(self) -> bool:
        """Whether a directional field is there."""
        return self.field is not None

    @property
    def component(self) -> Tensor:
        """The connected component of each node, int64 [N]."""
        return self.once("component", self._component)

    def _component(self) -> Tensor:
        units = torch.arange(self.component_sizes.numel(), device=self.device)
        component = torch.empty_like(self.members)
        component[self.members] = units.repeat_interleave(
            self.component_sizes, output_size=self.num_nodes
        )
        return component

    @property
    def degree(self) -> Tensor:
        """The number of neighbours of each node, int64 [N]."""
        return self.once("degree", lambda: torch.bincount(self.target, minlength=self.num_nodes))

    @property
    def graph_sizes(self) -> Tensor:
        """The number of nodes of each graph, int64 [B]."""
        return self.once(
            "graph_sizes", lambda: torch.bincount(self.batch, minlength=self.num_graphs)
        )

    @property
    def inverse_root_size(self) -> Tensor:
        """1/√n of each node's graph [N]: the graph-size norm."""
        return self.once(
            "inverse_root_size",
            lambda: self.graph_sizes.to(self.dtype).rsqrt().index_select(0, self.batch),
        )

    @property
    def well_formed(self) -> bool:
        """Whether every array has its length, points to what is there, and has no gradient."""
        return self.once("well_formed", lambda: well_formed(self))

    def spectrum(self, graph: int = 0) -> Tensor:
        """The eigenvalues of one graph, ascending [K]."""
        values, _, counts = self.need_basis()
        unit_graph = self.batch[self.members[starts(self.component_sizes)]]
        owner = unit_graph.repeat_interleave(counts)
        return values[owner == graph].sort().values

    # ------------------------------------------------------- what layers multiply by

    @property
    def neighbours(self) -> Neighbours:
        """The edges in jagged diagonals."""
        return self.once("neighbours", self._neighbours)

    def _neighbours(self) -> Neighbours:
        return jagged(self.source, self.degree, self.reverse, self.edge_position)

    def arranged(self) -> GraphOperators:
        """The same graphs with nodes by decreasing degree and edges slot by slot.

        The order of :attr:`neighbours` becomes the numbering itself, so that layers move nothing:
        node i of the result is node ``neighbours.order[i]`` of this one, edge e is edge
        ``neighbours.edges[e]``, and features of edges are taken in that order.
        """
        layout = self.neighbours
        edges, order, rank = layout.edges, layout.order, layout.rank
        numbers = torch.arange(self.num_edges, device=self.device)
        changed: dict[str, Any] = {"source": layout.source, "reverse": layout.reverse}
        changed |= {"edge_position": numbers, "num_given_edges": self.num_edges}
        orders = {"edge": edges, "node": order}
        for name, (values, how) in present(self).items():
            if name not in changed:
                by = orders.get(how.level)
                moved = values if by is None else values[by]
                changed[name] = moved if how.shift != "node" or rank is None else rank[moved]
        if self.field_others is not None and self.field_others.numel():
            assert self.field_directions is not None
            extra = (self.field_directions - 1).clamp_min(0)
            first = starts(extra)[edges].repeat_interleave(extra[edges])
            changed["field_others"] = self.field_others[first + ragged_arange(extra[edges])]
        result = replace(self, **changed)
        result._cache["well_formed"] = self.well_formed
        result._cache["neighbours"] = replace(
            layout, order=None, rank=None, edges=numbers, given=None, arranged=True
        )
        if self.origin is not None:
            result._cache["origin"] = (*self.origin[:2], layout.rank)
        return result

    @property
    def padded_basis(self) -> PaddedBasis:
        """The eigenbasis padded for batched products."""
        return self.once("padded_basis", self._pad_basis)

    def _pad_basis(self) -> PaddedBasis:
        return self.flat_basis.pad()

    @property
    def flat_basis(self) -> FlatBasis:
        """The eigenbasis as it is."""
        values, vectors, counts = self.need_basis()
        return FlatBasis(self.component_sizes, counts, self.members, self.mass, values, vectors)

    def basis_for(self, x: Tensor) -> Basis:
        """The layout of the eigenbasis that is fastest for x."""
        flat = self.flat_basis
        fits = native.accepts(x, flat.values, flat.vectors, flat.mass) and self.well_formed
        return flat if fits else self.padded_basis

    @property
    def random_walk(self) -> Tensor:
        """P = M⁻¹A as a sparse CSR matrix [N, N], 1 on the diagonal of an isolated node.

        M⁻¹L = I − P in every case, since an isolated node has λ = 0.
        """
        return self.once("random_walk", self._random_walk)

    def _random_walk(self) -> Tensor:
        return csr_matrix(self.target, self.source, self.weight / self.mass[self.target], self.mass)

    def need_basis(self) -> tuple[Tensor, Tensor, Tensor]:
        """Eigenvalues, eigenvectors and counts, or an error that says how to get them."""
        if self.eigenvalues is None or self.eigenvectors is None or self.basis_counts is None:
            raise MissingOperatorError(
                "these operators were built without a basis: build them with basis=True, or use a "
                "solver that needs none (Chebyshev, ConjugateGradient)"
            )
        return self.eigenvalues, self.eigenvectors, self.basis_counts

    def need_field(self) -> tuple[Tensor, Tensor]:
        """F̂'s first direction and its norm on every edge, or an error that says how to get them."""
        if self.field is None or self.field_norm is None:
            raise MissingOperatorError(
                "these operators were built without directions: build them with directions=True, "
                "or leave 'av' and 'dx' out of the aggregators"
            )
        return self.field, self.field_norm

    @property
    def other_directions(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The field's directions after the first, as rows of their own.

        Returns:
            ``node`` [R]: the node of each row; ``row`` [X], ``edge`` [X] and ``value`` [X]: the
            entries F̂ of the rows. All empty where every direction is unique.
        """
        return self.once("other_directions", self._other_directions)

    def _other_directions(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        self.need_field()
        assert self.field_directions is not None
        assert self.field_others is not None
        total = self.field_others.numel()
        if total == 0:
            none = self.source[:0]
            return none, none, none, self.field_others
        extra = (self.field_directions - 1).clamp_min(0)
        edge = torch.arange(self.num_edges, device=self.device)
        edge = edge.repeat_interleave(extra, output_size=total)
        # One row for each (node, direction): numbered by node, then direction.
        per_node = torch.zeros(self.num_nodes, dtype=torch.int64, device=self.device)
        per_node[self.target] = extra
        node = torch.arange(self.num_nodes, device=self.device).repeat_interleave(per_node)
        row = (per_node.cumsum(0) - per_node)[self.target[edge]] + ragged_arange(extra)
        return node, row, edge, self.field_others

    # ------------------------------------------------------------- directional filters

    def directional_average(self, x: Tensor) -> Tensor:
        """B_av x: (B_av x)_i = Σ_j |F̂_ij| x_j, shape of ``x`` [N, …]."""
        return self.average_edges(x.index_select(0, self.source))

    def directional_derivative(self, x: Tensor, signed: bool = False) -> Tensor:
        """|B_dx x|: (B_dx x)_i = Σ_j F̂_ij (x_j − x_i), shape of ``x`` [N, …].

        The absolute value comes after the sum: φ₁'s sign is arbitrary. Where φ₁ spans an eigenspace
        of m dimensions it is the Euclidean norm over the m derivatives, which no choice of basis
        changes; its gradient at 0 is 0. ``signed=True`` gives B_dx x itself, where the direction is
        unique (up to φ₁'s one sign per component).
        """
        difference = x.index_select(0, self.source) - x.index_select(0, self.target)
        if not signed:
            return self.derive_edges(difference)
        first, _ = self.need_field()
        node = self.other_directions[0]
        if node.numel():
            raise ValueError(
                f"no signed derivative: the direction is not unique at node {int(node[0])} "
                "(φ₁ is degenerate in its component, or several potentials were given); use "
                "signed=False, or give one potential of your own"
            )
        return self.sum_edges(difference, first)

    def sum_edges(self, values: Tensor, weight: Tensor | None = None) -> Tensor:
        """Σ_j v_ij, or Σ_j w_ij v_ij, of values [E, …] on edges: [N, …]."""
        return _sum_into(self.num_nodes, self.target, values, weight)

    def average_edges(self, values: Tensor) -> Tensor:
        """Σ_j ‖F̂_ij‖ v_ij of values [E, …] on edges: [N, …]."""
        _, norm = self.need_field()
        return self.sum_edges(values, norm)

    def derive_edges(self, differences: Tensor) -> Tensor:
        """‖Σ_j F̂_ij v_ij‖ over the directions, of differences [E, …] on edges: [N, …]."""
        first, _ = self.need_field()
        derivative = self.sum_edges(differences, first)
        node, row, edge, value = self.other_directions
        if not node.numel():
            return derivative.abs()
        others = _sum_into(node.numel(), row, differences.index_select(0, edge), value)
        return safe_sqrt(derivative.square().index_add(0, node, others.square()))

    # ------------------------------------------------------------- moving and batching

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> GraphOperators:
        """Move to another device, another floating type, or both: ``ops.to("cuda")``."""
        if isinstance(device, torch.dtype):
            device, dtype = None, device
        return self.map(partial(_convert, device=device, dtype=dtype))

    def map(self, change: Callable[[Tensor], Tensor]) -> GraphOperators:
        """Apply a function to every tensor."""
        changed: dict[str, Any] = {
            f.name: change(value)
            for f in fields(self)
            if isinstance(value := getattr(self, f.name), Tensor)
        }
        result = replace(self, **changed)
        result._cache["origin"] = self.origin
        return result

    @property
    def origin(self) -> tuple[GraphOperators, Tensor, Tensor | None] | None:
        """What these were picked from: all graphs, their numbers [b], new numbers of nodes [N].

        What depends on graphs alone and takes long is worked out for all of them at once.
        """
        return cast(
            "tuple[GraphOperators, Tensor, Tensor | None] | None", self._cache.get("origin")
        )

    @staticmethod
    def concatenate(parts: Sequence[GraphOperators]) -> GraphOperators:
        """Several batches as one, in order.

        >>> import torch, gad
        >>> pair = gad.build_operators(torch.tensor([[0, 1], [1, 0]]), 2)
        >>> gad.GraphOperators.concatenate([pair, pair]).num_graphs
        2
        """
        return concatenate(parts)

    def select(self, graphs: Tensor) -> GraphOperators:
        """The operators of some graphs [b] (int64 numbers), in the order given.

        >>> import torch, gad
        >>> pairs = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
        >>> two = gad.build_operators(pairs, 4, batch=torch.tensor([0, 0, 1, 1]))
        >>> two.select(torch.tensor([1])).source
        tensor([1, 0])
        """
        return self.pick(graphs)[0]

    def pick(self, graphs: Tensor) -> tuple[GraphOperators, Tensor, Tensor]:
        """The operators of some graphs, and where their nodes and edges stand in these."""
        return pick(self, graphs)

    def __getstate__(self) -> dict[str, object]:
        """What copies and pickles carry: not the layouts, which are worked out anew."""
        return {**self.__dict__, "_cache": {}}

    def __repr__(self) -> str:
        basis = "no basis" if not self.has_basis else f"{'cut' if self.truncated else 'full'} basis"
        return (
            f"GraphOperators({_count(self.num_graphs, 'graph')}, {_count(self.num_nodes, 'node')}, "
            f"{_count(self.num_edges, 'edge')}, "
            f"{_count(self.component_sizes.numel(), 'component')}, {basis}, "
            f"{'directions' if self.has_directions else 'no directions'})"
        )

    def once(self, name: str, make: Callable[[], _T]) -> _T:
        """What is made of these operators on first use and kept with them."""
        if name not in self._cache:
            if torch.compiler.is_compiling():
                make = torch.compiler.disable(make)
            # Made for good, also when first needed under inference mode.
            with torch.inference_mode(False):
                self._cache[name] = make()
        return cast("_T", self._cache[name])


def safe_sqrt(square: Tensor) -> Tensor:
    """√s for s ≥ 0, with gradient 0 at 0, where the length of a vanishing vector has none."""
    zero = square == 0
    return torch.where(zero, 0, torch.where(zero, 1, square).sqrt())


def _sum_into(count: int, index: Tensor, values: Tensor, weight: Tensor | None) -> Tensor:
    """Σ of values [E, …], times their weight [E] if there is one, by index [E]: [count, …]."""
    if weight is not None:
        values = weight.to(values.dtype).view(-1, *(1,) * (values.dim() - 1)) * values
    return values.new_zeros(count, *values.shape[1:]).index_add(0, index, values)


def _convert(
    tensor: Tensor, device: torch.device | str | None, dtype: torch.dtype | None
) -> Tensor:
    return tensor.to(device=device, dtype=dtype if tensor.is_floating_point() else None)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
