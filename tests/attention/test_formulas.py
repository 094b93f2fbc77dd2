"""Feature maps against their formulas, written out: the reference of a linear core shares its features, so it cannot tell."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.attention.cases import distance
from vixformer import create_attention, create_model
from vixformer.attention.base import Shape
from vixformer.attention.layout import parse

HEADS, K, N = 2, 8, 5


def core(expression: str) -> Any:
    (config,) = parse(expression).expand(1)
    torch.manual_seed(3)
    built = config.owner(config, Shape(HEADS * K, HEADS, K))
    for p in built.parameters():  # nothing hides behind a start at zero or one
        if p.numel() > 1:
            torch.nn.init.normal_(p, std=0.5)
    return built


def tokens() -> Tensor:
    return torch.randn(2, HEADS, N, K, generator=torch.Generator().manual_seed(1))


def weights_of(phi_q: Tensor, phi_k: Tensor) -> Tensor:
    scores = phi_q @ phi_k.mT
    return scores / scores.sum(-1, keepdim=True)


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
    """x scaled by K^-1/2, a random bias, eps 1e-6 in features and normaliser."""
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
    phi = [torch.cat([a.exp(), (-a).exp()], -1) * torch.exp(-x.square().sum(-1, keepdim=True) / 2) for a, x in zip(u, (q, k), strict=True)]
    assert distance(c.attention_map(tokens(), tokens().flip(2)), weights_of(*phi)) <= 1e-5
    c = core("performer(kernel=trig, features=600)")
    u = [x @ c.projection.T for x in (q, k)]
    phi = [torch.cat([a.cos(), a.sin()], -1) * torch.exp(x.square().sum(-1, keepdim=True) / 2) for a, x in zip(u, (q, k), strict=True)]
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
        y = (y - y.mean(-1, keepdim=True)) / (y.var(-1, keepdim=True, correction=0) + 1e-5).sqrt() * f.norm.weight + f.norm.bias
        y = (y.clamp(min=0) @ f.fc2.weight.T + f.fc2.bias) / 0.7
        return 0.364 * y.clamp(-5, 5).exp() + (1 - 0.364) * y.clamp(min=0) + 1e-6

    assert f.fc1.weight.shape == (2 * K, K)
    assert distance(c.attention_map(tokens(), tokens().flip(2)), weights_of(phi(tokens()), phi(tokens().flip(2)))) <= 1e-5


@torch.no_grad()
def test_mlp() -> None:
    c = core("performer(kernel=mlp, features=12)")
    f = c.kernel

    def phi(x: Tensor) -> Tensor:
        hidden = ((x * K**-0.25) @ f.fc1.weight.T + f.fc1.bias).clamp(min=0)
        return torch.log1p(torch.exp(hidden @ f.fc2.weight.T + f.fc2.bias)) + 1e-3

    assert c.width == 12
    assert distance(c.attention_map(tokens(), tokens().flip(2)), weights_of(phi(tokens()), phi(tokens().flip(2)))) <= 1e-5


@torch.no_grad()
def test_hedgehog() -> None:
    c = core("hedgehog")
    q, k = tokens(), tokens().flip(2)
    phi = []
    for x, w in ((q, c.weight_q), (k, c.weight_k)):
        u = torch.einsum("hij,bhnj->bhni", w, x)
        e = torch.cat([u, -u], -1).exp()
        phi.append(e / e.sum(-1, keepdim=True))
    assert distance(c.attention_map(q, k), weights_of(*phi)) <= 1e-5
    (config,) = parse("hedgehog").expand(1)
    fresh: Any = config.owner(config, Shape(HEADS * K, HEADS, K))
    assert torch.equal(fresh.weight_q, torch.eye(K).expand(HEADS, K, K))


@torch.no_grad()
@pytest.mark.parametrize("power", [3, 2])
def test_focused(power: int) -> None:
    c = core(f"focused(power={power})")

    def phi(x: Tensor) -> Tensor:
        y = (x.clamp(min=0) + 1e-6) / torch.log1p(torch.exp(c.scale))
        return y**power / (y**power).norm(dim=-1, keepdim=True) * y.norm(dim=-1, keepdim=True)

    q, k = tokens(), tokens().flip(2)
    assert distance(c.attention_map(q, k), weights_of(phi(q), phi(k))) <= 1e-5
    v = torch.randn(2, HEADS, 1 + 6, K)
    q = k = torch.randn(2, HEADS, 7, K)
    local = c(q, k, v, grid=(2, 3)) - c(q, k, v)
    expected = F.conv2d(v[:, :, 1:].reshape(-1, 2, 3, K).permute(0, 3, 1, 2), c.conv.weight, c.conv.bias, padding=2, groups=K)
    assert distance(local[:, :, 1:], expected.permute(0, 2, 3, 1).reshape(2, HEADS, 6, K)) <= 1e-5
    assert not local[:, :, 0].any()


@torch.no_grad()
@pytest.mark.parametrize("power", [1, 2])
def test_lens(power: int) -> None:
    c = core(f"lens(power={power})")
    q, k, v = torch.randn(3, 2, HEADS, 1 + 6, K)
    features = ((x.clamp(min=0) + 1e-3) ** power for x in (q, k))
    assert distance(c.attention_map(q, k), weights_of(*features)) <= 1e-5
    image = v[:, :, 1:].transpose(2, 3).reshape(2, HEADS * K, 2, 3)
    expected = F.conv2d(image, c.conv.weight, padding=1, groups=HEADS * K).reshape(2, HEADS, K, 6).transpose(2, 3)
    local = c(q, k, v, grid=(2, 3)) - c(q, k, v)
    assert distance(local[:, :, 1:], expected) <= 1e-5
    assert not local[:, :, 0].any()


@torch.no_grad()
def test_lens_looks_at_neighbours_before_its_features() -> None:
    q, k, v = torch.randn(3, 2, HEADS, 1 + 6, K)
    plain = core("lens(conv=none)")
    for look, groups in (("conv", HEADS * K), ("graph", 1)):
        c = core(f"lens(conv=none, look={look})")
        assert len(c.look.weight) == groups
        weight = c.look.weight.expand(HEADS * K, 1, 3, 3)
        seen = []
        for x in (q, k):
            image = x[:, :, 1:].transpose(2, 3).reshape(2, HEADS * K, 2, 3)
            near = F.conv2d(image, weight, padding=1, groups=HEADS * K).reshape(2, HEADS, K, 6).transpose(2, 3)
            seen.append(torch.cat([x[:, :, :1], x[:, :, 1:] + near], 2))
        assert distance(c(q, k, v, grid=(2, 3)), plain(*seen, v)) <= 1e-5
        c.imitate()
        assert distance(c(q, k, v, grid=(2, 3)), plain(q, k, v)) <= 1e-6


@torch.no_grad()
def test_the_map_of_lens_shows_what_its_features_saw() -> None:
    """With values that say which token they are, what comes out is the map."""
    attention: Any = create_attention("lens(conv=none, look=conv)", dim=HEADS * K, num_heads=HEADS, num_tokens=K)
    x, grid = torch.randn(2, K, HEADS * K), (2, K // 2)
    q, k, _ = attention.heads(x, grid=grid)
    names = torch.eye(K).expand(2, HEADS, K, K)
    assert distance(attention.attention_map(x, grid=grid), attention.core(q, k, names, grid=grid)) <= 1e-5
    assert distance(attention.attention_map(x), attention.core(q, k, names, grid=grid)) > 1e-2


@torch.no_grad()
@pytest.mark.parametrize(
    ("end", "positive"),
    [
        ("softplus", lambda y: torch.log1p(torch.exp(y))),
        ("relu", lambda y: y.clamp(min=0)),
        ("elu", lambda y: torch.where(y > 0, y + 1, torch.exp(y))),
    ],
)
def test_prism(end: str, positive: Callable[[Tensor], Tensor]) -> None:
    c = core(f"prism(end={end})")
    q, k = tokens(), tokens().flip(2)

    def phi(x: Tensor) -> Tensor:
        return positive(c.second(F.relu(F.linear(x * K**-0.25, c.first.weight, c.first.bias)))) + 1e-3

    assert distance(c.attention_map(q, k), weights_of(phi(q), phi(k))) <= 1e-5


@torch.no_grad()
def test_prism_begins_with_features_that_differ() -> None:
    spread = {}
    for start in ("plain", "orthogonal", "lens"):
        torch.manual_seed(0)
        a: Any = create_attention(f"prism(start={start})", dim=64, num_heads=4, num_tokens=16)
        features = a.core.phi(torch.randn(2, 4, 16, 16), False, None)
        spread[start] = float(features.std() / features.mean())
    assert spread["plain"] < 0.3
    assert min(spread["orthogonal"], spread["lens"]) > 1.0


@torch.no_grad()
def test_prism_begins_as_lens() -> None:
    def begun(expression: str) -> Tensor:
        attention: Any = create_attention(expression, dim=HEADS * K, num_heads=HEADS, num_tokens=5)
        return attention.core.attention_map(tokens(), tokens().flip(2))

    assert distance(begun("prism(end=relu)"), begun("lens")) <= 1e-5
    assert distance(begun("prism"), begun("lens")) < 0.5 * distance(begun("prism(start=plain)"), begun("lens"))


@torch.no_grad()
def test_lens_with_keys_of_one_length() -> None:
    q, k = tokens(), tokens().flip(2)
    features = (F.normalize(x, dim=-1) * K**0.5 for x in (q, k))
    assert distance(core("lens(norm=true)").attention_map(q, k), weights_of(*(x.clamp(min=0) + 1e-3 for x in features))) <= 1e-5


@torch.no_grad()
def test_lens_that_learns_its_features() -> None:
    q, k = tokens(), tokens().flip(2)
    c = core("lens(learn=power, power=2)")
    c.log_power.zero_()  # as it is at first
    assert distance(c.attention_map(q, k), core("lens(power=2)").attention_map(q, k)) <= 1e-5
    c.log_power.copy_(torch.linspace(-0.5, 0.5, HEADS).view(HEADS, 1, 1))
    powers = 2 * torch.linspace(-0.5, 0.5, HEADS).exp().view(HEADS, 1, 1)
    assert distance(c.attention_map(q, k), weights_of(*((x.clamp(min=0) + 1e-3) ** powers for x in (q, k)))) <= 1e-5
    c = core("lens(learn=gate)")
    c.gate.normal_()
    slope, shift = c.gate
    features = (x.clamp(min=0) * torch.sigmoid(slope * x + shift) + 1e-3 for x in (q, k))
    assert distance(c.attention_map(q, k), weights_of(*features)) <= 1e-5


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
    assert distance(core("performer(kernel=taylor)").attention_map(q, k), weights / weights.sum(-1, keepdim=True)) <= 1e-5
    with pytest.raises(ValueError, match="leave features out"):
        core("performer(kernel=taylor, features=8)")


@torch.no_grad()
def test_prototypes() -> None:
    c = core("performer(kernel=prototypes, features=12)")
    q, k = tokens(), tokens().flip(2)
    phi = [(x * K**-0.25 @ c.kernel.prototypes.T).softmax(-1) for x in (q, k)]
    assert distance(c.attention_map(q, k), weights_of(*phi)) <= 1e-5


@torch.no_grad()
def test_cosine() -> None:
    """Products are relu(q) . relu(k) cos(pi (i - j) / 2N)."""
    c = core("cosine")
    q, k = tokens(), tokens().flip(2)
    i = torch.arange(N)
    scores = ((q.clamp(min=0) + 1e-6) @ (k.clamp(min=0) + 1e-6).mT) * torch.cos(math.pi * (i[:, None] - i) / (2 * N))
    assert distance(c.attention_map(q, k), scores / scores.sum(-1, keepdim=True)) <= 1e-5


def windowed(n: int, window: int, causal: bool) -> Tensor:
    """Which token may see which: those of its own segment and of the ones beside it."""
    i = torch.arange(n)
    near = (i[:, None] // window - i // window).abs() <= 1
    return near & (i[:, None] >= i) if causal else near


@torch.no_grad()
@pytest.mark.parametrize(("n", "window"), [(5, 2), (8, 2), (5, 5), (9, 4)])
@pytest.mark.parametrize("causal", [False, True])
def test_local_heads_of_a_performer_attend_exactly_in_a_window(causal: bool, n: int, window: int) -> None:
    options = f"kernel=relu, features=6, causal={str(causal).lower()}"
    c = core(f"performer({options}, local_heads=1, window={window})")
    plain = core(f"performer({options})")
    q, k, v = torch.randn(3, 2, HEADS, n, K)
    out = c(q, k, v)
    assert distance(out[:, :1], plain(q, k, v)[:, :1]) <= 1e-6  # the heads before them are as they were
    scores = (q[:, 1] @ k[:, 1].mT / K**0.5).masked_fill(~windowed(n, window, causal), -torch.inf)
    assert distance(out[:, 1], scores.softmax(-1) @ v[:, 1]) <= 1e-6
    assert torch.equal(c.attention_map(q, k)[0, 1] > 0, windowed(n, window, causal))


def test_local_heads_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="3 local heads, more than the 2 heads"):
        core("performer(local_heads=3)")
    with pytest.raises(ValueError, match="give local_heads too"):
        core("performer(window=16)")


@pytest.mark.parametrize("grid", [(2, 3), (4, 4), (1, 5), (3, 1)])
def test_fourier_over_the_grid_is_a_transform_of_the_image_and_its_channels(grid: tuple[int, int]) -> None:
    """Of images (B, D, height, width), by torch's own transform of three axes."""
    mixer = core("fourier(grid=true)")
    image = torch.randn(2, HEADS * K, *grid, requires_grad=True)
    tokens = image.detach().flatten(2).mT.requires_grad_()
    weight = torch.randn(2, grid[0] * grid[1], HEADS * K)
    expected = torch.fft.fftn(image, dim=(1, 2, 3)).real.flatten(2).mT
    out = mixer(tokens, grid)
    assert distance(out, expected) <= 1e-5
    assert distance(mixer.reference(tokens, grid), expected) <= 1e-5
    (out * weight).sum().backward()
    (expected * weight).sum().backward()
    assert image.grad is not None
    assert tokens.grad is not None
    assert distance(tokens.grad, image.grad.flatten(2).mT) <= 1e-5


def test_fourier_over_the_grid_has_no_place_for_a_class_token() -> None:
    with pytest.raises(ValueError, match='17 tokens are not the 4 x 4 places of the image: use pool="mean"'):
        create_model("vit", attention="fourier(grid=true)", img_size=16, patch_size=4, embed_dim=8, depth=1, num_heads=2)
    model = create_model("vit", attention="fourier(grid=true)", pool="mean", img_size=16, patch_size=4, embed_dim=8, depth=1, num_heads=2)
    images, turned = torch.randn(1, 3, 16, 16), []
    for size in ((16, 16), (8, 32)):  # as many tokens of another shape
        turned.append(model.eval()(images.reshape(1, 3, *size)))
    assert not torch.allclose(*turned)
