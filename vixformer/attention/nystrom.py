"""Nystromformer: softmax attention through landmarks (arXiv:2102.03902)."""
# B images  N tokens  H heads  K head width  L landmarks

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from vixformer import ops
from vixformer.attention.base import Core, Grid, Shape
from vixformer.ops import native


class Nystrom(Core, name="nystrom"):
    """softmax(q k~') pinv(softmax(q~ k~')) softmax(q~ k') v, plus a depthwise convolution of v along the tokens.

    Landmarks q~ and k~ are means of L uneven segments, so nothing is padded. With no more tokens than landmarks attention is exact.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        landmarks: PositiveInt = 64
        iterations: PositiveInt = 6
        conv: int | None = 33

        def __post_init__(self) -> None:
            if self.conv is not None and (self.conv < 1 or self.conv % 2 == 0):
                raise ValueError(f"conv is the length of a window and must be an odd number or none, not {self.conv}")

    def __init__(self, config: Config, shape: Shape) -> None:
        super().__init__(config, shape)
        heads, length = shape.num_heads, config.conv
        self.conv = None if length is None else nn.Conv2d(heads, heads, (length, 1), padding=(length // 2, 0), groups=heads, bias=False)

    def imitate(self) -> None:
        if self.conv is not None:
            nn.init.zeros_(self.conv.weight)

    @property
    def square(self) -> bool:
        return True

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None) -> Tensor:
        if v.shape[-2] <= self.config.landmarks:
            return self._local(ops.softmax_attention(q, k, v, mask), v, mask)
        if mask is None:
            filters = None if self.conv is None else self.conv.weight.flatten(1)
            fast = native.nystrom(q, k, v, self.config.landmarks, self.config.iterations, filters)
            if fast is not None:
                return fast
        queries, keys, values = ops.wide(q), ops.wide(k), ops.wide(v)
        q_marks, k_marks, kept = self.landmarks(queries, keys, mask)
        # Both long products are attention themselves: of the landmarks to the tokens, and of the tokens to the landmarks.
        summary = ops.softmax_attention(q_marks, keys, values, mask)
        inverse = ops.recompute(self, "inverse", kept, q_marks, k_marks)
        return self._local(ops.softmax_attention(queries, k_marks, inverse @ summary, kept).to(v.dtype), v, mask)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None) -> Tensor:
        out = self.attention_map(q, k, mask) @ ops.wide(v)
        if self.conv is not None:
            side, n = self.conv.weight.shape[-2] // 2, v.shape[-2]
            padded = F.pad(v if mask is None else v.masked_fill(~mask[:, None, :, None], 0.0), (0, 0, side, side))
            for i, weight in enumerate(self.conv.weight.to(out.dtype).unbind(-2)):
                out = out + weight * padded[..., i : i + n, :]
        return out.to(v.dtype)

    def attention_map(self, q: Tensor, k: Tensor, mask: Tensor | None = None) -> Tensor:
        """Without the convolution, which does not depend on q and k. Entries may be negative."""
        q, k = ops.wide(q), ops.wide(k)
        if q.shape[-2] <= self.config.landmarks:
            return ops.softmax_weights(q, k, mask)
        q_marks, k_marks, kept = self.landmarks(q, k, mask)
        inverse = ops.iterative_pinv_slow(_kernel(q_marks, k_marks, kept), self.config.iterations)
        return ops.softmax_weights(q, k_marks, kept) @ inverse @ ops.softmax_weights(q_marks, k, mask)

    def landmarks(self, q: Tensor, k: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """Means of q and k over segments of tokens, and which landmarks have a token at all (None: all of them)."""
        count = self.config.landmarks
        if mask is None:
            short, length = ops.segment_bounds(q.shape[-2], count)
            sizes = q.new_full((count, 1), float(length))
            sizes[short:] += 1
            return ops.segment_sums(q, count) / sizes, ops.segment_sums(k, count) / sizes, None
        weight = mask[:, None, :, None].to(q.dtype)
        sizes = ops.segment_sums(weight, count)
        q_marks, k_marks = (ops.segment_sums(x.masked_fill(weight == 0, 0.0), count) / sizes.clamp(min=1.0) for x in (q, k))
        return q_marks, k_marks, sizes[:, 0, :, 0] > 0

    def inverse(self, q_marks: Tensor, k_marks: Tensor, kept: Tensor | None) -> Tensor:
        return ops.iterative_pinv(_kernel(q_marks, k_marks, kept), self.config.iterations)

    def _local(self, out: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        if self.conv is None:
            return out
        if mask is not None:
            v = v.masked_fill(~mask[:, None, :, None], 0.0)
        # As one filter a channel over (B, N, H K), the order in which the heads were made and are put together again: nothing is copied.
        weight = self.conv.weight.to(v.dtype).repeat_interleave(v.shape[-1], 0)
        tokens = v.transpose(1, 2).flatten(2).transpose(1, 2).unsqueeze(-1)
        local = F.conv2d(tokens, weight, padding=self.conv.padding, groups=len(weight))
        return out + local.squeeze(-1).transpose(1, 2).unflatten(-1, (v.shape[1], -1)).transpose(1, 2)

    def macs(self, n: int) -> int:
        heads, k, marks = self.shape.num_heads, self.shape.head_dim, self.config.landmarks
        local = 0 if self.conv is None else n * k * self.conv.weight.numel()
        if n <= marks:
            return local + 2 * n * n * heads * k
        inverse = 4 * self.config.iterations * marks**3
        return local + heads * (4 * n * marks * k + 2 * marks * marks * k + inverse)


def _kernel(q_marks: Tensor, k_marks: Tensor, kept: Tensor | None) -> Tensor:
    """Attention among the landmarks. One without tokens is cut off from the others (a row of the identity), so that it changes nothing."""
    weights = ops.softmax_weights(q_marks, k_marks, kept)
    if kept is None:
        return weights
    return torch.where(kept[:, None, :, None], weights, torch.eye(weights.shape[-1], dtype=weights.dtype, device=weights.device))
