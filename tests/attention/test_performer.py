"""Options of the Performer that change what it computes in training, or what is left after it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.support.attentions import distance
from vixformer import create_attention, create_model, ops
from vixformer.attention.base import Shape, shrink
from vixformer.attention.layout import parse
from vixformer.conversion.reduce import reduced
from vixformer.nn.activations import activation


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


@pytest.mark.parametrize(
    "kernel", ["relu", "softmax, eps=0", "elu", "gelu", "exp, clamp=10", "angular", "gaussian, eps=0"]
)
def test_features_whose_gate_is_closed_can_be_left_out(kernel: str) -> None:
    torch.manual_seed(0)
    attention = f"performer(kernel={kernel}, features=12, gate=0.5) + softmax"
    model = create_model(
        "vit", attention=attention, img_size=8, patch_size=2, embed_dim=16, depth=2, num_heads=2
    ).eval()
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
    # 0.95, -0.95, 0.38 and 0, of which the largest is one
    assert c.gate.tolist() == pytest.approx([1.0, -1.0, 0.4, 0.0])
    shrink(c, 1e9)
    assert c.gate.tolist() == pytest.approx([1.0, -1.0, 0.4, 0.0])  # nobody can pay: all stay
    assert not c.redraw()  # the gate is that of these directions


@pytest.mark.parametrize(
    "options", ["kernel=matrix", "kernel=mlp", "kernel=relu, features=none", "kernel=cosh", "kernel=taylor"]
)
def test_gates_of_features_that_are_not_made_of_one_direction(options: str) -> None:
    with pytest.raises(ValueError, match="gate drops features that are made of one random direction each"):
        parse(f"performer({options}, gate=0.1)")


@pytest.mark.usefixtures("toy")
def test_a_new_kernel_is_a_word_of_the_performer() -> None:
    module = create_attention("performer(kernel=square, features=8, eps=0.5)", dim=8, num_heads=2)
    x = torch.randn(2, 65, 8)
    mask = (torch.arange(65) < 41).expand(2, 65)
    with torch.no_grad():
        assert distance(module(x, mask=mask)[:, :41], module(x[:, :41])) <= 1e-5
