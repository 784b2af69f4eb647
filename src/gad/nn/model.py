"""The full model: encoder, blocks, readout, head."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gad.nn.aggregation import DirectionalAggregation
from gad.nn.between import Between
from gad.nn.block import BlockOptions, GADBlock
from gad.nn.diffusion import Diffusion, ImplicitDiffusion, Timed
from gad.nn.norm import BatchNorm
from gad.operators import GraphOperators

if TYPE_CHECKING:
    from typing_extensions import Unpack

READOUTS = ("mean", "sum", "all")


class Head(nn.Module):
    """From what is read to the outputs by halving: C → C/2 → C/4 → out, ReLU between.

    Args:
        channels: how many numbers are read.
        out_channels: how many come out.
        halvings: hidden layers.
        width: C, if the hidden layers are to be narrower than what is read: → C/2 → C/4 → out.
        norm: batch norm of what is read, whose parts may be of very different size.
    """

    def __init__(
        self,
        channels: int,
        out_channels: int,
        halvings: int = 2,
        width: int | None = None,
        norm: bool = False,
    ) -> None:
        super().__init__()
        self.norm = BatchNorm(channels) if norm else None
        first = channels if width is None else width
        widths = [channels, *(max(1, first >> step) for step in range(1, halvings + 1))]
        self.layers = nn.ModuleList(
            nn.Linear(a, b) for a, b in zip(widths, [*widths[1:], out_channels], strict=True)
        )

    def forward(self, x: Tensor) -> Tensor:
        """[…, C] → […, out]."""
        x = x if self.norm is None else self.norm(x)
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        result: Tensor = self.layers[-1](x)
        return result


class NoHead(nn.Module):
    """The head of a model that is read for its embeddings alone: no outputs, [B, R] → [B, 0]."""

    def forward(self, x: Tensor) -> Tensor:
        """Nothing of what is read."""
        return x[:, :0]


class GAD(nn.Module):
    """Graph Anisotropic Diffusion: L blocks between an encoder and a head.

    Args:
        channels: C, the width of the blocks.
        out_channels: the number of outputs of the default head.
        layers: L.
        encoder: maps what ``forward`` is given as ``x`` to [N, C]; None if x already is [N, C].
        edge_encoder: maps ``edge_attr`` to [E, edge_channels]; None if it already is.
        head: maps [B, R] (with graph features: [B, R + graph_channels]) or, for node outputs,
            [N, C] to the outputs; R is :func:`pooled_channels` of C.
        diffusion: makes the diffusion layer of a block, e.g. :class:`ImplicitDiffusion` or
            :class:`SpectralDiffusion`; None leaves diffusion out (DGN, PNA).
        readout: "mean" or "sum" over the nodes of a graph, or "all": sum, mean, maximum and the
            logarithm of the number of nodes side by side; None for node-level outputs.
        graph_channels: number of features of whole graphs, appended after the readout.
        aggregators, scalers, towers, delta, dx_centre, messages: of every block's filters.
        edge_channels, batch_norm, graph_norm, residual, dropout: of every block as well; see
            :class:`gad.nn.GADBlock` for all of these.
        blocks: your own blocks, called as block(h, operators, edge_attr), instead of L of these.
        between: what else happens after each block, :class:`gad.nn.Between`; None for nothing.

    Example:
        >>> import gad, torch
        >>> ring = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
        >>> model = GAD(8, layers=2, towers=2, encoder=gad.nn.CategoricalEncoder([28], 8))
        >>> model(torch.tensor([0, 1, 5]), gad.build_operators(ring, 3)).shape
        torch.Size([1, 1])
    """

    def __init__(
        self,
        channels: int,
        out_channels: int = 1,
        *,
        layers: int = 4,
        encoder: nn.Module | None = None,
        edge_encoder: nn.Module | None = None,
        head: nn.Module | None = None,
        diffusion: Callable[[int], Diffusion] | None = ImplicitDiffusion,
        readout: str | None = "mean",
        graph_channels: int = 0,
        blocks: Iterable[nn.Module] | None = None,
        between: Between | None = None,
        **options: Unpack[BlockOptions],
    ) -> None:
        super().__init__()
        if readout is not None and readout not in READOUTS:
            raise ValueError(f"unknown readout {readout!r}: choose from {', '.join(READOUTS)}")
        if graph_channels and readout is None:
            raise ValueError("features of whole graphs need a readout over graphs")
        if unknown := options.keys() - BlockOptions.__annotations__.keys():
            raise TypeError(f"a block has no option {sorted(unknown)[0]!r}")
        self.channels, self.readout, self.graph_channels = channels, readout, graph_channels
        self.encoder, self.edge_encoder = encoder, edge_encoder
        made = (
            GADBlock(
                channels,
                diffusion=None if diffusion is None else diffusion(channels),
                **options,
            )
            for _ in range(layers)
        )
        self.blocks = nn.ModuleList(made if blocks is None else blocks)
        if between is not None and len(between.rounds) != len(self.blocks):
            raise ValueError(
                f"{len(self.blocks)} blocks need as many rounds, not {len(between.rounds)}"
            )
        self.between = between
        self.head = (
            head if head is not None else head_for(channels, out_channels, readout, graph_channels)
        )

    def forward(
        self,
        x: Any,
        operators: GraphOperators,
        edge_attr: Any = None,
        graph_attr: Tensor | None = None,
    ) -> Tensor:
        """Outputs of graphs [B, out], or of nodes [N, out] without a readout."""
        result: Tensor = self.head(self.embed(x, operators, edge_attr, graph_attr))
        return result

    def embed(
        self,
        x: Any,
        operators: GraphOperators,
        edge_attr: Any = None,
        graph_attr: Tensor | None = None,
    ) -> Tensor:
        """What the head reads: [B, R + graph_channels], or [N, C] without a readout."""
        h = self.states(x, operators, edge_attr)
        if (graph_attr is None) != (self.graph_channels == 0):
            raise ValueError(
                f"this model was made for {self.graph_channels} graph features, but graph_attr "
                f"{'is missing' if graph_attr is None else 'was given'}"
            )
        if self.readout is None:
            return h
        pooled = pool(h, operators, self.readout)
        if graph_attr is not None:
            pooled = torch.cat([pooled, graph_attr.to(pooled.dtype)], dim=1)
        return pooled

    def states(self, x: Any, operators: GraphOperators, edge_attr: Any = None) -> Tensor:
        """What the blocks leave at every node: [N, C]."""
        h: Tensor = x if self.encoder is None else self.encoder(x)
        if edge_attr is not None and self.edge_encoder is not None:
            edge_attr = self.edge_encoder(edge_attr)
        between = None if self.between is None else self.between.prepare(operators)
        for number, block in enumerate(self.blocks):
            h = block(h, operators, edge_attr)
            if between is not None:
                h, edge_attr = between(number, h, edge_attr)
        return h

    @property
    def embedding_channels(self) -> int:
        """How many numbers :meth:`embed` gives."""
        return pooled_channels(self.channels, self.readout) + self.graph_channels

    def diffusions(self) -> list[Diffusion]:
        """The diffusion layers, block by block."""
        return [m for m in self.modules() if isinstance(m, Diffusion)]

    @property
    def delta(self) -> float:
        """δ of the scalers; 1 where no block has any."""
        found = (m.delta for m in self.modules() if isinstance(m, DirectionalAggregation))
        return float(next(found, 1.0))

    def set_delta(self, delta: float) -> None:
        """Set δ of all scalers to the training set's mean of log(degree + 1)."""
        for module in self.modules():
            if isinstance(module, DirectionalAggregation):
                module.delta.fill_(delta)


