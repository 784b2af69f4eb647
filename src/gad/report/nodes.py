"""The page about a node model: scores, confusion matrix, learned times."""

from __future__ import annotations

from typing import TypedDict

import jinja2

from gad import __version__


class NodeData(TypedDict):
    """The graph a model was trained on."""

    name: str
    nodes: int
    edges: int
    features: int
    classes: list[str]
    labelled: int
    fingerprint: str


class Confusion(TypedDict):
    """Test nodes by true class (row) and predicted one (column)."""

    classes: list[str]
    test: list[list[int]]


class NodeSummary(TypedDict):
    """What a training on the nodes of a graph has to say (``summary.json``).

    ``split`` has how many nodes each part holds, and ``how`` they were chosen; ``metrics`` the
    scores of each part; ``times`` those that every diffusion has learned; ``best_epoch`` counts
    from 1.
    """

    data: NodeData
    split: dict[str, int | str]
    metric: str
    accuracy: float | None
    metrics: dict[str, dict[str, float | None]]
    confusion: Confusion
    times: dict[str, list[float]]
    settings: dict[str, object]
    parameters: int
    epochs: int
    best_epoch: int
    seconds: float
    rows: dict[str, int]
    versions: dict[str, str]
    messages: list[str]
    curve: list[dict[str, float]]


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'">
<title>Nodes of {{ data.name }}</title>
<style>
body{max-width:60rem;margin:auto;padding:1.25rem;font:16px/1.55 system-ui,sans-serif}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;display:block;overflow-x:auto}
th,td{padding:.3rem .75rem .3rem 0;text-align:right;border-bottom:1px solid #8888}
th:first-child{text-align:left;font-weight:400}
.right{font-weight:700}
.note{opacity:.75}
</style>
</head>
<body>
<h1>Nodes of {{ data.name }}</h1>
<p>{{ "{:,}".format(data.nodes) }} nodes, {{ "{:,}".format(data.edges) }} edges,
{{ "{:,}".format(data.features) }} features, {{ data.classes | length }} classes,
{{ "{:,}".format(data.labelled) }} labelled nodes. Model {{ settings.model }} with
{{ "{:,}".format(parameters) }} parameters; best of {{ epochs }} epochs: {{ best_epoch }}, by
{{ metric }} on the validation nodes.</p>
{% if messages %}<ul>{% for text in messages %}<li>{{ text }}</li>{% endfor %}</ul>{% endif %}
<h2>Scores</h2>
<table>
<thead><tr><th>part</th><th>nodes</th>
{% for name in metrics.test %}<th>{{ name }}</th>{% endfor %}</tr></thead>
{% for part, scores in metrics.items() %}<tr><th>{{ part }}</th><td>{{ split[part] }}</td>
{% for value in scores.values() %}<td>{{ value | number }}</td>{% endfor %}</tr>{% endfor %}
</table>
<p class="note">Split: {{ split.how }}.</p>
<h2>Confusion matrix of the test nodes</h2>
<table>
<thead><tr><th>true \\ predicted</th>
{% for name in confusion.classes %}<th>{{ name }}</th>{% endfor %}<th>found</th></tr></thead>
{% for row in confusion.test %}{% set line = loop.index0 %}
<tr><th>{{ confusion.classes[line] }}</th>
{% for count in row %}<td{% if loop.index0 == line %} class="right"{% endif %}>{{ count }}</td>
{% endfor %}<td>{{ (row[line] / (row | sum) if row | sum else none) | number }}</td></tr>
{% endfor %}
</table>
{% if times %}
<h2>Learned times</h2>
<p class="note">A channel that diffuses for the time t reaches √t edges.</p>
<table>
<thead><tr><th>diffusion</th><th>channels</th><th>shortest</th><th>median</th><th>longest</th>
<th>median reach</th></tr></thead>
{% for place, values in times.items() %}{% set middle = values | median %}
<tr><th>{{ place }}</th><td>{{ values | length }}</td><td>{{ values | min | number }}</td>
<td>{{ middle | number }}</td><td>{{ values | max | number }}</td>
<td>{{ (middle ** 0.5) | number }}</td></tr>
{% endfor %}
</table>
{% endif %}
<h2>Settings</h2>
<table>
{% for key, value in settings.items() %}<tr><th>{{ key }}</th><td>{{ value }}</td></tr>
{% endfor %}
</table>
<p class="note">gad {{ gad_version }}</p>
</body>
</html>
"""


def node_report(summary: NodeSummary) -> str:
    """The page of a run; it needs nothing but itself."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters |= {"number": _number, "median": _median}
    return environment.from_string(_PAGE).render(**summary, gad_version=__version__)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
