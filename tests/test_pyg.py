"""PyTorch Geometric: operators that travel with a Data through transforms, loaders and files."""

from __future__ import annotations

import copy
import pickle
from dataclasses import fields

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data, InMemoryDataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv
from torch_geometric.transforms import Compose, Constant

from gad import AddGraphOperators
from gad.nn import GADBlock, ImplicitDiffusion
from gad.operators import GraphError, GraphOperators, MissingOperatorError, build_operators
from tests.graphs import SYMMETRIC, Graph, disjoint, isolated, molecule, molecules, ring, star
from tests.nn.samples import SCHEMES, Molecule, collate, decorate_all, model, predict

# The transform builds in PyTorch's default type; these graphs are built the same way by hand.
GRAPHS = [*molecules(7, seed=2), ring(6), isolated(1), disjoint(star(3), isolated(2)), star(40)]
MOLECULES = decorate_all(GRAPHS)


def to_data(m: Molecule, **extra: object) -> Data:
    index = m.graph.edge_index
    return Data(
        x=torch.from_numpy(m.atoms),
        edge_index=index,
        edge_attr=torch.from_numpy(m.bonds[tuple(index)]),
        y=torch.tensor([[m.y]]),
        num_nodes=m.graph.num_nodes,
        **extra,
    )


def assert_equal(a: GraphOperators, b: GraphOperators) -> None:
    for f in fields(GraphOperators):
        if f.name.startswith("_"):
            continue
        left, right = getattr(a, f.name), getattr(b, f.name)
        if isinstance(right, Tensor):
            torch.testing.assert_close(left, right, rtol=0, atol=0, msg=f.name)
        else:
            assert left == right, f.name


# ------------------------------------------------------------------------------ one graph


@pytest.mark.parametrize("m", MOLECULES, ids=lambda m: f"{m.graph.num_nodes} nodes")
def test_the_transform_adds_the_operators_of_the_graph(m):
    data = AddGraphOperators()(to_data(m))
    expected = build_operators(m.graph.edge_index, m.graph.num_nodes)
    assert_equal(data.operators, expected)
    assert repr(data.operators) == repr(expected)


def test_what_the_data_had_is_kept():
    m = MOLECULES[0]
    given = to_data(m, name="water", charge=-1, pos=torch.randn(m.graph.num_nodes, 3))
    given.train_mask = torch.arange(m.graph.num_nodes) % 2 == 0
    before = {key: copy.copy(value) for key, value in given.to_dict().items()}
    data = AddGraphOperators()(given)
    assert isinstance(data, Data)
    for key, value in before.items():
        if isinstance(value, Tensor):
            torch.testing.assert_close(data[key], value, rtol=0, atol=0)
        else:
            assert data[key] == value
    assert set(given.to_dict()) == set(before), "the data given is left as it was"
    assert data.num_nodes == m.graph.num_nodes
    assert data.num_edges == m.graph.edge_index.shape[1]


def test_node_and_edge_attributes_are_still_told_apart():
    data = AddGraphOperators()(to_data(MOLECULES[0]))
    assert "x" in data.node_attrs()
    assert "edge_attr" in data.edge_attrs()


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.to("cpu"),
        lambda d: d.clone(),
        copy.copy,
        copy.deepcopy,
        lambda d: pickle.loads(pickle.dumps(d)),
        lambda d: d.contiguous(),
        lambda d: d.apply(lambda t: t.clone()),
    ],
    ids=["to", "clone", "copy", "deepcopy", "pickle", "contiguous", "apply"],
)
def test_operators_survive(change):
    for m in (MOLECULES[0], MOLECULES[-2]):
        data = AddGraphOperators()(to_data(m))
        expected = data.operators
        assert_equal(change(data).operators, expected)
        batch = Batch.from_data_list([data, data])
        assert_equal(change(batch).operators, GraphOperators.concatenate([expected] * 2))


def test_operators_live_where_the_data_lives():
    data = AddGraphOperators()(to_data(MOLECULES[0]))
    assert data.to("meta").operators.mass.device.type == "meta"


# ------------------------------------------------------------------------------ options


