"""What else people do with a module: copy, pickle, checkpoint, transform, trace, count, change it in between."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from tests.support.attentions import ALL, CORES, DIM, build, core_of, distance, is_core, word
from vixformer import ops, redraw
from vixformer.attention.base import Mechanism
from vixformer.attention.linear_core import LinearCore
from vixformer.measure.cost import multiply_adds
from vixformer.ops import native

FAST = ["performer(kernel=relu, features=24)", "performer(features=24)", "linformer(rank=16)", "nystrom(landmarks=16)"]
"""Those with compiled loops."""
WEIGHTED = ["hedgehog", "focused(conv=none)", "performer(kernel=matrix, features=8)", "performer(kernel=mlp)", *FAST]


@pytest.mark.parametrize("attention", ALL)
def test_pickles_and_copies(attention: str) -> None:
    module, x = build(attention, 20), torch.randn(1, 20, DIM)
    with torch.no_grad():
        assert torch.equal(pickle.loads(pickle.dumps(module))(x), module(x))
        assert torch.equal(copy.deepcopy(module)(x), module(x))


@pytest.mark.parametrize("attention", WEIGHTED)
def test_gradient_checkpointing(attention: str) -> None:
    module = build(attention, 40)
    x = torch.randn(2, 40, DIM, requires_grad=True)
    module(x).square().sum().backward()
    expected = [p.grad.clone() for p in module.parameters() if p.grad is not None]
    module.zero_grad()
    out = checkpoint(module, x, use_reentrant=False)
    assert isinstance(out, Tensor)
    out.square().sum().backward()
    for p, e in zip([p for p in module.parameters() if p.grad is not None], expected, strict=True):
        assert p.grad is not None
        assert distance(p.grad, e) <= 1e-5


@pytest.mark.parametrize("attention", WEIGHTED)
def test_functional_calls_keep_their_gradients(attention: str) -> None:
    module = build(attention, 40)
    x = torch.randn(2, 40, DIM)
    other = {name: (p + 0.1 * torch.randn_like(p)).detach().requires_grad_() for name, p in module.named_parameters()}
    torch.func.functional_call(module, other, (x,)).square().sum().backward()
    twin = copy.deepcopy(module)
    twin.load_state_dict({**module.state_dict(), **{name: p.detach() for name, p in other.items()}})
    twin(x).square().sum().backward()
    for name, p in twin.named_parameters():
        grad = other[name].grad
        assert grad is not None, name
        assert p.grad is not None
        assert distance(grad, p.grad) <= 1e-5, name


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # of torch's own kernel under vmap
@pytest.mark.parametrize("attention", [*FAST, "hedgehog", "cosine", "softmax"])
def test_transforms_of_torch_func(attention: str) -> None:
    module = build(attention, 40)
    x = torch.randn(3, 40, DIM)
    loss = lambda x: module(x).square().sum()  # noqa: E731
    leaf = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(leaf), leaf)
    assert distance(torch.func.grad(loss)(x), expected) <= 1e-5
    with torch.no_grad():
        one_by_one = torch.func.vmap(lambda t: module(t.unsqueeze(0)).squeeze(0))(x)
        assert distance(one_by_one, module(x)) <= 1e-5


@pytest.mark.parametrize("options", ["", ", bias=true", ", learned=true", ", gate=0.1"])
def test_sizes_of_absurd_numbers_of_features_are_known_at_once(options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without values there is nothing to draw; this drew ten million matrices of nothing, one after the other."""
    monkeypatch.setattr(ops, "orthogonal_rows", lambda *_: pytest.fail("drew directions that nobody has"))
    with torch.device("meta"):
        module = build(f"performer(kernel=relu, features=1000000000{options})", 20)
    assert core_of(module).macs(1) > 1e9


@pytest.mark.filterwarnings("ignore")  # torch.jit's own, about its age
@pytest.mark.parametrize("attention", FAST)
@torch.no_grad()
def test_whoever_watches_sees_every_operation(attention: str) -> None:
    module, x, other = build(attention, 40), torch.randn(2, 40, DIM), torch.randn(2, 40, DIM)
    expected = module(x)
    assert distance(torch.jit.trace(module, (x,))(other), module(other)) <= 1e-5  # pyright: ignore
    with FlopCounterMode(display=False) as counter:
        assert distance(module(x), expected) <= 1e-5
    with torch.device("meta"):
        assert distance(module(x), expected) <= 1e-5
    assert counter.get_total_flops() > 2 * 2 * 40 * 4 * DIM * DIM
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        assert module(fake.from_tensor(x)).shape == x.shape
    assert multiply_adds(module, x) > 0


