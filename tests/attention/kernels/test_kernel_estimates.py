"""Random features estimate the kernels they are named after."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from vixformer import create_model, ops, redraw
from vixformer.attention.base import Shape
from vixformer.attention.layout import parse

N, HEADS, K = 256, 4, 32


def core(expression: str, width: int = K) -> torch.nn.Module:
    (config,) = parse(expression).expand(1)
    return config.owner(config, Shape(HEADS * width, HEADS, width))


@torch.no_grad()
def error(features: int, options: str, draws: int = 5, s: float = 0.5) -> float:
    """Relative error of the output against exact softmax, q and k ~ N(0, s^2)."""
    errors = []
    for seed in range(draws):
        torch.manual_seed(seed)
        q, k = (s * torch.randn(1, HEADS, N, K) for _ in range(2))
        v = torch.randn(1, HEADS, N, K)
        exact = F.scaled_dot_product_attention(q, k, v)
        estimate = core(f"performer(kernel=softmax, features={features}, {options})")(q, k, v)
        errors.append(((estimate - exact).norm() / exact.norm()).item())
    return sum(errors) / draws


def test_softmax_features_estimate_softmax() -> None:
    assert error(512, "scaling=sqrt") <= 0.15
    assert error(512, "scaling=sqrt, eps=0") <= 0.15


def test_the_error_falls_like_one_over_root_m() -> None:
    errors = {m: error(m, "scaling=sqrt, eps=0", draws=8) for m in (32, 128, 512, 2048)}
    slope = math.log(errors[32] / errors[2048]) / math.log(2048 / 32)
    assert 0.4 <= slope <= 0.65, errors
    assert sorted(errors.values(), reverse=True) == list(errors.values())


def test_constant_norms_beat_chi_norms() -> None:
    assert error(256, "scaling=sqrt, eps=0") < 0.85 * error(256, "scaling=chi, eps=0")


def test_orthogonal_rows_beat_rows_drawn_alone() -> None:
    """As "Testing linear-attention Transformers" says, with row norms of one distribution."""
    assert error(64, "scaling=chi, eps=0", draws=20) < 0.95 * error(64, "scaling=iid, eps=0", draws=20)


def test_cosh_features_estimate_softmax_at_least_as_well() -> None:
    torch.manual_seed(0)
    q, k, v = (0.5 * torch.randn(1, HEADS, N, K) for _ in range(3))
    exact = F.scaled_dot_product_attention(q, k, v)
    errors = {}
    for kernel in ("softmax", "cosh"):
        outs = [core(f"performer(kernel={kernel}, features=256, eps=0)")(q, k, v) for _ in range(6)]
        errors[kernel] = sum(((o - exact).norm() / exact.norm()).item() for o in outs) / 6
    assert errors["cosh"] < errors["softmax"]


@torch.no_grad()
@pytest.mark.parametrize(
    ("kernel", "exact"),
    [
        ("trig", lambda q, k: torch.exp(q @ k.mT)),
        ("softmax", lambda q, k: torch.exp(q @ k.mT)),
        ("gaussian", lambda q, k: torch.exp(-(torch.cdist(q, k) ** 2) / 2)),
        ("angular", lambda q, k: arc_cosine(F.cosine_similarity(q[..., :, None, :], k[..., None, :, :], dim=-1))),
    ],
)
def test_kernels_are_what_they_are_called(kernel: str, exact) -> None:
    """With thousands of features the map is that of the kernel's formula, q and k scaled by K^-1/4."""
    q, k = (0.5 * torch.randn(1, HEADS, 40, 16) for _ in range(2))
    eps = "" if kernel == "trig" else ", eps=0"
    estimate = core(f"performer(kernel={kernel}, features=40000{eps})", 16).attention_map(q, k)  # pyright: ignore
    weights = exact(q * 16**-0.25, k * 16**-0.25)
    weights = weights / weights.sum(-1, keepdim=True)
    assert ((estimate - weights).norm() / weights.norm()).item() <= 0.05


