"""From a recipe to a model and the preparation of its molecules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from torch import Tensor, nn

from gad.chem.featurize import Featurizer
from gad.data.store.molecules import Preparation
from gad.nn import (
    GAD,
    Between,
    CategoricalEncoder,
    Diffusion,
    FeatureEncoder,
    ImplicitDiffusion,
    PairWeights,
    SpectralDiffusion,
    widest,
)
from gad.nn.baselines import baseline_blocks
from gad.nn.diffusion import spread_times
from gad.nn.model import head_for
from gad.operators.cycles import cycle_lengths
from gad.settings.recipe import Recipe
from gad.settings.sections import HEADS, NO_BONDS, ModelSettings

# Settings that are called the same where the network is made: by any block, and by GAD's filters.
_OF_EVERY_BLOCK = ("layers", "batch_norm", "graph_norm", "residual", "dropout")
_OF_FILTERS = ("aggregators", "scalers", "towers", "dx_centre", "messages")
_SCHEMES = {"implicit": ImplicitDiffusion, "spectral": SpectralDiffusion, "none": None}


@dataclass(frozen=True)
class Inputs:
    """What a model is fed: categories of atoms and bonds, and how many real values."""

    atom_cardinalities: tuple[int, ...]
    atom_values: int
    bond_cardinalities: tuple[int, ...]
    graph_values: int
    bond_values: int = 0

    def to_dict(self) -> dict[str, object]:
        """As JSON can hold it."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Inputs:
        """Read back :meth:`to_dict`."""
        read: dict[str, Any] = {
            k: tuple(map(int, v)) if isinstance(v, list) else int(v) for k, v in values.items()
        }
        return Inputs(**read)


def preparation_of(recipe: Recipe) -> Preparation:
    """How this recipe's molecules are prepared: its settings of molecules, by their names."""
    chosen = recipe.molecules
    shared = {f.name for f in fields(Preparation)} & {f.name for f in fields(chosen)}
    own: dict[str, Any] = {name: getattr(chosen, name) for name in shared}
    return Preparation(
        featurizer=Featurizer(explicit_hydrogens=chosen.explicit_hydrogens),
        combinatorial=chosen.laplacian == "combinatorial",
        transposed=chosen.field == "transposed",
        counts=recipe.training.blend,
        **{**own, "k": chosen.k or None},
    )


def inputs_of(preparation: Preparation, features: int = 0) -> Inputs:
    """What these molecules feed a model, with so many further features of the user's."""
    return Inputs(
        tuple(preparation.featurizer.atom_cardinalities),
        preparation.atom_values,
        preparation.bond_cardinalities,
        preparation.graph_values + features,
        preparation.bond_walk,
    )


def build_model(recipe: Recipe, inputs: Inputs, outputs: int, *, delta: float = 1.0) -> GAD:
    """The model of a recipe; the widest within its budget if it names no width."""
    chosen = recipe.model
    counts = cycle_lengths(recipe.molecules.cycles)
    columns = _bond_columns(chosen, len(inputs.bond_cardinalities), counts)
    edges = chosen.edge_channels if columns else 0
    parts, filters = (
        {name: getattr(chosen, name) for name in names} for names in (_OF_EVERY_BLOCK, _OF_FILTERS)
    )

    def of_width(width: int) -> GAD:
        return GAD(
            width,
            encoder=FeatureEncoder(
                inputs.atom_cardinalities, inputs.atom_values, width, norm=chosen.value_norm
            ),
            edge_encoder=_edge_encoder(inputs, columns, edges, chosen.value_norm),
            head=head_for(
                width, outputs, chosen.readout, inputs.graph_values, norm=chosen.head_norm
            ),
            diffusion=_diffusion(chosen),
            edge_channels=edges,
            delta=delta,
            readout=chosen.readout,
            graph_channels=inputs.graph_values,
            blocks=None
            if chosen.network == "gad"
            else baseline_blocks(chosen.network, width, edge_channels=edges, heads=HEADS, **parts),
            between=_between(chosen, width, edges),
            **filters,
            **parts,
        )

    return of_width(chosen.width or widest(of_width, chosen.budget, multiple=chosen.width_step))


def _diffusion(chosen: ModelSettings) -> Callable[[int], Diffusion] | None:
    kind = _SCHEMES[chosen.scheme]
    if kind is None:
        return None
    return lambda width: kind(width, times=spread_times(width, chosen.longest_time))


def _between(chosen: ModelSettings, width: int, edges: int) -> Between | None:
    """What follows the blocks, if anything does."""
    kind, heads = _SCHEMES[chosen.scheme], chosen.layers * chosen.pair_heads
    pairs = None
    if kind is not None and heads:
        scheme = kind.own_scheme
        pairs = PairWeights(heads, scheme, times=chosen.pair_times, hidden=chosen.pair_hidden)
    bonds = edges if chosen.bond_states else 0
    if pairs is None and not (bonds or chosen.ring_channels):
        return None
    return Between(
        width,
        chosen.layers,
        pairs=pairs,
        ring_channels=chosen.ring_channels,
        bond_states=bonds,
        batch_norm=chosen.batch_norm,
        dropout=chosen.dropout,
    )


def _bond_columns(chosen: ModelSettings, columns: int, counts: int) -> range:
    """Which of the bonds' columns enter the messages: types if edges is on, then cycle counts."""
    if chosen.network in NO_BONDS:
        return range(0)
    return range(0 if chosen.edges else columns - counts, columns)


class _SomeColumns(nn.Module):
    """Embeds some of the bonds' columns; none at all for a model that reads no bonds."""

    def __init__(self, cardinalities: Sequence[int], columns: range, channels: int) -> None:
        super().__init__()
        self.columns = slice(columns.start, columns.stop)
        chosen = cardinalities[self.columns]
        self.categories = CategoricalEncoder(chosen, channels) if chosen else None

    def forward(self, bonds: Tensor) -> Tensor | None:
        if self.categories is None:
            return None
        encoded: Tensor = self.categories(bonds[:, self.columns])
        return encoded


def _edge_encoder(inputs: Inputs, columns: range, channels: int, norm: bool) -> nn.Module:
    cardinalities, values = inputs.bond_cardinalities, inputs.bond_values
    if len(columns) < len(cardinalities):
        return _SomeColumns(cardinalities, columns, channels)
    if values:
        return FeatureEncoder(cardinalities, values, channels, norm=norm)
    return CategoricalEncoder(cardinalities, channels)