def test_k_cuts_the_basis():
    m = MOLECULES[0]
    operators = AddGraphOperators(k=3)(to_data(m)).operators
    assert operators.truncated
    assert_equal(operators, build_operators(m.graph.edge_index, m.graph.num_nodes, k=3))
    batch = Batch.from_data_list([AddGraphOperators(k=k)(to_data(m)) for k in (3, 1000)])
    assert batch.operators.truncated


def test_without_a_basis():
    operators = AddGraphOperators(basis=False)(to_data(MOLECULES[0])).operators
    assert not operators.has_basis
    assert operators.has_directions
    with pytest.raises(MissingOperatorError, match="basis=True"):
        operators.need_basis()


def test_operators_that_are_there_already_are_replaced():
    data = AddGraphOperators()(to_data(MOLECULES[0]))
    again = AddGraphOperators(basis=False, directions=False)(data).operators
    assert repr(again).endswith("no basis, no directions)")


def test_without_directions():
    operators = AddGraphOperators(directions=False)(to_data(MOLECULES[0])).operators
    assert operators.has_basis
    assert not operators.has_directions


@pytest.mark.parametrize("options", [{"k": 3}, {"basis": False}, {"directions": False}], ids=str)
def test_every_option_batches(options):
    transform = AddGraphOperators(**options)
    data = [transform(to_data(m)) for m in MOLECULES]
    expected = GraphOperators.concatenate([d.operators for d in data])
    assert_equal(Batch.from_data_list(data).operators, expected)


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)], ids=["[E]", "[E, 1]"])
def test_weights_by_name(shape):
    graph = molecule(9)
    weight = torch.rand(len(graph.pairs)).repeat(2) + 0.5
    data = to_data(
        Molecule(graph, MOLECULES[0].atoms[:9], MOLECULES[0].bonds), strength=weight.view(shape)
    )
    operators = AddGraphOperators(weight="strength")(data).operators
    expected = build_operators(graph.edge_index, 9, edge_weight=weight)
    assert_equal(operators, expected)
    assert (operators.weight - 1).abs().max() > 0.1


@pytest.mark.parametrize("columns", [None, 1, 2])
def test_potential_by_name(columns):
    graph = molecule(9)
    charge = torch.randn(9) if columns is None else torch.randn(9, columns)
    data = Data(edge_index=graph.edge_index, num_nodes=9, charge=charge)
    operators = AddGraphOperators(potential="charge")(data).operators
    assert_equal(operators, build_operators(graph.edge_index, 9, potential=charge))
    plain = AddGraphOperators()(data).operators
    assert (operators.field - plain.field).abs().max() > 0.1


def test_errors_are_clear():
    graph = ring(5)
    data = Data(edge_index=graph.edge_index, num_nodes=5)
    with pytest.raises(ValueError, match=r"needs data\.edge_index"):
        AddGraphOperators()(Data(x=torch.zeros(3, 2)))
    with pytest.raises(ValueError, match=r"data\.charge, which is not there"):
        AddGraphOperators(potential="charge")(data)
    with pytest.raises(ValueError, match=r"data\.strength, which is not there"):
        AddGraphOperators(weight="strength")(data)
    with pytest.raises(GraphError, match="no reverse"):
        AddGraphOperators()(Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2))
    with pytest.raises(GraphError, match="more than once"):
        AddGraphOperators()(Data(edge_index=graph.edge_index.repeat(1, 2), num_nodes=5))
    with pytest.raises(GraphError, match="names node 9"):
        AddGraphOperators()(Data(edge_index=torch.tensor([[0, 9], [9, 0]]), num_nodes=5))
    with pytest.raises(ValueError, match="at least 1"):
        AddGraphOperators(k=0)(data)


def test_repr_names_the_options():
    assert repr(AddGraphOperators(k=7)) == "AddGraphOperators(k=7, basis=True, directions=True)"


def test_it_composes_with_other_transforms():
    data = Compose([Constant(), AddGraphOperators()])(
        Data(edge_index=ring(4).edge_index, num_nodes=4)
    )
    assert data.x.shape == (4, 1)
    assert data.operators.num_nodes == 4
    data = Compose([AddGraphOperators(), Constant()])(
        Data(edge_index=ring(4).edge_index, num_nodes=4)
    )
    assert data.x.shape == (4, 1)
    assert data.operators.num_nodes == 4


