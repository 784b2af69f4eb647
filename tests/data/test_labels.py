"""Cells of a target's column: numbers, bounds, words."""

from __future__ import annotations

import numpy as np
import pytest

from gad.data.labels import read_labels
from gad.data.tables import TableError


@pytest.mark.parametrize(
    ("cell", "value", "side"),
    [
        ("10", 10, 0), (">10", 10, 1), ("> 10", 10, 1), (">=10", 10, 1), ("≥ 10", 10, 1),
        ("<0.5", 0.5, -1), ("<= 0.5", 0.5, -1), ("≤0.5", 0.5, -1), ("~3", 3, 0), ("=3", 3, 0),
        (">-1e3", -1000, 1), ("", np.nan, 0), ("NA", np.nan, 0), (7.5, 7.5, 0),
    ],
)  # fmt: skip
def test_bounds(cell, value, side):
    labels, bad = read_labels([cell, "1", "2"], "y")
    assert not bad
    assert labels.classes == ()
    np.testing.assert_equal(labels.values[0], value)
    assert labels.bounds.tolist() == [side, 0, 0]


def test_what_is_neither_number_nor_bound_is_rejected():
    labels, bad = read_labels(["1", "2", "n.d.", ">", "> x", "3", "4"], "IC50")
    assert list(bad) == [2, 3, 4]
    assert "'n.d.' is not a number" in bad[2]
    assert np.isnan(labels.values[[2, 3, 4]]).all()


def test_relations_beside_the_numbers():
    relations = [">", "=", "", "<=", "about"]
    labels, bad = read_labels(["1", "2", "3", "4", "5"], "y", relations=relations)
    assert labels.bounds.tolist() == [1, 0, 0, -1, 0]
    assert "'about'" in bad[4]
    # A missing number has no side.
    assert read_labels(["", "2"], "y", relations=[">", ">"])[0].bounds.tolist() == [0, 1]


def test_decimal_commas():
    labels, _ = read_labels([">1,5", "2,5"], "y", comma=True)
    assert labels.values.tolist() == [1.5, 2.5]
    assert labels.bounds.tolist() == [1, 0]


def test_two_words():
    labels, bad = read_labels(["active", "inactive", "", "Inactive", "ACTIVE", "active"], "hit")
    assert labels.classes == ("inactive", "active"), "the one that denies comes first"
    np.testing.assert_equal(labels.values, [1, 0, np.nan, 0, 1, 1])
    assert not bad


def test_more_words_and_a_stray_number():
    labels, bad = read_labels(["low", "high", "mid", "high", "3"], "level")
    assert labels.classes == ("high", "low", "mid")
    assert "'3' is none of the classes" in bad[4]


def test_a_number_that_many_rows_have_is_a_word():
    labels, bad = read_labels(["1A", "2B", "3", "", "3.0", "1A", "2B", "7"], "level")
    assert labels.classes == ("1A", "2B", "3")
    assert labels.values[[2, 4]].tolist() == [2, 2]
    assert list(bad) == [7]


def test_numbers_may_be_names():
    labels, bad = read_labels(["3", "1.0", "1", "", "12", "oops"], "kind", task="multiclass")
    assert labels.classes == ("1", "12", "3", "oops")
    assert labels.values[1] == labels.values[2]
    assert not bad
    labels, _ = read_labels([10, 2, 2, 1], "kind", task="multiclass")
    assert labels.classes == ("1", "2", "10")


def test_a_model_knows_its_classes():
    labels, bad = read_labels(["yes", "no", "maybe", ""], "hit", classes=("no", "yes"))
    np.testing.assert_equal(labels.values, [1, 0, np.nan, np.nan])
    assert list(bad) == [2]
    assert "'maybe' is none of the classes no, yes" in bad[2]
    labels, bad = read_labels(["yes", "1.5"], "y", classes=())
    assert labels.classes == ()
    assert list(bad) == [0], "a model of numbers reads no words"


def test_words_that_are_no_classes():
    with pytest.raises(TableError, match="only 'yes'"):
        read_labels(["yes", "yes"], "hit")
    with pytest.raises(TableError, match="different words"):
        read_labels([f"name {i}" for i in range(500)], "hit")
    labels, bad = read_labels(["yes", "no", "1"], "hit", task="regression")
    assert list(bad) == [0, 1]
    assert labels.classes == ()


def test_true_and_false_stay_one_and_zero():
    labels, _ = read_labels(["True", "false", "TRUE"], "hit")
    assert labels.classes == ()
    assert labels.values.tolist() == [1, 0, 1]
