"""Parts of a set are what the whole has there."""

from __future__ import annotations

import numpy as np
import pytest

from gad.experiments.models import Run, recipe_of
from gad.experiments.sets import first, inputs_of, load_graphs
from tests.experiments.conftest import rings


def test_the_first_molecules_of_each_part():
    whole = rings()
    some = first(whole, 5)
    assert [len(rows) for _, rows in some.split.parts()] == [5, 5, 5]
    assert some.name == "zinc-5"
    places = np.concatenate([rows[:5] for _, rows in whole.split.parts()])
    for mine, theirs in enumerate(places):
        for array, pointer in (("atom_categories", "node_ptr"), ("bonds", "edge_ptr")):
            a, b = getattr(some, pointer)[mine : mine + 2]
            c, d = getattr(whole, pointer)[theirs : theirs + 2]
            np.testing.assert_array_equal(getattr(some, array)[a:b], getattr(whole, array)[c:d])
        assert some.targets[mine] == whole.targets[theirs]


def test_inputs_follow_the_recipe(graphs):
    plain = inputs_of(graphs, recipe_of(Run("zinc", "gad-i", "zinc-paper", True, 0)))
    rich = inputs_of(graphs, recipe_of(Run("zinc", "gad-i", "zinc-best", True, 0)))
    assert plain.atom_cardinalities == (28,)
    # Twenty steps of a random walk, and cycles of three to eight atoms.
    assert (plain.atom_values, rich.atom_values) == (0, 20 + 6)


@pytest.mark.slow
def test_a_property_of_qm9(data_dir):
    graphs = load_graphs("qm9", "zpve", 3)
    assert graphs.target_names == ("zpve",)
    assert graphs.units == ("meV",)
    assert len(graphs) == 9
    assert graphs.atom_values.shape[1] == 11
