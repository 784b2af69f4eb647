"""Known data sets: the published graphs and numbers, from every source, or a refusal."""

from __future__ import annotations

import csv
import gzip
import json

import numpy as np
import pytest
import torch
from rdkit import Chem
from torch_geometric.data import Data

from gad.data.known import KNOWN, GraphSet, load, load_esol, load_qm9, load_zinc, qm9, zinc
from gad.data.known.esol import ESOL_PATH
from gad.data.known.graphset import sort_bonds
from gad.data.known.places import cache_folder
from gad.data.known.qm9pack import PROPERTIES, ROTATIONS, read_qm9pack, read_smiles
from gad.data.splits import Split, duplicates
from tests.experiments.conftest import rings

# ------------------------------------------------------------------ by name


def test_names_are_known_in_any_case_and_others_are_refused_with_the_list():
    assert set(KNOWN) == {"zinc", "qm9", "esol"}
    assert load("Esol").name == "esol"
    with pytest.raises(ValueError, match="'zink'; there are esol, qm9, zinc"):
        load("zink")


def test_a_wrong_data_folder_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("GAD_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="nowhere is not a folder"):
        load("zinc")


def test_the_cache_folder_can_be_chosen(monkeypatch, tmp_path):
    monkeypatch.setenv("GAD_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("GAD_CACHE")
    assert cache_folder().name == "gad"


# ------------------------------------------------------------------ solubilities


def test_solubilities_are_small_complete_and_readable():
    table = load_esol()
    assert len(table) == len(table.names) == len(table.targets) == 1281
    assert ESOL_PATH.stat().st_size < 40_000
    assert ESOL_PATH.read_bytes()[4:8] == bytes(4)  # no time stamp: making it again gives the same
    assert all(Chem.MolFromSmiles(smiles) is not None for smiles in table.smiles)
    assert (table.targets.min(), table.targets.max()) == (-11.62, 1.58)
    assert dict(zip(table.names, table.targets[:, 0], strict=True))["benzene"] == -1.64


def test_its_contradictions_are_the_seven_that_its_description_names():
    table = load_esol()
    found = duplicates([Chem.CanonSmiles(s) for s in table.smiles], table.targets)
    pairs = {frozenset(table.names[row] for row in report.rows) for report in found}
    assert len(pairs) == 7
    assert {"cis-1,2-Dimethylcyclohexane", "trans-1,2-Dimethylcyclohexane"} in pairs


def test_a_changed_table_is_refused(tmp_path):
    changed = tmp_path / "esol.csv.gz"
    changed.write_bytes(gzip.compress(gzip.decompress(ESOL_PATH.read_bytes()) + b"x,C,1\n"))
    with pytest.raises(ValueError, match="is not the table it should be"):
        load_esol(changed)


# ------------------------------------------------------------------ packed graphs


def two_graphs(**changes) -> GraphSet:
    """A path of three nodes and a single bond."""
    arrays = {
        "name": "two",
        "node_ptr": np.array([0, 3, 5]),
        "atom_categories": np.array([[0], [1], [0], [1], [1]], np.uint8),
        "edge_ptr": np.array([0, 2, 3]),
        "bonds": np.array([[0, 1], [1, 2], [0, 1]], np.int32),
        "bond_categories": np.array([[0], [1], [2]], np.uint8),
        "targets": np.array([[1.0, 2.0], [3.0, 4.0]]),
        "target_names": ("p", "Q"),
        "units": ("eV", "D"),
        "split": Split([0], [], [1]),
        "atom_cardinalities": (2,),
        "bond_cardinalities": (3,),
    }
    return GraphSet(**(arrays | changes))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"node_ptr": np.array([0, 3, 4])}, "does not fit"),
        ({"edge_ptr": np.array([0, 4, 3])}, "does not fit"),
        ({"bonds": np.array([[1, 0], [1, 2], [0, 1]], np.int32)}, "i < j"),
        ({"bonds": np.array([[0, 1], [1, 2], [0, 2]], np.int32)}, "out of its graph"),
        ({"bonds": np.array([[1, 2], [0, 1], [0, 1]], np.int32)}, "ascend"),
        ({"bonds": np.array([[0, 1], [0, 1], [0, 1]], np.int32)}, "none twice"),
        ({"atom_cardinalities": (1,)}, "atom is of an unknown category"),
        ({"bond_cardinalities": (2,)}, "bond is of an unknown category"),
        ({"bond_categories": np.array([[0], [1]], np.uint8)}, "every bond"),
        ({"units": ("eV",)}, "targets need names"),
        ({"atom_value_names": ("charge",)}, "atom_values need names"),
        ({"split": Split([0], [1], [2])}, "split beyond the end"),
    ],
)
def test_arrays_that_are_no_graphs_are_refused(changes, words):
    with pytest.raises(ValueError, match=f"two: .*{words}"):
        two_graphs(**changes)


