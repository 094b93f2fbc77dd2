"""Linear attention whose features the kernel makes itself: they are used and forgotten in the cache."""
# B images  N tokens  H heads  K head width  M features

from __future__ import annotations

from typing import Any, TypeGuard

from torch import Tensor

from vixformer.ops import native
from vixformer.ops.checkpoint import recompute_function
from vixformer.ops.checks import check_heads
from vixformer.ops.choice import FLOATS, kernel_takes, wanted
from vixformer.ops.feature_attention import feature_attention, linear_weights
from vixformer.ops.feature_maps import LANES, ExpMap, FeatureMap, NetworkMap, ReluMap, laid_out
from vixformer.ops.native import pointer
from vixformer.ops.operation import Arguments, Gradients, Operation, Sizes
from vixformer.ops.precision import wide


def linear_attention(q: Tensor, k: Tensor, v: Tensor, phi: FeatureMap, eps: float = 0.0) -> Tensor:
    """phi(q) (phi(k)' v) / (phi(q) . sum phi(k) + eps) of q (B, H, N, K), k and v (B, H, keys, K), in float32, returned in the dtype of v.

    Backward keeps q, k and v and no feature. A kernel knows `ReluMap`, `ExpMap` and `NetworkMap`; of other maps it gets the features.
    """
    check_heads(q, k, v)
    phi.check(q.shape[-1])
    if not _known(phi, q, k, v):
        return recompute_function(lambda q, k, v, *made_of: _torch(q, k, v, phi.made_of(*made_of), eps), q, k, v, *phi.tensors())
    network: tuple[Tensor | None, ...] = (None,) * 4
    laid, smooth, scale, weight = None, False, 1.0, 0.0
    if isinstance(phi, NetworkMap):
        network, smooth = phi.tensors(), phi.smooth
    else:
        laid, scale = None if phi.directions is None else laid_out(phi.directions, phi.scale), phi.scale
    if isinstance(phi, ExpMap):
        weight = phi.weight
    across, along, keep = (None, None, None) if laid is None else (laid.across, laid.along, laid.keep)
    options = isinstance(phi, ExpMap), smooth, scale, weight, phi.eps, eps
    tensors = q.float(), k.float(), v.float()
    return LinearAttention.call(*tensors, across, along, keep, *network, *options, wanted(*tensors, *network)).to(v.dtype)


def linear_attention_slow(q: Tensor, k: Tensor, v: Tensor, phi: FeatureMap, eps: float = 0.0) -> Tensor:
    """All N x N weights are in memory at once."""
    weights = linear_weights(phi(wide(q), False), phi(wide(k), True), eps=eps)
    return (weights @ v.to(weights.dtype)).to(v.dtype)


def _torch(q: Tensor, k: Tensor, v: Tensor, phi: FeatureMap, eps: float) -> Tensor:
    phi_k = phi(wide(k), True)
    return feature_attention(phi(wide(q), False), phi_k, v.to(phi_k.dtype), eps).to(v.dtype)


def _known(phi: FeatureMap, q: Tensor, k: Tensor, v: Tensor) -> TypeGuard[ReluMap | ExpMap | NetworkMap]:
    """Whether the kernel makes these features, and of tensors of these shapes: as many keys as queries, heads of some widths."""
    if (
        q.shape[-1] % LANES
        or not q.shape == k.shape == v.shape
        or not kernel_takes(q, k, v, dtypes=FLOATS)
        or not kernel_takes(*phi.tensors())
    ):
        return False
    if type(phi) is ReluMap or type(phi) is ExpMap:
        return phi.directions is None or not wanted(phi.directions)
    return type(phi) is NetworkMap


