"""From a recipe to a model and the preparation of its molecules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gad.chem.featurize import Featurizer
from gad.data.molecules import Preparation
from gad.nn import (
    GAD,
    CategoricalEncoder,
    FeatureEncoder,
    Head,
    ImplicitDiffusion,
    SpectralDiffusion,
    widest,
)
from gad.training.recipe import Recipe

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
        descriptors=recipe.descriptors,
    )


def inputs_of(preparation: Preparation, features: int = 0) -> Inputs:
    """What these molecules feed a model, with so many further features of the user's."""
    featurizer = preparation.featurizer
    return Inputs(
        tuple(featurizer.atom_cardinalities),
        preparation.atom_values,
        tuple(featurizer.bond_cardinalities),
        preparation.graph_values + features,
    )


def build_model(recipe: Recipe, inputs: Inputs, outputs: int, *, delta: float = 1.0) -> GAD:
    """The model of a recipe; the widest within its budget if it names no width."""

    def of_width(width: int) -> GAD:
        edges = recipe.edge_channels if recipe.edges else 0
        return GAD(
            width,
            layers=recipe.layers,
            encoder=FeatureEncoder(inputs.atom_cardinalities, inputs.atom_values, width),
            edge_encoder=_edge_encoder(inputs.bond_cardinalities, edges),
            head=Head(width + inputs.graph_values, outputs),
            diffusion=_SCHEMES[recipe.scheme],
            aggregators=recipe.aggregators,
            scalers=recipe.scalers,
            towers=recipe.towers,
            edge_channels=edges,
            delta=delta,
            dx_centre=recipe.dx_centre,
            readout=recipe.readout,
            graph_channels=inputs.graph_values,
            batch_norm=recipe.batch_norm,
            graph_norm=recipe.graph_norm,
            residual=recipe.residual,
            dropout=recipe.dropout,
        )

    width = recipe.width or widest(of_width, recipe.budget, multiple=recipe.towers)
    return of_width(width)


def _edge_encoder(cardinalities: Sequence[int], channels: int) -> CategoricalEncoder | None:
    return CategoricalEncoder(cardinalities, channels) if channels else None