def test_a_set_introduces_itself_in_a_line():
    assert repr(two_graphs()) == "GraphSet('two': 2 graphs, 5 atoms, 3 bonds, targets p, Q)"


def test_targets_are_selected_by_name_with_their_units():
    chosen = two_graphs().select("q")
    assert (chosen.target_names, chosen.units, chosen.targets.tolist()) == (
        ("Q",),
        ("D",),
        [[2.0], [4.0]],
    )
    with pytest.raises(ValueError, match="no target 'r'; its targets are p, Q"):
        two_graphs().select("p", "r")


def test_the_fingerprint_sees_every_array_and_not_the_split():
    graphs = two_graphs()
    assert graphs.fingerprint == two_graphs(split=Split([1], [0], [])).fingerprint
    assert graphs.fingerprint == two_graphs(targets=graphs.targets * (1 + 1e-15)).fingerprint
    others = [
        two_graphs(targets=graphs.targets * (1 + 1e-5)),
        two_graphs(atom_categories=1 - graphs.atom_categories),
        two_graphs(bond_categories=graphs.bond_categories[::-1]),
        two_graphs(bonds=np.array([[0, 1], [0, 2], [0, 1]], np.int32)),
        two_graphs(node_ptr=np.array([0, 3, 5]), edge_ptr=np.array([0, 2, 3]), units=("D", "D")),
        two_graphs(atom_values=np.zeros((5, 1), np.float32), atom_value_names=("charge",)),
        two_graphs(atom_values=np.ones((5, 1), np.float32), atom_value_names=("charge",)),
        graphs.select("p"),
    ]
    assert len({graphs.fingerprint, *(other.fingerprint for other in others)}) == 1 + len(others)


def test_bonds_are_sorted_within_their_graphs_only():
    bonds = np.array([[2, 3], [0, 2], [0, 1], [1, 2], [0, 1]], np.int32)
    tags = np.arange(5, dtype=np.uint8)
    ordered, (moved,) = sort_bonds(np.array([0, 3, 3, 5]), bonds, tags)
    assert moved.tolist() == [2, 1, 0, 4, 3]
    np.testing.assert_array_equal(ordered, bonds[moved])


# ------------------------------------------------------------------ ZINC


@pytest.fixture(scope="module")
def zinc_graphs(data_dir):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GAD_DATA", str(data_dir))
        return load_zinc()


def test_zinc_has_the_published_figures(zinc_graphs):
    values = zinc_graphs.targets[:, 0]
    train, test = values[zinc_graphs.split.train], values[zinc_graphs.split.test]
    assert [rows.size for _, rows in zinc_graphs.split.parts()] == [10_000, 1_000, 1_000]
    assert train.mean() == pytest.approx(0.0153, abs=5e-5)
    assert train.std() == pytest.approx(2.011, abs=5e-4)
    assert np.median(train) == pytest.approx(0.441, abs=5e-4)
    assert train.min() == pytest.approx(-42.04, abs=5e-3)
    assert np.abs(test - np.median(train)).mean() == pytest.approx(1.547, abs=5e-4)
    rows = zinc_graphs.split.train
    assert np.diff(zinc_graphs.node_ptr)[rows].mean() == pytest.approx(23.17, abs=5e-3)
    assert 2 * np.diff(zinc_graphs.edge_ptr)[rows].mean() == pytest.approx(49.86, abs=5e-3)


