"""Plots: whatever the values, what is drawn is in its frame and in its place."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gad.report import plots, svg
from gad.report.text import number

reals = st.floats(allow_nan=True, allow_infinity=True, width=64)


@given(st.lists(st.tuples(reals, reals), max_size=8), reals)
def test_a_parity_plot_of_anything_stays_in_its_frame(pairs, q):
    picture = plots.parity([a for a, _ in pairs], [b for _, b in pairs], "eV", q)
    for circle in circles(picture):
        assert 0 <= float(circle.get("cx")) <= svg.WIDTH
        assert 0 <= float(circle.get("cy")) <= svg.WIDTH
    assert "nan" not in picture
    assert "inf" not in picture


@given(st.lists(st.lists(st.floats(0, 1e6), max_size=5), max_size=4))
def test_a_reach_plot_of_anything_stays_in_its_frame(layers):
    picture = plots.reach(layers)
    assert len(circles(picture)) == sum(map(len, layers))
    assert "nan" not in picture


@given(st.lists(st.one_of(st.none(), reals), max_size=6), st.integers(-1, 7))
def test_a_learning_curve_of_anything_is_drawn(losses, best):
    curve = [{"epoch": k, "train_loss": loss, "val_loss": loss} for k, loss in enumerate(losses)]
    picture = plots.learning_curve([curve], [best])
    assert "nan" not in picture
    circles(picture)


def circles(picture: str) -> list[ET.Element]:
    return ET.fromstring(picture).findall("circle") if picture else []


def test_a_dot_is_where_its_values_are():
    first, second = circles(plots.parity([0.0, 1.0], [0.0, 0.5]))
    assert float(first.get("cx")) < float(second.get("cx"))
    assert float(first.get("cy")) > float(second.get("cy"))  # up is larger
    assert first.find("title").text == "true 0, predicted 0"
    assert second.find("title").text == "true 1, predicted 0.5"


def test_of_many_points_an_even_choice_with_the_worst_is_drawn():
    y = np.linspace(0, 1, 5000)
    p = y.copy()
    p[1234] = 9.0
    drawn = circles(plots.parity(y, p))
    assert len(drawn) <= plots.MOST_POINTS
    assert any("predicted 9" in c.find("title").text for c in drawn)


def test_losses_of_many_sizes_get_a_logarithmic_axis():
    def curve(last):
        return [[{"epoch": 0, "val_loss": 1.0}, {"epoch": 1, "val_loss": last}]]

    assert "log scale" in plots.learning_curve(curve(0.01))
    assert "log scale" not in plots.learning_curve(curve(0.5))
    assert "log scale" not in plots.learning_curve(curve(-0.01))


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
        (12345678.0, None, "1.23e+07"),
        (1e-12, None, "1.00e−12"),
        (float("nan"), None, "–"),
        (1234.5678, 1, "1,234.6"),
    ],
)
def test_numbers_are_written_for_people(value, decimals, text):
    assert number(value, decimals) == text


# ------------------------------------------------------------------ classes


def shares(picture: str, css: str) -> list[tuple[float, float]]:
    """The points of a line in a square from 0 to 1."""
    (line,) = [e for e in ET.fromstring(picture).findall("polyline") if e.get("class") == css]
    places = (pair.split(",") for pair in line.get("points").split())
    left, right, bottom, top = svg.LEFT, svg.RIGHT, svg.WIDTH - svg.BOTTOM, svg.TOP
    return [
        ((float(x) - left) / (right - left), (bottom - float(y)) / (bottom - top))
        for x, y in places
    ]


LABELS, PROBABILITIES = [0, 0, 1, 1, np.nan], [0.1, 0.4, 0.35, 0.8, 0.5]


@pytest.mark.parametrize(
    "plot", [plots.roc, plots.precision_recall, plots.calibration, plots.thresholds]
)
def test_one_class_alone_has_no_curve(plot):
    assert plot([1, 1, np.nan], [0.2, 0.4, 0.6]) == ""
    assert plot([], []) == ""
    assert "nan" not in plot(LABELS, PROBABILITIES)


def test_the_curves_go_through_the_known_points():
    """scikit-learn's own example, whose values are easy to count by hand."""
    near = {"abs": 0.002}
    expected = [(0, 0), (0, 0.5), (0.5, 0.5), (0.5, 1), (1, 1)]
    for found, wanted in zip(
        shares(plots.roc(LABELS, PROBABILITIES), "a line"), expected, strict=True
    ):
        assert found == pytest.approx(wanted, **near)
    drawn = plots.precision_recall(LABELS, PROBABILITIES)
    expected = [(1, 0.5), (1, 2 / 3), (0.5, 0.5), (0.5, 1), (0, 1)]
    for found, wanted in zip(shares(drawn, "a line"), expected, strict=True):
        assert found == pytest.approx(wanted, **near)
    assert shares(drawn, "rule")[0] == pytest.approx((0, 0.5), **near)


def test_the_best_threshold_is_marked():
    (best,) = circles(plots.thresholds(LABELS, PROBABILITIES))
    assert best.find("title").text == "F1 is largest, 0.8, at a threshold of 0.35"


def test_honest_probabilities_are_on_the_diagonal():
    rng = np.random.default_rng(0)
    p = rng.random(20_000)
    picture = plots.calibration((rng.random(20_000) < p).astype(float), p)
    points = shares(picture, "a line")
    assert len(points) == 10
    assert all(abs(said - was) < 0.05 for said, was in points)
    assert circles(picture)[0].find("title").text.startswith("2,000 molecules: predicted 0.0")
