"""The compiled path gives what the definition gives, whatever hangs on a block, or declines."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize, prune

from gad import native
from gad.nn import (
    BatchNorm,
    Diffusion,
    DirectionalAggregation,
    GADBlock,
    ImplicitDiffusion,
    SpectralDiffusion,
)
from gad.nn.aggregation import AGGREGATORS
from gad.nn.backends import compiled
from gad.nn.norm import synchronise
from gad.operators import Chebyshev, GraphOperators, Scheme
from gad.operators.schemes import Heat, ImplicitStep
from tests.graphs import disjoint, isolated, molecule, ring, star
from tests.nn.samples import collate, decorate, model, predict

pytestmark = pytest.mark.skipif(not native.status().active, reason=native.status().reason)

CHANNELS, EDGES = 10, 3
CASE = disjoint(molecule(), ring(6), star(4), isolated(1))
CHILDREN = ("diffusion", "aggregation", "norm", "across_towers", "combine")


def block(**options) -> GADBlock:
    torch.manual_seed(0)
    options = {"towers": 2, "edge_channels": EDGES, "aggregators": ("mean", "max", "dx"), **options}
    made = GADBlock(CHANNELS, diffusion=ImplicitDiffusion(CHANNELS), **options)
    nn.init.uniform_(made.norm.running_mean)
    return made


def inputs(dtype: torch.dtype = torch.float32) -> tuple[Tensor, GraphOperators, Tensor]:
    rng = torch.Generator().manual_seed(1)
    operators = CASE.operators(torch.float32)
    x = torch.randn(operators.num_nodes, CHANNELS, generator=rng).to(dtype)
    return x, operators, torch.randn(operators.num_given_edges, EDGES, generator=rng).to(dtype)


def takes_block(module: GADBlock, *given) -> bool:
    """Whether the block itself goes to C in one piece."""
    return compiled.try_block(module, *(given or inputs())) is not None


def results(module: nn.Module, plain: bool) -> list[Tensor]:
    """The output, gradients of everything and the state afterwards."""
    module = copy.deepcopy(module)
    x, operators, edges = inputs()
    x, edges = x.requires_grad_(), edges.requires_grad_()
    torch.manual_seed(5)
    with native.plain() if plain else nullcontext():
        y = module(x, operators, edges)
    y.square().sum().backward()
    grads = [p.grad for p in (x, edges, *module.parameters()) if p.grad is not None]
    return [y.detach(), *grads, *module.state_dict().values()]


def assert_same(module: nn.Module) -> None:
    fast, slow = results(module, plain=False), results(module, plain=True)
    assert len(fast) == len(slow)
    scale = max(1.0, *(float(t.abs().max()) for t in slow if t.numel()))
    for a, b in zip(fast, slow, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5 * scale)


def test_an_untouched_block_takes_the_compiled_path():
    assert takes_block(block())
    assert_same(block())
    assert_same(block().eval())


# ------------------------------------------------------------------------------ parts replaced


class Adapter(nn.Module):
    """LoRA: a layer that is kept, and a small change that is learned."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer
        self.down = nn.Linear(layer.in_features, 2, bias=False)
        self.up = nn.Linear(2, layer.out_features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + self.up(self.down(x))


class Doubled(nn.Linear):
    """A linear layer that is not one."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


class Halved(BatchNorm):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) / 2


class Signed(DirectionalAggregation):
    def forward(self, *given) -> Tensor:
        return -super().forward(*given)


class Slow(ImplicitDiffusion):
    @property
    def times(self) -> Tensor:
        return super().times / 2


def replaced(name: str, make: Callable[[nn.Module], nn.Module]) -> Callable[[GADBlock], None]:
    return lambda made: setattr(made, name, make(getattr(made, name)))


def subclassed(kind: type[nn.Module], name: str) -> Callable[[GADBlock], None]:
    """The same part as an instance of a subclass that does something else."""

    def change(made: GADBlock) -> None:
        getattr(made, name).__class__ = kind

    return change


REPLACED = {
    "an adapter across towers": replaced("across_towers", Adapter),
    "an adapter in combine": replaced("combine", Adapter),
    "torch's batch norm": replaced("norm", lambda _: nn.BatchNorm1d(CHANNELS)),
    "layer norm": replaced("norm", lambda _: nn.LayerNorm(CHANNELS)),
    "no norm at all": replaced("norm", lambda _: nn.Identity()),
    "norm without statistics": replaced(
        "norm", lambda _: nn.BatchNorm1d(CHANNELS, track_running_stats=False)
    ),
    "linear subclass": subclassed(Doubled, "across_towers"),
    "combine subclass": subclassed(Doubled, "combine"),
    "norm subclass": subclassed(Halved, "norm"),
    "filters subclass": subclassed(Signed, "aggregation"),
    "diffusion subclass": subclassed(Slow, "diffusion"),
    "no bias": replaced("across_towers", lambda _: nn.Linear(CHANNELS, CHANNELS, bias=False)),
    "sequence": replaced("combine", lambda old: nn.Sequential(old, nn.Tanh())),
}


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("how", REPLACED)
def test_parts_that_were_replaced_are_used(how, training):
    made = block().train(training)
    before = results(made, plain=False)[0]
    REPLACED[how](made)
    made.train(training)
    assert not takes_block(made)
    assert_same(made)
    if how not in ("torch's batch norm", "norm without statistics"):
        assert (results(made, plain=False)[0] - before).abs().max() > 1e-4


def test_a_subclass_of_the_block_keeps_its_own_filters():
    class Other(GADBlock):
        def normed_filters(self, *given):
            return 2 * super().normed_filters(*given)

    made = block()
    expected = results(made, plain=True)[0]
    made.__class__ = Other
    assert_same(made)
    assert (results(made, plain=False)[0] - expected).abs().max() > 1e-4


@pytest.mark.parametrize("name", CHILDREN)
def test_a_forward_set_on_the_instance_is_called(name):
    made = block()
    child = getattr(made, name)
    inner = child.forward
    child.forward = lambda *given: 2 * inner(*given)
    assert not takes_block(made)
    x, operators, edges = inputs()
    fast = made(x, operators, edges)
    with native.plain():
        torch.testing.assert_close(made(x, operators, edges), fast, rtol=1e-4, atol=1e-5)


def test_an_adapter_in_the_encoder_and_a_network_around_blocks():
    net, batch = model(), collate([decorate(CASE)])
    lora = nn.Sequential(net.encoder, Adapter(nn.Linear(20, 20)))
    net.encoder = lora
    fast = predict(net.eval(), batch)
    with native.plain():
        torch.testing.assert_close(predict(net, batch), fast, rtol=1e-4, atol=1e-5)
    fast.sum().backward()
    assert all(p.grad is not None for p in lora.parameters())


# ------------------------------------------------------------------------------ hooks


def add_hook(module: nn.Module, kind: str, seen: list[str]):
    """A hook that is noted when it is called."""
    return getattr(module, f"register_{kind}")(lambda *_: seen.append(kind))


HOOKS = ("forward_hook", "forward_pre_hook", "full_backward_hook", "full_backward_pre_hook")


@pytest.mark.parametrize("kind", HOOKS)
@pytest.mark.parametrize("name", CHILDREN)
def test_hooks_on_children_are_called(name, kind):
    made = block()
    seen: list[str] = []
    handle = add_hook(getattr(made, name), kind, seen)
    assert not takes_block(made)
    x, operators, edges = inputs()
    made(x.requires_grad_(), operators, edges).sum().backward()
    assert seen == [kind]
    handle.remove()
    assert takes_block(made)


@pytest.mark.parametrize("name", CHILDREN)
def test_hooks_that_change_outputs_change_them_on_both_paths(name):
    made = block()
    getattr(made, name).register_forward_hook(lambda _m, _in, out: 3 * out)
    assert_same(made)


@pytest.mark.parametrize("kind", HOOKS)
def test_hooks_on_all_modules_are_called(kind):
    where = torch.nn.modules.module
    seen: list[type] = []
    handle = getattr(where, f"register_module_{kind}")(lambda m, *_: seen.append(type(m)))
    try:
        x, operators, edges = inputs()
        block()(x.requires_grad_(), operators, edges).sum().backward()
    finally:
        handle.remove()
    assert {nn.Linear, BatchNorm, DirectionalAggregation, ImplicitDiffusion} <= set(seen)


# ------------------------------------------------------------------------------ weights


class Symmetric(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return weight + weight.transpose(-1, -2)


PARAMETRISED = {
    "across": lambda b: parametrize.register_parametrization(
        b.across_towers, "weight", Symmetric()
    ),
    "filters": lambda b: parametrize.register_parametrization(
        b.aggregation, "source_weight", Symmetric()
    ),
    "times": lambda b: parametrize.register_parametrization(
        b.diffusion, "raw_times", nn.Softplus()
    ),
    "norm": lambda b: parametrize.register_parametrization(b.norm, "weight", nn.Softplus()),
    "weight norm": lambda b: parametrizations.weight_norm(b.combine),
    "pruned": lambda b: prune.random_unstructured(b.across_towers, "weight", 0.5),
}


@pytest.mark.parametrize("how", PARAMETRISED)
def test_parametrised_weights_are_used(how):
    made = block()
    PARAMETRISED[how](made)
    assert not takes_block(made)
    x, operators, edges = inputs()
    fast = made.eval()(x, operators, edges)
    with native.plain():
        torch.testing.assert_close(made(x, operators, edges), fast, rtol=1e-4, atol=1e-5)


WEIGHTS = [name for name, _ in block().named_parameters()]


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_of_another_size_are_refused_by_both_paths_or_give_the_same(name):
    made = block()
    owner, attribute = name.rsplit(".", 1)
    weight = getattr(made.get_submodule(owner), attribute)
    fewer = nn.Parameter(weight.detach()[..., :-1].clone())
    setattr(made.get_submodule(owner), attribute, fewer)
    assert not takes_block(made)
    x, operators, edges = inputs()
    for plain in (True, False):
        with pytest.raises((RuntimeError, ValueError)), native.plain() if plain else nullcontext():
            made(x, operators, edges)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("name", [*WEIGHTS, "norm.running_mean", "norm.running_var"])
def test_weights_of_another_type_never_reach_the_kernels(name, dtype):
    """PyTorch may refuse such a mixture or do it; the kernels would read past its end."""
    made = block()
    owner, attribute = name.rsplit(".", 1)
    module = made.get_submodule(owner)
    weight = getattr(module, attribute).detach().to(dtype)
    setattr(module, attribute, nn.Parameter(weight) if name in WEIGHTS else weight)
    assert not takes_block(made)
    if owner == "aggregation":
        x, operators, edges = inputs()
        assert compiled.try_filters(module, x, operators, edges) is None


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_scattered_in_memory_are_read_right(name):
    made = block()
    owner, attribute = name.rsplit(".", 1)
    weight = getattr(made.get_submodule(owner), attribute).detach()
    wide = torch.full((*weight.shape[:-1], 2 * weight.shape[-1]), torch.nan)
    wide[..., ::2] = weight
    setattr(made.get_submodule(owner), attribute, nn.Parameter(wide[..., ::2]))
    assert not getattr(made.get_submodule(owner), attribute).is_contiguous()
    assert takes_block(made)
    assert_same(made)


def test_statistics_scattered_in_memory_are_followed():
    made = block()
    made.norm.running_mean = torch.zeros(2 * CHANNELS)[::2]
    assert not takes_block(made)
    assert_same(made)


def test_inputs_scattered_in_memory_are_read_right():
    x, operators, edges = inputs()
    made = block().eval()
    expected = made(x, operators, edges)
    columns = made(x.t().contiguous().t(), operators, edges.t().contiguous().t())
    torch.testing.assert_close(columns, expected, rtol=0, atol=0)


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_that_are_frozen(name):
    made = block()
    made.get_parameter(name).requires_grad_(False)
    assert takes_block(made)
    assert_same(made)


def test_everything_frozen():
    made = block().requires_grad_(False)
    assert_same(made)
    x, operators, edges = inputs()
    assert not made(x, operators, edges).requires_grad


# ------------------------------------------------------------------------------ settings


def test_delta_that_is_replaced_or_learned():
    made = block()
    made(*inputs())
    made.aggregation.delta = torch.tensor(2.0)
    assert_same(made)
    del made.aggregation.delta
    made.aggregation.delta = nn.Parameter(torch.tensor(2.0))
    assert_same(made)
    x, operators, edges = inputs()
    made(x, operators, edges).sum().backward()
    assert made.aggregation.delta.grad.abs() > 0


@pytest.mark.parametrize("change", [{"momentum": None}, {"track_running_stats": False}], ids=str)
def test_norms_that_follow_their_batches_otherwise(change):
    made = block()
    for name, value in change.items():
        setattr(made.norm, name, value)
    assert not takes_block(made)
    assert_same(made)


@pytest.mark.parametrize("leaves", [33, 400])
def test_a_hub_of_many_neighbours_takes_the_kernels_too(leaves):
    """Nodes are then grouped by the degrees that there are."""
    torch.manual_seed(0)
    graph = disjoint(star(leaves), ring(5), isolated(2), molecule(20))
    filters = DirectionalAggregation(6, aggregators=tuple(AGGREGATORS), towers=2)
    operators = graph.operators(torch.float32, basis=False)
    found = []
    for how in (nullcontext, native.plain):
        h = torch.randn(graph.num_nodes, 6, generator=torch.Generator().manual_seed(0))
        filters.zero_grad()
        with how():
            fast = compiled.try_filters(filters, h.requires_grad_(), operators, None)
            assert (fast is None) == (how is native.plain)
            y = filters(h, operators)
            y.square().mean().backward()
        found.append([y.detach(), h.grad, *(p.grad.clone() for p in filters.parameters())])
    for fast, plain in zip(*found, strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-4 * float(plain.abs().max()))


def test_norms_over_several_processes_are_not_the_kernels_business():
    made = block()
    synchronise(made, 1.0)
    assert not takes_block(made)
    assert takes_block(made.eval())
    synchronise(made, None)
    assert takes_block(made.train())


def test_evaluation_between_forward_and_backward_changes_no_gradient():
    found = []
    for switch in (False, True):
        made = block()
        x, operators, edges = inputs()
        y = made(x.requires_grad_(), operators, edges)
        if switch:
            made.eval()
            made.norm.eps = 1.0
        y.square().sum().backward()
        found.append(x.grad)
    torch.testing.assert_close(*found, rtol=0, atol=0)


class Lazy(Scheme):
    def response(self, eigenvalues: Tensor, times: Tensor) -> Tensor:
        return torch.exp(-times * eigenvalues.square())


class Reversed(Heat):
    def response(self, eigenvalues: Tensor, times: Tensor) -> Tensor:
        return torch.exp(times * eigenvalues)


@pytest.mark.parametrize(
    ("scheme", "solver", "known"),
    [
        (Heat(), None, True),
        (ImplicitStep(), None, True),
        (Lazy(), None, False),
        (Reversed(), None, False),
        (Heat(), Chebyshev(), False),
    ],
    ids=repr,
)
def test_schemes_and_solvers(scheme, solver, known):
    made = block()
    made.diffusion = Diffusion(CHANNELS, scheme, solver=solver, times=0.3)
    assert takes_block(made) == known
    assert_same(made)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("norm", [BatchNorm, nn.Identity])
def test_dropout_is_drawn_alike(dropout, norm):
    made = block(dropout=dropout)
    if norm is nn.Identity:
        made.norm = nn.Identity()
    assert_same(made)


def test_a_state_that_is_loaded_is_used():
    made, other = block(), block()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.5)
    made(*inputs())
    made.load_state_dict(other.state_dict())
    assert_same(made)
    x, operators, edges = inputs()
    made.eval(), other.eval()
    torch.testing.assert_close(made(x, operators, edges), other(x, operators, edges))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_models_of_other_types(dtype):
    exact, made = block().eval(), block().eval().to(dtype)
    x, operators, edges = inputs(dtype)
    assert not takes_block(made, x, operators, edges)
    y = made(x, operators, edges)
    assert y.dtype == dtype
    tolerance = 1e-4 if dtype == torch.float64 else 0.1
    expected = exact(x.float(), operators, edges.float())
    torch.testing.assert_close(y.float(), expected, rtol=tolerance, atol=tolerance)


# ------------------------------------------------------------------------------ operators


def test_operators_of_double_precision_serve_single():
    made, (x, operators, edges) = block().eval(), inputs()
    exact = CASE.operators(torch.float64)
    assert takes_block(made, x, exact, edges)
    torch.testing.assert_close(made(x, exact, edges), made(x, operators, edges))


def damaged(name: str, value: Callable[[Tensor], Tensor]) -> GraphOperators:
    operators = CASE.operators(torch.float32)
    state = {**vars(operators), name: value(getattr(operators, name))}
    state.pop("_cache")
    return GraphOperators(**state)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("eigenvectors", lambda v: v[:-1]),
        ("eigenvalues", lambda v: v[:-1]),
        ("basis_counts", lambda v: v + 1),
        ("component_sizes", lambda v: v + 1),
        ("members", lambda v: v + 10**6),
        ("field", lambda v: v[1:]),
        ("field_norm", lambda v: v.clone().requires_grad_()),
        ("mass", lambda v: v[:, None]),
    ],
)
def test_operators_that_do_not_fit_never_reach_the_kernels(name, value):
    x, _, edges = inputs()
    operators = damaged(name, value)
    assert not takes_block(block(), x, operators, edges)
    assert compiled.try_filters(block().aggregation, x, operators, edges) is None


def test_a_field_that_is_learned_has_a_gradient():
    made, (x, operators, edges) = block(), inputs()
    field = operators.field.clone().requires_grad_()
    state = {**vars(operators), "field": field}
    state.pop("_cache")
    made(x, GraphOperators(**state), edges).sum().backward()
    assert field.grad.abs().sum() > 0


# ------------------------------------------------------------------------------ transforms


def test_gradients_of_gradients_are_right_without_kernels_and_refused_with_them():
    made, (x, operators, edges) = block().eval(), inputs()

    def penalty() -> Tensor:
        given = x.clone().requires_grad_()
        (grad,) = torch.autograd.grad(made(given, operators, edges).sum(), given, create_graph=True)
        return grad.square().sum()

    with pytest.raises(RuntimeError, match=r"second derivatives.*native\.plain"):
        penalty().backward()
    with native.plain():
        penalty().backward()
    assert made.across_towers.weight.grad.isfinite().all()


def test_functional_calls_use_the_weights_they_are_given():
    made, (x, operators, edges) = block().eval(), inputs()
    other = {name: 2 * p.detach() for name, p in made.named_parameters()}
    y = torch.func.functional_call(made, other, (x, operators, edges))
    made.load_state_dict({**made.state_dict(), **other})
    torch.testing.assert_close(made(x, operators, edges), y)


def test_transforms_of_torch_func_leave_the_kernels_out():
    """The filters alone: plain autograd from end to end."""
    layer, (x, operators, edges) = block().aggregation, inputs()
    vector = torch.randn(x.shape, generator=torch.Generator().manual_seed(2))
    with native.plain():
        expected = layer(x, operators, edges)
    step = 1e-2

    def along(given: Tensor) -> Tensor:
        return layer(given, operators, edges)

    y, tangent = torch.func.jvp(along, (x,), (vector,))
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-5)
    found = (along(x + step * vector) - along(x - step * vector)) / (2 * step)
    assert (found - tangent).norm() < 0.05 * tangent.norm()
    several = torch.stack([x, x + 1])
    batched = torch.func.vmap(along)(several)
    torch.testing.assert_close(batched[0], expected, rtol=1e-4, atol=1e-5)
    grads = torch.func.grad(lambda given: along(given).square().sum())(x)
    leaf = x.clone().requires_grad_()
    layer(leaf, operators, edges).square().sum().backward()
    torch.testing.assert_close(grads, leaf.grad, rtol=1e-3, atol=1e-4)


def test_autocast_is_obeyed():
    made, (x, operators, edges) = block().eval(), inputs()
    exact = made(x, operators, edges)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not takes_block(made)
        rough = made(x, operators, edges)
        assert made.across_towers(x).dtype == torch.bfloat16
    assert 1e-5 < (rough - exact).abs().max() < 0.5


class Marked(Tensor):
    """A tensor of a kind of its own."""


def test_tensors_of_other_kinds_are_left_to_pytorch():
    made, (x, operators, edges) = block().eval(), inputs()
    special = x.as_subclass(Marked)
    assert not takes_block(made, special, operators, edges)
    y = made(special, operators, edges)
    assert type(y) is Marked
    torch.testing.assert_close(y.as_subclass(Tensor), made(x, operators, edges))
    assert not native.accepts(torch.zeros(3).to_sparse())
    assert not native.accepts(torch.complex(torch.zeros(2), torch.ones(2)).conj().imag)
    assert not native.accepts(torch.zeros(2, device="meta"))


@pytest.mark.parametrize("given", ["x", "edges", "no edges"])
def test_wrong_inputs_get_the_errors_of_the_definition(given):
    x, operators, edges = inputs()
    wrong = {
        "x": (x[:-1], operators, edges),
        "edges": (x, operators, edges[:, 1:]),
        "no edges": (x, operators, None),
    }[given]
    with pytest.raises(ValueError, match=r"expected|missing|must be"):
        block()(*wrong)


def test_a_block_of_many_neighbours_is_that_of_the_definition():
    operators = star(40).operators(torch.float32)
    x, edges = torch.randn(41, CHANNELS), torch.randn(80, EDGES)
    assert takes_block(block(), x, operators, edges)
    torch.testing.assert_close(*inferred(block().eval(), x, operators, edges), rtol=1e-4, atol=1e-5)


# ------------------------------------------------------------------------------ values alone


def inferred(module: nn.Module, *given) -> tuple[Tensor, Tensor]:
    """What is predicted where nobody asks for gradients, by both paths."""
    with torch.no_grad():
        fast = module(*given)
        with native.plain():
            return fast, module(*given)


@pytest.mark.parametrize("options", [
    {}, {"towers": 1}, {"towers": 10}, {"batch_norm": False}, {"graph_norm": False},
    {"residual": False}, {"dropout": 0.5}, {"dx_centre": "node"}, {"messages": "plain"},
    {"messages": "nonlinear"}, {"messages": "nonlinear", "dx_centre": "node"},
    {"aggregators": ("std", "av", "sum", "min")}, {"scalers": ("identity",)},
], ids=str)  # fmt: skip
def test_values_alone_are_those_of_the_definition(options):
    torch.manual_seed(0)
    options = {"towers": 2, "edge_channels": EDGES, "aggregators": ("mean", "max", "dx"), **options}
    for diffusion in (ImplicitDiffusion(CHANNELS), SpectralDiffusion(CHANNELS), None):
        made = GADBlock(CHANNELS, diffusion=diffusion, **options).eval()
        if made.norm is not None:
            nn.init.uniform_(made.norm.running_mean)
            nn.init.uniform_(made.norm.running_var, 0.5, 2)
        assert takes_block(made)
        torch.testing.assert_close(*inferred(made, *inputs()), rtol=1e-4, atol=1e-5)
        filters = made.aggregation
        torch.testing.assert_close(*inferred(filters, *inputs()), rtol=1e-4, atol=1e-5)


def test_values_alone_without_edge_features_and_on_several_threads():
    torch.manual_seed(0)
    made = GADBlock(CHANNELS, diffusion=ImplicitDiffusion(CHANNELS), towers=2).eval()
    x, operators, _ = inputs()
    threads = torch.get_num_threads()
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            torch.testing.assert_close(*inferred(made, x, operators), rtol=1e-4, atol=1e-5)
    finally:
        torch.set_num_threads(threads)


def test_a_norm_in_training_follows_its_batches_without_gradients_too():
    made = block()
    other = copy.deepcopy(made)
    with torch.no_grad():
        y = made(*inputs())
        with native.plain():
            torch.testing.assert_close(y, other(*inputs()), rtol=1e-4, atol=1e-5)
    assert made.norm.num_batches_tracked == 1
    torch.testing.assert_close(made.norm.running_var, other.norm.running_var)


def set_data(made: GADBlock) -> None:
    made.across_towers.weight.data = 2 * made.across_towers.weight.data


def shadow(made: GADBlock) -> None:
    vars(made.combine)["weight"] = 2 * made.combine.weight.detach()


def delete_bias(made: GADBlock) -> None:
    made.combine.bias = None


def transpose_in_place(made: GADBlock) -> None:
    made.across_towers.weight.data = made.across_towers.weight.data.t()


def name_an_attribute(made: GADBlock) -> None:
    made.across_towers.note = "mine"


def swap_norms(made: GADBlock) -> None:
    made.norm = BatchNorm(CHANNELS)
    nn.init.uniform_(made.norm.weight)


def refill_delta(made: GADBlock) -> None:
    made.aggregation.delta.fill_(3.0)


def change_slope(made: GADBlock) -> None:
    made.slope = 0.5


def shift_times(made: GADBlock) -> None:
    made.diffusion.set_times(4.0)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("change", [
    set_data, shadow, delete_bias, transpose_in_place, name_an_attribute, swap_norms,
    refill_delta, change_slope, shift_times,
])  # fmt: skip
def test_what_changes_between_two_calls_is_seen_by_the_second(change, training):
    made, given = block().train(training), inputs()
    before = inferred(made, *given)[0]
    change(made)
    made.train(training)
    assert_same(made)
    fast, slow = inferred(made, *given)
    torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-5)
    if change is not name_an_attribute and not (change is swap_norms and training):
        assert (fast - before).abs().max() > 1e-4