def test_some_of_the_graphs():
    graphs = two_graphs()
    turned = graphs.take(np.array([1, 0]), name="turned")
    assert (turned.name, len(turned), turned.split.train.tolist()) == ("turned", 2, [0, 1])
    assert turned.take(np.array([1, 0])).fingerprint == graphs.fingerprint
    for here, there in ((0, 1), (1, 0)):
        one, other = turned.take(np.array([here])), graphs.take(np.array([there]))
        assert one.fingerprint == other.fingerprint
        assert len(one.atom_categories) == np.diff(graphs.node_ptr)[there]
    assert len(graphs.take(np.empty(0, np.int64))) == 0


def as_pyg(graphs: GraphSet, rows, rng) -> list[Data]:
    """Data objects as PyTorch Geometric makes them, bonds in both directions and any order."""
    made = []
    for g in rows:
        nodes = slice(graphs.node_ptr[g], graphs.node_ptr[g + 1])
        edges = slice(graphs.edge_ptr[g], graphs.edge_ptr[g + 1])
        both = np.concatenate([graphs.bonds[edges], graphs.bonds[edges][:, ::-1]])
        kinds = np.tile(graphs.bond_categories[edges, 0].astype(np.int64) + 1, 2)
        order = rng.permutation(len(both))
        made.append(
            Data(
                x=torch.from_numpy(graphs.atom_categories[nodes].astype(np.int64)),
                edge_index=torch.from_numpy(both[order].T.astype(np.int64)),
                edge_attr=torch.from_numpy(kinds[order]),
                y=torch.tensor([graphs.targets[g, 0]], dtype=torch.float32),
            )
        )
    return made


@pytest.mark.slow
def test_zinc_from_pytorch_geometric_is_the_same_data_set(zinc_graphs):
    rng = np.random.default_rng(0)
    parts = (as_pyg(zinc_graphs, rows, rng) for _, rows in zinc_graphs.split.parts())
    packed = zinc.zinc_from_pyg(*parts)
    assert packed.fingerprint == zinc_graphs.fingerprint == zinc.ZINC_FINGERPRINT
    assert packed.split == zinc_graphs.split


def write_zinc(path, graphs: GraphSet, **changes) -> None:
    """The arrays of ``zinc12k.npz``, for each part of a set."""
    arrays = {}
    for part, rows in graphs.split.parts():
        atoms, bonds = (
            slice(ptr[rows[0]], ptr[rows[-1] + 1]) for ptr in (graphs.node_ptr, graphs.edge_ptr)
        )
        arrays |= {
            f"{part}_node_ptr": graphs.node_ptr[rows[0] : rows[-1] + 2] - atoms.start,
            f"{part}_edge_ptr": graphs.edge_ptr[rows[0] : rows[-1] + 2] - bonds.start,
            f"{part}_atom_type": graphs.atom_categories[atoms, 0],
            f"{part}_edge_src": graphs.bonds[bonds, 0],
            f"{part}_edge_dst": graphs.bonds[bonds, 1],
            f"{part}_bond_type": graphs.bond_categories[bonds, 0] + 1,
            f"{part}_y": graphs.targets[rows, 0],
        }
    path.parent.mkdir(exist_ok=True)
    np.savez(path, **{**arrays, **changes})


@pytest.fixture
def small_zinc(tmp_path, monkeypatch) -> GraphSet:
    """A few graphs in the form of ZINC's file, in the place of ZINC."""
    rng = np.random.default_rng(0)
    graphs = zinc.zinc_from_pyg(*(as_pyg(rings(), r, rng) for _, r in rings().split.parts()))
    write_zinc(tmp_path / "zinc12k" / "zinc12k.npz", graphs)
    monkeypatch.setenv("GAD_DATA", str(tmp_path))
    monkeypatch.setattr(zinc, "ZINC_FINGERPRINT", graphs.fingerprint)
    return graphs


