"""Pure functions on q, k and v, each beside its slow twin, which says the same thing the obvious way.

Sums, exponentials and divisions are float32 whatever comes in: in half precision features overflow silently.
"""
# B images  N tokens  H heads  K head width  M features  L landmarks  C chunks of T tokens

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def room(x: Tensor) -> Tensor | None:
    """`out=` for an elementwise step on a tensor nobody else holds: the tensor itself, unless autograd, a compiler or vmap is watching."""
    return None if x.requires_grad or torch.compiler.is_compiling() or transformed() else x


def wide(x: Tensor) -> Tensor:
    """x in float32, or in float64 where it is that already."""
    return x if x.dtype == torch.float64 else x.float()


def widest(x: Tensor) -> Tensor:
    """x in float64, for features whose range or cancellation float32 cannot hold; Apple's GPUs have nothing wider."""
    return x if x.device.type == "mps" else x.double()


def transformed() -> bool:
    """Whether vmap, grad or another transform of torch.func is at work: tensors then stand for something else."""
    return torch._C._functorch.peek_interpreter_stack() is not None  # pyright: ignore[reportAttributeAccessIssue]


class _Attend(nn.Module):
    """A method of a core as a module, so that backward can run it with the weights that forward saw."""

    def __init__(self, core: nn.Module, attend: str) -> None:
        super().__init__()
        self.core, self.attend = core, attend

    def forward(self, *args: Any) -> Tensor:
        return getattr(self.core, self.attend)(*args)


class _Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, core: nn.Module, attend: str, mask: Tensor | None, names: list[str], *tensors: Tensor) -> Tensor:
        ctx.module, ctx.mask, ctx.names = _Attend(core, attend), mask, names
        ctx.save_for_backward(*tensors)
        return ctx.module(*tensors[: len(tensors) - len(names)], mask)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        saved = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        split = len(saved) - len(ctx.names)
        weights = {f"core.{name}": t for name, t in zip(ctx.names, saved[split:], strict=True)}
        kind = saved[0].device.type
        with torch.enable_grad(), torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext():
            out = torch.func.functional_call(ctx.module, weights, (*saved[:split], ctx.mask))
            asked = [t for t in saved if t.requires_grad]
            # what asks may be weights of the core that this method does not use
            wanted = iter(torch.autograd.grad(out, asked, grads, allow_unused=True) if out.requires_grad else [None] * len(asked))
        return None, None, None, None, *(next(wanted) if t.requires_grad else None for t in saved)


def recompute(core: nn.Module, attend: str, mask: Tensor | None, *inputs: Tensor, beside: tuple[str, ...] = ()) -> Tensor:
    """`core.attend(*inputs, mask)`, keeping nothing but the inputs for backward, which runs it again.

    Features are many times larger than the q and k they are made of, and cheap to make. Weights and buffers are kept as they are, so a
    change of them between forward and backward is an error and not a wrong gradient. `beside` begins the names of weights that `attend`
    does not use. A compiler decides for itself what to recompute, and the transforms of torch.func see the plain computation.
    """
    state = {name: t for name, t in (*core.named_parameters(), *core.named_buffers()) if not name.startswith(beside)}
    watched = torch.is_grad_enabled() and any(t.requires_grad for t in (*inputs, *state.values()))
    if not watched or torch.compiler.is_compiling() or transformed():
        return getattr(core, attend)(*inputs, mask)
    return _Recompute.apply(core, attend, mask, list(state), *inputs, *state.values())  # pyright: ignore[reportReturnType]


# --- rotary positions

