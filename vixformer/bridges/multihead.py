"""`torch.nn.MultiheadAttention` with a core of ours."""

# B images  N tokens  D width  H heads  K head width

from __future__ import annotations

import warnings

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vixformer.bridges.seam import Patched
from vixformer.bridges.untyped import Foreign
from vixformer.notes import Note


class Multihead(Patched):
    """Takes what `nn.MultiheadAttention` takes, and gives None for the attention weights."""

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, None]:
        own: Foreign = self
        if need_weights and not torch.compiler.is_compiling():
            warnings.warn(
                f"{self.core.name} computes no attention weights, and the second result is None: pass"
                " need_weights=False",
                Note,
                stacklevel=2,
            )
        first = own.batch_first or query.dim() == 2
        x = [t if first else t.transpose(0, 1) for t in (query, key, value)]
        x = [t[None] if query.dim() == 2 else t for t in x]
        q, k, v = (F.linear(t, *both).unflatten(-1, (own.num_heads, -1)).transpose(1, 2)
                   for t, both in zip(x, projections(own), strict=True))  # fmt: skip
        mask = None
        if key_padding_mask is not None:  # true, or minus infinity, hides a key
            mask = ~key_padding_mask if key_padding_mask.dtype == torch.bool else key_padding_mask
            mask = mask.reshape(-1, 1, 1, mask.shape[-1])
        if attn_mask is not None:
            raise ValueError(
                f"{self.core.name} takes no attn_mask, a mask of pairs of tokens: leave attn_mask out, or give"
                " key_padding_mask"
            )
        dropout = own.dropout if self.training else 0.0
        out = own.out_proj(self.asked(q, k, v, mask=mask, dropout=dropout, causal=is_causal).transpose(1, 2).flatten(2))
        out = out[0] if query.dim() == 2 else out
        return (out if first else out.transpose(0, 1)), None


def projections(module: nn.MultiheadAttention) -> list[tuple[Tensor, Tensor | None]]:
    """Weight and bias of q, k and v."""
    weights = (
        (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
        if module.in_proj_weight is None
        else module.in_proj_weight.chunk(3)
    )
    biases = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    return list(zip(weights, biases, strict=True))


def without_fast_path(model: nn.Module) -> None:
    """In evaluation, encoder layers with usual attention call one fused kernel, which knows only that."""
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoder) and any(isinstance(m, Multihead) for m in module.modules()):
            module.use_nested_tensor = False
        if isinstance(module, nn.TransformerEncoderLayer) and isinstance(module.self_attn, Multihead):
            module.activation_relu_or_gelu = 0