def test_the_file_and_pytorch_geometric_give_the_same(small_zinc):
    read = load_zinc()
    assert read.fingerprint == small_zinc.fingerprint
    assert read.split == small_zinc.split == rings().split
    np.testing.assert_array_equal(read.bonds, rings().bonds)
    np.testing.assert_array_equal(read.targets, rings().targets.astype(np.float32))


def test_zinc_with_bonds_in_one_direction_is_refused():
    (data,) = as_pyg(rings(), [0], np.random.default_rng(0))
    data.edge_index = data.edge_index[:, 1:]
    data.edge_attr = data.edge_attr[1:]
    with pytest.raises(ValueError, match="graph 0: a bond lacks its other direction"):
        zinc.zinc_from_pyg([data], [], [])


def test_one_changed_number_is_enough_to_refuse_zinc(small_zinc, tmp_path):
    changed = small_zinc.targets[small_zinc.split.test, 0]
    changed[7] += 0.001
    write_zinc(tmp_path / "zinc12k" / "zinc12k.npz", small_zinc, test_y=changed)
    with pytest.raises(ValueError, match="does not hold the data set zinc as published"):
        load_zinc()


def test_another_file_is_not_zinc(tmp_path, monkeypatch):
    (tmp_path / "zinc12k").mkdir()
    np.savez(tmp_path / "zinc12k" / "zinc12k.npz", a=np.zeros(3))
    monkeypatch.setenv("GAD_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="it is not ZINC-12k"):
        load_zinc()


def test_a_failed_download_of_zinc_says_what_to_do(tmp_path, monkeypatch):
    from torch_geometric.datasets import ZINC

    monkeypatch.delenv("GAD_DATA", raising=False)
    monkeypatch.setenv("GAD_CACHE", str(tmp_path))
    monkeypatch.setattr(ZINC, "url", (tmp_path / "nowhere.zip").as_uri())
    with pytest.raises(ConnectionError, match="set GAD_DATA to a folder with zinc12k"):
        load_zinc()


# ------------------------------------------------------------------ QM9


@pytest.fixture(scope="module")
def qm9_graphs(data_dir):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GAD_DATA", str(data_dir))
        return load_qm9()


@pytest.fixture(scope="module")
def qm9_smiles(data_dir) -> list[str]:
    with gzip.open(data_dir / "qm9" / "qm9_smiles.txt.gz", "rt") as file:
        return [line.split()[1] for line in file]


def heavy_graph(graphs: GraphSet, g: int):
    nodes = slice(graphs.node_ptr[g], graphs.node_ptr[g + 1])
    edges = slice(graphs.edge_ptr[g], graphs.edge_ptr[g + 1])
    return nodes, edges


@pytest.mark.slow
def test_qm9_has_the_published_figures(qm9_graphs):
    assert [rows.size for _, rows in qm9_graphs.split.parts()] == [110_831, 10_000, 10_000]
    published = {  # test error of the training median, half a unit of its last digit, unit
        "mu": (1.137, 5e-4, "D"),
        "alpha": (6.194, 5e-4, "a0^3"),
        "homo": (427, 0.5, "meV"),
        "lumo": (1044, 0.5, "meV"),
        "gap": (1056, 0.5, "meV"),
        "r2": (199.0, 0.05, "a0^2"),
        "zpve": (712, 0.5, "meV"),
    }
    assert qm9_graphs.target_names[:7] == tuple(published)
    for name, (error, half, unit) in published.items():
        chosen = qm9_graphs.select(name)
        values = chosen.targets[:, 0]
        median = np.median(values[chosen.split.train])
        assert chosen.units == (unit,)
        found = np.abs(values[chosen.split.test] - median).mean()
        assert found == pytest.approx(error, abs=half)


@pytest.mark.slow
def test_energies_of_methane_are_in_mev(qm9_graphs):
    methane = dict(zip(qm9_graphs.target_names, qm9_graphs.targets[0], strict=True))
    assert methane["homo"] == pytest.approx(-0.3877 * 27211.386246)
    assert methane["u0_atom"] == pytest.approx(-0.631066 * 27211.386246)
    assert methane["omega1"] == 3151.7078
    assert methane["gap"] == pytest.approx(methane["lumo"] - methane["homo"])


def test_atom_values_are_what_rdkit_finds(qm9_graphs, qm9_smiles):
    rows = [*range(0, len(qm9_smiles), 250), qm9_smiles.index("O=N(=O)C1=CC=CN1")]
    assert_values_are_rdkits(qm9_graphs, qm9_smiles, rows)


def assert_values_are_rdkits(graphs: GraphSet, smiles: list[str], rows) -> None:
    kinds = [Chem.HybridizationType.SP, Chem.HybridizationType.SP2, Chem.HybridizationType.SP3]
    for g in rows:
        mol = Chem.AddHs(Chem.MolFromSmiles(smiles[g]))
        expected = [
            [atom.GetAtomicNum() == z for z in (1, 6, 7, 8, 9)]
            + [atom.GetAtomicNum(), atom.GetIsAromatic()]
            + [atom.GetHybridization() == kind for kind in kinds]
            + [sum(n.GetAtomicNum() == 1 for n in atom.GetNeighbors())]
            for atom in mol.GetAtoms()
        ]
        nodes, _ = heavy_graph(graphs, g)
        np.testing.assert_array_equal(graphs.atom_values[nodes], expected, smiles[g])


def test_smiles_are_read_as_written(qm9_graphs, qm9_smiles):
    for g in range(0, len(qm9_smiles), 50):
        elements, bonds = read_smiles(qm9_smiles[g])
        nodes, edges = heavy_graph(qm9_graphs, g)
        assert ["HCNOF".index(e) for e in elements] == qm9_graphs.atom_categories[nodes, 0].tolist()
        orders = qm9_graphs.bond_categories[edges, :1].astype(int) + 1
        expected = np.concatenate([qm9_graphs.bonds[edges], orders], axis=1)
        np.testing.assert_array_equal(sorted(bonds), expected, qm9_smiles[g])


def kekule(smiles: str) -> str | None:
    """The SMILES without aromatic letters, or None for what QM9 has not."""
    mol = Chem.MolFromSmiles(smiles)
    if {atom.GetSymbol() for atom in mol.GetAtoms()} - set("CNOF"):
        return None
    Chem.RemoveStereochemistry(mol)
    Chem.Kekulize(mol, clearAromaticFlags=True)
    text = Chem.MolToSmiles(mol, kekuleSmiles=True)
    return None if "." in text or "%" in text else text


@pytest.fixture(scope="module")
def written() -> list[str]:
    """Measured molecules in the part of the language that QM9 is written in."""
    found = list(filter(None, map(kekule, load_esol().smiles[::3])))
    assert len(found) > 100
    return found


def test_other_molecules_are_read_as_rdkit_reads_them(written):
    for smiles in written:
        mol = Chem.AddHs(Chem.MolFromSmiles(smiles))
        Chem.Kekulize(mol)
        elements, bonds = read_smiles(smiles)
        assert elements == [atom.GetSymbol() for atom in mol.GetAtoms()], smiles
        ends = [sorted((b.GetBeginAtomIdx(), b.GetEndAtomIdx())) for b in mol.GetBonds()]
        kept = {tuple(pair) for pair in ends}
        assert {(i, j) for i, j, _ in bonds} == kept, smiles
        order = {
            tuple(e): b.GetBondTypeAsDouble() for e, b in zip(ends, mol.GetBonds(), strict=True)
        }
        total = [sum(o for pair, o in order.items() if k in pair) for k in range(len(elements))]
        assert [sum(o for *pair, o in bonds if k in pair) for k in range(len(elements))] == total


def test_a_table_of_qm9pack_becomes_graphs_with_rdkits_values(written, tmp_path):
    rows = range(len(written))
    y = np.random.default_rng(0).normal(size=(len(written), 20))
    index = {"gdb9_index": np.arange(5, 5 + len(written))}
    write_qm9pack_table(tmp_path / "qm9_part1.csv", rows[:90], index, y, written)
    write_qm9pack_table(tmp_path / "qm9_part2.csv", rows[90:], index, y, written)
    found = read_qm9pack(tmp_path)
    np.testing.assert_array_equal(found["gdb9_index"], index["gdb9_index"])
    np.testing.assert_array_equal(found["y"][:, :12], y[:, :12])
    graphs = qm9.qm9_from_arrays(found, Split(rows, [], []))
    assert_values_are_rdkits(graphs, written, rows)
    assert found["bond_aromatic"].any()


def test_charged_and_branched_smiles_are_read_too():
    for smiles in ["[NH3+]CC([O-])=O", "C[NH2+]CC#[C-]", "[O-]C1=C[NH+]=CO1", "FC1(F)C2CC12"]:
        mol = Chem.AddHs(Chem.MolFromSmiles(smiles))
        elements, bonds = read_smiles(smiles)
        assert elements == [atom.GetSymbol() for atom in mol.GetAtoms()]
        ends = {(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in mol.GetBonds()}
        assert {(i, j) for i, j, _ in bonds} == {(min(e), max(e)) for e in ends}
    with pytest.raises(ValueError, match="'S' does not occur in QM9"):
        read_smiles("CSC")


def test_qm9pack_gives_the_same_graphs_and_numbers(data_dir, qm9_smiles, tmp_path):
    with np.load(data_dir / "qm9" / "qm9_graphs.npz") as file:
        graphs = {name: file[name] for name in file.files}
    with np.load(data_dir / "qm9" / "qm9_targets.npz") as file:
        targets = file["y"]
    rows = [*range(20), *range(300, 100_000, 1_000)]
    for part, chosen in ((1, rows[:50]), (2, rows[50:])):
        write_qm9pack_table(tmp_path / f"qm9_part{part}.csv", chosen, graphs, targets, qm9_smiles)
    found = read_qm9pack(tmp_path)

    np.testing.assert_array_equal(found["gdb9_index"], graphs["gdb9_index"][rows])
    np.testing.assert_allclose(found["y"], targets[rows], rtol=0, atol=1e-11)
    nodes = np.concatenate([np.arange(*graphs["node_ptr"][g : g + 2]) for g in rows])
    edges = np.concatenate([np.arange(*graphs["edge_ptr"][g : g + 2]) for g in rows])
    np.testing.assert_array_equal(found["atomic_num"], graphs["atomic_num"][nodes])
    graph = np.repeat(np.arange(len(rows)), np.diff(found["edge_ptr"]))
    columns = ("edge_src", "edge_dst", "bond_order", "bond_aromatic")
    read = np.stack([graph, *(found[name] for name in columns)], axis=1)
    true = np.stack([graph, *(graphs[name][edges] for name in columns)], axis=1)
    np.testing.assert_array_equal(np.unique(read, axis=0), np.unique(true, axis=0))
    assert graphs["bond_aromatic"][edges].any()
    split = Split(range(len(rows)), [], [])
    picked = {name: graphs[name][edges] for name in columns} | {
        "node_ptr": found["node_ptr"],
        "edge_ptr": found["edge_ptr"],
        "atomic_num": graphs["atomic_num"][nodes],
        "y": targets[rows],
    }
    one, other = (qm9.qm9_from_arrays(arrays, split) for arrays in (found, picked))
    assert one.fingerprint == other.fingerprint


def write_qm9pack_table(path, rows, graphs, targets, smiles) -> None:
    """Rows in the form that the package has them."""
    names = ["Index", "SMILES", *ROTATIONS, *PROPERTIES, "Harmonic_Freq_cmi"]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for g in rows:
            y = targets[g].tolist()
            frequencies = f"[{y[19] / 2},{y[19]}]"
            record = [graphs["gdb9_index"][g], smiles[g], *y[16:19], *y[:12], frequencies]
            writer.writerow(record)


def test_what_qm9pack_gives_is_kept(monkeypatch, tmp_path):
    table = tmp_path / "qm9_part1.csv"
    graphs = {"gdb9_index": np.array([1])}
    write_qm9pack_table(table, [0], graphs, np.arange(20.0)[None], ["C"])
    monkeypatch.delenv("GAD_DATA", raising=False)
    monkeypatch.setenv("GAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(qm9, "qm9pack_folder", lambda: tmp_path)
    split = Split([0], [], [])
    for _ in range(2):  # one molecule is not QM9, and neither is the kept copy of it
        with pytest.raises(ValueError, match=r"qm9pack\.npz does not hold the data set qm9"):
            load_qm9(split)
        table.unlink(missing_ok=True)
    assert [p.name for p in (tmp_path / "cache" / "qm9").iterdir()] == ["qm9pack.npz"]


def test_without_any_source_qm9_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.delenv("GAD_DATA", raising=False)
    monkeypatch.setenv("GAD_CACHE", str(tmp_path))
    monkeypatch.setattr(qm9, "qm9pack_folder", lambda: None)
    with pytest.raises(FileNotFoundError, match="pip install qm9pack"):
        load_qm9()


@pytest.mark.slow
def test_a_split_of_ones_own_replaces_the_published_one(data_dir, monkeypatch):
    monkeypatch.setenv("GAD_DATA", str(data_dir))
    mine = Split([5], [6], [7])
    assert load_qm9(mine).split == mine


# ------------------------------------------------------------------ Brockschmidt's split


def film_files(folder, val, test) -> None:
    folder.mkdir(parents=True)
    for name, ids in (("valid", val), ("test", test)):
        lines = (json.dumps({"targets": [[0.5]], "id": f"qm9:{i:06d}"}) for i in ids)
        (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))


def test_the_published_lists_give_the_same_split(data_dir, qm9_graphs, monkeypatch, tmp_path):
    with np.load(data_dir / "qm9" / "qm9_film_split.npz") as file:
        val, test = file["valid_gdb9_index"], file["test_gdb9_index"]
    with np.load(data_dir / "qm9" / "qm9_graphs.npz") as file:
        index = file["gdb9_index"]
    film_files(tmp_path / "qm9", val, test)
    monkeypatch.delenv("GAD_DATA", raising=False)
    monkeypatch.setenv("GAD_CACHE", str(tmp_path))
    assert qm9.film_split(index) == qm9_graphs.split
    with pytest.raises(ValueError, match="missing from the data"):
        qm9.film_split(index[:1000])


def test_other_lists_are_refused(monkeypatch, tmp_path):
    film_files(tmp_path / "qm9", [1, 2], [3])
    monkeypatch.delenv("GAD_DATA", raising=False)
    monkeypatch.setenv("GAD_CACHE", str(tmp_path))
    with pytest.raises(ValueError, match="are not Brockschmidt's"):
        qm9.film_split(np.arange(10))


@pytest.mark.parametrize(
    "content",
    [b"", gzip.compress(b'{"id": "x"}'), gzip.compress(b"{}")[:-3]],
    ids=["empty", "no number", "cut"],
)
def test_a_damaged_list_is_named(content, tmp_path):
    path = tmp_path / "valid.jsonl.gz"
    path.write_bytes(content or b"\x1f\x8b")
    with pytest.raises(ValueError, match=r"valid\.jsonl\.gz cannot be read .* delete it"):
        qm9.read_film_ids(path)


def test_lists_that_cannot_be_fetched_are_asked_for(monkeypatch, tmp_path):
    monkeypatch.delenv("GAD_DATA", raising=False)
    monkeypatch.setenv("GAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(qm9, "FILM_HOME", (tmp_path / "nowhere").as_uri())
    with pytest.raises(ConnectionError, match=r"Download .*valid\.jsonl\.gz to .*cache"):
        qm9.film_split(np.arange(10))


def test_lists_are_fetched_once(monkeypatch, tmp_path):
    film_files(tmp_path / "home", [1, 2], [3])
    monkeypatch.delenv("GAD_DATA", raising=False)
    monkeypatch.setenv("GAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(qm9, "FILM_HOME", (tmp_path / "home").as_uri())
    for _ in range(2):
        with pytest.raises(ValueError, match="are not Brockschmidt's"):
            qm9.film_split(np.arange(10))
        monkeypatch.setattr(qm9, "FILM_HOME", (tmp_path / "nowhere").as_uri())