def pool(h: Tensor, operators: GraphOperators, readout: str) -> Tensor:
    """What is read of h [N, C] for each graph: [B, R]."""
    graphs, size = operators.num_graphs, operators.graph_sizes.to(h.dtype)[:, None]
    total = h.new_zeros(graphs, h.shape[1]).index_add(0, operators.batch, h)
    if readout == "sum":
        return total
    mean = total / size
    if readout == "mean":
        return mean
    highest = h.new_full((graphs, h.shape[1]), -torch.inf)
    index = operators.batch[:, None].expand_as(h)
    highest = highest.scatter_reduce(0, index, h, "amax")
    return torch.cat([total, mean, highest, size.log()], dim=1)


def pooled_channels(channels: int, readout: str | None) -> int:
    """R, how many numbers of a graph (or node) are read out of C channels."""
    return 3 * channels + 1 if readout == "all" else channels


def head_for(
    channels: int,
    outputs: int,
    readout: str | None,
    graph_channels: int = 0,
    norm: bool = False,
) -> Head | NoHead:
    """The usual head of a model of C channels, with so many features of whole graphs."""
    if outputs == 0:
        return NoHead()
    read = pooled_channels(channels, readout) + graph_channels
    return Head(read, outputs, width=channels if readout == "all" else None, norm=norm)


