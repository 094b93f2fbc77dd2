"""Exact attention over keys and values that are mixed along the tokens."""

# B images  N tokens  H heads  K head width  R rank

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from vixformer.ops import native
from vixformer.ops.checks import check_heads
from vixformer.ops.choice import FLOATS, kernel_takes, wanted
from vixformer.ops.operation import Arguments, Gradients, Operation, Sizes
from vixformer.ops.precision import wide
from vixformer.ops.softmax import ExactAttention, exact_attention


def linformer_attention(q: Tensor, k: Tensor, v: Tensor, e: Tensor, f: Tensor) -> Tensor:
    """Exact attention of q to e'k and f'v, matrices (N, R) or (H, N, R), in float32 at least: sums over all tokens
    overflow float16."""
    check_heads(q, k, v)
    _check_matrices(k, e, f)
    dtype = v.dtype
    fits = q.shape[-1] % native.LANES == 0 and v.shape == k.shape and e.shape[-1] % native.WIDTH == 0
    if fits and kernel_takes(q, k, v, e, f, dtypes=FLOATS):
        tensors = *native.readable(q, k, v), e.float().contiguous(), f.float().contiguous()
        return LinformerAttention.call(*tensors, wanted(*tensors)).to(dtype)
    q, k, v = wide(q), wide(k), wide(v)
    keys, values = _project(e, k), _project(f, v)
    fast = exact_attention(q, keys, values)
    return (F.scaled_dot_product_attention(q, keys, values) if fast is None else fast).to(dtype)


def linformer_weights(q: Tensor, k: Tensor, e: Tensor, f: Tensor) -> Tensor:
    """softmax(q k' e) f': how much of each v reaches each query. Rows need not sum to one, and may be negative."""
    q, k = wide(q), wide(k)
    scores = q @ (e.to(k.dtype).mT @ k).mT
    return (scores * q.shape[-1] ** -0.5).softmax(-1) @ f.to(k.dtype).mT


def linformer_attention_slow(q: Tensor, k: Tensor, v: Tensor, e: Tensor, f: Tensor) -> Tensor:
    return (linformer_weights(q, k, e, f) @ wide(v)).to(v.dtype)


def _check_matrices(k: Tensor, e: Tensor, f: Tensor) -> None:
    if e.shape != f.shape or e.shape[:-1] not in (k.shape[2:3], k.shape[1:3]):
        raise ValueError(
            f"E and F must both be ({k.shape[2]}, rank) or ({k.shape[1]}, {k.shape[2]}, rank) for these keys, not"
            f" {tuple(e.shape)} and {tuple(f.shape)}"
        )


def _project(matrix: Tensor, x: Tensor) -> Tensor:
    """(N, R) or (H, N, R), x (B, H, N, K) -> (B, H, R, K)."""
    matrix = matrix.to(x.dtype)
    if matrix.dim() == 3:
        return matrix.mT @ x
    # All heads in one product: x is a view of (B, N, H K), so this copies nothing more than a product a head would.
    heads = x.transpose(1, 2)
    return (
        torch.bmm(matrix.mT.expand(x.shape[0], -1, -1), heads.flatten(2)).unflatten(-1, heads.shape[2:]).transpose(1, 2)
    )


class LinformerAttention(Operation, name="linformer_attention"):
    takes = "Tensor q, Tensor k, Tensor v, Tensor e, Tensor f, bool train"
    gives = "(Tensor, Tensor, Tensor, Tensor)"
    keeps = "Tensor q, Tensor k, Tensor v, Tensor e, Tensor f, Tensor out, Tensor keys, Tensor values, Tensor logs"
    returns = "Tensor[]"

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, e: Tensor, f: Tensor, train: bool) -> tuple[Tensor, ...]:
        made = out, keys, values, logs = LinformerAttention.fake(q, k, v, e, f, train)
        for x, matrix, mixed in ((k, e, keys), (v, f, values)):
            native.run("along", (x,), (mixed,), x.shape, matrix.shape[-1], matrix.data_ptr(), _between_heads(matrix))
        native.run("exact", (q, keys, values), (out,), q.shape, keys.shape[2], logs.data_ptr() if train else None)
        return made

    @staticmethod
    def fake(q: Tensor, k: Tensor, v: Tensor, e: Tensor, f: Tensor, train: bool) -> tuple[Tensor, ...]:
        b, h, _, d = k.shape
        keys, values = (k.new_empty(b, e.shape[-1], h, d).transpose(1, 2) for _ in range(2))
        return native.like(q), keys, values, q.new_empty(q.shape[:3] if train else 0, dtype=torch.float32)

    @staticmethod
    def kept(inputs: Arguments, made: tuple[Tensor, ...]) -> Arguments:
        return *inputs[:5], *made

    @staticmethod
    def backward(
        q: Tensor, k: Tensor, v: Tensor, e: Tensor, f: Tensor, out: Tensor, keys: Tensor, values: Tensor, *rest: Tensor
    ) -> list[Tensor]:
        logs, grad = rest
        *dqkv, de, df = made = LinformerAttention.fake_backward(q, k, v, e, f)
        dq, dk, dv = native.apart(dqkv)
        dkeys, dvalues = native.like(keys), native.like(values)
        native.run(
            "exact_backward",
            (q, keys, values, out, grad),
            (dq, dkeys, dvalues),
            q.shape,
            keys.shape[2],
            logs.data_ptr(),
        )
        for x, matrix, dmixed, dx, dmatrix in ((k, e, dkeys, dk, de), (v, f, dvalues, dv, df)):
            # pairs stay together
            turned = (dmixed.view(torch.int32) if dmixed.dtype is torch.bfloat16 else dmixed).mT.contiguous()
            pointers = matrix.data_ptr(), dmatrix.data_ptr(), _between_heads(matrix), turned.data_ptr()
            native.run("along_backward", (x, dmixed), (dx,), x.shape, matrix.shape[-1], *pointers)
        return made

    @staticmethod
    def fake_backward(q: Tensor, k: Tensor, v: Tensor, e: Tensor, f: Tensor, *_: object) -> list[Tensor]:
        # C adds image after image to the gradients of matrices, so without images they stay zero
        return [*ExactAttention.fake_backward(q, k, v), torch.zeros_like(e), torch.zeros_like(f)]

    @staticmethod
    def gradients(made: list[Tensor], kept: Arguments, _: object) -> Gradients:
        *dqkv, de, df = made
        return *native.apart(dqkv), de, df, None

    @staticmethod
    def flops(q: Sizes, k: Sizes, v: Sizes, e: Sizes, *_: object) -> int:
        (b, h, n, d), keys, rank = q, k[2], e[-1]
        return 4 * b * h * d * rank * (n + keys)

    @staticmethod
    def backward_flops(q: Sizes, k: Sizes, v: Sizes, e: Sizes, *_: object) -> int:
        (b, h, n, d), keys, rank = q, k[2], e[-1]
        return 2 * b * h * d * rank * (5 * n + 4 * keys)


def _between_heads(matrix: Tensor) -> int:
    return matrix[0].numel() if matrix.dim() == 3 else 0
