"""Linear attention over features that are there already: phi(q) (phi(k)' v) / (phi(q) . sum phi(k))."""
# B images  N tokens  H heads  K head width  M features  C chunks of T tokens

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from vixformer.ops import native
from vixformer.ops.checks import check_heads
from vixformer.ops.choice import kernel_takes
from vixformer.ops.operation import Arguments, Gradients, Operation, Sizes

NO_FLOOR = -1.0


def feature_attention(
    phi_q: Tensor, phi_k: Tensor, v: Tensor, eps: float = 0.0, floor: float | None = None, causal: bool = False
) -> Tensor:
    """phi_q (B, H, N, M), phi_k (B, H, keys, M), v (B, H, keys, K), float32 or wider.

    `eps` is added to the normalizer; `floor` keeps one that may be negative away from zero.
    """
    check_heads(phi_q, phi_k, v)
    if causal:
        return _causal(phi_q, phi_k, v, eps, floor)
    if v.shape[-1] % native.WIDTH or not kernel_takes(phi_q, phi_k, v):
        return _torch(phi_q, phi_k, v, eps, floor)
    return FeatureAttention.call(phi_q, phi_k, v, eps, NO_FLOOR if floor is None else floor)


def _torch(phi_q: Tensor, phi_k: Tensor, v: Tensor, eps: float, floor: float | None) -> Tensor:
    """The normalizer rides along as one more column of the context."""
    context = torch.cat([phi_k.transpose(-1, -2) @ v, phi_k.sum(-2).unsqueeze(-1)], -1)
    return _divide(phi_q @ context, eps, floor)


class FeatureAttention(Operation, name="feature_attention"):
    takes = "Tensor phi_q, Tensor phi_k, Tensor v, float eps, float floor"
    gives = "(Tensor, Tensor)"
    keeps = "Tensor phi_q, Tensor phi_k, Tensor v, Tensor out, Tensor sums, float eps, float floor"
    returns = "(Tensor, Tensor, Tensor)"

    @staticmethod
    def forward(phi_q: Tensor, phi_k: Tensor, v: Tensor, eps: float, floor: float) -> tuple[Tensor, Tensor]:
        out, sums = FeatureAttention.fake(phi_q, phi_k, v, eps, floor)
        sizes = phi_k.shape[2], phi_k.shape[3]
        native.run("feature_attention", (phi_q, phi_k, v), (out,), out.shape, *sizes, sums.data_ptr(), eps, floor)
        return out, sums

    @staticmethod
    def fake(phi_q: Tensor, phi_k: Tensor, v: Tensor, eps: float, floor: float) -> tuple[Tensor, Tensor]:
        (b, h, n, m), d = phi_q.shape, v.shape[-1]
        return v.new_empty(b, n, h, d).transpose(1, 2), v.new_empty(b, h, m, d + 1)

    @staticmethod
    def kept(inputs: Arguments, made: tuple[Tensor, ...]) -> Arguments:
        return *inputs[:3], *made, *inputs[3:]

    @staticmethod
    def backward(
        phi_q: Tensor, phi_k: Tensor, v: Tensor, out: Tensor, sums: Tensor, eps: float, floor: float, grad: Tensor
    ) -> tuple[Tensor, ...]:
        made = FeatureAttention.fake_backward(phi_q, phi_k, v)
        sizes = phi_k.shape[2], phi_k.shape[3]
        native.run(
            "feature_attention_backward",
            (phi_q, phi_k, v, out, grad),
            made,
            out.shape,
            *sizes,
            sums.data_ptr(),
            eps,
            floor,
        )
        return made

    @staticmethod
    def fake_backward(phi_q: Tensor, phi_k: Tensor, v: Tensor, *_: object) -> tuple[Tensor, Tensor, Tensor]:
        # features are made from contiguous rows, and so are their gradients taken
        return phi_q.new_empty(phi_q.shape), phi_k.new_empty(phi_k.shape), native.like(v)

    @staticmethod
    def gradients(made: tuple[Tensor, ...], kept: Arguments, _: object) -> Gradients:
        return *made, None, None

    @staticmethod
    def flops(phi_q: Sizes, phi_k: Sizes, v: Sizes, *_: object) -> int:
        (b, h, n, m), keys, d = phi_q, phi_k[2], v[3]
        return 2 * b * h * m * (keys * d + n * (d + 1))

    @staticmethod
    def backward_flops(phi_q: Sizes, phi_k: Sizes, v: Sizes, *_: object) -> int:
        return 2 * FeatureAttention.flops(phi_q, phi_k, v)


def _divide(sums_and_total: Tensor, eps: float, floor: float | None) -> Tensor:
    """The last column is the normalizer. `floor` keeps one that may be negative away from zero; the others are only
    kept off 0 / 0, and far enough that gradients, which are divided by it, do not overflow."""
    total = sums_and_total[..., -1:] + eps
    kept_off = (
        total.clamp(min=1e8 * torch.finfo(total.dtype).tiny)
        if floor is None
        else torch.where(total < 0, total.clamp(max=-floor), total.clamp(min=floor))
    )
    return sums_and_total[..., :-1] / kept_off


CHUNK = 64


def _causal(phi_q: Tensor, phi_k: Tensor, v: Tensor, eps: float, floor: float | None) -> Tensor:
    """Each token sees itself and those before it: prefix sums over chunks of tokens, the quadratic form inside a
    chunk."""
    n = v.shape[-2]
    size = min(CHUNK, n)
    v = F.pad(v, (0, 1), value=1.0)
    phi_q, phi_k, v = (F.pad(t, (0, 0, 0, -n % size)).unflatten(-2, (-1, size)) for t in (phi_q, phi_k, v))  # B H C T .
    context = phi_k.transpose(-1, -2) @ v
    # shifted: to subtract the chunk itself would round the past
    before = F.pad(context[..., :-1, :, :].cumsum(-3), (0, 0, 0, 0, 1, 0))
    inside = (phi_q @ phi_k.transpose(-1, -2)).tril() @ v
    return _divide((phi_q @ before + inside).flatten(-3, -2)[..., :n, :], eps, floor)


def linear_attention_macs(n: int, m: int, k: int, causal: bool) -> int:
    if not causal:
        return n * m * k + n * m * (k + 1)
    size = min(CHUNK, n)
    padded = n + -n % size
    return 2 * padded * m * (k + 1) + padded * size * (m + k + 1)


def linear_weights(
    phi_q: Tensor, phi_k: Tensor, causal: bool = False, eps: float = 0.0, floor: float | None = None
) -> Tensor:
    weights = phi_q @ phi_k.transpose(-1, -2)
    if causal:
        weights = weights.tril()
    return _divide(torch.cat([weights, weights.sum(-1, keepdim=True)], -1), eps, floor)
