"""Values that float32 can barely hold, and those that it cannot: finite and right as long as can be, and NaN after
that, never worse."""

from __future__ import annotations

import copy
import re

import pytest
import torch
from torch import Tensor

from tests.support.attentions import ALL, CAUSAL, CORES, DIM, build, core_of, distance, options_for
from vixformer import create_attention
from vixformer.ops import native

N = 33
TOKENS = {
    "large": (1e3, N),
    "repeated": (1.0, 1),
    "large and repeated": (1e3, 1),
    "all -100": (None, N),
    "zeros": (0.0, N),
}
UNBOUNDED = "performer(kernel=trig, features=24, causal=true)"
"""exp(|x|^2 / 2), which only a look at future tokens could keep in range: by design."""


def tokens(name: str, *lead: int, width: int) -> Tensor:
    size, different = TOKENS[name]
    if size is None:
        return torch.full((*lead, N, width), -100.0)
    return (size * torch.randn(*lead, different, width)).expand(*lead, N, width).clone()


@pytest.mark.parametrize("attention", [a for a in (*ALL, *CAUSAL) if a != UNBOUNDED])
def test_large_and_constant_inputs_have_finite_gradients(attention: str) -> None:
    module = build(attention, N).train()
    masks = [None, torch.arange(N).expand(2, N) % 3 != 1] if attention in (*CORES, *CAUSAL) else [None]
    for name in TOKENS:
        for mask in masks:
            x = tokens(name, 2, width=DIM).requires_grad_()
            out = module(x, mask=mask, **options_for(module, N))
            inputs = [x, *module.parameters()]
            grads = torch.autograd.grad((out * torch.randn_like(out)).sum(), inputs, allow_unused=True)
            assert out.isfinite().all(), name
            assert all(grad is None or grad.isfinite().all() for grad in grads), name


NO_DIRECTION = re.compile(r"norm=true|angular")
"""The direction of a zero vector, and its gradient, are not defined."""
KINK = re.compile(r"relu|lens|matrix|focused|cosine|prism|angular")
"""ReLU has two slopes at zero, and ours and torch's clamp choose differently."""
UNDERFLOWS = re.compile(r"eps=0\b")
"""Without eps, features of queries and keys that differ by more than float32's range vanish."""


@pytest.mark.parametrize("attention", [a for a in (*CORES, *CAUSAL) if a != UNBOUNDED and not UNDERFLOWS.search(a)])
def test_large_and_constant_inputs_have_the_gradients_of_float64(attention: str) -> None:
    core = core_of(build(attention, N))
    precise = copy.deepcopy(core).double()
    for name in TOKENS:
        if name == "zeros" and (NO_DIRECTION.search(attention) or KINK.search(attention)):
            continue
        q, k = (tokens(name, 2, 2, width=16) for _ in range(2))
        given = [t.requires_grad_() for t in (q, k, torch.randn(2, 2, N, 16))]
        wide = [t.detach().double().requires_grad_() for t in given]
        out, expected = core(*given), precise.reference(wide[0], wide[1], wide[2])
        weight = torch.randn_like(out)
        found, right = (
            torch.autograd.grad((out * weight).sum(), given),
            torch.autograd.grad((expected * weight).sum(), wide),
        )
        for one, other in zip((out, *found), (expected, *right), strict=True):
            # scores of a million are rounded to a sixteenth
            assert distance(one, other) <= (0.15 if "large" in name else 5e-3), name


@pytest.mark.parametrize("poisoned", ["q", "k", "v"])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize(
    "attention",
    [
        "nystrom(landmarks=16)",
        "softmax",
        "linformer(rank=8)",
        "performer(kernel=relu, features=24)",
        "performer(features=16)",
        "prism",
        "lens",
    ],
)
def test_nan_comes_out_as_nan(attention: str, bad: float, poisoned: str) -> None:
    """In the head that holds it and in its gradients, a hundred times; never in another."""
    core = core_of(build(attention, 40))
    given = {name: torch.randn(1, 2, 40, 16) for name in "qkv"}
    given[poisoned][0, 0, 7, 3] = bad
    inputs = [t.requires_grad_() for t in given.values()]
    for _ in range(100 if attention.startswith("nystrom") and bad != bad else 2):
        out = core(*inputs)
        found = torch.autograd.grad(out.sum(), inputs)
        for one in (out, *found):
            assert one[0, 1].isfinite().all()
        if bad != bad:
            assert out[0, 0].isnan().any()
            assert any(one[0, 0].isnan().any() for one in found) or poisoned == "v"


def test_nystrom_passes_nan_on_as_torch_does(monkeypatch: pytest.MonkeyPatch) -> None:
    core = core_of(build("nystrom(landmarks=16)", 40))
    inputs = [torch.randn(1, 2, 40, 16).requires_grad_() for _ in range(3)]
    inputs[0].data[0, 0, 7, 3] = torch.nan

    def found() -> list[Tensor]:
        out = core(*inputs)
        return [out, *torch.autograd.grad(out.sum(), inputs)]

    ours = found()
    monkeypatch.setattr(native, "library", lambda: None)
    for one, other in zip(ours, found(), strict=True):
        assert torch.equal(one.isnan(), other.isnan())


def test_a_training_that_diverges_ends_in_nan_and_not_in_a_crash() -> None:
    module = create_attention("nystrom(landmarks=16)", dim=32, num_heads=2, num_tokens=40)
    optimizer, loss = torch.optim.SGD(module.parameters(), lr=1e6), torch.zeros(())
    for _ in range(40):
        loss = module(torch.randn(2, 40, 32)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.isnan()