Rotation = tuple[Tensor, Tensor]
"""Cosines and sines (N, K / 2)."""


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the pairs (x_0, x_1), (x_2, x_3), ... of (B, H, N, K) by the angles of their token."""
    even, odd = wide(x).unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2).to(x.dtype)


# --- exact attention


def key_mask(mask: Tensor | None, n: int, causal: bool) -> Tensor | None:
    """What each query may see, ready to broadcast over (B, H, N, N); None when that is everything."""
    seen = None if mask is None else mask[:, None, None, :]
    if causal:
        past = torch.ones(n, n, dtype=torch.bool, device=None if mask is None else mask.device).tril()
        seen = past if seen is None else seen & past
    return seen


def softmax_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False, bias: Tensor | None = None, drop: float = 0.0
) -> Tensor:
    """`drop` is the dropout rate of the attention weights."""
    if mask is None and bias is None:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=drop, is_causal=causal)
    seen = key_mask(mask, q.shape[-2], causal)
    if bias is None:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, dropout_p=drop)
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=bias[None] if seen is None else bias.masked_fill(~seen, -torch.inf), dropout_p=drop
    )


def softmax_weights(q: Tensor, k: Tensor, mask: Tensor | None = None, causal: bool = False, bias: Tensor | None = None) -> Tensor:
    scores = wide(q * q.shape[-1] ** -0.5 @ k.transpose(-1, -2))
    scores = scores if bias is None else scores + bias
    seen = key_mask(mask, q.shape[-2], causal)
    if seen is None:
        return scores.softmax(-1)
    return scores.masked_fill(~seen.to(scores.device), -torch.inf).softmax(-1).nan_to_num(0.0)  # who sees nothing takes nothing


def softmax_attention_slow(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False, bias: Tensor | None = None, drop: float = 0.0
) -> Tensor:
    """All N x N weights are in memory at once, and are kept for backward."""
    weights = softmax_weights(q, k, mask, causal, bias)
    return ((F.dropout(weights, drop) if drop else weights) @ wide(v)).to(v.dtype)


# --- exact attention in a window: tokens in segments of `window`, each seeing its own and its neighbors (causal: the one before)


def window_attention(q: Tensor, k: Tensor, v: Tensor, window: int, mask: Tensor | None = None, causal: bool = False) -> Tensor:
    n = q.shape[-2]
    if n <= window:
        return softmax_attention(q, k, v, mask, causal)
    segments = -(-n // window)
    after = 0 if causal else window
    padded = (0, 0, window, segments * window - n + after)
    seen = torch.ones(1, n, dtype=torch.bool, device=q.device) if mask is None else mask
    seen = F.pad(seen, padded[2:]).unfold(-1, 2 * window + after, window).unsqueeze(-2)  # (B, C, 1, keys)
    if causal:
        seen = seen & torch.ones(window, 2 * window, dtype=torch.bool, device=q.device).tril(window)
    seen = seen.repeat(1, q.shape[1], 1, 1)
    queries = F.pad(q, (0, 0, 0, segments * window - n)).unflatten(-2, (segments, window)).flatten(1, 2)  # (B, H C, window, K)
    keys, values = (F.pad(t, padded).unfold(-2, 2 * window + after, window).flatten(1, 2).mT for t in (k, v))
    out = F.scaled_dot_product_attention(queries, keys, values, attn_mask=seen)  # four dimensions, for which torch has a fused kernel
    return out.unflatten(1, (-1, segments)).flatten(2, 3)[..., :n, :]


def window_weights(q: Tensor, k: Tensor, window: int, mask: Tensor | None = None, causal: bool = False) -> Tensor:
    segment = torch.arange(q.shape[-2], device=q.device) // window
    near = (segment[:, None] - segment).abs() <= 1
    return softmax_weights(q, k, mask, causal, torch.zeros_like(near, dtype=q.dtype).masked_fill(~near, -torch.inf))


def window_attention_macs(n: int, k: int, window: int, causal: bool) -> int:
    if n <= window:
        return 2 * n * n * k
    return 2 * -(-n // window) * window * (2 if causal else 3) * window * k


# --- linear attention: phi(q) (phi(k)' v) / (phi(q) . sum phi(k))


def _divide(sums_and_total: Tensor, eps: float, floor: float | None) -> Tensor:
    """The last column is the normalizer. `floor` keeps one that may be negative away from zero; the others are only kept off 0 / 0, and
    far enough that gradients, which are divided by it, do not overflow."""
    total = sums_and_total[..., -1:] + eps
    kept_off = (
        total.clamp(min=1e8 * torch.finfo(total.dtype).tiny)
        if floor is None
        else torch.where(total < 0, total.clamp(max=-floor), total.clamp(min=floor))
    )
    return sums_and_total[..., :-1] / kept_off


def linear_attention(phi_q: Tensor, phi_k: Tensor, v: Tensor, eps: float = 0.0, floor: float | None = None) -> Tensor:
    """phi_q, phi_k (B, H, N, M), v (B, H, N, K), float32. The normaliser rides along as one more column of the context."""
    context = torch.cat([phi_k.transpose(-1, -2) @ v, phi_k.sum(-2).unsqueeze(-1)], -1)
    return _divide(phi_q @ context, eps, floor)


CHUNK = 64


def causal_linear_attention(phi_q: Tensor, phi_k: Tensor, v: Tensor, eps: float = 0.0, floor: float | None = None) -> Tensor:
    """Each token sees itself and those before it: prefix sums over chunks of tokens, the quadratic form inside a chunk."""
    n = v.shape[-2]
    size = min(CHUNK, n)
    v = F.pad(v, (0, 1), value=1.0)
    phi_q, phi_k, v = (F.pad(t, (0, 0, 0, -n % size)).unflatten(-2, (-1, size)) for t in (phi_q, phi_k, v))  # B H C T .
    context = phi_k.transpose(-1, -2) @ v
    before = F.pad(context[..., :-1, :, :].cumsum(-3), (0, 0, 0, 0, 1, 0))  # shifted: to subtract the chunk itself would round the past
    inside = (phi_q @ phi_k.transpose(-1, -2)).tril() @ v
    return _divide((phi_q @ before + inside).flatten(-3, -2)[..., :n, :], eps, floor)


def linear_attention_macs(n: int, m: int, k: int, causal: bool) -> int:
    if not causal:
        return n * m * k + n * m * (k + 1)
    size = min(CHUNK, n)
    padded = n + -n % size
    return 2 * padded * m * (k + 1) + padded * size * (m + k + 1)


def linear_weights(phi_q: Tensor, phi_k: Tensor, causal: bool = False, eps: float = 0.0, floor: float | None = None) -> Tensor:
    weights = phi_q @ phi_k.transpose(-1, -2)
    if causal:
        weights = weights.tril()
    return _divide(torch.cat([weights, weights.sum(-1, keepdim=True)], -1), eps, floor)


# --- features


def stable_exp(u: Tensor, square: Tensor | None, eps: float, keys: bool, mask: Tensor | None, causal: bool) -> Tensor:
    """exp(u - square - c) + eps. c cancels in the division: the largest u of a query itself, of all keys of an image and head.

    Without eps, c is the largest exponent instead of the largest u, so that the features of an image never all vanish. Under a causal mask
    c knows of the future, and eps, measured against it, would tell; so there is no eps, and float64 holds keys far smaller than the last.
    """
    if causal:
        u, eps = widest(u), 0.0
    if square is not None and eps == 0:
        # one after the other: exponents above zero would come of rounding the sum of square and c; that of a query cancels
        u, square = torch.sub(u, square, out=room(u)) if keys else u, None
    if keys and mask is not None:
        u = u.masked_fill(~mask[:, None, :, None], torch.finfo(u.dtype).min)
    top = u.detach().amax((-1, -2) if keys else -1, keepdim=True)
    u = torch.sub(u, top if square is None else square + top, out=room(u))
    u = torch.exp(u, out=room(u))
    return u if eps == 0 else torch.add(u, eps, out=room(u))


def softmax_features(u: Tensor) -> Tensor:
    """softmax(u), at least 1e-12 as in Hedgehog's own code: for large u, queries and keys otherwise have no feature in common."""
    return u.softmax(-1).clamp(min=1e-12)