def test_nodes_without_edges_at_the_end_are_counted():
    data = Data(x=torch.zeros(4, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))
    assert AddGraphOperators()(data).operators.num_nodes == 4


# ------------------------------------------------------------------------------ batches


@pytest.mark.parametrize("batch_size", [1, 4, len(MOLECULES)])
def test_loader_batches_are_the_concatenation(batch_size):
    data = [AddGraphOperators()(to_data(m)) for m in MOLECULES]
    loader = DataLoader(data, batch_size=batch_size)
    for number, batch in enumerate(loader):
        some = data[number * batch_size : (number + 1) * batch_size]
        assert_equal(batch.operators, GraphOperators.concatenate([d.operators for d in some]))
        torch.testing.assert_close(batch.operators.batch, batch.batch)
        assert batch.operators.num_graphs == batch.num_graphs
        assert batch.operators.num_nodes == batch.num_nodes


@pytest.mark.parametrize("scheme", SCHEMES)
def test_loader_batches_predict_as_one_by_one_and_as_built_at_once(scheme):
    net = model(diffusion=SCHEMES[scheme]).eval()
    data = [AddGraphOperators()(to_data(m)) for m in MOLECULES]

    def run(batch: Data) -> Tensor:
        return net(batch.x, batch.operators, batch.edge_attr)

    with torch.no_grad():
        together = run(next(iter(DataLoader(data, batch_size=len(data)))))
        torch.testing.assert_close(
            torch.cat([run(d) for d in data]), together, rtol=1e-5, atol=1e-6
        )
        torch.testing.assert_close(predict(net, collate(MOLECULES)), together, rtol=1e-5, atol=1e-6)


def test_edge_attributes_stay_aligned_with_loops_and_any_order():
    """Edges shuffled and self-loops strewn in: row e of edge_attr belongs to column e."""
    torch.manual_seed(0)
    net = model(edge_channels=4).eval()
    plain, strewn = [], []
    for m in MOLECULES[:6]:
        data = to_data(m)
        n = m.graph.num_nodes
        index = torch.cat([data.edge_index, torch.arange(n).repeat(2, 1)], dim=1)
        attr = torch.cat([data.edge_attr, torch.randint(0, 4, (n,))])
        order = torch.randperm(index.shape[1])
        other = data.clone()
        other.edge_index, other.edge_attr = index[:, order], attr[order]
        plain.append(AddGraphOperators()(data))
        strewn.append(AddGraphOperators()(other))
    results = []
    for data in (plain, strewn):
        batch = Batch.from_data_list(data)
        results.append(net(batch.x, batch.operators, batch.edge_attr))
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-6)


def test_a_batch_comes_apart_again():
    data = [AddGraphOperators()(to_data(m)) for m in MOLECULES]
    batch = Batch.from_data_list(data)
    for one, original in zip(batch.to_data_list(), data, strict=True):
        assert_equal(one.operators, original.operators)
    assert_equal(batch[3].operators, data[3].operators)
    again = Batch.from_data_list(batch.to_data_list())
    assert_equal(again.operators, batch.operators)
    some = Batch.from_data_list(batch.index_select([4, 1]))
    assert_equal(some.operators, GraphOperators.concatenate([data[4].operators, data[1].operators]))


def test_a_loader_with_workers_and_shuffling():
    data = [AddGraphOperators()(to_data(m, number=k)) for k, m in enumerate(MOLECULES)]
    torch.manual_seed(0)
    loader = DataLoader(data, batch_size=3, shuffle=True, num_workers=1)
    seen = []
    for batch in loader:
        order = batch.number.tolist()
        expected = GraphOperators.concatenate([data[k].operators for k in order])
        assert_equal(batch.operators, expected)
        seen += order
    assert sorted(seen) == list(range(len(data)))
    assert seen != sorted(seen)


# ------------------------------------------------------------------------------ data sets


