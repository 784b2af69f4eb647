"""The node form of the network: one graph, a prediction for each of its nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gad.nn.diffusion import Diffusion, ImplicitDiffusion
from gad.operators import Chebyshev, GraphOperators
from gad.operators.products import LINEAR_FILTERS, linear_filter
from gad.operators.sparse import with_values

# What is left out of a Chebyshev series: far below the noise of dropout, half the cost of 1e-6.
TOLERANCE = 1e-4

NORMS: dict[str, Callable[[int], nn.Module]] = {
    "none": lambda _: nn.Identity(),
    "layer": nn.LayerNorm,
    "batch": nn.BatchNorm1d,
}
JUMPING = ("last", "sum", "cat")


class NodeBlock(nn.Module):
    """Diffuse, filter, mix, and add to what came in.

    ``h = r_t(M⁻¹L) x``, ``out = x + MLP [x, filters(h)]``

    The MLP is a linear map, a norm, ReLU, dropout, a linear map and a norm. At t = 0 and with the
    filter ``mean`` a node reads itself and the mean of its neighbours, as in GraphSAGE; t says how
    far beyond the neighbours that mean reaches, channel by channel.

    Args:
        channels: C, of input and output.
        diffusion: a diffusion of C channels, or None for h = x.
        filters: any of mean, av (B_av) and dx (|B_dx|), of h; without any h itself is read.
        norm: makes a norm over so many channels, such as ``nn.LayerNorm``.
        dropout: share of the hidden values that is dropped while training.
        residual: add the input to the output.

    Shapes: x [N, C], operators of N nodes → [N, C].
    """

    def __init__(
        self,
        channels: int,
        diffusion: Diffusion | None,
        *,
        filters: Sequence[str] = ("mean",),
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
        dropout: float = 0.0,
        residual: bool = True,
    ) -> None:
        super().__init__()
        for name in filters:
            if name not in LINEAR_FILTERS:
                known = ", ".join(LINEAR_FILTERS)
                raise ValueError(f"no filter is called {name!r}; there are {known}")
        self.diffusion = diffusion
        self.filters = tuple(filters)
        self.residual = residual
        parts = 1 + max(1, len(self.filters))
        self.mlp = nn.Sequential(
            nn.Linear(parts * channels, channels),
            norm(channels),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(channels, channels),
            norm(channels),
        )

    def forward(self, x: Tensor, operators: GraphOperators) -> Tensor:
        """One block over x [N, C]."""
        h = x if self.diffusion is None else self.diffusion(x, operators)
        read = [linear_filter(name, h, operators) for name in self.filters] or [h]
        y: Tensor = self.mlp(torch.cat([x, *read], dim=1))
        return x + y if self.residual else y


class NodeNetwork(nn.Module):
    """What node models share: embedding, blocks, jumping connection, head.

    Args:
        in_channels: features of a node.
        out_channels: classes, or values to predict.
        channels: C.
        blocks: modules (x [N, C], operators) → [N, C].
        dropout: share of the embedding that is dropped while training.
        input_dropout: share of the features that is dropped while training.
        jumping: the head reads the "last" block, the "sum" of embedding and blocks, or all of them
            side by side ("cat").

    Shapes: x [N, in_channels], dense or sparse CSR → [N, out_channels].
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        channels: int,
        blocks: Sequence[nn.Module],
        *,
        dropout: float = 0.5,
        input_dropout: float = 0.5,
        jumping: str = "last",
    ) -> None:
        super().__init__()
        if jumping not in JUMPING:
            raise ValueError(f"jumping is one of {', '.join(JUMPING)}, not {jumping!r}")
        self.embed = nn.Linear(in_channels, channels)
        self.blocks = nn.ModuleList(blocks)
        self.head = nn.Linear(channels * (1 + len(blocks) if jumping == "cat" else 1), out_channels)
        self.dropout = nn.Dropout(dropout)
        self.input_dropout, self.jumping = input_dropout, jumping
        # Bags of words sum to 1: from the smaller weights that are usual the first steps get lost.
        for layer in (self.embed, self.head):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, operators: GraphOperators) -> Tensor:
        """The outputs of all nodes [N, out_channels]."""
        if not isinstance(operators, GraphOperators):
            raise TypeError(
                f"a node model reads features and graph operators, not {type(operators).__name__}: "
                "model(data.x, data.operators), where gad.AddGraphOperators has added the operators"
            )
        features = drop_features(x, self.input_dropout if self.training else 0.0)
        embedded = features @ self.embed.weight.t() + self.embed.bias
        every = [self.dropout(F.relu(embedded))]
        for block in self.blocks:
            every.append(block(every[-1], operators))  # each reads the one before
        if self.jumping == "cat":
            read = torch.cat(every, dim=1)
        else:
            read = torch.stack(every).sum(0) if self.jumping == "sum" else every[-1]
        outputs: Tensor = self.head(read)
        return outputs


