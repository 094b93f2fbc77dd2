"""Loops in C where torch has no fused kernel.

Optional in every way: without a C compiler, with `VIX_NATIVE=0`, while a compiler, a tracer or a counter is watching, on other devices and
dtypes, torch does the work. Results and gradients agree with the reference as closely as torch's own do.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.jit._trace import is_tracing
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from vixformer import ops
from vixformer.ops.native.build import library

WIDTH = 8
"""Of the vectors of the loops."""
LANES = 16
"""Head width and landmarks must be multiples of this."""
WIDENED = (torch.float32, torch.bfloat16, torch.float16)
"""What linear and exact attention and the convolution take: they compute in float32 whatever they are given."""


_calls = 0


def _loaded() -> ctypes.CDLL:
    global _calls
    built = library()
    assert built is not None
    _calls += 1
    return built


def calls() -> int:
    """How often a compiled kernel has run in this process."""
    return _calls


def instructions() -> str | None:
    """The instruction set that the kernels were compiled for; None where there are none."""
    built = library()
    return None if built is None else built.instructions().decode()


@dataclass(frozen=True)
class FeatureMap:
    """phi(x) = max(u, 0) + eps or exp(u - norm_weight |x|^2 - c) + eps with u = x `directions` (K, M), or x `scale` where there are none;
    the normaliser gets total_eps. A `network` is first and second (K, K) with their biases; then u = second max(first x + bias, 0) + shift,
    or where it is `smooth` softplus of that, one for q, k and all heads, with gradients for its weights."""

    directions: Tensor | None
    scale: float
    exponential: bool
    norm_weight: float
    eps: float
    total_eps: float
    network: tuple[Tensor, Tensor, Tensor, Tensor] | tuple[()] = ()
    smooth: bool = False

    def tensors(self) -> tuple[Tensor, ...]:
        return () if self.directions is None else (self.directions,)

    def numbers(self) -> tuple[bool, float, float, float, float, bool]:
        return self.exponential, self.scale, self.norm_weight, self.eps, self.total_eps, self.smooth

    def fits(self, width: int) -> bool:
        """Whether it is made for heads of this width."""
        square, row = (width, width), (width,)
        network = tuple(t.shape for t in self.network) in ((), (square, row, square, row))
        return network and (self.directions is None or (self.directions.dim() == 2 and len(self.directions) == width))

    def padded(self, x: Tensor) -> tuple[Tensor | None, Tensor]:
        """Directions up to a multiple of LANES, and which of them count."""
        if self.directions is None:
            return None, x.new_ones(x.shape[-1])
        fill = -self.directions.shape[1] % LANES
        return F.pad(self.directions, (0, fill)).contiguous(), F.pad(self.directions.new_ones(self.directions.shape[1]), (0, fill))


Network = tuple[Tensor, Tensor, Tensor, Tensor] | tuple[None, None, None, None]


def linear_attention(q: Tensor, k: Tensor, v: Tensor, phi: FeatureMap) -> Tensor | None:
    """phi(q) (phi(k)' v) / (phi(q) . sum phi(k)), with gradients of q, k and v; None where torch has to do it."""
    if q.shape[-1] % LANES or not _plain(*phi.tensors(), *phi.network) or not _plain(q, k, v, dtypes=WIDENED) or not _alike(q, k, v):
        return None
    if torch.is_grad_enabled() and any(t.requires_grad for t in phi.tensors()):
        return None
    if not phi.fits(q.shape[-1]):
        return None
    dtype, (q, k, v) = v.dtype, (t.float() for t in (q, k, v))
    directions, keep = phi.padded(q)
    if torch.is_grad_enabled():
        return _Linear.apply(q, k, v, directions, keep, phi, *phi.network).to(dtype)  # pyright: ignore[reportAttributeAccessIssue]
    out = _linear(q, k, v, None, directions, keep, phi, _turned(*phi.network))
    return None if out is None else out.to(dtype)


def _linear(
    q: Tensor, k: Tensor, v: Tensor, summaries: Tensor | None, directions: Tensor | None, keep: Tensor, phi: FeatureMap, network: Network
) -> Tensor | None:
    pointers = _pointer(summaries), _pointer(directions), keep.data_ptr()
    return _call("linear_attention", (q, k, v), (_like(q),), q.shape, keep.numel(), *pointers, *phi.numbers(), *map(_pointer, network))


def _turned(*network: Tensor) -> Network:
    """A network's weights as C wants them, with a row for what goes in."""
    if not network:
        return None, None, None, None
    first, bias, second, shift = network
    return first.t().contiguous(), bias.contiguous(), second.t().contiguous(), shift.contiguous()


class _Linear(torch.autograd.Function):
    """Keeps q, k, v and the output, which the layer after it keeps anyway, and what many keys add up to. Features are made again."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, directions: Tensor | None, keep: Tensor, phi: FeatureMap, *network: Tensor
    ) -> Tensor:
        m, given = keep.numel(), _turned(*network)
        many = q.shape[2] > (m if network else 4 * m)  # features of a network take longer to make again
        summaries = q.new_empty(*q.shape[:2], m * q.shape[3] + m + 1) if many else None
        out = _linear(q, k, v, summaries, directions, keep, phi, given)
        if out is None:
            raise MemoryError("no memory for attention")
        ctx.save_for_backward(q, k, v, out, summaries, directions, keep, *given)
        ctx.numbers = phi.numbers()
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        q, k, v, out, summaries, directions, keep, *network = ctx.saved_tensors
        turned = None if directions is None else directions.t().contiguous()
        made = _side_by_side(q)
        first, _, second, _ = network
        sizes = [] if first is None else [t.numel() for t in network]
        learned = q.new_empty(*q.shape[:2], sum(sizes))
        back = (None, None) if first is None else (first.t().contiguous(), second.t().contiguous())
        pointers = _pointer(summaries), _pointer(turned), _pointer(directions), keep.data_ptr()
        given = (q, k, v, out, grads[0])
        options = *pointers, *ctx.numbers, *map(_pointer, (*network, *back, learned))
        if _call("linear_attention_backward", given, made, q.shape, keep.numel(), *options) is None:
            raise MemoryError("no memory for the gradient of attention")
        if first is None:
            return *made, None, None, None
        dfirst, dbias, dsecond, dshift = learned.sum((0, 1)).split(sizes)
        return *made, None, None, None, dfirst.view_as(first).t(), dbias, dsecond.view_as(second).t(), dshift


def _pointer(x: Tensor | None) -> int | None:
    return None if x is None else x.data_ptr()


def _side_by_side(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Room for the gradients of q, k and v, as they lie in the gradient of the layer that made them: see `Split`."""
    b, h, n, d = x.shape
    q, k, v = x.new_empty(b, n, 3, h, d).unbind(2)
    return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)