class Molecules(InMemoryDataset):
    """A user's data set on disk, as PyG's tutorials write them."""

    @property
    def processed_file_names(self) -> list[str]:
        return ["data.pt"]

    def __init__(self, root, pre_transform) -> None:
        super().__init__(root, pre_transform=pre_transform)
        self.load(self.processed_paths[0])

    def process(self) -> None:
        self.save([self.pre_transform(to_data(m)) for m in MOLECULES], self.processed_paths[0])


def test_operators_are_worked_out_once_and_kept_on_disk(tmp_path, capsys):
    expected = [AddGraphOperators()(to_data(m)).operators for m in MOLECULES]
    Molecules(str(tmp_path), AddGraphOperators())
    dataset = Molecules(str(tmp_path), AddGraphOperators())
    assert len(dataset) == len(MOLECULES)
    for data, operators in zip(dataset, expected, strict=True):
        assert_equal(data.operators, operators)
    batch = next(iter(DataLoader(dataset[2:6], batch_size=4)))
    assert_equal(batch.operators, GraphOperators.concatenate(expected[2:6]))
    capsys.readouterr()


def test_collating_a_list_in_memory():
    """What InMemoryDataset does with a list: one big Data and slices."""
    data = [AddGraphOperators()(to_data(m)) for m in MOLECULES]
    dataset = InMemoryDataset()
    dataset.data, dataset.slices = InMemoryDataset.collate(data)
    for one, original in zip(dataset, data, strict=True):
        assert_equal(one.operators, original.operators)


# ------------------------------------------------------------------------------ layers


class Mixed(nn.Module):
    """A user's own network: a GAD block between two of PyG's layers."""

    def __init__(self, scheme) -> None:
        super().__init__()
        self.first = GCNConv(3, 8)
        self.block = GADBlock(8, diffusion=scheme(8), towers=2, aggregators=("mean", "max", "dx"))
        self.last = GCNConv(8, 2)

    def forward(self, data: Data) -> Tensor:
        h = self.first(data.x, data.edge_index).relu()
        return self.last(self.block(h, data.operators), data.edge_index)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_block_between_other_layers_trains(scheme):
    """Which atoms are at the end of a chain?"""
    torch.manual_seed(0)
    data = []
    for case in molecules(8, seed=1, smallest=8):
        x = torch.from_numpy(case.signal(3)).float()
        labels = (case.operators().degree == 1).long()
        data.append(AddGraphOperators()(Data(x=x, edge_index=case.edge_index, y=labels)))
    net = Mixed(SCHEMES[scheme])
    optimiser = torch.optim.Adam(net.parameters(), lr=2e-2)
    losses = []
    for _ in range(40):
        for batch in DataLoader(data, batch_size=4, shuffle=True):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(net(batch), batch.y)
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
    assert sum(losses[-4:]) < 0.5 * sum(losses[:4])
    for name, parameter in net.named_parameters():
        if parameter.numel():
            assert torch.isfinite(parameter.grad).all(), name
            assert parameter.grad.abs().sum() > 0, name


def test_a_large_graph_without_a_basis():
    """Node outputs of one graph; nothing is decomposed."""
    case = Graph(900, disjoint(ring(500), ring(400)).pairs)
    data = AddGraphOperators(basis=False)(
        Data(x=torch.randn(900, 4), edge_index=case.edge_index, y=torch.zeros(900))
    )
    block = GADBlock(4, diffusion=ImplicitDiffusion(4))
    y = block(data.x, data.operators)
    assert y.shape == (900, 4)
    y.square().sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in block.parameters() if p.numel())


@pytest.mark.parametrize("name", SYMMETRIC)
def test_operators_of_symmetric_graphs_batch_with_others(name):
    """Ragged directions: graphs with several and with one direction in one batch."""
    data = [
        AddGraphOperators()(Data(edge_index=g.edge_index, num_nodes=g.num_nodes))
        for g in (molecule(5), SYMMETRIC[name], molecule(7))
    ]
    batch = Batch.from_data_list(data)
    assert_equal(batch.operators, GraphOperators.concatenate([d.operators for d in data]))
