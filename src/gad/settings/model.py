"""From a recipe to a model and the preparation of its molecules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from gad.chem.featurize import Featurizer
from gad.data.store.molecules import Preparation
from gad.nn import (
    GAD,
    CategoricalEncoder,
    Diffusion,
    FeatureEncoder,
    Head,
    ImplicitDiffusion,
    SpectralDiffusion,
    widest,
)
from gad.nn.baselines import baseline_blocks
from gad.nn.diffusion import spread_times
from gad.operators.cycles import cycle_lengths
from gad.settings.recipe import HEADS, NO_BONDS, Recipe

_SCHEMES = {"implicit": ImplicitDiffusion, "spectral": SpectralDiffusion, "none": None}


@dataclass(frozen=True)
class Inputs:
    """What a model is fed: categories of atoms and bonds, and how many real values."""

    atom_cardinalities: tuple[int, ...]
    atom_values: int
    bond_cardinalities: tuple[int, ...]
    graph_values: int


def preparation_of(recipe: Recipe) -> Preparation:
    """How this recipe's molecules are prepared."""
    return Preparation(
        featurizer=Featurizer(explicit_hydrogens=recipe.explicit_hydrogens),
        k=recipe.k or None,
        random_walk=recipe.random_walk,
        cycles=recipe.cycles,
        combinatorial=recipe.laplacian == "combinatorial",
        transposed=recipe.field == "transposed",
        descriptors=recipe.descriptors,
    )


def inputs_of(preparation: Preparation, features: int = 0) -> Inputs:
    """What these molecules feed a model, with so many further features of the user's."""
    return Inputs(
        tuple(preparation.featurizer.atom_cardinalities),
        preparation.atom_values,
        preparation.bond_cardinalities,
        preparation.graph_values + features,
    )


def build_model(recipe: Recipe, inputs: Inputs, outputs: int, *, delta: float = 1.0) -> GAD:
    """The model of a recipe; the widest within its budget if it names no width."""
    columns = _bond_columns(recipe, len(inputs.bond_cardinalities))
    edges = recipe.edge_channels if columns else 0

    def of_width(width: int) -> GAD:
        return GAD(
            width,
            layers=recipe.layers,
            encoder=FeatureEncoder(
                inputs.atom_cardinalities, inputs.atom_values, width, norm=recipe.value_norm
            ),
            edge_encoder=_edge_encoder(inputs.bond_cardinalities, columns, edges),
            head=Head(width + inputs.graph_values, outputs),
            diffusion=_diffusion(recipe),
            aggregators=recipe.aggregators,
            scalers=recipe.scalers,
            towers=recipe.towers,
            edge_channels=edges,
            delta=delta,
            dx_centre=recipe.dx_centre,
            messages=recipe.messages,
            readout=recipe.readout,
            graph_channels=inputs.graph_values,
            batch_norm=recipe.batch_norm,
            graph_norm=recipe.graph_norm,
            residual=recipe.residual,
            dropout=recipe.dropout,
            blocks=None if recipe.network == "gad" else _baseline(recipe, width, edges),
        )

    width = recipe.width or widest(of_width, recipe.budget, multiple=recipe.width_step)
    return of_width(width)


def _diffusion(recipe: Recipe) -> Callable[[int], Diffusion] | None:
    kind = _SCHEMES[recipe.scheme]
    if kind is None:
        return None
    return lambda width: kind(width, times=spread_times(width, recipe.longest_time))


def _baseline(recipe: Recipe, width: int, edges: int) -> list[nn.Module]:
    return baseline_blocks(
        recipe.network,
        width,
        layers=recipe.layers,
        edge_channels=edges,
        heads=HEADS,
        batch_norm=recipe.batch_norm,
        graph_norm=recipe.graph_norm,
        residual=recipe.residual,
        dropout=recipe.dropout,
    )


def _bond_columns(recipe: Recipe, columns: int) -> range:
    """Which of the bonds' columns enter the messages: types if edges is on, then cycle counts."""
    if recipe.network in NO_BONDS:
        return range(0)
    counts = cycle_lengths(recipe.cycles)
    return range(0 if recipe.edges else columns - counts, columns)


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


def _edge_encoder(cardinalities: Sequence[int], columns: range, channels: int) -> nn.Module:
    if len(columns) == len(cardinalities):
        return CategoricalEncoder(cardinalities, channels)
    return _SomeColumns(cardinalities, columns, channels)
