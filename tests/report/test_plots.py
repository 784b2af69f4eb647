"""Plots: whatever the values, what is drawn is in its frame and in its place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gad.report import plots, svg
from gad.report.svg import Plot
from gad.report.text import number

reals = st.floats(allow_nan=True, allow_infinity=True, width=64)


def in_frame(plot: Plot | None) -> int:
    """The number of dots, all of which are where they can be seen."""
    if plot is None:
        return 0
    top, bottom = plot.frame
    for dot in plot.dots:
        assert svg.LEFT <= dot.x <= svg.RIGHT
        assert top <= dot.y <= bottom
        assert "nan" not in dot.hint
    for _, points in plot.lines:
        assert "nan" not in points
        assert "inf" not in points
    return len(plot.dots)


@given(st.lists(st.tuples(reals, reals), max_size=8), reals)
def test_a_parity_plot_of_anything_stays_in_its_frame(pairs, q):
    in_frame(plots.parity([a for a, _ in pairs], [b for _, b in pairs], "eV", q))


sizes = st.floats(1e-12, 1e12)


@given(st.lists(st.tuples(sizes, sizes), min_size=1, max_size=8), st.floats(0, 3))
def test_so_does_one_over_orders_of_magnitude(pairs, q):
    truth, told = [a for a, _ in pairs], [b for _, b in pairs]
    assert in_frame(plots.parity(truth, told, "h", q, log=True)) == len(pairs)


def test_an_interval_of_logarithms_is_a_factor():
    plot = plots.parity([1.0, 100.0], [1.0, 100.0], "h", 1.0, log=True)
    (_, middle), (_, below), (_, above) = plot.lines
    plain = plots.parity([0.0, 2.0], [0.0, 2.0], "", 1.0)
    assert [middle, below, above] == [points for _, points in plain.lines]


@given(st.lists(st.lists(st.floats(0, 1e6), max_size=5), max_size=4))
def test_a_reach_plot_of_anything_stays_in_its_frame(layers):
    assert in_frame(plots.reach(layers)) == sum(map(len, layers))


@given(st.lists(st.one_of(st.none(), reals), max_size=6), st.integers(-1, 7))
def test_a_learning_curve_of_anything_is_drawn(losses, best):
    curve = [{"epoch": k, "train_loss": loss, "val_loss": loss} for k, loss in enumerate(losses)]
    in_frame(plots.learning_curve([curve], [best]))


def test_a_dot_is_where_its_values_are():
    first, second = plots.parity([0.0, 1.0], [0.0, 0.5]).dots
    assert first.x < second.x
    assert first.y > second.y  # up is larger
    assert first.hint == "true 0, predicted 0"
    assert second.hint == "true 1, predicted 0.5"


def test_of_many_points_an_even_choice_with_the_worst_is_drawn():
    y = np.linspace(0, 1, 5000)
    p = y.copy()
    p[1234] = 9.0
    drawn = plots.parity(y, p).dots
    assert len(drawn) <= plots.MOST_POINTS
    assert any("predicted 9" in dot.hint for dot in drawn)


def test_losses_of_many_sizes_get_a_logarithmic_axis():
    def curve(last):
        return [[{"epoch": 0, "val_loss": 1.0}, {"epoch": 1, "val_loss": last}]]

    assert "log scale" in plots.learning_curve(curve(0.01)).y_label
    assert "log scale" not in plots.learning_curve(curve(0.5)).y_label
    assert "log scale" not in plots.learning_curve(curve(-0.01)).y_label


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_ticks_are_round_few_and_inside(low, width):
    marks = svg.ticks(low, low + width)
    assert 2 <= len(marks) <= 11
    slack = 1e-6 * width + 1e-9 * abs(low)
    assert all(low - slack <= mark <= low + width + slack for mark in marks)


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (0.0, None, "0"),
        (-0.00001, 2, "0.00"),
        (999.6, None, "1,000"),
        (12345678.0, None, "1.23e7"),
        (1e-12, None, "1e−12"),
        (float("nan"), None, "–"),
        (1234.5678, 1, "1,234.6"),
    ],
)
def test_numbers_are_written_for_people(value, decimals, text):
    assert number(value, decimals) == text


# ------------------------------------------------------------------ classes


def shares(plot: Plot, css: str) -> list[tuple[float, float]]:
    """The points of a line in a square from 0 to 1."""
    (points,) = [points for name, points in plot.lines if name == css]
    places = (pair.split(",") for pair in points.split())
    across, up = svg.RIGHT - svg.LEFT, svg.WIDTH - svg.BOTTOM - svg.TOP
    return [
        ((float(x) - svg.LEFT) / across, (svg.WIDTH - svg.BOTTOM - float(y)) / up)
        for x, y in places
    ]


LABELS, PROBABILITIES = [0, 0, 1, 1, np.nan], [0.1, 0.4, 0.35, 0.8, 0.5]


def test_one_class_alone_has_no_curves():
    assert plots.class_curves([1, 1, np.nan], [0.2, 0.4, 0.6]) == {}
    assert plots.class_curves([], []) == {}


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0, np.nan]), st.floats(0, 1)), max_size=30))
def test_curves_of_anything_stay_in_their_frames(pairs):
    for plot in plots.class_curves([y for y, _ in pairs], [p for _, p in pairs]).values():
        in_frame(plot)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("roc", [(0, 0), (0, 0.5), (0.5, 0.5), (0.5, 1), (1, 1)]),
        ("precision_recall", [(1, 0.5), (1, 2 / 3), (0.5, 0.5), (0.5, 1), (0, 1)]),
    ],
)
def test_the_curves_go_through_points_counted_by_hand(kind, expected):
    drawn = shares(plots.class_curves(LABELS, PROBABILITIES)[kind], "a line")
    for found, wanted in zip(drawn, expected, strict=True):
        assert found == pytest.approx(wanted, abs=0.002)


def test_chance_is_the_share_of_positives():
    drawn = plots.class_curves([0, 0, 0, 1], [0.1, 0.4, 0.35, 0.8])["precision_recall"]
    assert [y for _, y in shares(drawn, "rule")] == pytest.approx([0.25, 0.25], abs=0.002)


def test_the_best_threshold_is_marked():
    (best,) = plots.class_curves(LABELS, PROBABILITIES)["thresholds"].dots
    assert best.hint == "F1 is largest, 0.8, at a threshold of 0.35"


def test_honest_probabilities_are_on_the_diagonal():
    rng = np.random.default_rng(0)
    p = rng.random(20_000)
    labels = (rng.random(20_000) < p).astype(float)
    plot = plots.class_curves(labels, p)["calibration"]
    points = shares(plot, "a line")
    assert len(points) == 10
    assert all(abs(said - was) < 0.05 for said, was in points)
    assert plot.dots[0].hint.startswith("2,000 molecules: predicted 0.0")


@given(st.lists(st.tuples(reals, reals), max_size=8))
def test_errors_by_similarity_of_anything_stay_in_their_frame(pairs):
    in_frame(plots.by_similarity([a for a, _ in pairs], [b for _, b in pairs], "error"))


def test_thirds_by_similarity_are_what_they_say():
    similarity, errors = np.arange(30) / 30, np.repeat([3.0, 2.0, 1.0], 10)
    groups = plots.similar_groups(similarity[::-1], errors[::-1])
    assert [round(mean, 9) for _, mean, *_ in groups] == [3, 2, 1]
    assert [count for *_, count in groups] == [10, 10, 10]
    assert groups[0][2:4] == (0, 9 / 30)
    assert plots.similar_groups([0.5], [1.0]) == []


def test_several_classes_are_drawn_and_counted():
    labels = np.array([0, 1, 2] * 20, dtype=float)
    probabilities = np.eye(3)[labels.astype(int)] * 0.8 + 0.2 / 3
    probabilities[0] = [0.1, 0.8, 0.1]
    drawn = plots.several_classes(labels, probabilities, ["a", "b", "c"])
    assert set(drawn) == {"precision_recall", "calibration"}
    assert all(in_frame(plot) > 0 for plot in drawn.values())
    assert plots.confusion(labels, probabilities, 3) == [[19, 1, 0], [0, 20, 0], [0, 0, 20]]
    assert plots.several_classes(np.zeros(5), probabilities[:5], ["a", "b", "c"]) == {}
    assert plots.several_classes([], [], ["a", "b", "c"]) == {}
