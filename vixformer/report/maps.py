"""Where a model looks: the attention of every layer and head on an image, and its rollout, as pictures laid over the
image."""

# G places an image side has  H heads  N tokens

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from vixformer.attention.project.projection import Attention, mechanism_of
from vixformer.backbones.backbone import Backbone

MOST_TOKENS = 1100
"""A map has the square of this many numbers, for every head of every layer."""
COLORS = np.array([[0, 0, 4], [87, 16, 110], [188, 55, 84], [249, 142, 9], [252, 255, 164]], float)
"""Dark to bright, even to the eye (matplotlib's inferno at five places)."""


@dataclass(frozen=True)
class Looks:
    """For one image."""

    names: tuple[str, ...]
    """The mechanism of each layer."""
    layers: tuple[Tensor | None, ...]
    """(H, G, G) each, what the class token or else all tokens on average take from each place; None where there is no
    map."""
    rollout: Tensor | None
    """(G, G): the maps of all layers multiplied, half of each token passing by (Abnar and Zuidema, 2020)."""

    @property
    def mean(self) -> Tensor | None:
        """Of the last layer that has one, over its heads."""
        last = next((layer for layer in reversed(self.layers) if layer is not None), None)
        return None if last is None else last.mean(0)


def has_map(model: Backbone) -> bool:
    return any(isinstance(module, Attention) for module in model.modules())


@torch.no_grad()
def looks(model: Backbone, image: Tensor) -> Looks:
    """Of one image as the model gets it, (channels, height, width)."""
    seen = model.attention_inputs(image[None])
    most = max((tokens.shape[1] for _, tokens, _ in seen), default=0)
    if most > MOST_TOKENS:
        raise ValueError(
            f"the model has {most} tokens, and maps are drawn for {MOST_TOKENS} at most: they grow with the square"
        )
    layers: list[Tensor | None] = []
    whole: list[Tensor] = []
    for module, tokens, options in seen:
        if not isinstance(module, Attention):
            layers.append(None)
            continue
        weights = module.attention_map(tokens, **options)[0].float()
        grid = options.get("grid")
        layers.append(_placed(weights, grid))
        if grid is not None and weights.shape[-1] == weights.shape[-2]:
            whole.append(weights)
    rollout = _rollout(whole) if len(whole) == len(seen) and len({w.shape[-1] for w in whole}) == 1 else None
    placed = None if rollout is None else _placed(rollout[None], seen[0][2].get("grid"))
    names = tuple(mechanism_of(module).name for module, _, _ in seen)
    return Looks(names, tuple(layers), None if placed is None else placed[0])


def _placed(weights: Tensor, grid: tuple[int, int] | None) -> Tensor | None:
    """(H, N, keys) -> (H, height, width). Fewer keys than places lie on a coarser square grid."""
    if grid is None:
        return None
    places = grid[0] * grid[1]
    front = weights.shape[1] - places
    if weights.shape[2] != weights.shape[1]:
        side = math.isqrt(weights.shape[2])
        front, grid = weights.shape[2] - side * side, (side, side)
        if front > 1:
            return None
    rows = weights[:, :1] if front else weights
    return rows.mean(1)[:, front:].unflatten(-1, grid)


def _rollout(maps: list[Tensor]) -> Tensor:
    joint = torch.eye(maps[0].shape[-1])
    for weights in maps:
        mixed = weights.mean(0).clamp(min=0)
        mixed = mixed / mixed.sum(-1, keepdim=True).clamp(min=1e-12)
        joint = (0.5 * mixed + 0.5 * torch.eye(len(mixed))) @ joint
    return joint


def overlay(picture: Image.Image, weights: Tensor, side: int) -> Image.Image:
    """A map in colors over the picture in gray. Each map is stretched from its least to its largest value."""
    gray = np.asarray(picture.convert("L").resize((side, side), Image.Resampling.BILINEAR), float)[..., None]
    values = weights.double()
    values = (values - values.min()) / (values.max() - values.min()).clamp(min=1e-12)
    heat = Image.fromarray((values.numpy() * 255).astype(np.uint8)).resize((side, side), Image.Resampling.BILINEAR)
    level = np.asarray(heat, float) / 255
    steps = np.linspace(0, 1, len(COLORS))
    color = np.stack([np.interp(level, steps, COLORS[:, c]) for c in range(3)], -1)
    return Image.fromarray((0.35 * gray + 0.65 * color).clip(0, 255).astype(np.uint8))


def sheet(picture: Image.Image, found: Looks, side: int = 64, gap: int = 2) -> Image.Image:
    """A row a layer, a column a head; first the mean over heads."""
    heads = max((len(layer) for layer in found.layers if layer is not None), default=0)
    left, top = 28, 18
    canvas = Image.new(
        "RGB", (left + (heads + 1) * (side + gap) - gap, top + len(found.layers) * (side + gap) - gap), "white"
    )
    draw, font = ImageDraw.Draw(canvas), ImageFont.load_default(size=12)
    for column in range(heads + 1):
        draw.text((left + column * (side + gap), 2), f"head {column}" if column else "mean", fill="#555", font=font)
    for row, layer in enumerate(found.layers):
        draw.text((2, top + row * (side + gap) + side // 2 - 6), str(row + 1), fill="#555", font=font)
        for column, weights in enumerate([] if layer is None else [layer.mean(0), *layer]):
            canvas.paste(overlay(picture, weights, side), (left + column * (side + gap), top + row * (side + gap)))
    return canvas