def arc_cosine(cosine: Tensor) -> Tensor:
    angle = cosine.clamp(-1, 1).acos()
    return (angle.sin() + (math.pi - angle) * cosine) / math.pi


def test_directions_are_orthogonal_blocks() -> None:
    w = ops.orthogonal_rows(100, 32, "sqrt")
    assert torch.allclose(w.norm(dim=1), torch.full((100,), 32**0.5), atol=1e-4)
    for block in w.split(32):
        assert torch.allclose(block @ block.T, 32 * torch.eye(len(block)), atol=1e-3)
    chi = ops.orthogonal_rows(4096, 32, "chi").norm(dim=1)
    assert chi.std() > 0.5
    assert chi.square().mean().item() == pytest.approx(32, rel=0.05)


def test_directions_favor_no_side() -> None:
    """The signs of R make the blocks Haar-distributed; without them a plain QR has rows that lean one way."""
    torch.manual_seed(0)
    diagonal = torch.stack([ops.orthogonal_rows(8, 8, "sqrt").diagonal() for _ in range(400)]).mean(0)
    assert diagonal.abs().max() < 0.25


def test_redraw_is_reproducible_and_only_on_request() -> None:
    model = create_model("vit", attention="performer(bias=true, kernel=relu) + softmax", depth=4)
    first = {name: b.clone() for name, b in model.named_buffers()}
    assert len(first) == 4
    model.train()(torch.randn(1, 3, 32, 32))
    assert all(torch.equal(b, first[name]) for name, b in model.named_buffers())
    assert redraw(model, torch.Generator().manual_seed(1)) == 2
    second = {name: b.clone() for name, b in model.named_buffers()}
    assert not any(torch.equal(second[name], first[name]) for name in first)
    redraw(model, torch.Generator().manual_seed(1))
    assert all(torch.equal(b, second[name]) for name, b in model.named_buffers())
    assert redraw(create_model("vit"), None) == 0


def test_learned_directions_are_random_at_first_and_then_learned() -> None:
    model = create_model("vit", attention="performer(kernel=relu, features=24, learned=true)", depth=2)
    directions = [p for name, p in model.named_parameters() if name.endswith("core.projection")]
    first = [p.detach().clone() for p in directions]
    assert len(first) == 2
    assert not torch.equal(*first)
    assert redraw(model, torch.Generator().manual_seed(1)) == 0
    assert all(torch.equal(p, f) for p, f in zip(directions, first, strict=True))
    model(torch.randn(2, 3, 32, 32)).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in directions)


def test_default_number_of_features() -> None:
    assert core("performer").projection.shape == (110, 32)  # pyright: ignore
    assert core("performer(kernel=relu, features=none)").projection is None
    assert core("performer(kernel=relu, features=none)").width == 32  # pyright: ignore


@torch.no_grad()
def test_the_clamp_is_a_clamp() -> None:
    q, k, v = (3 * torch.randn(1, HEADS, 20, K) for _ in range(3))
    loose = core("performer(kernel=exp, features=16, clamp=30, eps=0)")
    tight = core("performer(kernel=exp, features=16, clamp=1, eps=0)")
    free = core("performer(kernel=exp, features=16, eps=0)")
    for other in (tight, free):
        other.load_state_dict(loose.state_dict())
    assert torch.allclose(loose(q, k, v), free(q, k, v), atol=1e-4)
    assert not torch.allclose(tight(q, k, v), free(q, k, v), atol=1e-2)


def test_elu_and_gelu_features_are_positive() -> None:
    u = torch.linspace(-8, 8, 1001).reshape(1, 1, -1, 1)
    for expression in ("elu, alpha=0.3", "elu", "gelu", "relu"):
        kernel = core(f"performer(kernel={expression}, features=none)").kernel  # pyright: ignore
        assert kernel(u.clone(), None, True, None).min() > 0  # pyright: ignore
