"""Splits: nothing lost, nothing twice, no molecule on two sides, and the same rows everywhere."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gad.data.splits import (
    Split,
    column_split,
    duplicates,
    index_split,
    k_fold,
    leakage,
    random_split,
    scaffold_split,
    stratified_split,
)

NAN = float("nan")
seeds = st.integers(0, 2**32)
molecules = st.integers(0, 30)
# One molecule has one scaffold; a third of them have none.
scaffold_of = {key: "" if key % 3 == 0 else f"ring {key % 7}" for key in range(31)}


@st.composite
def fractions(draw):
    train = draw(st.integers(1, 20))
    val, test = draw(st.integers(0, 20)), draw(st.integers(0, 20))
    total = train + val + test
    return train / total, val / total, test / total


def assert_partition(split: Split, rows: int) -> None:
    together = np.concatenate([listed for _, listed in split.parts()])
    assert sorted(together.tolist()) == list(range(rows))
    for _, listed in split.parts():
        assert listed.dtype == np.int64
        assert (np.diff(listed) > 0).all()


def sides(split: Split, groups) -> dict:
    found: dict = {}
    for name, rows in split.parts():
        for row in rows:
            found.setdefault(groups[row], set()).add(name)
    return found


def assert_together(split: Split, groups) -> None:
    assert {len(parts) for parts in sides(split, groups).values()} <= {1}


def draw_all(keys, shares, seed):
    labels = [NAN if key % 5 == 0 else float(key % 2) for key in keys]
    scaffolds = [scaffold_of[key] for key in keys]
    yield random_split(keys, shares, seed=seed)
    yield stratified_split(keys, labels, shares, seed=seed)
    yield scaffold_split(keys, scaffolds, shares, seed=seed)


def groups_of_scaffolds(keys) -> list:
    return [scaffold_of[key] or key for key in keys]


# ------------------------------------------------------------------ every split that is drawn


@given(st.lists(molecules, min_size=1, max_size=60), fractions(), seeds)
def test_a_drawn_split_is_a_partition_that_keeps_molecules_together(keys, shares, seed):
    wanted = sum(share > 0 for share in shares)
    assume(len(set(groups_of_scaffolds(keys))) >= wanted)
    for split in draw_all(keys, shares, seed):
        assert_partition(split, len(keys))
        assert_together(split, keys)
        for (_, rows), share in zip(split.parts(), shares, strict=True):
            assert bool(rows.size) == (share > 0)


@given(st.lists(molecules, min_size=3, max_size=60), seeds)
def test_the_same_seed_gives_the_same_rows(keys, seed):
    assume(len(set(groups_of_scaffolds(keys))) >= 3)
    shares = (0.8, 0.1, 0.1)
    assert list(draw_all(keys, shares, seed)) == list(draw_all(keys, shares, seed))


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_different_seeds_give_different_splits(kind):
    keys = list(range(31)) * 2
    assert len({list(draw_all(keys, (0.8, 0.1, 0.1), seed))[kind] for seed in range(20)}) == 20


@given(st.integers(3, 200), fractions(), seeds)
def test_sizes_are_the_fractions_asked_for(rows, shares, seed):
    assume(all(share * rows >= 1 for share in shares if share > 0))
    split = random_split(range(rows), shares, seed=seed)
    for (_, listed), share in zip(split.parts(), shares, strict=True):
        assert abs(listed.size - share * rows) <= 1


def test_these_rows_on_every_machine():
    """A seed is quoted in papers: it must not come to mean other rows."""
    split = random_split(range(20), seed=7)
    assert (split.val.tolist(), split.test.tolist()) == ([1, 5], [16, 19])


@pytest.mark.parametrize("n", [3, 4, 5, 9])
def test_small_data_have_no_empty_part(n):
    for split in draw_all([3, 6, 9, 12, 15, 18, 21, 24, 27][:n], (0.8, 0.1, 0.1), 0):
        assert min(rows.size for _, rows in split.parts()) >= 1


def test_too_few_molecules_are_an_error_that_counts_them():
    with pytest.raises(ValueError, match="1 different molecule: too few for 3 parts"):
        random_split(["CC", "CC", "CC", "CC"], seed=0)
    with pytest.raises(ValueError, match="0 different molecules"):
        stratified_split([], [], seed=0)
    with pytest.raises(ValueError, match="2 different scaffolds"):
        scaffold_split([1, 2, 3], ["a", "b", "b"], seed=0)


@pytest.mark.parametrize("bad", [(0.8, 0.1, 0.2), (0.0, 0.5, 0.5), (1.2, -0.1, -0.1), (0.9, 0.1)])
def test_fractions_must_sum_to_one(bad):
    with pytest.raises(ValueError, match="sum to 1"):
        random_split(range(10), bad, seed=0)


# ------------------------------------------------------------------ scaffolds


@given(st.lists(molecules, min_size=3, max_size=80), seeds)
def test_no_scaffold_is_on_two_sides(keys, seed):
    groups = groups_of_scaffolds(keys)
    assume(len(set(groups)) >= 3)
    split = scaffold_split(keys, [scaffold_of[key] for key in keys], seed=seed)
    assert_together(split, groups)


def test_common_scaffolds_go_to_train():
    scaffolds = ["benzene"] * 40 + ["pyridine"] * 20 + [f"rare {i}" for i in range(40)]
    for seed in range(10):
        split = scaffold_split(range(100), scaffolds, seed=seed)
        assert set(range(60)) <= set(split.train.tolist())
        assert [rows.size for _, rows in split.parts()] == [80, 10, 10]


def test_molecules_without_rings_are_not_one_group():
    split = scaffold_split(range(100), [""] * 100, seed=0)
    assert [rows.size for _, rows in split.parts()] == [80, 10, 10]


# ------------------------------------------------------------------ strata


@given(st.integers(2, 9), seeds)
def test_every_part_has_its_share_of_every_class(classes, seed):
    labels = np.arange(60 * classes) % classes
    split = stratified_split(range(labels.size), labels, seed=seed)
    for (_, rows), share in zip(split.parts(), (48, 6, 6), strict=True):
        counts = np.bincount(labels[rows], minlength=classes)
        assert np.abs(counts - share).max() <= 2


def test_regression_is_spread_over_its_range():
    values = np.random.default_rng(0).standard_normal(1000)
    means = [values[stratified_split(range(1000), values, seed=s).test].mean() for s in range(30)]
    by_chance = [values[random_split(range(1000), seed=s).test].mean() for s in range(30)]
    assert np.std(means) < 0.5 * np.std(by_chance)


def test_rare_positives_of_one_task_are_spread_although_most_labels_are_missing():
    labels = np.full((1000, 3), NAN)
    labels[100:200, 0] = 0
    labels[100:120, 0] = 1  # 20 positives among 3,000 cells
    labels[:500, 1] = np.arange(500) % 2
    labels[:, 2] = np.arange(1000) % 2
    for seed in range(10):
        split = stratified_split(range(1000), labels, seed=seed)
        positives = [int((labels[rows, 0] == 1).sum()) for _, rows in split.parts()]
        assert min(positives[1:]) >= 1
        assert_partition(split, 1000)


def test_of_several_labels_of_one_molecule_the_first_known_one_counts():
    from gad.data.splits.drawn import _first_labels

    groups = np.array([0, 1, 0, 0, 1])
    labels = np.array([[NAN, 1.0], [5.0, NAN], [2.0, 3.0], [4.0, 4.0], [6.0, NAN]])
    np.testing.assert_array_equal(_first_labels(groups, labels), [[2.0, 1.0], [5.0, NAN]])


# ------------------------------------------------------------------ folds


@given(
    st.lists(molecules, min_size=3, max_size=60),
    st.integers(2, 6),
    seeds,
    st.booleans(),
    st.sampled_from([None, 0.2]),
)
def test_every_row_is_tested_exactly_once(keys, folds, seed, by_scaffold, val_fraction):
    groups = groups_of_scaffolds(keys) if by_scaffold else keys
    # With two folds each must hold two groups; that has a test of its own.
    assume(len(set(groups)) >= max(folds, 3))
    assume(folds > 2 or max(Counter(groups).values()) <= len(keys) // 4)
    scaffolds = [scaffold_of[key] for key in keys] if by_scaffold else None
    splits = k_fold(keys, folds, seed=seed, scaffolds=scaffolds, val_fraction=val_fraction)
    assert len(splits) == folds
    assert sorted(np.concatenate([s.test for s in splits]).tolist()) == list(range(len(keys)))
    for split in splits:
        assert_partition(split, len(keys))
        assert_together(split, groups)
        assert min(rows.size for _, rows in split.parts()) >= 1


def test_folds_of_single_molecules_are_equal_in_size_and_validate_on_the_next():
    splits = k_fold(range(50), 5, seed=3)
    assert {split.test.size for split in splits} == {10}
    for split, following in zip(splits, [*splits[1:], splits[0]], strict=True):
        np.testing.assert_array_equal(split.val, following.test)


def test_folds_of_unequal_groups_are_as_equal_as_they_can_be():
    scaffolds = ["benzene"] * 40 + [""] * 60
    splits = k_fold(range(100), 5, seed=0, scaffolds=scaffolds)
    assert sorted(split.test.size for split in splits) == [15, 15, 15, 15, 40]


@pytest.mark.parametrize(
    ("keys", "folds", "words"),
    [("abc", 1, "at least 2"), ("abab", 3, "3 folds need as many"), ("aaab", 2, "single molecule")],
)
def test_impossible_folds_are_explained(keys, folds, words):
    with pytest.raises(ValueError, match=words):
        k_fold(keys, folds, seed=0)


# ------------------------------------------------------------------ splits that are given


def test_a_column_is_read_whatever_its_case_and_spelling():
    words = [" Train", "TRAINING", "val", "Valid", "validation", "Test"]
    split, messages = column_split(words)
    assert split == Split([0, 1], [2, 3, 4], [5])
    assert messages == []


def test_an_unknown_or_missing_word_is_named_with_its_row():
    with pytest.raises(ValueError, match=r"data row 2: 'tets' is no part"):
        column_split(["train", "tets", "val"])
    with pytest.raises(ValueError, match=r"data row 3: the part is missing"):
        column_split(["train", "test", " "])


def test_validation_is_taken_from_train_when_the_column_has_none():
    keys = [str(row // 2) for row in range(100)]  # every molecule twice
    words = ["train"] * 80 + ["test"] * 20
    split, messages = column_split(words, keys, seed=1)
    assert_partition(split, 100)
    assert_together(split, keys)
    assert split.val.size == 8
    assert split.test.tolist() == list(range(80, 100))
    assert "8 of 80 training rows were taken for validation (seed 1)" in messages[0]
    assert split == column_split(words, keys, seed=1)[0] != column_split(words, keys, seed=2)[0]


def test_a_leaking_column_is_kept_and_reported():
    split, messages = column_split(["train", "val", "test", "test"], ["CCO", "C", "CCO", "CC"])
    assert split == Split([0], [1], [2, 3])
    assert messages == [
        "1 molecule is in more than one part of the split: 'CCO' in train (row 1) and test (row 3)"
    ]


def test_many_leaks_are_counted_and_a_few_shown():
    keys = list(range(50)) * 2
    (message,) = leakage(Split(range(50), [], range(50, 100)), keys)
    assert message.startswith("50 molecules are in more than one part")
    assert message.endswith("and 45 more")


def test_a_column_without_train_is_an_error_and_one_without_test_a_message():
    with pytest.raises(ValueError, match="no training rows"):
        column_split(["val", "test"])
    _, messages = column_split(["train", "val"])
    assert messages == ["the split has no test rows: there will be no test score"]


@pytest.fixture
def lists():
    return {"train": [0, 3, 2], "valid": [1], "test": [4]}


@pytest.mark.parametrize("kind", ["dict", "json", "npz", "csv"])
def test_lists_of_rows_are_read_from_each_kind_of_source(kind, lists, tmp_path):
    source = tmp_path / f"split.{kind}"
    if kind == "dict":
        source = lists
    elif kind == "json":
        source.write_text(json.dumps(lists))
    elif kind == "npz":
        np.savez(source, **{name: np.array(rows) for name, rows in lists.items()})
    else:
        lines = [f"{row},{name}" for name, rows in lists.items() for row in rows]
        source.write_text("\n".join(["row,split", *lines]))
    split, messages = index_split(source, 5)
    assert (split, messages) == (Split([0, 2, 3], [1], [4]), [])


def test_words_of_a_csv_split_may_be_spelled_in_several_ways(tmp_path):
    path = tmp_path / "split.csv"
    path.write_text("row,split\n0,train\n1,Val\n2,valid\n3,TEST\n")
    assert index_split(path, 4)[0] == Split([0], [1, 2], [3])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"test": [5]}, "test holds position 5, beyond the last, 4"),
        ({"test": [-1]}, "the first row is 0"),
        ({"test": [3]}, "names position 3 .from 0. more than once"),
        ({"test": [0.5]}, "whole numbers"),
        ({"tests": [1]}, "'tests' is no part"),
        ({"val": [1]}, "given twice"),
    ],
)
def test_a_wrong_list_is_explained_with_its_file(change, words, lists, tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(lists | change))
    with pytest.raises(ValueError, match=words) as caught:
        index_split(path, 5)
    assert "mine.json" in str(caught.value)


def test_files_that_are_no_split_are_explained(tmp_path):
    for name, text, words in [
        ("a.json", "[1, 2]", "expected"),
        ("b.json", "{", "is not JSON"),
        ("c.csv", "index,part\n1,train\n", "row and split"),
        ("d.csv", "row,split\n0,train\nx,test\n", "line 3: 'x' is not a row number"),
        ("e.txt", "", ".json, .npz or .csv"),
    ]:
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=words):
            index_split(tmp_path / name, 5)


def test_unused_rows_are_counted():
    _, messages = index_split({"train": [0, 1], "val": [2], "test": [3]}, 10)
    assert messages == ["6 of 10 rows are in no part of the split and stay unused"]


# ------------------------------------------------------------------ the split on disk


@given(st.lists(st.integers(0, 10**6), unique=True, max_size=30), st.integers(0, 2))
def test_a_split_comes_back_as_it_was_saved(tmp_path_factory, rows, cut):
    split = Split(rows[: cut * 5], rows[cut * 5 : cut * 10], rows[cut * 10 :])
    path = tmp_path_factory.mktemp("split") / "split.json"
    split.save(path)
    assert Split.load(path) == split
    assert [p.name for p in path.parent.iterdir()] == ["split.json"]


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    from pathlib import Path

    path = tmp_path / "split.json"
    Split([0], [1], [2]).save(path)

    def full(*_args, **_kwargs):
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space"):
        Split([5], [6], [7]).save(path)
    assert Split.load(path) == Split([0], [1], [2])
    assert [p.name for p in tmp_path.iterdir()] == ["split.json"]


def test_equality_and_hash_follow_the_rows():
    assert hash(Split([1, 0], [2], [3])) == hash(Split([0, 1], [2], [3]))
    assert Split([0, 1], [2], [3]) != Split([0], [1, 2], [3])
    assert Split([0], [1], [2]) != "split"


# ------------------------------------------------------------------ contradicting labels


def test_contradicting_labels_are_reported_with_rows_and_values():
    keys = ["CC", "CO", "CC", "CO", "CN", "CC"]
    found = duplicates(keys, [1.0, 2.0, 1.5, 2.0 + 1e-9, 7.0, NAN])
    assert [(d.key, d.rows, d.values, d.task) for d in found] == [("CC", (0, 2), (1.0, 1.5), 0)]
    assert str(found[0]) == "'CC' has different labels: 1.0 (row 1), 1.5 (row 3)"


def test_contradictions_are_told_per_column_and_for_words():
    found = duplicates(["a", "a"], [[0.0, 1.0, NAN], [1.0, 1.0, 2.0]])
    assert [d.task for d in found] == [0]
    (report,) = duplicates(["a", "a", "a", "b"], ["active", "", "inactive", "active"])
    assert (report.rows, report.values) == ((0, 2), ("active", "inactive"))
    assert duplicates(["a", "a"], ["active", "active"]) == []
