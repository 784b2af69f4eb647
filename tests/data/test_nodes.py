"""Graphs from tables, from saved files and by name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch_geometric.data import Data

from gad.data.known.nodes import KNOWN_NODES, known_from_pyg, load_known_nodes
from gad.data.nodes import DEGREE_FEATURES, NodeColumns, load_nodes, load_saved
from gad.data.nodes.graph import as_classes, undirected
from gad.data.tables import TableError

NODES = "id,a,b,label,split\nn1,1,0.5,x,train\nn2,0,1.5,y,val\nn3,1,,x,test\nn4,2,2,,\n"
EDGES = "source,target\nn1,n2\nn2,n1\nn2,n3\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "edges.csv").write_text(EDGES)
    return tmp_path


def edges_of(graph) -> set[tuple[int, int]]:
    return {tuple(pair) for pair in graph.edge_index.t().tolist()}


def test_two_tables_become_one_graph(folder):
    graph = load_nodes(folder / "nodes.csv")
    assert graph.ids == ("n1", "n2", "n3", "n4")
    assert graph.classes == ("x", "y")
    assert graph.y.tolist() == [0, 1, 0, -1]
    assert graph.features == ("a", "b")
    assert edges_of(graph) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    torch.testing.assert_close(graph.x[:, 1], torch.tensor([0.5, 1.5, 4 / 3, 2.0]))
    assert [rows.tolist() for _, rows in graph.splits[0].parts()] == [[0], [1], [2]]
    assert graph.rejects == ()
    assert "1 missing features were filled with the mean of their column" in graph.messages
    assert any("1 of 4 nodes has no edge" in text for text in graph.checked().messages)
    assert load_nodes(folder).fingerprint() == graph.fingerprint()


def test_parquet_and_names_of_columns_of_ones_own(folder):
    table = {"key": [10, 20, 30], "kind": ["x", "y", "x"], "v": [1.0, 2.0, 3.0], "w": [1, 2, 3]}
    pq.write_table(pa.table(table), folder / "n.parquet")
    pq.write_table(pa.table({"p": [10, 20], "q": [20, 30], "s": [1.0, 2.5]}), folder / "e.parquet")
    columns = NodeColumns(
        id="key", label="kind", source="p", target="q", weight="s", features=("w", "v")
    )
    graph = load_nodes(folder / "n.parquet", folder / "e.parquet", columns)
    assert graph.features == ("w", "v")
    assert graph.ids == ("10", "20", "30")
    assert graph.edge_weight is not None
    assert sorted(graph.edge_weight.tolist()) == [1.0, 1.0, 2.5, 2.5]


def test_rows_that_cannot_be_used_are_named_and_the_others_go_on(folder):
    (folder / "nodes.csv").write_text(NODES + "n2,5,5,x,train\n,1,1,y,\n")
    (folder / "edges.csv").write_text(EDGES + "n1,ghost\nn3,n3\nn1,n2\n,n1\n")
    graph = load_nodes(folder)
    assert graph.num_nodes == 4
    assert edges_of(graph) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert [(r.table, r.row, r.reason) for r in graph.rejects] == [
        ("nodes.csv", 5, "node 'n2' is there already, in row 2"),
        ("nodes.csv", 6, "the node has no name in the column 'id'"),
        ("edges.csv", 4, "node 'ghost' is not in the table of nodes"),
        ("edges.csv", 7, "the edge lacks one of its nodes"),
    ]
    told = " ".join(graph.messages)
    assert "1 self-loop was left out" in told
    assert "1 edge is given more than once" in told
    assert "4 rows were not used; the first: nodes.csv, row 5: node 'n2'" in told


@pytest.mark.parametrize("weight", ["0", "-1", "heavy", ""])
def test_a_weight_must_be_positive(folder, weight):
    (folder / "edges.csv").write_text(f"source,target,weight\nn1,n2,2\nn2,n3,{weight}\n")
    graph = load_nodes(folder)
    assert [r.reason for r in graph.rejects] == [f"the weight {weight!r} is not a positive number"]


@pytest.mark.parametrize(
    ("nodes", "edges", "columns", "said"),
    [
        (NODES, "a,b\np,q\n", {}, "no row names two known nodes"),
        (NODES, "a\nn1\n", {}, "needs two columns"),
        (NODES, EDGES, {"label": "lable"}, r"no column 'lable' \(did you mean 'label'\?\)"),
        (NODES, EDGES, {"features": ("label",)}, "'label' cannot be a feature as well"),
        (NODES, EDGES, {"label": "a", "features": ("label",)}, "row 1: column 'label': 'x' is not"),
        ("id,split\nn1,train\nn2,tset\n", EDGES, {}, "row 2: 'tset' is no part"),
        ("id,label\n", EDGES, {}, "no rows that can be used"),
    ],
)
def test_tables_that_cannot_be_used(folder, nodes, edges, columns, said):
    (folder / "nodes.csv").write_text(nodes)
    (folder / "edges.csv").write_text(edges)
    with pytest.raises(TableError, match=said):
        load_nodes(folder, columns=NodeColumns(**columns))


def test_columns_of_masks_are_a_split_and_no_features(folder):
    (folder / "nodes.csv").write_text(
        "id,a,label,train_mask,val_mask,test_mask\n"
        "n1,1,x,True,False,False\nn2,2,y,0,1,0\nn3,3,x,,,1\n"
    )
    graph = load_nodes(folder)
    assert graph.features == ("a",)
    assert [rows.tolist() for _, rows in graph.splits[0].parts()] == [[0], [1], [2]]
    (folder / "nodes.csv").write_text("id,label,train_mask\nn1,x,1\nn2,y,perhaps\n")
    with pytest.raises(TableError, match="row 2: 'perhaps' is neither true nor false"):
        load_nodes(folder)


def test_a_split_that_cannot_be_drawn(folder):
    (folder / "nodes.csv").write_text("id,a,label\nn1,1,x\nn2,1,y\nn3,1,\n")
    with pytest.raises(ValueError, match="2 labelled nodes: too few for training, validation"):
        load_nodes(folder).checked().split(0, seed=0)
    with pytest.raises(ValueError, match="no splits of its own, so there is no split 1"):
        load_nodes(folder).checked().split(1, seed=0)


def test_measurements_are_no_classes(folder):
    rows = "".join(f"n{i},{i / 7}\n" for i in range(50))
    (folder / "nodes.csv").write_text("id,label\n" + rows)
    with pytest.raises(TableError, match="50 different values in 50 rows, too many for classes"):
        load_nodes(folder)


def test_text_columns_are_left_out_and_degrees_stand_in(folder):
    (folder / "nodes.csv").write_text("id,colour,label\nn1,red,x\nn2,blue,y\nn3,red,x\n")
    graph = load_nodes(folder)
    assert graph.features == DEGREE_FEATURES
    torch.testing.assert_close(graph.x[:, 1], torch.tensor([1.0, 2.0, 1.0]).log1p())
    assert any("'colour'" in text for text in graph.messages)


def test_decimal_commas_are_read_and_said(folder):
    (folder / "nodes.csv").write_text("id;a;label\nn1;1,5;x\nn2;0,25;y\nn3;2;x\n")
    graph = load_nodes(folder)
    assert graph.x[:, 0].tolist() == [1.5, 0.25, 2.0]
    assert any("decimal commas" in text for text in graph.messages)


def test_a_single_class_and_no_class_are_errors(folder):
    (folder / "nodes.csv").write_text("id,a,label\nn1,1,x\nn2,1,x\nn3,1,\n")
    with pytest.raises(ValueError, match="every labelled node is of the class 'x'"):
        load_nodes(folder).checked()
    (folder / "nodes.csv").write_text("id,a\nn1,1\nn2,1\nn3,2\n")
    with pytest.raises(ValueError, match="no node has a class"):
        load_nodes(folder).checked()


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="known sets are cora, citeseer, photo"):
        load_nodes(tmp_path / "coraa")
    (tmp_path / "nodes.csv").write_text(NODES)
    with pytest.raises(FileNotFoundError, match=r"looked for one table edges\.csv"):
        load_nodes(tmp_path)


def test_a_split_is_drawn_where_none_is_given_and_said():
    y = torch.arange(100) % 4
    edge_index, _, _ = undirected(torch.arange(99), torch.arange(1, 100), 100)
    graph = load_from(Data(x=torch.ones(100, 2), edge_index=edge_index, y=y))
    split, said = graph.split(0, seed=3)
    assert [len(rows) for _, rows in split.parts()] == [60, 20, 20]
    assert said is not None
    assert "60 %" in said
    assert "seed 3" in said
    assert graph.split(0, seed=3)[0] == split
    assert graph.split(0, seed=4)[0] != split
    assert np.bincount(y[torch.from_numpy(split.test)].numpy()).tolist() == [5, 5, 5, 5]


def test_numbers_of_classes_are_sorted_as_numbers():
    y, names = as_classes(["10", "b", "9", "", "a"])
    assert names == ("9", "10", "a", "b")
    assert y.tolist() == [1, 3, 0, -1, 2]


# ------------------------------------------------------------------------------ saved files


def load_from(data, name="graph"):
    from gad.data.nodes import from_pyg

    return from_pyg(data, name)


def small() -> Data:
    masks = torch.tensor([[True, False], [False, True], [False, False]])
    return Data(
        x=torch.eye(3),
        edge_index=torch.tensor([[0, 1], [1, 2]]),
        y=torch.tensor([0, 1, 0]),
        train_mask=masks,
        val_mask=masks.roll(1, 0),
        test_mask=masks.roll(2, 0),
    )


def test_a_saved_data_is_read_with_its_masks(tmp_path):
    torch.save(small(), tmp_path / "graph.pt")
    graph = load_nodes(tmp_path / "graph.pt")
    assert edges_of(graph) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert len(graph.splits) == 2
    assert graph.split(1, seed=0)[0].train.tolist() == [1]
    with pytest.raises(ValueError, match="there is no split 2"):
        graph.split(2, seed=0)
    torch.save(small().to_dict(), tmp_path / "tensors.pt")
    assert load_saved(tmp_path / "tensors.pt").fingerprint() == graph.fingerprint()


def test_what_a_data_may_leave_out():
    data = small()
    del data.x, data.y
    data.num_nodes = 3
    graph = load_from(data)
    assert graph.features == DEGREE_FEATURES
    assert graph.y.tolist() == [-1, -1, -1]
    assert any("has no x: nodes are told apart by their degree" in text for text in graph.messages)
    data.y = torch.tensor([1.0, float("nan"), 0.0])
    assert load_from(data).y.tolist() == [1, -1, 0]
    data.x = torch.eye(3).to_sparse()
    torch.testing.assert_close(load_from(data).x.to_dense(), torch.eye(3))
    data.edge_weight = torch.tensor([[1.0], [2.0]])
    assert load_from(data).edge_weight.tolist() == [1.0, 2.0, 1.0, 2.0]


def test_one_mask_beside_several_belongs_to_every_split():
    data = small()
    data.val_mask = data.train_mask.flip(1)
    data.test_mask = torch.tensor([False, False, True])
    graph = load_from(data)
    assert [split.train.tolist() for split in graph.splits] == [[0], [1]]
    assert [split.test.tolist() for split in graph.splits] == [[2], [2]]


def test_a_split_without_a_part_is_not_replaced_in_silence():
    data = small()
    del data.val_mask
    with pytest.raises(ValueError, match="split 0 has no val nodes"):
        load_from(data).checked()


def test_nodes_without_a_class_leave_the_split(folder):
    rows = "".join(f"n{i},{'xy'[i % 2]},{part}\n" for i, part in enumerate(["train", "val"] * 2))
    (folder / "nodes.csv").write_text("id,label,split\n" + rows + "n4,x,test\nn5,,test\n")
    graph = load_nodes(folder).checked()
    assert [rows.tolist() for _, rows in graph.splits[0].parts()] == [[0, 2], [1, 3], [4]]
    assert any("nodes without a class were left out" in text for text in graph.messages)


class Bomb:
    def __reduce__(self):
        return (Path.touch, (Path("/tmp/never"),))


def test_a_file_that_wants_to_run_something_is_refused(tmp_path):
    torch.save(Data(x=torch.eye(2), extra=Bomb()), tmp_path / "bomb.pt")
    with pytest.raises(ValueError, match="would run code"):
        load_saved(tmp_path / "bomb.pt")
    assert not Path("/tmp/never").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"edge_index": None}, "has no tensor 'edge_index'"),
        ({"edge_weight": torch.ones(3)}, "a positive number for each of the 2 edges"),
        ({"edge_weight": torch.tensor([1.0, -1.0])}, "edge_weight must be a positive number"),
        ({"y": torch.tensor([0.5, 1.0, 2.0])}, "y must be one class for each of the 3 nodes"),
        ({"y": torch.tensor([0, 1])}, "y must be one class"),
        ({"edge_index": torch.tensor([[0], [7]])}, "names node 7, but the graph has nodes 0 to 2"),
        ({"x": torch.tensor([[1.0], [float("nan")], [1.0]])}, "features of node 1 are not all"),
        ({"train_mask": torch.ones(2, 2)}, "the masks must be"),
    ],
)
def test_what_is_wrong_with_a_data_is_said(change, said):
    data = small()
    for key, value in change.items():
        data[key] = value
    with pytest.raises(ValueError, match=said):
        load_from(data)


def test_files_that_are_something_else(tmp_path):
    (tmp_path / "text.pt").write_text("hello")
    torch.save([1, 2], tmp_path / "list.pt")
    for name in ("text.pt", "list.pt"):
        with pytest.raises(ValueError, match=name):
            load_saved(tmp_path / name)


# ------------------------------------------------------------------------------ known sets


@pytest.mark.parametrize("name", KNOWN_NODES)
def test_known_sets_are_as_published_and_pytorch_geometric_gives_the_same(name, data_dir):
    graph = load_known_nodes(name.upper())
    published = json.loads(
        '{"cora": [2708, 5278, 1433, 7], "citeseer": [3327, 4552, 3703, 6],'
        ' "photo": [7650, 119081, 745, 8], "cs": [18333, 81894, 6805, 15],'
        ' "minesweeper": [10000, 39402, 7, 2]}'
    )
    found = [graph.num_nodes, graph.num_edges, graph.x.shape[1], len(graph.classes)]
    assert found == published[name]
    assert len(graph.splits) == (10 if name == "minesweeper" else 1)
    assert graph.checked().metric == ("roc_auc" if name == "minesweeper" else "accuracy")
    if name == "cs":  # its dense features are half a gigabyte
        return
    dense = graph.x if graph.x.layout == torch.strided else graph.x.to_dense()
    # PyTorch Geometric calls the fifteen papers of Citeseer without words class 0.
    data = Data(x=dense, edge_index=graph.edge_index, y=graph.y.clamp_min(0))
    assert known_from_pyg(data, name).fingerprint() == graph.fingerprint()


def test_a_changed_set_is_refused(tmp_path, monkeypatch, data_dir):
    (tmp_path / "node_graphs").mkdir()
    with np.load(data_dir / "node_graphs" / "planetoid_cora.npz") as file:
        arrays = {key: file[key] for key in file.files}
    arrays["y"] = np.roll(arrays["y"], 1)
    np.savez(tmp_path / "node_graphs" / "planetoid_cora.npz", **arrays)
    monkeypatch.setenv("GAD_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="this is not cora as it was published"):
        load_known_nodes("cora")
