"""Graph Anisotropic Diffusion: a diffusion is a function of the graph Laplacian.

Heat spreads a signal over a graph for a learned time, equally in every direction; directional
filters then read it along the slope of the first non-constant eigenvector. Alternating the two
gives a graph neural network with global, anisotropic kernels.

The names below are loaded when they are first used, so ``import gad`` itself is quick::

    import gad

    operators = gad.build_operators(edge_index, num_nodes=9)
    model = gad.nn.GAD(...)

    run = gad.train("solubility.csv", target="logS")
    gad.load("model.gad").predict(["CCO", "c1ccccc1"])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gad import nn, operators
    from gad.estimators import MoleculeClassifier, MoleculeEmbedder, MoleculeRegressor
    from gad.operators import GraphOperators, build_operators
    from gad.prediction.predictor import load
    from gad.pyg import AddGraphOperators
    from gad.sampling import NodeSampler
    from gad.training.nodes import train_nodes
    from gad.training.run import train

__version__ = "0.2.0"

__all__ = [
    "AddGraphOperators",
    "GraphOperators",
    "MoleculeClassifier",
    "MoleculeEmbedder",
    "MoleculeRegressor",
    "NodeSampler",
    "__version__",
    "build_operators",
    "load",
    "nn",
    "operators",
    "train",
    "train_nodes",
]

# Public name → the module it lives in.
_HOMES = {
    "AddGraphOperators": "gad.pyg",
    "GraphOperators": "gad.operators",
    "MoleculeClassifier": "gad.estimators",
    "MoleculeEmbedder": "gad.estimators",
    "MoleculeRegressor": "gad.estimators",
    "NodeSampler": "gad.sampling",
    "build_operators": "gad.operators",
    "load": "gad.prediction.predictor",
    "train": "gad.training.run",
    "train_nodes": "gad.training.nodes",
}
_SUBPACKAGES = frozenset({"nn", "operators"})


def __getattr__(name: str) -> object:
    """Load a public name on first use (PEP 562)."""
    if name in _SUBPACKAGES:
        return import_module(f"gad.{name}")
    if name in _HOMES:
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value
    raise AttributeError(f"module 'gad' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
