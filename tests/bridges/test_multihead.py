"""`nn.MultiheadAttention`, encoder layers, and modules that call torch's function themselves."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import nn

import vixformer as vix
from tests.support.attentions import distance
from tests.support.plain import Own
from vixformer.notes import Note


def encoder(batch_first: bool = True, **options: Any) -> nn.TransformerEncoder:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=batch_first, **options)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=batch_first and not options).eval()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"batch_first": False}])
def test_encoder_layers(options: Any, training: bool) -> None:
    model: Any = encoder(**options).train(training)
    x = torch.randn(2, 9, 32)
    x = x if options.get("batch_first", True) else x.transpose(0, 1)
    with torch.no_grad():  # in evaluation, this is torch's fast path
        wanted = model(x)
        names = set(model.state_dict())
        assert distance(vix.patch(model, "softmax")(x), wanted) <= 1e-5
        assert set(model.state_dict()) == names
        assert distance(vix.patch(model, "performer(kernel=relu)")(x), wanted) > 1e-2
        assert [type(layer.self_attn.core).__name__ for layer in model.layers] == ["Performer"] * 2
        again = vix.patch(encoder(**options), "performer(kernel=relu)").train(training)
        again.load_state_dict(model.state_dict())
        assert torch.equal(again(x), model(x))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@torch.no_grad()
def test_padding_changes_nothing() -> None:
    model, x = encoder(), torch.randn(2, 9, 32)
    pad = torch.zeros(2, 9, dtype=torch.bool)
    pad[0, 6:] = True
    wanted = model(x, src_key_padding_mask=pad)
    assert distance(vix.patch(model, "softmax")(x, src_key_padding_mask=pad)[~pad], wanted[~pad]) <= 1e-5
    vix.patch(model, "performer(kernel=relu)")
    assert distance(model(x, src_key_padding_mask=pad)[:1, :6], model(x[:1, :6])) <= 1e-5


def test_multihead_alone() -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(32, 4, kdim=16, vdim=24)
    x, k, v = torch.randn(5, 2, 32), torch.randn(7, 2, 16), torch.randn(7, 2, 24)
    wanted = module(x, k, v, need_weights=False)[0]
    vix.patch(module, "softmax")
    assert distance(module(x, k, v, need_weights=False)[0], wanted) <= 1e-5
    with pytest.warns(Note, match="computes no attention weights, and the second result is None"):
        assert module(x, k, v)[1] is None
    with pytest.raises(ValueError, match="takes no attn_mask, a mask of pairs of tokens"):
        module(x, k, v, need_weights=False, attn_mask=torch.ones(5, 7, dtype=torch.bool))


def test_your_own_module() -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(Own(), nn.LayerNorm(32), Own()), torch.randn(2, 9, 32)
    wanted = model(x)
    vix.patch(model, "softmax", x)
    assert distance(model(x), wanted) <= 1e-6
    vix.patch(model, "linformer(rank=4) + performer")
    model(x).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(x), model(x))
    compiled = torch.compile(vix.patch(nn.Sequential(Own()), "performer(kernel=relu)", x), backend="eager")
    assert compiled(x).shape == x.shape
    with torch.no_grad():
        program = torch.export.export(model.eval(), (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))
        assert distance(program.module()(x[:1]), model(x[:1])) <= 1e-5


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Sequential(Own(causal=True)), r"cannot be patched: 0 \(Own\) is causal"),
        (nn.Sequential(Own(bias=True)), r"cannot be patched: 0 \(Own\) adds a bias to the scores"),
        (nn.Linear(32, 32), "Linear has no self-attention to replace: vix can replace attention that goes through"),
        (nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), r"drops attention weights .*dropout = 0.1"),
        (vix.create_model("vit", img_size=8, patch_size=4, embed_dim=32, num_heads=2, depth=1), "use vix.convert"),
    ],
)
def test_what_cannot_be_patched(model: nn.Module, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        vix.patch(model, "performer", torch.randn(2, 9, 32))


def test_without_an_example() -> None:
    with pytest.raises(ValueError, match="give example=, one batch of its input"):
        vix.patch(nn.Sequential(Own()), "performer")
    with pytest.raises(ValueError, match="num_tokens"):
        vix.patch(encoder(), "linformer(rank=4)")
    vix.patch(encoder(), "linformer(rank=4)", torch.randn(1, 9, 32))