class LinearAttention(Operation, name="linear_attention"):
    """Keeps q, k, v and the output, which the layer after it keeps anyway, and what many keys add up to. Features are made again."""

    _options = "bool exponential, bool smooth, float scale, float weight, float eps, float total_eps"
    _made_of = "Tensor? across, Tensor? along, Tensor? keep, Tensor? first, Tensor? bias, Tensor? second, Tensor? shift"
    takes = f"Tensor q, Tensor k, Tensor v, {_made_of}, {_options}, bool train"
    gives = "(Tensor, Tensor)"
    keeps = f"Tensor q, Tensor k, Tensor v, Tensor out, Tensor summaries, {_made_of}, {_options}"
    returns = "(Tensor, Tensor)"

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        (across, _, keep), weights, (exponential, smooth, *reals), train = rest[:3], rest[3:7], rest[7:13], rest[13]
        out, summaries = native.like(q), _summaries(q, across, weights[0], train)
        keep = _all_kept(q, across, keep)
        network = weights if weights[0] is None else _turned(*weights)
        pointers = pointer(summaries if summaries.numel() else None), pointer(across), keep.data_ptr()
        options = *pointers, exponential, *reals, smooth, *map(pointer, network)
        native.run("linear_attention", (q, k, v), (out,), q.shape, keep.numel(), *options)
        return out, summaries

    @staticmethod
    def fake(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        return native.like(q), _summaries(q, rest[0], rest[3], rest[13])

    @staticmethod
    def kept(inputs: Arguments, made: tuple[Tensor, ...]) -> Arguments:
        return *inputs[:3], *made, *inputs[3:16]

    @staticmethod
    def backward(q: Tensor, k: Tensor, v: Tensor, out: Tensor, summaries: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        (across, along, keep, *network), (exponential, smooth, *reals), grad = rest[:7], rest[7:13], rest[13]
        made, learned = LinearAttention.fake_backward(q, k, v, out, summaries, *rest)
        keep = _all_kept(q, across, keep)
        given, back = (None,) * 4, (None, None)
        if network[0] is not None:
            given, back = _turned(*network), (network[0].contiguous(), network[2].contiguous())
        options = exponential, *reals, smooth, *map(pointer, (*given, *back, learned))
        pointers = pointer(summaries if summaries.numel() else None), pointer(along), pointer(across), keep.data_ptr()
        native.run("linear_attention_backward", (q, k, v, out, grad), native.parts(made), q.shape, keep.numel(), *pointers, *options)
        return made, learned

    @staticmethod
    def fake_backward(q: Tensor, k: Tensor, v: Tensor, out: Tensor, summaries: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        width = q.shape[-1]
        learned = 0 if rest[3] is None else 2 * (width * width + width)
        return native.side_by_side(q), q.new_empty(*q.shape[:2], learned)

    @staticmethod
    def gradients(made: tuple[Tensor, Tensor], kept: Arguments, _: object) -> Gradients:
        qkv, learned = made
        dq, dk, dv = native.parts(qkv)
        network: tuple[Tensor | None, ...] = (None,) * 4
        if kept[8] is not None:
            first, bias, second, shift = learned.sum((0, 1)).split([t.numel() for t in kept[8:12]])
            network = first.view_as(kept[8]).t(), bias, second.view_as(kept[10]).t(), shift
        return dq, dk, dv, None, None, None, *network, *(None,) * 7

    @staticmethod
    def flops(q: Sizes, k: Sizes, v: Sizes, *rest: Any) -> int:
        b, h, n, d = q
        m = d if rest[0] is None else rest[0][1]
        features = 2 * d * d if rest[3] is not None else 0 if rest[0] is None else d * m
        return 2 * b * h * n * (2 * features + m * d + m * (d + 1))

    @staticmethod
    def backward_flops(q: Sizes, k: Sizes, v: Sizes, out: Sizes, summaries: Sizes, *rest: Any) -> int:
        return 3 * LinearAttention.flops(q, k, v, *rest)


def _summaries(q: Tensor, across: Tensor | None, first: Tensor | None, train: bool) -> Tensor:
    """Room for what the keys of an image and head add up to, where that is less work to keep than to make again."""
    m = q.shape[3] if across is None else across.shape[1]
    many = train and q.shape[2] > (m if first is not None else 4 * m)  # features of a network take longer to make again
    return q.new_empty(*q.shape[:2], m * q.shape[3] + m + 1) if many else q.new_empty(0)


def _all_kept(q: Tensor, across: Tensor | None, keep: Tensor | None) -> Tensor:
    return q.new_ones(q.shape[-1]) if across is None or keep is None else keep


def _turned(first: Tensor, bias: Tensor, second: Tensor, shift: Tensor) -> tuple[Tensor, ...]:
    """A network's weights as C wants them, with a row for what goes in."""
    return first.t().contiguous(), bias.contiguous(), second.t().contiguous(), shift.contiguous()
