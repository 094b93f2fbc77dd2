"""The promises every mechanism keeps, over the whole registry."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.attentions import (
    ALL,
    CAUSAL,
    CORES,
    DIM,
    MIXERS,
    WORDS,
    build,
    core_of,
    distance,
    has_option,
    mechanism_of,
    options_for,
    with_lengths,
    word,
)
from vixformer.attention.base import Mechanism
from vixformer.attention.linear_core import LinearCore
from vixformer.attention.project.projection import Attention
from vixformer.measure.cost import multiply_adds

LENGTHS = (1, 2, 17, 64, 65, 197)
FEW = (1, 17, 197)


def closeness(dtype: torch.dtype) -> float:
    """How far half precision may be from float32: a few times its rounding of the inputs."""
    return {torch.float32: 1e-5, torch.bfloat16: 6e-2, torch.float16: 8e-3}[dtype]


@pytest.mark.parametrize(("attention", "n"), with_lengths(ALL, LENGTHS, FEW))
def test_equals_its_slow_twin_with_gradients(attention: str, n: int) -> None:
    fast = build(attention, n)
    slow = copy.deepcopy(fast)
    x = torch.randn(2, n, DIM)
    weight = torch.randn(2, n, DIM)
    mechanism_of(slow).forward = mechanism_of(slow).reference
    inputs = [x.clone().requires_grad_(), x.clone().requires_grad_()]
    outputs = [module(i) for module, i in zip((fast, slow), inputs, strict=True)]
    assert distance(*outputs) <= 1e-5
    for out in outputs:
        (out * weight).sum().backward()
    pairs = [tuple(i.grad for i in inputs)]
    for (name, p), q in zip(fast.named_parameters(), slow.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None), name
        if p.grad is not None:
            pairs.append((p.grad, q.grad))
    for ours, theirs in pairs:
        assert ours is not None
        assert theirs is not None
        assert distance(ours, theirs) <= 1e-5


@pytest.mark.parametrize("attention", [*CORES, *CAUSAL])
def test_equals_its_slow_twin_under_a_mask(attention: str) -> None:
    n = 65
    module = build(attention, n)
    x, mask = torch.randn(3, n, DIM), torch.rand(3, n) < 0.6
    mask[:, 0] = True  # under a causal mask a first token that is hidden would see nothing
    q, k, v = module.heads(x, mask)  # pyright: ignore[reportCallIssue]
    core = core_of(module)
    assert distance(core(q, k, v, mask), core.reference(q, k, v, mask)) <= 1e-5


@pytest.mark.parametrize(("attention", "n"), with_lengths(ALL, LENGTHS, FEW))
def test_an_image_does_not_depend_on_its_batch(attention: str, n: int) -> None:
    module = build(attention, n)
    x = torch.randn(3, n, DIM)
    x[1] *= 10  # an image that would dominate any statistic over the batch
    with torch.no_grad():
        together = module(x)
        alone = torch.cat([module(x[i : i + 1]) for i in range(3)])
    for i in range(3):
        # products of large parts cancel each other
        assert distance(together[i], alone[i]) <= (1e-4 if "taylor" in attention else 1e-5)


@pytest.mark.parametrize(("attention", "n"), with_lengths(CORES, LENGTHS, FEW))
def test_masked_content_changes_nothing(attention: str, n: int) -> None:
    module = build(attention, n)
    x, mask = torch.randn(2, n, DIM), torch.rand(2, n) < 0.7
    mask[:, -1] = True
    other = torch.where(mask[..., None], x, torch.full_like(x, torch.nan))
    with torch.no_grad():
        a, b = module(x, mask=mask), module(other, mask=mask)
    assert torch.equal(a[mask], b[mask])
    assert a[mask].isfinite().all()


@pytest.mark.parametrize("attention", [a for a in CORES if Mechanism.members[word(a)].mask == "exact"])
def test_masked_tail_equals_the_shorter_input(attention: str) -> None:
    n, short = 65, 41
    module = build(attention, n)
    x = torch.randn(2, n, DIM)
    mask = (torch.arange(n) < short).expand(2, n)
    with torch.no_grad():
        assert distance(module(x, mask=mask)[:, :short], module(x[:, :short])) <= 1e-5


@pytest.mark.parametrize("attention", CORES)
def test_an_image_with_nothing_to_see_stays_finite(attention: str) -> None:
    module = build(attention, 20)
    mask = torch.tensor([True, False])[:, None].expand(2, 20)
    with torch.no_grad():
        assert module(torch.randn(2, 20, DIM), mask=mask).isfinite().all()


@pytest.mark.parametrize("attention", MIXERS)
def test_mixers_refuse_a_mask(attention: str) -> None:
    with pytest.raises(ValueError, match="takes no mask"):
        build(attention, 9)(torch.randn(1, 9, DIM), mask=torch.ones(1, 9, dtype=torch.bool))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("attention", "n"), with_lengths(ALL, LENGTHS, (1, 197)))
def test_half_precision_is_finite_and_close(attention: str, n: int, dtype: torch.dtype) -> None:
    module = build(attention, n)
    half = copy.deepcopy(module).to(dtype)
    module.load_state_dict(half.state_dict())  # the same, already rounded, weights: what differs is the arithmetic
    x = torch.randn(2, n, DIM).to(dtype)
    with torch.no_grad():
        expected, out = module(x.float()), half(x)
    assert out.dtype == dtype
    assert out.isfinite().all()
    if "trig" not in attention:  # which does not promise it, and says so
        assert ((out - expected).norm() / expected.norm()).item() <= closeness(dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("attention", ALL)
def test_large_inputs_stay_finite_in_half_precision(attention: str, dtype: torch.dtype) -> None:
    module = build(attention, 64).to(dtype)
    x = (20 * torch.randn(2, 64, DIM)).to(dtype).requires_grad_()
    out = module(x)
    out.float().sum().backward()
    assert out.isfinite().all()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("attention", ALL)
def test_autocast_trains(attention: str) -> None:
    module = build(attention, 33).train()
    x = torch.randn(2, 33, DIM, requires_grad=True)
    options = options_for(module, 33)
    with torch.no_grad():
        expected = module(x, **options)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = module(x, **options)
        out.float().square().mean().backward()
    for p in (x, *module.parameters()):
        assert p.grad is None or p.grad.isfinite().all()
    if "trig" not in attention and "drop" not in attention:
        assert ((out - expected).norm() / expected.norm()).item() <= closeness(torch.bfloat16)


@pytest.mark.parametrize("attention", [a for a in CORES if issubclass(Mechanism.members[word(a)], LinearCore)])
def test_features_are_float32_under_autocast(attention: str) -> None:
    """Not only close: the core's own arithmetic is not lowered, so on the same q, k and v it gives the same."""
    module = build(attention, 33)
    x = torch.randn(2, 33, DIM)
    seen: list[Any] = []
    hook = core_of(module).register_forward_hook(lambda _, args, out: seen.extend([*args[:3], out]))
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        module(x)
    hook.remove()
    q, k, v, out = seen
    assert q.dtype == out.dtype == torch.bfloat16
    with torch.no_grad():
        assert torch.equal(core_of(module)(q, k, v), out)