def decay_groups(
    model: nn.Module, weight_decay: float, rates: Mapping[nn.Parameter, float] | None = None
) -> list[dict[str, Any]]:
    """Parameter groups for an optimiser: everything decays but the diffusion times.

    Args:
        model: whose trainable parameters they are.
        weight_decay: of all but the times.
        rates: of some parameters the share of the learning rate they learn by; ``rate`` of a group.
    """
    times = {m.raw_times for m in model.modules() if isinstance(m, Timed)}
    rates = rates or {}
    groups: dict[tuple[float, bool], list[nn.Parameter]] = {(1.0, False): [], (1.0, True): []}
    for parameter in _trainable(model):
        key = (rates.get(parameter, 1.0), parameter in times)
        groups.setdefault(key, []).append(parameter)
    return [
        {"params": own, "weight_decay": 0.0 if timed else weight_decay, "rate": rate}
        for (rate, timed), own in groups.items()
        if own or rate == 1.0
    ]


def layer_rates(model: GAD, decay: float) -> dict[nn.Parameter, float]:
    """Learning rates that fall from the head, which has 1, by decay a block.

    The encoders below the first of L blocks learn by decay^(L + 1).
    """
    if decay == 1.0:
        return {}
    depth = len(model.blocks)
    shares = {
        p: decay ** (depth - k)
        for k, parts in enumerate(_rounds(model))
        for part in parts
        for p in part.parameters()
    }
    below = (m.parameters() for m in _below(model))
    return shares | {p: decay ** (depth + 1) for own in below for p in own}


def frozen_parts(model: GAD, blocks: int) -> list[nn.Module]:
    """What stays as it is while training: the encoders and the first so many blocks, if any."""
    if not blocks:
        return []
    rounds = [part for parts in _rounds(model)[:blocks] for part in parts]
    return [*_below(model), *rounds]


def _below(model: GAD) -> list[nn.Module]:
    """What comes before the first block: the encoders, and the weights of pairs."""
    pairs = None if model.between is None else model.between.pairs
    return [m for m in (model.encoder, model.edge_encoder, pairs) if m is not None]


def _rounds(model: GAD) -> list[list[nn.Module]]:
    """Each block, with what follows it."""
    if model.between is None:
        return [[block] for block in model.blocks]
    return [list(both) for both in zip(model.blocks, model.between.rounds, strict=True)]


def count_parameters(model: nn.Module) -> int:
    """All trainable parameters."""
    return sum(p.numel() for p in _trainable(model))


def _trainable(model: nn.Module) -> Iterator[nn.Parameter]:
    return (p for p in model.parameters() if p.requires_grad)


def widest(build: Callable[[int], nn.Module], budget: int, *, multiple: int = 1) -> int:
    """The largest width whose model stays within a budget of trainable parameters.

    Args:
        build: makes the model of a given width; the number of parameters must not fall with it.
        budget: the most parameters allowed.
        multiple: widths are multiples of this, e.g. the number of towers.

    Example:
        >>> widest(lambda width: GAD(width, towers=5), 100_000, multiple=5)
        60
    """

    def fits(steps: int) -> bool:
        # Counting must not shift the random numbers of the model that is built afterwards.
        with torch.random.fork_rng(devices=[]):
            return count_parameters(build(steps * multiple)) <= budget

    if not fits(1):
        raise ValueError(f"even a width of {multiple} needs more than {budget:,} parameters")
    low, high = 1, 2
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * multiple