class NodeGAD(NodeNetwork):
    """Graph Anisotropic Diffusion for the nodes of one graph.

    ``x → dropout(ReLU(W x)) → blocks → W' · → (diffusion)``

    Alone, ``NodeGAD(1433, 7)`` has no blocks, and its outputs diffuse: the parameters of a small
    perceptron and one time for each class, for few labels (a handful of each class). Where labels
    are many take two blocks (``layers=2``); where neighbours differ, many of them (ten and more).

    Args:
        in_channels: features of a node.
        out_channels: classes, or values to predict.
        channels: C.
        layers: blocks; 0 for none.
        diffusion: :class:`ImplicitDiffusion`, :class:`SpectralDiffusion`, or None for no diffusion
            in the blocks.
        time: what diffusion times start from, the same for every channel; each is then learned. If
            left out, 0.1 with blocks, little more than the neighbours, and 9 without.
        filters: of every block: any of mean, av, dx. The last two need operators with directions.
        norm: "none", "layer" or "batch".
        dropout, input_dropout, jumping: see :class:`NodeNetwork`.
        residual: blocks add to their input.
        smooth: diffuse the outputs; if left out, where there are no blocks.
        symmetric: the outputs diffuse under M^(−1/2) L M^(−1/2) instead of M⁻¹L, so that a hub does
            not get the mean of its neighbours but more, and a leaf less.

    Shapes: x [N, in_channels], dense or sparse CSR, operators of N nodes → [N, out_channels].

    Example:
        >>> import gad, torch
        >>> ring = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
        >>> operators = gad.build_operators(ring, 3, basis=False)
        >>> NodeGAD(5, 2, layers=1)(torch.randn(3, 5), operators).shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        channels: int = 64,
        layers: int = 0,
        diffusion: Callable[..., Diffusion] | None = ImplicitDiffusion,
        time: float | None = None,
        filters: Sequence[str] = ("mean",),
        norm: str = "layer",
        dropout: float = 0.5,
        input_dropout: float = 0.5,
        residual: bool = True,
        jumping: str = "last",
        smooth: bool | None = None,
        symmetric: bool = True,
    ) -> None:
        if norm not in NORMS:
            raise ValueError(f"norm is one of {', '.join(NORMS)}, not {norm!r}")
        start = (0.1 if layers else 9.0) if time is None else time

        def heat(width: int) -> Diffusion | None:
            # A polynomial even where there is an eigenbasis: on one sparse graph it is quicker.
            solver = Chebyshev(tolerance=TOLERANCE)
            return None if diffusion is None else diffusion(width, solver=solver, times=start)

        blocks = [
            NodeBlock(
                channels,
                heat(channels),
                filters=filters,
                norm=NORMS[norm],
                dropout=dropout,
                residual=residual,
            )
            for _ in range(layers)
        ]
        super().__init__(
            in_channels,
            out_channels,
            channels,
            blocks,
            dropout=dropout,
            input_dropout=input_dropout,
            jumping=jumping,
        )
        wanted = not layers if smooth is None else smooth
        self.smooth = heat(out_channels) if wanted else None
        self.symmetric = symmetric

    def forward(self, x: Tensor, operators: GraphOperators) -> Tensor:
        """The outputs of all nodes [N, out_channels]."""
        y = super().forward(x, operators)
        if self.smooth is not None and self.symmetric:
            root = operators.mass.sqrt()[:, None].to(y.dtype)
            y = self.smooth(y / root, operators) * root
        elif self.smooth is not None:
            y = self.smooth(y, operators)
        return y

    def diffusion_times(self) -> dict[str, Tensor]:
        """The learned times of every diffusion [C], by the name of its place."""
        return {
            name: layer.times.detach()
            for name, layer in self.named_modules()
            if isinstance(layer, Diffusion)
        }


def drop_features(x: Tensor, share: float) -> Tensor:
    """Dropout of features: of a sparse matrix only what is stored, since the rest is 0 anyway."""
    if x.layout != torch.sparse_csr:
        return F.dropout(x, share)
    return with_values(x, F.dropout(x.values(), share))