@pytest.mark.parametrize("attention", ALL)
def test_evaluation_is_deterministic_and_survives_storage(attention: str) -> None:
    module, other = build(attention, 17), build(attention, 17)
    x = torch.randn(2, 17, DIM)
    other.load_state_dict(module.state_dict())
    with torch.no_grad():
        assert torch.equal(module(x), module(x))
        assert torch.equal(module(x), other(x))


@pytest.mark.parametrize("attention", ALL)
def test_training_gives_every_parameter_a_finite_gradient(attention: str) -> None:
    module = build(attention, 30).train()
    x = torch.randn(2, 30, DIM, requires_grad=True)
    module(x, **options_for(module, 30)).square().mean().backward()
    for name, p in module.named_parameters():
        assert p.grad is not None, name
        assert p.grad.isfinite().all(), name


@pytest.mark.parametrize(
    ("attention", "n"),
    with_lengths([*[a for a in ALL if not Mechanism.members[word(a)].by_formula], *CAUSAL], (100, 256, 1024), (100,)),
)
def test_costs_what_it_declares(attention: str, n: int) -> None:
    module = build(attention, n, dim=128, heads=4)
    side = int(n**0.5)
    counted = multiply_adds(_WithGrid(module, (side, side)), torch.randn(1, n, 128))
    projections = n * 4 * 128 * 128 if isinstance(module, Attention) else 0
    declared = mechanism_of(module).macs(n) + projections
    assert declared == counted


class _WithGrid(torch.nn.Module):
    def __init__(self, module: torch.nn.Module, grid: tuple[int, int]) -> None:
        super().__init__()
        self.module, self.grid = module, grid

    def forward(self, x: Tensor) -> Tensor:
        return self.module(x, grid=self.grid)


@pytest.mark.parametrize("attention", [*CORES, *CAUSAL])
def test_attention_map_is_what_the_values_meet(attention: str) -> None:
    n = 33
    module = build(attention, n)
    core, x = core_of(module), torch.randn(2, n, DIM)
    with torch.no_grad():
        q, k, v = module.heads(x)  # pyright: ignore[reportCallIssue]
        weights = module.attention_map(x)  # pyright: ignore[reportCallIssue]
        assert weights.shape == (2, 2, n, n)
        if word(attention) not in ("linformer", "nystrom"):  # which are no weighted means
            assert distance(weights.sum(-1), torch.ones(2, 2, n)) <= (1e-3 if "eps" in attention else 1e-5)
        if getattr(core, "conv", None) is None:
            assert distance(weights @ v, core(q, k, v)) <= 1e-5


@pytest.mark.parametrize("attention", CAUSAL)
@pytest.mark.parametrize(("n", "size"), [(1, 5), (17, 5), (64, 5), (65, 20), (197, 5)])
def test_causal_attention_does_not_see_the_future(attention: str, n: int, size: float) -> None:
    module = build(attention, n)
    x = torch.randn(2, n, DIM)
    cut = n // 2
    other = x.clone()
    other[:, cut:] = size * torch.randn(2, n - cut, DIM)
    core = core_of(module)
    with torch.no_grad():
        if cut:
            assert distance(module(x)[:, :cut], module(other)[:, :cut]) <= 1e-5
        q, k, v = module.heads(x)  # pyright: ignore[reportCallIssue]
        assert distance(core(q, k, v), core.reference(q, k, v)) <= 1e-5


@pytest.mark.parametrize("attention", [a for a in WORDS if not has_option(a, "causal")])
def test_causal_is_refused_where_it_cannot_be(attention: str) -> None:
    with pytest.raises(ValueError, match="causal"):
        build(f"{attention}(causal=true)", 9)


@pytest.mark.usefixtures("toy")
def test_a_new_mechanism_is_under_the_contract() -> None:
    test_equals_its_slow_twin_with_gradients("toy", 17)
    test_equals_its_slow_twin_under_a_mask("toy")
    test_an_image_does_not_depend_on_its_batch("toy", 17)
    test_masked_content_changes_nothing("toy", 17)
    test_half_precision_is_finite_and_close("toy", 17, torch.float16)
    test_costs_what_it_declares("toy", 64)
