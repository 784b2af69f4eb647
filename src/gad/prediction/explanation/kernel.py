"""The diffusion seen from one atom: what it receives from every other at the learned times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from gad.data.store.molecules import read_molecules
from gad.prediction.explanation.explain import places

if TYPE_CHECKING:
    from gad.prediction.model_file import Model

Floats = npt.NDArray[np.float64]
# Of all channels' times: a short one, the middle and a long one.
_QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True, eq=False)
class Kernel:
    """Rows of r_t(M⁻¹L) at one atom.

    Attributes:
        atom: its number in the SMILES, from 0.
        times: [K], a short, the middle and a long one of those the model learned.
        values: [n, K]: what the atom receives, at such a time, from a unit at each of n atoms.
    """

    atom: int
    times: tuple[float, ...]
    values: Floats

    @property
    def reach(self) -> tuple[float, ...]:
        """√t, how far heat goes in bonds."""
        return tuple(float(np.sqrt(time)) for time in self.times)


def kernel_of(model: Model, text: str, atom: int, *, blocks: bool = False) -> Kernel:
    """The kernel of an atom, numbered from 0 in the order of the molecule as it is given.

    Raises:
        ValueError: there is no such atom, or the model has no diffusion.
    """
    layers = model.members[0].diffusions()
    if not layers or model.preparation is None:
        raise ValueError("this model has no diffusion over molecules, so there is no kernel")
    preparation = replace(model.preparation, descriptors=False)
    packed = read_molecules([text], preparation, blocks=blocks)
    place = places(packed, slice(0, len(packed.atoms)), text, preparation.standardise, blocks)
    if place is None or not 0 <= atom < place.count:
        last = "" if place is None else f": its atoms are 0 to {place.count - 1}"
        raise ValueError(f"{text} has no atom {atom}{last}")
    here = np.flatnonzero(place.of_atoms == atom)
    if not here.size:
        raise ValueError(f"atom {atom} of {text} is removed when the molecule is standardised")
    learned = torch.cat([layer.times.detach() for layer in layers]).double()
    times = torch.quantile(learned, torch.tensor(_QUANTILES, dtype=torch.float64))
    operators = packed.operators.to(dtype=torch.float64)
    units = torch.eye(operators.num_nodes, dtype=torch.float64)
    values = np.zeros((place.count, len(times)))
    for column, time in enumerate(times):
        solver = layers[0].choose_solver(operators)
        spread = solver(operators, units, time.expand(len(units)), layers[0].scheme)
        np.add.at(values[:, column], place.of_atoms, spread[int(here[0])].numpy())
    return Kernel(atom, tuple(times.tolist()), values)
