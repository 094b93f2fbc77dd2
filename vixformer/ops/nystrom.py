"""Attention through landmarks: softmax(q k~') pinv(softmax(q~ k~')) softmax(q~ k') v."""
# B images  N tokens  H heads  K head width  L landmarks

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from vixformer.ops import native
from vixformer.ops.checkpoint import recompute_function
from vixformer.ops.checks import check_heads
from vixformer.ops.choice import FLOATS, kernel_takes
from vixformer.ops.operation import Arguments, Gradients, Operation, Sizes
from vixformer.ops.precision import wide
from vixformer.ops.softmax import softmax_attention, softmax_weights


def nystrom_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    landmarks: int,
    iterations: int,
    filters: Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """A convolution of v along the tokens is added, `filters` (H, an odd length). With no more tokens than landmarks
    attention is exact."""
    _check(q, k, v, filters)
    if v.shape[-2] <= landmarks:
        return _add_convolution(softmax_attention(q, k, v, mask), v, filters, mask)
    fits = mask is None and landmarks % native.LANES == 0 and q.shape[-1] % native.LANES == 0 and q.shape == v.shape
    if fits and kernel_takes(q, k, v, filters, dtypes=FLOATS):
        taps = None if filters is None else filters.float()
        return NystromAttention.call(*native.readable(q, k, v), taps, landmarks, iterations).to(v.dtype)
    queries, keys, values = wide(q), wide(k), wide(v)
    q_marks, k_marks, kept = _landmarks(queries, keys, landmarks, mask)
    # Both long products are attention themselves: of the landmarks to the tokens, and of the tokens to the landmarks.
    summary = softmax_attention(q_marks, keys, values, mask)
    inverse = recompute_function(lambda q, k: iterative_pinv(_kernel(q, k, kept), iterations), q_marks, k_marks)
    return _add_convolution(softmax_attention(queries, k_marks, inverse @ summary, kept).to(v.dtype), v, filters, mask)


def nystrom_weights(q: Tensor, k: Tensor, landmarks: int, iterations: int, mask: Tensor | None = None) -> Tensor:
    """Without the convolution, which does not depend on q and k. Entries may be negative."""
    q, k = wide(q), wide(k)
    if q.shape[-2] <= landmarks:
        return softmax_weights(q, k, mask)
    q_marks, k_marks, kept = _landmarks(q, k, landmarks, mask)
    inverse = iterative_pinv_slow(_kernel(q_marks, k_marks, kept), iterations)
    return softmax_weights(q, k_marks, kept) @ inverse @ softmax_weights(q_marks, k, mask)