def orthogonal_rows(rows: int, columns: int, scaling: str, generator: torch.Generator | None = None) -> Tensor:
    """(rows, columns): blocks of Haar-distributed orthogonal matrices, row norms those of Gaussian rows (chi) or all sqrt(columns); `iid`
    is independent Gaussian rows."""
    if scaling == "iid":
        return torch.randn(rows, columns, generator=generator)
    blocks = []
    for _ in range(-(-rows // columns)):
        q, r = torch.linalg.qr(torch.randn(columns, columns, generator=generator))
        blocks.append(q * r.diagonal().sign())  # without the signs QR favours some rotations over others
    directions = torch.cat(blocks)[:rows]
    if scaling == "sqrt":
        return directions * columns**0.5
    return directions * torch.randn(rows, columns, generator=generator).norm(dim=1, keepdim=True)


# --- Nystrom


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


# --- Fourier


def fourier_mix(x: Tensor, grid: tuple[int, int] | None = None) -> Tensor:
    """Real part of the discrete Fourier transform of real x (B, N, D) over tokens and channels; with a grid, over rows and columns too.

    The transform of a real signal is half redundant: transform channels to D/2 + 1 frequencies, tokens in full, and read the other half
    off by symmetry, Re X[-n, -d] = Re X[n, d].
    """
    if grid is None:
        return unfold(half_spectrum(wide(x)), x.shape[-1]).to(x.dtype)
    half = torch.fft.rfftn(wide(x).unflatten(1, grid), dim=(1, 2, 3)).real
    mirrored = half[..., 1 : (x.shape[-1] + 1) // 2].flip(1, 2, 3).roll((1, 1), (1, 2))  # frequency 0 stays where it is
    return torch.cat([half, mirrored], -1).flatten(1, 2).to(x.dtype)


def half_spectrum(x: Tensor) -> Tensor:
    return torch.fft.fft(torch.fft.rfft(x, dim=-1), dim=-2)


def unfold(half: Tensor, d: int) -> Tensor:
    half = half.real
    mirrored = half[..., 1 : (d + 1) // 2].flip(-1)
    mirrored = torch.cat([mirrored[..., :1, :], mirrored[..., 1:, :].flip(-2)], -2)
    return torch.cat([half, mirrored], -1)


def fourier_mix_slow(x: Tensor, grid: tuple[int, int] | None = None) -> Tensor:
    """Re(F_N x F_D), with a grid Re(F_h F_w x F_D), as the matrices written out, one axis after the other."""
    out = x.to(torch.complex128).unflatten(1, grid or (x.shape[1],))
    for axis in range(1, out.dim()):
        i = torch.arange(out.shape[axis], device=x.device)
        angles = (i[:, None] * i % len(i)).double() * (2 * torch.pi / len(i))
        out = (out.movedim(axis, -1) @ torch.polar(torch.ones_like(angles), -angles)).movedim(-1, axis)
    return out.real.flatten(1, -2).to(x.dtype)
