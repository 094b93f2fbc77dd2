"""Feature maps against their formulas, written out: the reference of a linear core shares its features, so it cannot
tell."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.support.attentions import distance
from tests.support.formulas import HEADS, K, core, tokens, weights_of


def gelu(u: Tensor) -> Tensor:
    return u * 0.5 * (1 + torch.erf(u / math.sqrt(2)))


@torch.no_grad()
@pytest.mark.parametrize(
    ("expression", "phi"),
    [
        ("relu, features=6", lambda u, c: u.clamp(min=0) + 1e-3),
        ("relu, features=6, eps=0.25", lambda u, c: u.clamp(min=0) + 0.25),
        ("elu, features=6, alpha=0.3", lambda u, c: torch.where(u > 0, u, 0.3 * (u.exp() - 1)) + 0.3 + 1e-3),
        ("gelu, features=6", lambda u, c: gelu(u) + 0.16997121 + 1e-3),
        ("exp, features=6, eps=0", lambda u, c: u.exp()),
        ("exp, features=6, clamp=0.5", lambda u, c: u.clamp(-0.5, 0.5).exp() + 1e-3),
        ("exp, features=6, clamp=0.5, clamp_min=-0.1, eps=0", lambda u, c: u.clamp(-0.1, 0.5).exp()),
        ("matrix, features=6", lambda u, c: (u @ c.kernel.weight.T).clamp(min=0) + 1e-3),
    ],
)
def test_generalised_kernels(expression: str, phi: Any) -> None:
    """u = W x K^-1/4."""
    c = core(f"performer(kernel={expression})")
    q, k = tokens(), tokens().flip(2)
    project = lambda x: (x * K**-0.25) @ c.projection.T  # noqa: E731
    assert distance(c.attention_map(q, k), weights_of(phi(project(q), c), phi(project(k), c))) <= 1e-5


@torch.no_grad()
@pytest.mark.parametrize(
    ("expression", "phi"),
    [
        ("relu", lambda u: u.clamp(min=0) + 1e-3),
        ("exp, eps=0", lambda u: u.exp()),
        ("elu", lambda u: torch.where(u > 0, u, u.exp() - 1) + 1 + 1e-3),
        ("relu, scale=half", lambda u: (u * K**-0.25).clamp(min=0) + 1e-3),
    ],
)
def test_deterministic_kernels(expression: str, phi: Any) -> None:
    """Without a projection, u = x K^-1/4, or K^-1/2."""
    c = core(f"performer(kernel={expression}, features=none)")
    q, k = tokens(), tokens().flip(2)
    assert distance(c.attention_map(q, k), weights_of(phi(q * K**-0.25), phi(k * K**-0.25))) <= 1e-5


@torch.no_grad()
def test_variants_of_the_cifar_report() -> None:
    """x scaled by K^-1/2, a random bias, eps 1e-6 in features and normalizer."""
    c = core("performer(kernel=relu, features=6, scale=half, bias=true, eps=1e-6, total_eps=0.1)")
    q, k = tokens(), tokens().flip(2)
    phi = [((x * K**-0.5) @ c.projection.T + c.bias).clamp(min=0) + 1e-6 for x in (q, k)]
    scores = phi[0] @ phi[1].mT
    assert distance(c.attention_map(q, k), scores / (scores.sum(-1, keepdim=True) + 0.1)) <= 1e-5


@torch.no_grad()
@pytest.mark.parametrize(("kernel", "power"), [("softmax", 0.5), ("gaussian", 1.0)])
def test_positive_random_features(kernel: str, power: float) -> None:
    """exp(u - power |x|^2 - c) + eps, c the largest u of a query, or of all keys of an image and head."""
    c = core(f"performer(kernel={kernel}, features=6, eps=0.01)")
    q, k = tokens() * K**-0.25, tokens().flip(2) * K**-0.25
    u_q, u_k = q @ c.projection.T, k @ c.projection.T
    phi_q = torch.exp(u_q - power * q.square().sum(-1, keepdim=True) - u_q.amax(-1, keepdim=True)) + 0.01
    phi_k = torch.exp(u_k - power * k.square().sum(-1, keepdim=True) - u_k.amax((-1, -2), keepdim=True)) + 0.01
    assert distance(c.attention_map(tokens(), tokens().flip(2)), weights_of(phi_q, phi_k)) <= 1e-5


@torch.no_grad()
def test_cosh_and_trig() -> None:
    q, k = tokens() * K**-0.25, tokens().flip(2) * K**-0.25
    c = core("performer(kernel=cosh, features=6, eps=0)")
    u = [x @ c.projection.T for x in (q, k)]
    phi = [
        torch.cat([a.exp(), (-a).exp()], -1) * torch.exp(-x.square().sum(-1, keepdim=True) / 2)
        for a, x in zip(u, (q, k), strict=True)
    ]
    assert distance(c.attention_map(tokens(), tokens().flip(2)), weights_of(*phi)) <= 1e-5
    c = core("performer(kernel=trig, features=600)")
    u = [x @ c.projection.T for x in (q, k)]
    phi = [
        torch.cat([a.cos(), a.sin()], -1) * torch.exp(x.square().sum(-1, keepdim=True) / 2)
        for a, x in zip(u, (q, k), strict=True)
    ]
    assert distance(c.attention_map(tokens(), tokens().flip(2)), weights_of(*phi)) <= 1e-4


@torch.no_grad()
def test_angular() -> None:
    c = core("performer(kernel=angular, features=6)")
    q, k = tokens(), tokens().flip(2)
    phi = [(F.normalize(x, dim=-1) @ c.projection.T).clamp(min=0) + 1e-3 for x in (q, k)]
    assert distance(c.attention_map(q, k), weights_of(*phi)) <= 1e-5


@torch.no_grad()
def test_dynamic_clamp_is_three_standard_deviations_of_an_image_and_head() -> None:
    c = core("performer(kernel=exp, features=6, clamp=dynamic, eps=0)")
    q, k = tokens(), tokens().flip(2)
    q[0, 0, 0] *= 40
    phi = []
    for x in (q, k):
        u = (x * K**-0.25) @ c.projection.T
        mean, std = u.mean((-1, -2), keepdim=True), u.std((-1, -2), keepdim=True, correction=0)
        assert ((u > mean + 3 * std) | (u < mean - 3 * std)).any()  # it has something to do
        phi.append(torch.maximum(torch.minimum(u, mean + 3 * std), mean - 3 * std).exp())
    assert distance(c.attention_map(q, k), weights_of(*phi)) <= 1e-4


@torch.no_grad()
def test_mixture() -> None:
    c = core("performer(kernel=mixture)")
    f = c.kernel
    assert (f.mixture.item(), f.tau.item(), f.eps.item()) == (0.5, 1.0, pytest.approx(1e-6))
    f.mixture.fill_(0.364)
    f.tau.fill_(0.7)

    def phi(x: Tensor) -> Tensor:
        y = (x * K**-0.25) @ f.fc1.weight.T + f.fc1.bias
        y = (y - y.mean(-1, keepdim=True)) / (
            y.var(-1, keepdim=True, correction=0) + 1e-5
        ).sqrt() * f.norm.weight + f.norm.bias
        y = (y.clamp(min=0) @ f.fc2.weight.T + f.fc2.bias) / 0.7
        return 0.364 * y.clamp(-5, 5).exp() + (1 - 0.364) * y.clamp(min=0) + 1e-6

    assert f.fc1.weight.shape == (2 * K, K)
    assert (
        distance(c.attention_map(tokens(), tokens().flip(2)), weights_of(phi(tokens()), phi(tokens().flip(2)))) <= 1e-5
    )


@torch.no_grad()
def test_mlp() -> None:
    c = core("performer(kernel=mlp, features=12)")
    f = c.kernel

    def phi(x: Tensor) -> Tensor:
        hidden = ((x * K**-0.25) @ f.fc1.weight.T + f.fc1.bias).clamp(min=0)
        return torch.log1p(torch.exp(hidden @ f.fc2.weight.T + f.fc2.bias)) + 1e-3

    assert c.width == 12
    assert (
        distance(c.attention_map(tokens(), tokens().flip(2)), weights_of(phi(tokens()), phi(tokens().flip(2)))) <= 1e-5
    )


@torch.no_grad()
def test_a_performer_that_learns_its_temperature() -> None:
    q, k = tokens(), tokens().flip(2)
    c = core("performer(kernel=exp, features=none, norm=true)")
    lengths = torch.linspace(1, 4, HEADS).view(HEADS, 1, 1)
    c.log_length.copy_(lengths.log())
    u = [F.normalize(x, dim=-1) * lengths * K**-0.25 for x in (q, k)]
    u = [u[0] - u[0].amax(-1, keepdim=True), u[1] - u[1].amax((-2, -1), keepdim=True)]
    assert distance(c.attention_map(q, k), weights_of(*(x.exp() + c.kernel.config.eps for x in u))) <= 1e-5


@torch.no_grad()
def test_taylor() -> None:
    q, k = tokens(), tokens().flip(2)
    scores = q @ k.mT * K**-0.5
    weights = 1 + scores + scores**2 / 2
    assert (
        distance(core("performer(kernel=taylor)").attention_map(q, k), weights / weights.sum(-1, keepdim=True)) <= 1e-5
    )
    with pytest.raises(ValueError, match="leave features out"):
        core("performer(kernel=taylor, features=8)")


@torch.no_grad()
def test_prototypes() -> None:
    c = core("performer(kernel=prototypes, features=12)")
    q, k = tokens(), tokens().flip(2)
    phi = [(x * K**-0.25 @ c.kernel.prototypes.T).softmax(-1) for x in (q, k)]
    assert distance(c.attention_map(q, k), weights_of(*phi)) <= 1e-5
