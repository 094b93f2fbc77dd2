"""From images to tokens."""

# B images  C channels  N tokens  D width

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vixformer.nn.activations import activation
from vixformer.ops import Grid, linear
from vixformer.registry import Named


@dataclass(frozen=True)
class StemOptions:
    in_chans: int
    dim: int
    patch_size: int
    norm: bool = False
    act: str | None = None


class Stem(nn.Module, Named, family="stem"):
    """Images (B, C, height, width) -> tokens (B, N, D), listed row by row, `repeats` grids one after the other."""

    repeats: int = 1
    takes_norm_and_act: bool = False

    def __init__(self, options: StemOptions) -> None:
        super().__init__()
        self.options = options
        if (options.norm or options.act is not None) and not self.takes_norm_and_act:
            raise ValueError(f'stem_norm and stem_act go with stem="conv": leave them out for stem="{self.name}"')

    def grid(self, height: int, width: int) -> Grid:
        """Places for an image of this size. Pixels of an incomplete patch at the right and the bottom are not looked
        at."""
        side = self.options.patch_size
        if min(height, width) < side:
            raise ValueError(
                f"an image of {height} x {width} is smaller than one patch of {side} x {side}: use a smaller patch_size"
            )
        return height // side, width // side

    def forward(self, images: Tensor) -> Tensor:
        raise NotImplementedError


class PatchConv(nn.Conv2d):
    """A convolution whose window is its stride, computed as what it is, a linear layer on patches: faster. (B, C, H, W)
    -> (B, N, D)."""

    def forward(self, input: Tensor) -> Tensor:
        side = self.stride[0]
        height, width = input.shape[-2] // side, input.shape[-1] // side
        rows = input[..., : height * side, : width * side].unflatten(-1, (width, side)).unflatten(-3, (height, side))
        patches = rows.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
        return linear(patches, self.weight.flatten(1), self.bias)


class LinearPatches(Stem, name="linear"):
    """Each patch through one linear layer, stored as a convolution, as timm does."""

    def __init__(self, options: StemOptions) -> None:
        super().__init__(options)
        self.proj = PatchConv(options.in_chans, options.dim, options.patch_size, stride=options.patch_size)

    def forward(self, images: Tensor) -> Tensor:
        return self.proj(images)


