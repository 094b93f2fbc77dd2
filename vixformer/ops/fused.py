"""Linear attention whose features the kernel makes itself: they are used and forgotten in the cache."""

# B images  N tokens  H heads  K head width  M features

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vixformer.ops import native
from vixformer.ops.checkpoint import recompute_function
from vixformer.ops.checks import check_heads
from vixformer.ops.choice import FLOATS, kernel_takes, wanted
from vixformer.ops.feature_attention import feature_attention, linear_weights
from vixformer.ops.feature_maps import (
    FOCUSED_EPS,
    LEAST_SHARE,
    CoshMap,
    CosineMap,
    EluMap,
    ExpMap,
    FeatureMap,
    FocusedMap,
    GeluMap,
    HedgehogMap,
    MatrixMap,
    NetworkMap,
    Projected,
    ReluMap,
    SharesMap,
    TaylorMap,
    laid_out,
    quarter_turn,
)
from vixformer.ops.native import LANES, pointer
from vixformer.ops.operation import Arguments, Gradients, Operation, Sizes
from vixformer.ops.precision import wide

RELU, EXPONENTIAL, ELU, GELU, NETWORK, SMOOTH, COSINE, HEDGEHOG, FOCUSED, SHARES, TAYLOR = range(11)
"""What linear.c calls the maps."""
KINDS: dict[type, int] = {
    ReluMap: RELU,
    MatrixMap: RELU,
    ExpMap: EXPONENTIAL,
    CoshMap: EXPONENTIAL,
    EluMap: ELU,
    GeluMap: GELU,
    SharesMap: SHARES,
}
POWERS = range(1, 9)
"""Of focused attention that the kernel knows."""


def linear_attention(
    q: Tensor, k: Tensor, v: Tensor, phi: FeatureMap, eps: float = 0.0, mask: Tensor | None = None
) -> Tensor:
    """phi(q) (phi(k)' v) / (phi(q) . sum phi(k) + eps) of q (B, H, N, K), k and v (B, H, keys, K), in float32, returned
    in the dtype of v.

    Backward keeps q, k and v and no feature. A kernel makes the features of the maps that ops has; of other maps it
    gets them. `mask` is boolean (B, keys), true = keep.
    """
    check_heads(q, k, v)
    phi.check(q.shape[-1])
    if mask is not None and (mask.dtype is not torch.bool or mask.shape != (k.shape[0], k.shape[2])):
        raise ValueError(
            f"a mask of {k.shape[2]} keys is boolean, ({k.shape[0]}, {k.shape[2]}), not {mask.dtype},"
            f" {tuple(mask.shape)}"
        )
    if not _known(phi, q, k, v):
        return recompute_function(
            lambda q, k, v, *made_of: _torch(q, k, v, phi.made_of(*made_of), eps, mask), q, k, v, *phi.tensors()
        )
    made = _described(phi.made_of(*(t.float() for t in phi.tensors())), q)
    tensors = native.readable(q, k, v)
    hidden = None if mask is None else mask.contiguous()
    learned = wanted(made[0])
    return LinearAttention.call(*tensors, *made, eps, learned, hidden, wanted(*tensors, *made[:7])).to(v.dtype)


def _described(phi: FeatureMap, q: Tensor) -> Arguments:
    """A map as the kernel takes it: directions, weights, kind and numbers."""
    width = q.shape[-1]
    if isinstance(phi, NetworkMap):
        hidden, features = len(phi.bias), len(phi.shift)
        return (
            None,
            None,
            _all_kept(features, q),
            *phi.tensors(),
            SMOOTH if phi.smooth else NETWORK,
            float(hidden),
            0.0,
            phi.eps,
        )
    if isinstance(phi, CosineMap):
        angle = quarter_turn(q.shape[2], q.new_empty(0, dtype=torch.float32))
        return (
            None,
            None,
            _all_kept(2 * width, q),
            None,
            torch.cat([angle.cos(), angle.sin()], -1),
            None,
            None,
            COSINE,
            1.0,
            0.0,
            phi.eps,
        )
    if isinstance(phi, HedgehogMap):
        return None, None, _all_kept(2 * width, q), phi.query, None, phi.key, None, HEDGEHOG, 1.0, 0.0, LEAST_SHARE
    if isinstance(phi, FocusedMap):
        return None, None, None, None, phi.factor, None, None, FOCUSED, float(phi.power), 0.0, FOCUSED_EPS
    if isinstance(phi, TaylorMap):
        features = phi.features(width)
        keep = F.pad(_all_kept(features, q), (0, -features % LANES))
        return None, None, keep, None, None, None, None, TAYLOR, phi.scale, 0.0, 0.0
    assert isinstance(phi, Projected)
    rows = phi.rows()
    laid = None if rows is None else laid_out(rows, phi.scale)
    directions = (None, None, None) if laid is None else (laid.across, laid.along, laid.keep)
    weight = phi.weight if isinstance(phi, ExpMap) else phi.alpha if isinstance(phi, EluMap) else 0.0
    shift = phi.alpha if isinstance(phi, EluMap) else 0.0
    least = LEAST_SHARE if isinstance(phi, SharesMap) else phi.eps + shift
    return *directions, None, None, None, None, KINDS[type(phi)], phi.scale, weight, least