def split(qkv: Tensor, heads: int, rotation: ops.Rotation | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """(B, N, 3 H K) -> q, k, v, each (B, H, N, K), q and k turned where there is a rotation."""
    width = qkv.shape[-1] // (3 * heads)
    turned = (qkv.shape[1], width // 2)
    fits = rotation is None or (width % WIDTH == 0 and all(t.shape == turned for t in rotation) and _plain(*rotation))
    if fits and _plain(qkv) and (rotation is not None or (qkv.requires_grad and torch.is_grad_enabled())):
        return _Split.apply(qkv, heads, *(rotation or ()))  # pyright: ignore[reportReturnType]
    q, k, v = _split(qkv, heads)
    return (q, k, v) if rotation is None else (ops.rotate(q, *rotation), ops.rotate(k, *rotation), v)


def _split(qkv: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    # split before heads: then the gradients of q, k and v are put side by side in one copy
    return tuple(t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in qkv.chunk(3, -1))  # pyright: ignore[reportReturnType]


class _Split(torch.autograd.Function):
    """Gradients that lie side by side already are not put there once more. That of v does not where v is convolved too: it is a sum then,
    and goes where its first part was."""

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, heads: int, *rotation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = _split(qkv, heads)
        ctx.rotation = rotation
        if rotation:
            ctx.pairs = _pairs(*rotation)
            q, k = (_rotate(x, _like(x), ctx.pairs, 1.0) for x in (q, k))
        return q, k, v

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        nothing = (None,) * (1 + len(ctx.rotation))
        if ctx.rotation and torch.is_grad_enabled():
            cos, sin = ctx.rotation
            grads = ops.rotate(grads[0], cos, -sin), ops.rotate(grads[1], cos, -sin), grads[2]
        whole = _Split.joined(grads)
        if ctx.rotation and not torch.is_grad_enabled():
            for x in _split(whole, grads[0].shape[1])[:2]:
                _rotate(x, x, ctx.pairs, -1.0)
        return whole, *nothing

    @staticmethod
    def joined(grads: tuple[Tensor, ...]) -> Tensor:
        b, h, n, d = grads[0].shape
        width = h * d
        first, strides = grads[0], (n * 3 * width, d, 3 * width, 1)
        shared, end = first.untyped_storage(), first.storage_offset() + b * n * 3 * width
        there = [
            g.untyped_storage().data_ptr() == shared.data_ptr() and g.storage_offset() == first.storage_offset() + i * width
            and g.stride() == strides
            for i, g in enumerate(grads)
        ]  # fmt: skip
        # a gradient of the gradient has to see where they come from
        if not all(there[:2]) or shared.nbytes() < end * first.element_size() or torch.is_grad_enabled():
            return torch.cat([g.transpose(1, 2).flatten(2) for g in grads], -1)
        whole = first.as_strided((b, n, 3 * width), (n * 3 * width, 3 * width, 1))
        if not there[2]:
            whole[..., 2 * width :] = grads[2].transpose(1, 2).flatten(2)
        return whole


def _pairs(cos: Tensor, sin: Tensor) -> Tensor:
    """For each token what its channels are multiplied by (K), then what their partners are (K)."""
    return torch.cat([cos.repeat_interleave(2, -1), torch.stack([-sin, sin], -1).flatten(-2)], -1)


def _rotate(x: Tensor, out: Tensor, pairs: Tensor, way: float) -> Tensor:
    """x turned, or turned back where `way` is -1; `out` may be x."""
    _call("rotate", (x,), (out,), x.shape, 0, pairs.data_ptr(), way)
    return out


def exact(q: Tensor, k: Tensor, v: Tensor) -> Tensor | None:
    """Exact attention of q (B, H, N, K) to k and v (B, H, R, K), with gradients; None where torch has to do it."""
    if not _plain(q, k, v, dtypes=WIDENED) or q.shape[-1] % LANES or not _alike(k, v) or not _alike(q[:, :, :0], k[:, :, :0]):
        return None
    dtype, (q, k, v) = v.dtype, (t.float() for t in (q, k, v))
    if torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v)):
        return _Exact.apply(q, k, v).to(dtype)  # pyright: ignore[reportAttributeAccessIssue]
    out = _call("exact", (q, k, v), (_like(q),), q.shape, k.shape[-2], None)
    return None if out is None else out.to(dtype)


class _Exact(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        logs = q.new_empty(q.shape[:3])
        out = _call("exact", (q, k, v), (_like(q),), q.shape, k.shape[-2], logs.data_ptr())
        if out is None:
            raise MemoryError("no memory for attention")
        ctx.save_for_backward(q, k, v, out, logs)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        q, k, v, out, logs = ctx.saved_tensors
        found = _side_by_side(q) if q.shape == k.shape else (_like(q), _like(k), _like(v))
        if _call("exact_backward", (q, k, v, out, grads[0]), found, q.shape, k.shape[-2], logs.data_ptr()) is None:
            raise MemoryError("no memory for the gradient of attention")
        return found


def linformer(q: Tensor, k: Tensor, v: Tensor, e: Tensor, f: Tensor) -> Tensor | None:
    """Exact attention of q to e'k and f'v, matrices (N, R) or (H, N, R), with gradients; None where torch has to do it."""
    lead = e.shape[:-1]
    fits = q.shape[-1] % LANES == 0 and e.shape[-1] % 8 == 0 and lead in (k.shape[2:3], k.shape[1:3])
    if not fits or not _plain(q, k, v, e, f) or not _alike(k, v) or not _alike(e, f) or not _alike(q[:, :, :0], k[:, :, :0]):
        return None
    return _Linformer.apply(q, k, v, e.contiguous(), f.contiguous())  # pyright: ignore[reportReturnType]


class _Linformer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, e: Tensor, f: Tensor) -> Tensor:
        keys, values = _along(k, e), _along(v, f)
        logs = q.new_empty(q.shape[:3])
        out = _call("exact", (q, keys, values), (_like(q),), q.shape, keys.shape[-2], logs.data_ptr())
        if out is None:
            raise MemoryError("no memory for attention")
        ctx.save_for_backward(q, k, v, e, f, keys, values, out, logs)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        q, k, v, e, f, keys, values, out, logs = ctx.saved_tensors
        dq, dk, dv = _side_by_side(q) if q.shape == k.shape else (_like(q), _like(k), _like(v))
        dkeys, dvalues = _like(keys), _like(values)
        if (
            _call("exact_backward", (q, keys, values, out, grads[0]), (dq, dkeys, dvalues), q.shape, keys.shape[-2], logs.data_ptr())
            is None
        ):
            raise MemoryError("no memory for the gradient of attention")
        return dq, dk, dv, _along_backward(k, e, dkeys, dk), _along_backward(v, f, dvalues, dv)


def _along(x: Tensor, matrix: Tensor) -> Tensor:
    mixed = _like(x[:, :, :1].expand(-1, -1, matrix.shape[-1], -1))
    _call("along", (x,), (mixed,), x.shape, matrix.shape[-1], matrix.data_ptr(), _between_heads(matrix))
    return mixed


def _along_backward(x: Tensor, matrix: Tensor, dmixed: Tensor, dx: Tensor) -> Tensor:
    """Fills dx and returns the gradient of the matrix."""
    dmatrix, turned = torch.empty_like(matrix), dmixed.mT.contiguous()
    pointers = matrix.data_ptr(), dmatrix.data_ptr(), _between_heads(matrix), turned.data_ptr()
    _call("along_backward", (x, dmixed), (dx,), x.shape, matrix.shape[-1], *pointers)
    return dmatrix


def _between_heads(matrix: Tensor) -> int:
    return matrix[0].numel() if matrix.dim() == 3 else 0


def unfold(half: Tensor, d: int) -> Tensor | None:
    """The real part of a transform over tokens and d real channels, from the half that `rfft2` gives; None where torch has to do it."""
    real = torch.view_as_real(half)
    if half.dim() != 3 or half.shape[-1] != d // 2 + 1 or not _plain(real) or (real.requires_grad and torch.is_grad_enabled()):
        return None
    real, out = real.contiguous(), real.new_empty(*half.shape[:2], d)
    _loaded().unfold(real.data_ptr(), out.data_ptr(), *out.shape)
    return out


def local(out: Tensor, v: Tensor, filters: Tensor, grid: tuple[int, int]) -> Tensor | None:
    """out (B, H, N, K) + the convolution of v over the grid that the last tokens lie on, `filters` (H K, 1, side, side), with gradients;
    None where torch has to do it."""
    if not _plain(out, v, filters, dtypes=WIDENED) or v.shape[-1] % LANES or not _alike(out, v):
        return None
    (_, h, n, d), side = v.shape, filters.shape[-1]
    if filters.shape != (h * d, 1, side, side) or side % 2 == 0 or min(grid) < 1 or grid[0] * grid[1] > n:
        return None
    made: Any = _Local.apply(out.float(), v.float(), filters.float(), grid)
    return made.to(v.dtype)


class _Local(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, out: Tensor, v: Tensor, filters: Tensor, grid: tuple[int, int]) -> Tensor:
        ctx.save_for_backward(v, filters)
        ctx.grid = grid
        by_tap = filters.flatten(1).t().contiguous()
        made = _call("local", (out, v), (_like(v),), v.shape, filters.shape[-1], by_tap.data_ptr(), *grid)
        if made is None:
            raise MemoryError("no memory for a convolution")
        return made

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (grad,), (v, filters) = grads, ctx.saved_tensors
        side, (b, h, _, d) = filters.shape[-1], v.shape
        turned = filters.flip(-1, -2).flatten(1).t().contiguous()
        dv = _call("local", (grad.new_zeros(d).expand_as(grad), grad), (_like(v),), v.shape, side, turned.data_ptr(), *ctx.grid)
        taps = v.new_empty(b, side * side, h, d)
        _call("local_filters", (grad, v), (taps,), v.shape, side, *ctx.grid)
        return grad, dv, taps.sum(0).flatten(1).t().reshape_as(filters), None


def nystrom(q: Tensor, k: Tensor, v: Tensor, landmarks: int, iterations: int, filters: Tensor | None) -> Tensor | None:
    """Attention with the convolution of v added, `filters` (H, 2 side + 1), with gradients; None where torch has to do it."""
    given = (q, k, v) if filters is None else (q, k, v, filters)
    if landmarks % LANES or q.shape[-1] % LANES or not _plain(*given) or not _alike(q, k, v) or q.shape[2] < landmarks:
        return None
    if filters is not None and (filters.dim() != 2 or len(filters) != q.shape[1] or filters.shape[1] % 2 == 0):
        return None
    if torch.is_grad_enabled() and any(t.requires_grad for t in given):
        return _Nystrom.apply(q, k, v, filters, landmarks, iterations)  # pyright: ignore[reportReturnType]
    return _nystrom(q, k, v, filters, landmarks, iterations)


def _nystrom(q: Tensor, k: Tensor, v: Tensor, filters: Tensor | None, landmarks: int, iterations: int) -> Tensor | None:
    padded = None if filters is None else _padded(filters)
    return _call("nystrom", (q, k, v), (_like(q),), q.shape, landmarks, iterations, *_filter(padded))


def _padded(filters: Tensor) -> Tensor:
    return F.pad(filters.detach(), (3, 3)).contiguous()


def _filter(padded: Tensor | None) -> tuple[int | None, int]:
    return (None, 0) if padded is None else (padded.data_ptr(), (padded.shape[1] - 7) // 2)


class _Nystrom(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, filters: Tensor | None, landmarks: int, iterations: int) -> Tensor:
        ctx.save_for_backward(q, k, v, filters)
        ctx.sizes = landmarks, iterations
        out = _nystrom(q, k, v, filters, landmarks, iterations)
        if out is None:
            raise MemoryError("no memory for attention")
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        q, k, v, filters = ctx.saved_tensors
        dfilters = q.new_empty(*q.shape[:2], 1) if filters is None else q.new_empty(len(q), *filters.shape)
        made = *_side_by_side(q), dfilters
        padded = None if filters is None else _padded(filters.flip(1))
        if _call("nystrom_backward", (q, k, v, grads[0]), made, q.shape, *ctx.sizes, *_filter(padded)) is None:
            raise MemoryError("no memory for the gradient of attention")
        return *made[:3], None if filters is None else dfilters.sum(0), None, None


def _alike(*tensors: Tensor) -> bool:
    """Of one shape: C would read past the end of a shorter one."""
    return len({t.shape for t in tensors}) == 1


def _plain(*tensors: Tensor, dtypes: tuple[torch.dtype, ...] = (torch.float32,)) -> bool:
    """Plain memory of one of these types, not empty, and nobody who looks at every operation: no tracer, compiler, transform or mode."""
    kinds = (Tensor, nn.Parameter)
    if any(type(t) not in kinds or t.device.type != "cpu" or t.dtype not in dtypes or not t.numel() for t in tensors):
        return False
    traced = torch.compiler.is_compiling() or is_tracing() or is_in_torch_dispatch_mode() or ops.transformed()
    return not traced and library() is not None


def _like(x: Tensor) -> Tensor:
    """Room for (B, H, N, K), in the order in which heads are put together again."""
    b, h, n, d = x.shape
    return x.new_empty(b, n, h, d).transpose(1, 2)


def _call(name: str, given: tuple[Tensor, ...], made: tuple[Tensor, ...], shape: torch.Size, *options: object) -> Tensor | None:
    """Fill the tensors `made` from those `given`; the first of them, or None when there was no memory."""
    tensors = *(t if t.stride(-1) == 1 else t.contiguous() for t in given), *made
    strides = (ctypes.c_long * (3 * len(tensors)))(*(step for t in tensors for step in t.stride()[:3]))
    failed = getattr(_loaded(), name)(*(t.data_ptr() for t in tensors), strides, *shape, *options)
    return None if failed else made[0]