class ConvStem(Stem, name="conv"):
    """Three 3 x 3 convolutions to D/4, D/2 and D channels ("Vision Xformers"), with a normalization and an activation
    by option.

    Their strides multiply to `patch_size`, the first taking the largest share: 2 is 2, 1, 1. Windows grow with a stride
    above 2, so that every pixel is seen.
    """

    takes_norm_and_act = True

    def __init__(self, options: StemOptions) -> None:
        super().__init__(options)
        if options.dim % 4:
            raise ValueError(
                f'stem="conv" widens to a quarter, a half and all of its width, which 4 must divide, not {options.dim}'
            )
        widths = (options.in_chans, options.dim // 4, options.dim // 2, options.dim)
        layers: list[nn.Module] = []
        for i, stride in enumerate(_strides(options.patch_size)):
            kernel = _window(stride)
            layers.append(nn.Conv2d(widths[i], widths[i + 1], kernel, stride, kernel // 2))
            if options.norm:
                layers.append(nn.BatchNorm2d(widths[i + 1]))
            if options.act is not None:
                layers.append(activation(options.act))
        self.layers = nn.Sequential(*layers)

    def forward(self, images: Tensor) -> Tensor:
        height, width = self.grid(*images.shape[-2:])
        return self.layers(images)[..., :height, :width].flatten(2).transpose(1, 2)


class HalvingStem(Stem, name="levit"):
    """Convolutions that halve the image, channels doubling up to D, batch norm after each and hardswish between them
    (LeViT)."""

    def __init__(self, options: StemOptions) -> None:
        super().__init__(options)
        halvings = options.patch_size.bit_length() - 1
        if 2**halvings != options.patch_size or halvings < 1 or options.dim % 2 ** (halvings - 1):
            raise ValueError(
                'stem="levit" halves the image and doubles its channels up to its width: patch_size must be 2, 4, 8,'
                f" 16 or so, not {options.patch_size}, and half of it divide {options.dim}"
            )
        widths = [options.in_chans, *(options.dim >> i for i in reversed(range(halvings)))]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [*_conv_norm(before, after, 3, 2), nn.Hardswish()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, images: Tensor) -> Tensor:
        height, width = self.grid(*images.shape[-2:])
        return self.layers(images)[..., :height, :width].flatten(2).transpose(1, 2)


class ResNetStem(Stem, name="resnet"):
    """A small ResNet (arXiv:1512.03385): a convolution and three residual blocks of D/4, D/2 and D channels, batch norm
    and ReLU in all.

    The strides of the blocks multiply to `patch_size`, as those of `conv` do.
    """

    def __init__(self, options: StemOptions) -> None:
        super().__init__(options)
        if options.dim % 4:
            raise ValueError(
                'stem="resnet" widens to a quarter, a half and all of its width, which 4 must divide, not'
                f" {options.dim}"
            )
        quarter = options.dim // 4
        strides = _strides(options.patch_size)
        self.first = nn.Sequential(*_conv_norm(options.in_chans, quarter, 3, 1), nn.ReLU())
        widths = (quarter, quarter, 2 * quarter, options.dim)
        self.blocks = nn.Sequential(*(Residual(widths[i], widths[i + 1], strides[i]) for i in range(3)))

    def forward(self, images: Tensor) -> Tensor:
        height, width = self.grid(*images.shape[-2:])
        return self.blocks(self.first(images))[..., :height, :width].flatten(2).transpose(1, 2)


class PooledStem(Stem, name="vgg"):
    """3 x 3 convolutions with batch norm and GELU, and maxima over 2 x 2 pixels that halve the image (arXiv:1409.1556).

    One convolution before the first of them and one after the last, two between others; channels grow evenly up to D.
    """

    def __init__(self, options: StemOptions) -> None:
        super().__init__(options)
        halvings = options.patch_size.bit_length() - 1
        if 2**halvings != options.patch_size or options.dim % (halvings + 1):
            raise ValueError(
                f'stem="{self.name}" halves the image and widens it evenly: patch_size must be 1, 2, 4, 8 or so, not '
                f"{options.patch_size}, and the number of halvings and one, {halvings + 1}, divide {options.dim}"
            )
        widths = [options.in_chans, *(options.dim * (i + 1) // (halvings + 1) for i in range(halvings + 1))]
        layers: list[nn.Module] = [*_conv_norm(widths[0], widths[1], 3, 1), nn.GELU()]
        for i in range(1, halvings + 1):
            layers += [nn.MaxPool2d(2), *_conv_norm(widths[i], widths[i + 1], 3, 1), nn.GELU()]
            layers += self.after(widths[i + 1], last=i == halvings)
        self.layers = nn.Sequential(*layers)

    def after(self, width: int, last: bool) -> list[nn.Module]:
        """What follows the convolution that widens."""
        return [] if last else [*_conv_norm(width, width, 3, 1), nn.GELU()]

    def forward(self, images: Tensor) -> Tensor:
        # channels last: faster on the CPU, and the tokens lie as they are wanted
        return self.layers(images.contiguous(memory_format=torch.channels_last)).flatten(2).transpose(1, 2)


class ResidualPooledStem(PooledStem, name="resnet9"):
    """As `vgg`, with a residual block of two convolutions after every convolution that follows a maximum, as in the
    small ResNets that learn CIFAR-10 in minutes."""

    def after(self, width: int, last: bool) -> list[nn.Module]:
        return [Residual(width, width, 1)]


class Residual(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_conv_norm(before, after, _window(stride), stride), nn.ReLU(), *_conv_norm(after, after, 3, 1)
        )
        self.short = (
            nn.Identity() if before == after and stride == 1 else nn.Sequential(*_conv_norm(before, after, 1, stride))
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.short(x))


def _conv_norm(before: int, after: int, kernel: int, stride: int) -> list[nn.Module]:
    return [nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(after)]


class ChannelPixels(Stem, name="channel-pixels"):
    """Every channel of every pixel is a token, channel after channel ("Optimizing Image Classification on CIFAR-10").

    A token is its value times a vector of its channel plus another. The channels of a pixel share their position.
    """

    def __init__(self, options: StemOptions) -> None:
        super().__init__(options)
        if options.patch_size != 1:
            raise ValueError(
                f'stem="channel-pixels" makes a token of every pixel: patch_size must be 1, not {options.patch_size}'
            )
        self.repeats = options.in_chans
        self.proj = nn.Conv2d(options.in_chans, options.in_chans * options.dim, 1, groups=options.in_chans)

    def forward(self, images: Tensor) -> Tensor:
        return self.proj(images).unflatten(1, (self.repeats, -1)).permute(0, 1, 3, 4, 2).flatten(1, 3)


def after_window(side: int, windows: Sequence[tuple[int, int, int]]) -> int:
    """What is left of a side after convolutions or poolings of these kernels, strides and paddings."""
    start = side
    for kernel, stride, padding in windows:
        side = (side + 2 * padding - kernel) // stride + 1
        if side < 1:
            raise ValueError(
                f"a side of {start} pixels is too short for these convolutions: use a larger image, or smaller strides"
            )
    return side


def _strides(total: int) -> tuple[int, int, int]:
    """Three strides that multiply to `total`, as even as they can be, the largest first."""
    sides = [side for side in range(1, total + 1) if total % side == 0]
    choices = [
        (a, b, total // (a * b))
        for a in sides
        for b in sides
        if b <= a and total % (a * b) == 0 and total // (a * b) <= b
    ]
    return min(choices)


def _window(stride: int) -> int:
    """So wide that, centered on every n-th pixel (n is the stride) from the first one on, it sees the last ones too."""
    return max(3, 2 * stride - 1)