def linear_attention_slow(q: Tensor, k: Tensor, v: Tensor, phi: FeatureMap, eps: float = 0.0) -> Tensor:
    """All N x N weights are in memory at once."""
    weights = linear_weights(phi(wide(q), False), phi(wide(k), True), eps=eps)
    return (weights @ v.to(weights.dtype)).to(v.dtype)


def _torch(q: Tensor, k: Tensor, v: Tensor, phi: FeatureMap, eps: float, mask: Tensor | None) -> Tensor:
    phi_k = phi(wide(k), True, mask) if isinstance(phi, ExpMap) else phi(wide(k), True)
    if mask is not None:
        phi_k = phi_k.masked_fill(~mask[:, None, :, None], 0.0)
    return feature_attention(phi(wide(q), False), phi_k, v.to(phi_k.dtype), eps).to(v.dtype)


def _known(phi: FeatureMap, q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether the kernel makes these features, and of tensors of these shapes: as many keys as queries, heads of some
    widths."""
    if (
        q.shape[-1] % LANES
        or not q.shape == k.shape == v.shape
        or not kernel_takes(q, k, v, dtypes=FLOATS)
        or not kernel_takes(*phi.tensors(), dtypes=FLOATS)
    ):
        return False
    if type(phi) in KINDS:
        return True
    if isinstance(phi, HedgehogMap):
        return phi.query.shape == phi.key.shape == (q.shape[1], q.shape[3], q.shape[3])
    if isinstance(phi, FocusedMap):
        return phi.factor.shape == (q.shape[1], q.shape[3]) and phi.power in POWERS
    if isinstance(phi, NetworkMap):
        return len(phi.bias) % LANES == len(phi.shift) % LANES == 0
    return type(phi) in (CosineMap, TaylorMap)


class LinearAttention(Operation, name="linear_attention"):
    """Keeps q, k, v and the output, which the layer after it keeps anyway, and what many keys add up to. Features are
    made again."""

    _options = "int kind, float scale, float weight, float eps, float total_eps, bool learned, Tensor? mask"
    _made_of = "Tensor? across, Tensor? along, Tensor? keep, Tensor? first, Tensor? bias, Tensor? second, Tensor? shift"
    takes = f"Tensor q, Tensor k, Tensor v, {_made_of}, {_options}, bool train"
    gives = "(Tensor, Tensor)"
    keeps = f"Tensor q, Tensor k, Tensor v, Tensor out, Tensor summaries, {_made_of}, {_options}"
    returns = "(Tensor, Tensor)"

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        (across, _, keep), weights, options, mask, train = rest[:3], rest[3:7], rest[7:13], *rest[13:15]
        out, summaries = native.like(q), _summaries(q, keep, options[0], train)
        keep = _all_kept(q.shape[-1], q) if keep is None else keep
        laid = _turned(*weights)
        pointers = pointer(summaries if summaries.numel() else None), pointer(across), keep.data_ptr()
        native.run(
            "linear_attention",
            (q, k, v),
            (out,),
            q.shape,
            keep.numel(),
            *pointers,
            *options,
            *map(pointer, (mask, *laid)),
        )
        return out, summaries

    @staticmethod
    def fake(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        return native.like(q), _summaries(q, rest[2], rest[7], rest[14])

    @staticmethod
    def kept(inputs: Arguments, made: tuple[Tensor, ...]) -> Arguments:
        return *inputs[:3], *made, *inputs[3:17]

    @staticmethod
    def backward(q: Tensor, k: Tensor, v: Tensor, out: Tensor, summaries: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        (across, along, keep), weights, options, mask, grad = rest[:3], rest[3:7], rest[7:13], *rest[13:15]
        made, learned = LinearAttention.fake_backward(q, k, v, out, summaries, *rest)
        keep = _all_kept(q.shape[-1], q) if keep is None else keep
        laid = *_turned(*weights), *(None if t is None else t.contiguous() for t in (weights[0], weights[2]))
        pointers = pointer(summaries if summaries.numel() else None), pointer(along), pointer(across), keep.data_ptr()
        given = *pointers, *options, *map(pointer, (mask, *laid, learned))
        native.run("linear_attention_backward", (q, k, v, out, grad), native.parts(made), q.shape, keep.numel(), *given)
        return made, learned

    @staticmethod
    def fake_backward(
        q: Tensor, k: Tensor, v: Tensor, out: Tensor, summaries: Tensor, *rest: Any
    ) -> tuple[Tensor, Tensor]:
        weights = sum(0 if t is None else t.numel() for t in rest[3:7])
        each = {NETWORK: weights, SMOOTH: weights, HEDGEHOG: 2 * q.shape[-1] ** 2, FOCUSED: q.shape[-1]}
        count = rest[0].numel() if rest[12] else each.get(rest[7], 0)
        return native.side_by_side(q), q.new_empty(*q.shape[:2], count, dtype=torch.float32)

    @staticmethod
    def gradients(made: tuple[Tensor, Tensor], kept: Arguments, _: object) -> Gradients:
        qkv, learned = made
        weights: tuple[Tensor | None, ...] = (None,) * 4
        across = learned.sum((0, 1)).view(kept[5].shape) if kept[17] else None
        if kept[12] in (NETWORK, SMOOTH):
            first, bias, second, shift = learned.sum((0, 1)).split([t.numel() for t in kept[8:12]])
            weights = first.view(kept[8].shape[::-1]).t(), bias, second.view(kept[10].shape[::-1]).t(), shift
        elif kept[12] == HEDGEHOG:
            query, key = learned.sum(0).unflatten(-1, (2, *kept[8].shape[1:])).mT.unbind(1)
            weights = query, None, key, None
        elif kept[12] == FOCUSED:
            weights = None, learned.sum(0), None, None
        return *native.parts(qkv), across, None, None, *weights, *(None,) * 8

    @staticmethod
    def flops(q: Sizes, k: Sizes, v: Sizes, *rest: Any) -> int:
        b, h, n, d = q
        m = d if rest[2] is None else rest[2][0]
        features = 0 if rest[0] is None else d * m
        if rest[3] is not None:
            features = d * d if rest[7] == HEDGEHOG else rest[3][0] * d + rest[5][0] * rest[5][1]
        return 2 * b * h * n * (2 * features + m * d + m * (d + 1))

    @staticmethod
    def backward_flops(q: Sizes, k: Sizes, v: Sizes, out: Sizes, summaries: Sizes, *rest: Any) -> int:
        return 3 * LinearAttention.flops(q, k, v, *rest)


def _summaries(q: Tensor, keep: Tensor | None, kind: int, train: bool) -> Tensor:
    """Room for what the keys of an image and head add up to, where that is less work to keep than to make again."""
    m = q.shape[3] if keep is None else keep.numel()
    # features of a network take longer to make again
    many = train and q.shape[2] > (m if kind in (NETWORK, SMOOTH) else 4 * m)
    return (
        q.new_empty(*q.shape[:2], m * q.shape[3] + m + 1, dtype=torch.float32)
        if many
        else q.new_empty(0, dtype=torch.float32)
    )


def _all_kept(features: int, q: Tensor) -> Tensor:
    return q.new_ones(features, dtype=torch.float32)


def _turned(
    first: Tensor | None, bias: Tensor | None, second: Tensor | None, shift: Tensor | None
) -> tuple[Tensor | None, ...]:
    """Weights as C wants them, matrices with a row for what goes in."""
    turned = tuple(None if t is None else t.mT.contiguous() for t in (first, second))
    return (
        turned[0],
        None if bias is None else bias.contiguous(),
        turned[1],
        None if shift is None else shift.contiguous(),
    )
