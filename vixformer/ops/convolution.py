"""A depthwise convolution of v over the grid that its last tokens lie on, added to what attention makes of it."""

# B images  N tokens  H heads  K head width

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from vixformer.ops import native
from vixformer.ops.choice import FLOATS, kernel_takes
from vixformer.ops.operation import Arguments, Gradients, Operation, Sizes

Grid = tuple[int, int]
"""Height and width of the places that the last tokens of an image lie on."""


def add_convolution(out: Tensor, v: Tensor, filters: Tensor, bias: Tensor | None, grid: Grid) -> Tensor:
    """out (B, H, N, K) + the convolution of v, with `filters` (H K, 1, side, side), an odd side. Tokens in front of the
    grid stay."""
    _check(out, v, filters, grid)
    if v.shape[-1] % native.LANES == 0 and kernel_takes(out, v, filters, bias, dtypes=FLOATS):
        if bias is not None:
            # wide, because its gradient is a sum over all images and tokens
            out = (out + _on_grid(bias.float(), v, grid)).to(v.dtype)
        return Convolution.call(*native.readable(out, v), filters.float(), *grid).to(v.dtype)
    heads, prefix = v.shape[1], v.shape[-2] - grid[0] * grid[1]
    # as one filter a channel over (B, N, H K), the order in which the heads were made and are put together again:
    # nothing is copied
    image = v.transpose(1, 2).flatten(2)[:, prefix:].unflatten(1, grid).permute(0, 3, 1, 2)
    local = F.conv2d(
        image,
        filters.to(v.dtype),
        None if bias is None else bias.to(v.dtype),
        padding=filters.shape[-1] // 2,
        groups=len(filters),
    )
    local = local.permute(0, 2, 3, 1).flatten(1, 2).unflatten(-1, (heads, -1)).transpose(1, 2)
    return out + F.pad(local, (0, 0, prefix, 0))


def _on_grid(bias: Tensor, v: Tensor, grid: Grid) -> Tensor:
    """(H, N, K): for the tokens of the grid, and zeros for those in front."""
    seen = grid[0] * grid[1]
    return F.pad(bias.view(v.shape[1], 1, v.shape[3]).expand(-1, seen, -1), (0, 0, v.shape[2] - seen, 0))


def add_convolution_slow(out: Tensor, v: Tensor, filters: Tensor, bias: Tensor | None, grid: Grid) -> Tensor:
    """The same, a neighbor at a time."""
    (height, width), side, out = grid, filters.shape[-1], out.clone()
    padded = F.pad(v[:, :, -height * width :].unflatten(2, grid), (0, 0, *[side // 2] * 4))
    sums = out[:, :, -height * width :].unflatten(2, grid)
    by_head = filters.view(v.shape[1], 1, 1, v.shape[-1], side, side)
    for y in range(side):
        for x in range(side):
            sums += by_head[..., y, x] * padded[:, :, y : y + height, x : x + width]
    if bias is not None:
        sums += bias.view(v.shape[1], 1, 1, v.shape[-1])
    return out


def _check(out: Tensor, v: Tensor, filters: Tensor, grid: Grid) -> None:
    channels, side = v.shape[1] * v.shape[-1], filters.shape[-1]
    if out.shape != v.shape or filters.shape != (channels, 1, side, side) or side % 2 == 0:
        raise ValueError(
            f"a convolution of v {tuple(v.shape)} takes an output of that shape and filters ({channels}, 1, side, side)"
            f" with an odd side, not {tuple(out.shape)} and {tuple(filters.shape)}"
        )
    if min(grid) < 1 or grid[0] * grid[1] > v.shape[2]:
        raise ValueError(f"a grid of {grid[0]} x {grid[1]} does not fit the {v.shape[2]} tokens given")


class Convolution(Operation, name="add_convolution"):
    takes = "Tensor out, Tensor v, Tensor filters, SymInt height, SymInt width"
    gives = "Tensor"
    keeps = "Tensor v, Tensor filters, SymInt height, SymInt width"
    returns = "(Tensor, Tensor)"

    @staticmethod
    def forward(out: Tensor, v: Tensor, filters: Tensor, height: int, width: int) -> Tensor:
        by_tap = filters.flatten(1).t().contiguous()
        made = Convolution.fake(out, v)
        native.run("local", (out, v), (made,), v.shape, filters.shape[-1], by_tap.data_ptr(), height, width)
        return made

    @staticmethod
    def fake(out: Tensor, v: Tensor, *_: object) -> Tensor:
        return native.like(v)

    @staticmethod
    def kept(inputs: Arguments, made: object) -> Arguments:
        return inputs[1:]

    @staticmethod
    def backward(v: Tensor, filters: Tensor, height: int, width: int, grad: Tensor) -> tuple[Tensor, Tensor]:
        side, (b, h, _, d) = filters.shape[-1], v.shape
        turned = filters.flip(-1, -2).flatten(1).t().contiguous()
        dv, taps = native.like(v), v.new_empty(b, side * side, h, d, dtype=torch.float32)
        nothing = grad.new_zeros(d).expand_as(grad)
        native.run("local", (nothing, grad), (dv,), v.shape, side, turned.data_ptr(), height, width)
        native.run("local_filters", (grad, v), (), v.shape, side, height, width, taps.data_ptr())
        return dv, taps.sum(0).flatten(1).t().reshape(filters.shape)

    @staticmethod
    def fake_backward(v: Tensor, filters: Tensor, *_: object) -> tuple[Tensor, Tensor]:
        return native.like(v), filters.new_empty(filters[0].numel(), len(filters)).t().reshape(filters.shape)

    @staticmethod
    def gradients(made: tuple[Tensor, Tensor], kept: Arguments, grads: tuple[Tensor, ...]) -> Gradients:
        return grads[0], *made, None, None

    @staticmethod
    def flops(out: Sizes, v: Sizes, filters: Sizes, height: int, width: int) -> int:
        return 2 * v[0] * filters[0] * filters[2] * filters[3] * height * width

    @staticmethod
    def backward_flops(v: Sizes, filters: Sizes, height: int, width: int, *_: object) -> int:
        return 2 * Convolution.flops(v, v, filters, height, width)
