"""Against what others wrote, given the same weights."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from tests.support.attentions import distance
from vixformer import create_attention

with warnings.catch_warnings():  # the peers' own
    warnings.simplefilter("ignore")
    linformer = pytest.importorskip("linformer")
    nystrom_attention = pytest.importorskip("nystrom_attention")
    performer_pytorch = pytest.importorskip("performer_pytorch")
    fnet = pytest.importorskip("transformers.models.fnet.modeling_fnet")

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
DIM, HEADS, TOKENS = 64, 2, 96


def ours(attention: str, qkv_bias: bool = False) -> nn.Module:
    return create_attention(attention, dim=DIM, num_heads=HEADS, num_tokens=TOKENS, qkv_bias=qkv_bias).eval()


def take(module: nn.Module, q: nn.Linear | None, k: nn.Linear | None, v: nn.Linear | None, out: nn.Linear) -> None:
    if q is not None and k is not None and v is not None:
        module.qkv.weight.copy_(torch.cat([q.weight, k.weight, v.weight]))  # pyright: ignore
        if module.qkv.bias is not None:  # pyright: ignore
            module.qkv.bias.copy_(torch.cat([q.bias, k.bias, v.bias]))  # pyright: ignore
    module.proj.load_state_dict(out.state_dict())  # pyright: ignore


@torch.no_grad()
@pytest.mark.parametrize(
    ("attention", "options"),
    [
        ("performer(features=40)", {"nb_features": 40}),
        ("performer(kernel=relu, features=40)", {"nb_features": 40, "generalized_attention": True}),
        (
            "performer(kernel=elu, features=40)",
            {"nb_features": 40, "generalized_attention": True, "kernel_fn": lambda u: nn.functional.elu(u) + 1},
        ),
    ],
)
def test_performer_pytorch(attention: str, options: dict) -> None:
    peer = performer_pytorch.SelfAttention(dim=DIM, heads=HEADS, dim_head=DIM // HEADS, qkv_bias=True, **options).eval()
    module = ours(attention, qkv_bias=True)
    take(module, peer.to_q, peer.to_k, peer.to_v, peer.to_out)
    module.core.projection.copy_(peer.fast_attention.projection_matrix)  # pyright: ignore
    x = torch.randn(3, TOKENS, DIM)
    assert distance(module(x), peer(x)) <= 1e-4


@torch.no_grad()
def test_linformer_per_head_keys_and_values() -> None:
    peer = linformer.LinformerSelfAttention(DIM, TOKENS, k=16, heads=HEADS).eval()
    module = ours("linformer(rank=16)")
    take(module, peer.to_q, peer.to_k, peer.to_v, peer.to_out)
    module.core.E.copy_(peer.proj_k)  # pyright: ignore
    module.core.F.copy_(peer.proj_v)  # pyright: ignore
    for n in (TOKENS, 50):
        x = torch.randn(3, n, DIM)
        assert distance(module(x), peer(x)) <= 1e-4


@torch.no_grad()
def test_linformer_with_one_shared_head() -> None:
    peer = linformer.LinformerSelfAttention(DIM, TOKENS, k=16, heads=HEADS, one_kv_head=True, share_kv=True).eval()
    module = create_attention(
        "linformer(rank=16, share=kv)", dim=DIM, num_heads=HEADS, num_tokens=TOKENS, proj="one-kv", qkv_bias=False
    )
    take(module, None, None, None, peer.to_out)
    module.q.load_state_dict(peer.to_q.state_dict())  # pyright: ignore
    module.kv.load_state_dict(peer.to_k.state_dict())  # pyright: ignore
    module.core.E.copy_(peer.proj_k)  # pyright: ignore
    x = torch.randn(3, TOKENS, DIM)
    assert distance(module(x), peer(x)) <= 1e-4


@torch.no_grad()
@pytest.mark.parametrize("landmarks", [8, 16])
def test_nystrom_attention(landmarks: int) -> None:
    """One image and one head at a time, and whole segments: elsewhere the peer mixes images and pads."""
    peer = nystrom_attention.NystromAttention(DIM, dim_head=32, heads=1, num_landmarks=landmarks).eval()
    module = create_attention(
        f"nystrom(landmarks={landmarks})", dim=DIM, num_heads=1, head_dim=32, qkv_bias=False
    ).eval()
    module.qkv.load_state_dict(peer.to_qkv.state_dict())  # pyright: ignore
    module.proj.load_state_dict(peer.to_out[0].state_dict())  # pyright: ignore
    module.core.conv.load_state_dict(peer.res_conv.state_dict())  # pyright: ignore
    for _ in range(3):
        x = torch.randn(1, TOKENS, DIM)
        assert distance(module(x), peer(x)) <= 1e-4


@torch.no_grad()
@pytest.mark.parametrize("shape", [(2, 65, 32), (1, 64, 33), (1, 1, 8), (2, 2, 2), (3, 17, 1)])
def test_fnet_of_transformers(shape: tuple[int, int, int]) -> None:
    config = fnet.FNetConfig(hidden_size=shape[2], use_tpu_fourier_optimizations=False)
    x = torch.randn(shape)
    (expected,) = fnet.FNetBasicFourierTransform(config)(x)
    module = create_attention("fourier", dim=shape[2], num_heads=1)
    assert distance(module(x), expected) <= 1e-4
