"""What the page computes from, compared with dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import gad
from gad.chem import parse
from gad.chem.sketch import sketch
from gad.service.geometry import decoded, geometry

MOLECULES = ["C", "CO", "CC(=O)Oc1ccccc1C(=O)O", "c1ccccc1", "C12C3C4C1C5C2C3C45", "CC[O-].[Na+].O"]


@pytest.mark.parametrize("smiles", MOLECULES)
@pytest.mark.parametrize("time", [0.3, 5.0])
def test_heat_and_filters_are_those_of_the_layers(smiles, time):
    drawn = sketch(smiles)
    told = geometry(drawn)
    count = len(drawn.places)
    values, mass = decoded(told.eigenvalues), decoded(told.mass)
    vectors = decoded(told.eigenvectors).reshape(count, -1)
    start = np.zeros(count)
    start[-1] = 1
    heat = vectors @ ((vectors.T @ (mass * start)) / (1 + time * values))

    # Independently: (M + tL)⁻¹ M x, from the bonds alone.
    adjacency = np.zeros((count, count))
    for i, j in drawn.bonds:
        adjacency[i, j] = adjacency[j, i] = 1
    degree = adjacency.sum(1)
    M = np.diag(np.where(degree > 0, degree, 1))
    exact = np.linalg.solve(M + time * (np.diag(degree) - adjacency), M @ start)
    np.testing.assert_allclose(heat, exact, atol=1e-5)

    bonds = torch.tensor(drawn.bonds, dtype=torch.int64).reshape(-1, 2)
    operators = gad.build_operators(torch.cat([bonds, bonds.flip(1)]).t(), count)
    x = torch.from_numpy(exact).float()[:, None]
    field = decoded(told.field).reshape(-1, told.directions)
    average, slopes = np.zeros(count), np.zeros((count, told.directions))
    for e, (j, i) in enumerate(zip(told.source, told.target, strict=True)):
        average[i] += decoded(told.weight)[e] * exact[j]
        slopes[i] += field[e] * (exact[j] - exact[i])
    wanted = operators.directional_average(x)[:, 0]
    np.testing.assert_allclose(average, wanted, atol=1e-5)
    wanted = operators.directional_derivative(x)[:, 0]
    np.testing.assert_allclose(np.linalg.norm(slopes, axis=1), wanted, atol=1e-5)


def test_a_drawing_has_its_atoms_where_it_says(client):
    body = {"smiles": ["CC(=O)O", "nonsense("], "width": 200, "height": 100, "geometry": True}
    good, bad = client.post("/v1/draw", json=body).json()["drawings"]
    assert good["symbols"] == [atom.GetSymbol() for atom in parse("CC(=O)O").GetAtoms()]
    assert all(0 <= x <= 200 and 0 <= y <= 100 for x, y in good["places"])
    assert "style=" not in good["svg"]
    assert "<script" not in good["svg"]
    assert bad["svg"] is None
    assert "Parse Error" in bad["error"]


def test_a_molecule_too_large_to_draw_says_so(client):
    body = {"smiles": ["C" * 600, "C" * 2000, "C" * 310], "geometry": True}
    large, larger, fine = client.post("/v1/draw", json=body).json()["drawings"]
    assert "too many to draw" in large["error"]
    assert "2,000 atoms" in larger["error"]
    assert fine["svg"]
    assert fine["geometry"] is None  # N² numbers