@pytest.mark.parametrize("attention", FAST)
@torch.no_grad()
def test_other_default_dtypes(attention: str) -> None:
    module, x = build(attention, 40), torch.randn(2, 40, DIM)
    expected = module(x)
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(module(x), expected)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("attention", CORES)
def test_double_precision_is_kept(attention: str) -> None:
    module = build(attention, 20).double()
    x = torch.randn(1, 20, DIM, dtype=torch.float64)
    core = core_of(module)
    q, k, v = module.heads(x)  # pyright: ignore
    out = core(q, k, v)
    assert out.dtype == torch.float64
    assert distance(out, core.reference(q, k, v)) <= 1e-12


@pytest.mark.parametrize(
    "attention", ["performer(kernel=relu, features=4)", "hedgehog", "nystrom(landmarks=4, conv=3)", "linformer(rank=4)"]
)
def test_gradients_by_finite_differences(attention: str) -> None:
    module = build(attention, 6, dim=4, heads=2).double()
    x = torch.randn(1, 6, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: module(x), (x,))


@pytest.mark.parametrize("attention", FAST)
@torch.no_grad()
def test_a_model_that_diverged_looks_it(attention: str) -> None:
    core = core_of(build(attention, 40))
    for poisoned in range(3):
        tensors = [torch.randn(1, 2, 40, 16) for _ in range(3)]
        tensors[poisoned][0, 0, 7] = torch.nan
        out = core(*tensors)
        assert out[0, 0].isnan().any()
        assert out[0, 1].isfinite().all()


def test_redraw_between_forward_and_backward_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "library", lambda: None)
    module = build("performer(kernel=relu, features=8)", 10)
    loss = module(torch.randn(1, 10, DIM, requires_grad=True)).sum()
    redraw(module)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_compiled_loops_keep_their_features_over_a_redraw() -> None:
    module = build("performer(kernel=relu, features=8)", 10)
    if native.library() is None:
        pytest.skip("no C compiler here")
    x = torch.randn(1, 10, DIM, requires_grad=True)
    first, again = module(x).square().sum(), module(x).square().sum()
    (expected,) = torch.autograd.grad(first, x)
    redraw(module)
    assert torch.equal(torch.autograd.grad(again, x)[0], expected)


@pytest.mark.parametrize(
    "attention", [a for a in CORES if issubclass(Mechanism.members[word(a)], LinearCore) and "trig" not in a]
)
def test_backward_inside_autocast_is_no_less_precise(attention: str) -> None:
    module = build(attention, 33)
    grads = []
    for inside in (True, False):
        torch.manual_seed(1)
        core, (q, k, v) = core_of(module), (torch.randn(2, 2, 33, 16, requires_grad=True) for _ in range(3))
        loss = core(q, k, v).square().sum()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=inside):
            loss.backward()
        assert q.grad is not None
        grads.append(q.grad)
    assert distance(*grads) <= 1e-5


def test_linformer_does_not_overflow_in_float16() -> None:
    core = core_of(build("linformer(rank=16)", 1025))
    core.E.data.fill_(0.2)  # pyright: ignore
    core.F.data.fill_(1e-4)  # pyright: ignore
    q, k, v = (torch.full((1, 2, 1025, 16), size, dtype=torch.float16) for size in (0.01, 400.0, 400.0))
    assert core.half()(q, k, v).isfinite().all()


@pytest.mark.parametrize("attention", [a for a in ALL if not is_core(a)])
def test_mixers_have_no_map_and_say_so(attention: str) -> None:
    with pytest.raises(ValueError, match="has no attention map"):
        build(attention, 9).attention_map(torch.randn(1, 9, DIM))  # pyright: ignore


@pytest.mark.parametrize("attention", ["nystrom(landmarks=16)", "hedgehog", "linformer(rank=8)", "focused"])
def test_a_core_learns_when_nothing_else_does(attention: str) -> None:
    """q, k and v of frozen projections: what the core learns for itself still has its gradient."""
    core = core_of(build(attention, 40, dim=32, heads=2))
    q, k, v = torch.randn(3, 2, 2, 40, 16)
    core(q, k, v, None, (5, 8)).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in core.parameters())
