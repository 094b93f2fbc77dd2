"""The modules that others published, built to the same sizes as ours."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

with warnings.catch_warnings():  # the peers' own, on import
    warnings.simplefilter("ignore")
    from linformer import LinformerSelfAttention
    from nystrom_attention import NystromAttention
    from performer_pytorch import SelfAttention

DIM, HEADS, M = 128, 4, 64


class FNet(nn.Module):
    """As the paper writes it, and those who publish it: two complex transforms, and the real part."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real


def peer_of(attention: str, tokens: int) -> nn.Module:
    """What a user of the public packages would have instead of `attention`, at width 128 with 4 heads and M = rank =
    landmarks = 64."""
    if attention.startswith("performer(kernel=relu"):
        return SelfAttention(
            dim=DIM, heads=HEADS, dim_head=DIM // HEADS, nb_features=M, generalized_attention=True, qkv_bias=True
        )
    if attention.startswith("performer("):
        return SelfAttention(dim=DIM, heads=HEADS, dim_head=DIM // HEADS, nb_features=M, qkv_bias=True)
    if attention.startswith("linformer"):
        return LinformerSelfAttention(DIM, tokens, k=M, heads=HEADS)
    if attention.startswith("nystrom"):
        return NystromAttention(DIM, dim_head=DIM // HEADS, heads=HEADS, num_landmarks=M)
    if attention == "fourier":
        return FNet()
    raise ValueError(f"no peer of {attention} is known here")
