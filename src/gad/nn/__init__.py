"""Layers and models. This package knows no files and no chemistry."""

from torch.nn import Linear

from gad.nn.aggregation import DirectionalAggregation, mean_log_degree
from gad.nn.between import Between
from gad.nn.block import GADBlock
from gad.nn.bonds import BondUpdate
from gad.nn.diffusion import Diffusion, ImplicitDiffusion, SpectralDiffusion
from gad.nn.encoders import CategoricalEncoder, FeatureEncoder
from gad.nn.model import GAD, Head, count_parameters, decay_groups, pool, widest
from gad.nn.nodes import NodeBlock, NodeGAD
from gad.nn.norm import BatchNorm
from gad.nn.pairs import KernelFilter, PairWeights
from gad.nn.rings import RingMessages

__all__ = [
    "GAD",
    "BatchNorm",
    "Between",
    "BondUpdate",
    "CategoricalEncoder",
    "Diffusion",
    "DirectionalAggregation",
    "FeatureEncoder",
    "GADBlock",
    "Head",
    "ImplicitDiffusion",
    "KernelFilter",
    "Linear",
    "NodeBlock",
    "NodeGAD",
    "PairWeights",
    "RingMessages",
    "SpectralDiffusion",
    "count_parameters",
    "decay_groups",
    "mean_log_degree",
    "pool",
    "widest",
]
