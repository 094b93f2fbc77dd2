"""Options of mechanisms that change what they compute in training, or what is left after it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from vixformer import create_model, ops
from vixformer.attention.base import Shape, shrink
from vixformer.attention.layout import parse
from vixformer.conversion.reduce import reduced
from vixformer.measure.cost import bytes_kept
from vixformer.nn.activations import Activation, activation


def core(expression: str, head_dim: int = 8) -> Any:
    (config,) = parse(expression).expand(1)
    torch.manual_seed(3)
    return config.owner(config, Shape(2 * head_dim, 2, head_dim))


def heads(n: int = 40, head_dim: int = 8) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = torch.randn(3, 2, 2, n, head_dim, generator=torch.Generator().manual_seed(1)).unbind()
    return q, k, v


def test_two_alphas_give_two_outputs() -> None:
    x = torch.linspace(-3, 3, 50)
    assert torch.allclose(activation("elu(0.25)")(x), F.elu(x, 0.25))
    assert torch.equal(activation("elu(alpha=0.25)")(x), activation("elu(0.25)")(x))
    images, outputs = torch.randn(2, 3, 8, 8), []
    for act in ("elu", "elu(1.0)", "elu(0.3)"):
        torch.manual_seed(0)
        model = create_model("convtoken", act=act, img_size=8, embed_dim=16, num_heads=2, conv_dims=(4, 8))
        outputs.append(model.eval()(images))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.allclose(outputs[0], outputs[2], atol=1e-3)


@pytest.mark.parametrize("name", sorted(Activation.members))
def test_every_activation_is_one_by_its_name(name: str) -> None:
    assert activation(name)(torch.ones(3)).shape == (3,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("elv", 'unknown activation "elv"; did you mean "elu"?'),
        ("elu(0)", "elu: alpha must be greater than 0, not 0"),
        ("elu(1, 2)", r"options of elu are written key=value, not elu\(1, 2\)"),
        ("elu(beta=1)", 'unknown option of elu "beta"; choices: alpha'),
        ("relu(0.5)", r"options of relu are written key=value, not relu\(0.5\)"),
        ("elu(0.5, alpha=1)", "elu: alpha is given twice"),
    ],
)
def test_activations_that_cannot_be_are_a_sentence(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create_model("vit", act=text)


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"mask": True}])
def test_attention_weights_are_dropped_in_training_only(options: dict[str, bool]) -> None:
    causal = ", causal=true" if "causal" in options else ""
    mask = torch.arange(40).expand(2, 40) < 30 if "mask" in options else None
    dropping, plain = core(f"softmax(drop=0.5{causal})"), core(f"softmax(drop=0.0{causal})")
    q, k, v = heads()
    expected = plain(q, k, v, mask)
    assert torch.equal(dropping.eval()(q, k, v, mask), expected)
    dropping.train()
    torch.manual_seed(0)
    drawn = torch.stack([dropping(q, k, v, mask) for _ in range(400)])
    assert not torch.allclose(drawn[0], drawn[1])
    assert (drawn.mean(0) - expected).abs().max() < 0.35  # unbiased
    assert dropping.macs(9) == plain.macs(9)


def test_rows_that_are_drawn_alone_are_not_orthogonal() -> None:
    w = ops.orthogonal_rows(4096, 32, "iid")
    assert w.mean().abs() < 0.02
    assert w.var().item() == pytest.approx(1, rel=0.05)
    first = core("performer(kernel=relu, features=8, scaling=iid)").projection
    products = first @ first.T
    assert (products - torch.diag(products.diagonal())).abs().max() > 1
    assert torch.equal(first, core("performer(kernel=relu, features=8, scaling=iid)").projection)


@torch.no_grad()
@pytest.mark.parametrize(
    ("kernel", "phi"),
    [
        ("elu, features=6, alpha=0.3, eps=1e-6", lambda u, c: F.elu(u @ c.projection.T, 0.3) + 1e-6),
        ("gelu, features=6, eps=1e-6", lambda u, c: F.gelu(u @ c.projection.T) + 1e-6),
        ("mlp, features=6, eps=0", lambda u, c: c.kernel.fc2(c.kernel.fc1(u).relu())),
    ],
)
def test_raw_kernels_are_their_formulas(kernel: str, phi: Any) -> None:
    c = core(f"performer(kernel={kernel}, raw=true)")
    q, k, v = (x.double() for x in heads(5))
    phi_q, phi_k = (phi(x * 8**-0.25, c.double()) for x in (q, k))
    assert phi_q.min() < 0
    scores = phi_q @ phi_k.mT
    expected = scores / scores.sum(-1, keepdim=True) @ v
    assert torch.allclose(c(q, k, v), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kernel", ["relu", "softmax, eps=0", "elu", "gelu", "exp, clamp=10", "angular", "gaussian, eps=0"])
def test_features_whose_gate_is_closed_can_be_left_out(kernel: str) -> None:
    torch.manual_seed(0)
    attention = f"performer(kernel={kernel}, features=12, gate=0.5) + softmax"
    model = create_model("vit", attention=attention, img_size=8, patch_size=2, embed_dim=16, depth=2, num_heads=2).eval()
    images = torch.randn(2, 3, 8, 8)
    assert reduced(model) is model
    gate = model.blocks[0].attn.core.gate
    with torch.no_grad():
        gate.uniform_(0.1, 2.0)
        gate[::3] = 0.0
    fewer = reduced(model)
    assert "features=8" in fewer.attention_expression()
    assert fewer.blocks[0].attn.core.projection.shape == (8, 8)
    assert torch.allclose(fewer(images), model(images), atol=1e-5)
    with torch.no_grad():
        gate.zero_()
    none = reduced(model)
    assert none.blocks[0].attn.core.projection.shape == (1, 8)
    assert torch.allclose(none(images), model(images), atol=1e-6)


def test_the_price_of_a_gate_is_a_step_towards_zero() -> None:
    c = core("performer(kernel=relu, features=4, gate=0.5)")
    with torch.no_grad():
        c.gate.copy_(torch.tensor([1.0, -1.0, 0.43, -0.04]))
    shrink(c, 0.1)
    assert c.gate.tolist() == pytest.approx([1.0, -1.0, 0.4, 0.0])  # 0.95, -0.95, 0.38 and 0, of which the largest is one
    shrink(c, 1e9)
    assert c.gate.tolist() == pytest.approx([1.0, -1.0, 0.4, 0.0])  # nobody can pay: all stay
    assert not c.redraw()  # the gate is that of these directions


@pytest.mark.parametrize("options", ["kernel=matrix", "kernel=mlp", "kernel=relu, features=none", "kernel=cosh", "kernel=taylor"])
def test_gates_of_features_that_are_not_made_of_one_direction(options: str) -> None:
    with pytest.raises(ValueError, match="gate drops features that are made of one random direction each"):
        parse(f"performer({options}, gate=0.1)")


def test_naive_exact_attention_keeps_all_weights_and_computes_the_same() -> None:
    fused, naive = core("softmax"), core("softmax(naive=true)")
    q, k, v = heads(600)
    assert torch.allclose(fused(q, k, v), naive(q, k, v), atol=1e-5)
    q, k, v = (t.requires_grad_() for t in (q, k, v))
    kept = [bytes_kept(module, q, k, v) for module in (fused, naive)]
    assert kept[1] - kept[0] > 0.9 * 4 * 2 * 2 * 600 * 600  # images, heads and float32