def nystrom_attention_slow(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    landmarks: int,
    iterations: int,
    filters: Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    out = nystrom_weights(q, k, landmarks, iterations, mask) @ wide(v)
    if filters is not None:
        side, n = filters.shape[1] // 2, v.shape[-2]
        padded = F.pad(v if mask is None else v.masked_fill(~mask[:, None, :, None], 0.0), (0, 0, side, side))
        for i, weight in enumerate(filters.to(out.dtype).unbind(-1)):
            out = out + weight[:, None, None] * padded[..., i : i + n, :]
    return out.to(v.dtype)


def _check(q: Tensor, k: Tensor, v: Tensor, filters: Tensor | None) -> None:
    check_heads(q, k, v)
    if q.shape != k.shape:
        raise ValueError(f"landmarks need as many keys as queries, and there are {k.shape[2]} and {q.shape[2]}")
    if filters is not None and (filters.dim() != 2 or len(filters) != q.shape[1] or filters.shape[1] % 2 == 0):
        raise ValueError(
            f"a convolution along the tokens takes filters ({q.shape[1]}, an odd length), not {tuple(filters.shape)}"
        )


def _landmarks(q: Tensor, k: Tensor, count: int, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Means of q and k over segments of tokens, and which landmarks have a token at all (None: all of them)."""
    if mask is None:
        short, length = segment_bounds(q.shape[-2], count)
        sizes = q.new_full((count, 1), float(length))
        sizes[short:] += 1
        return segment_sums(q, count) / sizes, segment_sums(k, count) / sizes, None
    weight = mask[:, None, :, None].to(q.dtype)
    sizes = segment_sums(weight, count)
    q_marks, k_marks = (segment_sums(x.masked_fill(weight == 0, 0.0), count) / sizes.clamp(min=1.0) for x in (q, k))
    return q_marks, k_marks, sizes[:, 0, :, 0] > 0


def _kernel(q_marks: Tensor, k_marks: Tensor, kept: Tensor | None) -> Tensor:
    """Attention among the landmarks. One without tokens is cut off from the others (a row of the identity), so that it
    changes nothing."""
    weights = softmax_weights(q_marks, k_marks, kept)
    if kept is None:
        return weights
    return torch.where(
        kept[:, None, :, None], weights, torch.eye(weights.shape[-1], dtype=weights.dtype, device=weights.device)
    )


def _add_convolution(out: Tensor, v: Tensor, filters: Tensor | None, mask: Tensor | None) -> Tensor:
    if filters is None:
        return out
    if mask is not None:
        v = v.masked_fill(~mask[:, None, :, None], 0.0)
    # As one filter a channel over (B, N, H K), the order in which the heads were made and are put together again:
    # nothing is copied.
    weight = filters.to(v.dtype)[:, None, :, None].repeat_interleave(v.shape[-1], 0)
    tokens = v.transpose(1, 2).flatten(2).transpose(1, 2).unsqueeze(-1)
    local = F.conv2d(tokens, weight, padding=(filters.shape[1] // 2, 0), groups=len(weight))
    return out + local.squeeze(-1).transpose(1, 2).unflatten(-1, (v.shape[1], -1)).transpose(1, 2)


class NystromAttention(Operation, name="nystrom_attention"):
    takes = "Tensor q, Tensor k, Tensor v, Tensor? filters, int landmarks, int iterations"
    gives = "Tensor"
    keeps = takes
    returns = "(Tensor, Tensor)"

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, filters: Tensor | None, landmarks: int, iterations: int) -> Tensor:
        out, padded = native.like(q), None if filters is None else _padded(filters)
        native.run("nystrom", (q, k, v), (out,), q.shape, landmarks, iterations, *_filter(padded))
        return out

    @staticmethod
    def fake(q: Tensor, *_: object) -> Tensor:
        return native.like(q)

    @staticmethod
    def kept(inputs: Arguments, made: object) -> Arguments:
        return inputs

    @staticmethod
    def backward(
        q: Tensor, k: Tensor, v: Tensor, filters: Tensor | None, landmarks: int, iterations: int, grad: Tensor
    ) -> tuple[Tensor, ...]:
        made, dfilters = NystromAttention.fake_backward(q, k, v, filters)
        padded = None if filters is None else _padded(filters.flip(1))
        given = (q, k, v, grad), native.parts(made)
        native.run("nystrom_backward", *given, q.shape, landmarks, iterations, *_filter(padded), dfilters.data_ptr())
        return made, dfilters

    @staticmethod
    def fake_backward(q: Tensor, k: Tensor, v: Tensor, filters: Tensor | None, *_: object) -> tuple[Tensor, Tensor]:
        return native.side_by_side(q), q.new_zeros(
            *q.shape[:2], 1 if filters is None else filters.shape[1], dtype=torch.float32
        )

    @staticmethod
    def gradients(made: tuple[Tensor, Tensor], kept: Arguments, _: object) -> Gradients:
        return *native.parts(made[0]), None if kept[3] is None else made[1].sum(0), None, None

    @staticmethod
    def flops(q: Sizes, k: Sizes, v: Sizes, filters: Sizes | None, landmarks: int, iterations: int) -> int:
        b, h, n, d = q
        local = 0 if filters is None else n * d * filters[1]
        marks = landmarks * landmarks
        return 2 * b * h * (4 * n * landmarks * d + 2 * marks * d + 4 * iterations * marks * landmarks + local)

    @staticmethod
    def backward_flops(
        q: Sizes, k: Sizes, v: Sizes, filters: Sizes | None, landmarks: int, iterations: int, _: object
    ) -> int:
        return 3 * NystromAttention.flops(q, k, v, filters, landmarks, iterations)


def _padded(filters: Tensor) -> Tensor:
    return F.pad(filters, (3, 3)).contiguous()


def _filter(padded: Tensor | None) -> tuple[int | None, int]:
    return (None, 0) if padded is None else (padded.data_ptr(), (padded.shape[1] - 7) // 2)


def segment_bounds(n: int, segments: int) -> tuple[int, int]:
    """n tokens in uneven segments: how many short ones come first, and their length; the rest are one longer."""
    length = n // segments
    return (length + 1) * segments - n, length


def segment_sums(x: Tensor, segments: int) -> Tensor:
    """(..., N, K) -> (..., segments, K)."""
    short, length = segment_bounds(x.shape[-2], segments)
    head, tail = x[..., : short * length, :], x[..., short * length :, :]
    sums = head if length == 1 else head.unflatten(-2, (short, length)).sum(-2)
    if short == segments:
        return sums
    return torch.cat([sums, tail.unflatten(-2, (segments - short, length + 1)).sum(-2)], -2)


def iterative_pinv(a: Tensor, iterations: int) -> Tensor:
    """Z <- Z (13 I - AZ (15 I - AZ (7 I - AZ))) / 4 from A' over its largest column sum, for every matrix by itself.

    Multiplied out so that each product also does the addition: no identity, no elementwise pass.
    """
    shape = a.shape
    a = a.reshape(-1, *shape[-2:])
    z = a.transpose(1, 2) / a.sum(1).amax(-1)[:, None, None]
    for _ in range(iterations):
        az = torch.bmm(a, z)
        inner = torch.baddbmm(az, az, az, beta=7, alpha=-1)
        outer = torch.baddbmm(az, az, inner, beta=15, alpha=-1)
        z = torch.baddbmm(z, z, outer, beta=13 / 4, alpha=-1 / 4)
    return z.view(shape)


def iterative_pinv_slow(a: Tensor, iterations: int) -> Tensor:
    eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    z = a.transpose(-1, -2) / a.sum(-2).amax(-1)[..., None, None]
    for _ in range(iterations):
        az = a @ z
        z = z @ (13 * eye - az @ (15 * eye - az @ (7 * eye - az))) / 4
    return z
