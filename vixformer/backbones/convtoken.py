"""The networks of "Optimizing Image Classification on CIFAR-10": three convolutions in front of attention layers
without an MLP.

With `tokens="one"`, as in that work, the whole feature map goes through one linear layer to a single token. Attention
over one token has nothing to choose from: exact attention and every plain linear attention return v, so the layers are
linear maps between norms, and neither kernel nor features matter. (Nystrom and focused attention add a convolution of
v, Linformer weighs it; there is no other token either.) `tokens="grid"` keeps the map as a grid of tokens, so that
attention has something to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from vixformer.attention.base import Shape
from vixformer.attention.project.projection import Attention, Mixing, build_attention, projection
from vixformer.backbones.backbone import BackboneConfig, Rate, Sizes
from vixformer.backbones.staged import Staged, check_heads
from vixformer.nn.activations import Activation, activation
from vixformer.nn.dense import Linear
from vixformer.nn.dropout import Dropout
from vixformer.nn.norms import EPS, NormName, make_norm
from vixformer.nn.pooling import Mean
from vixformer.nn.positions import Positions
from vixformer.ops import Grid, Rotation
from vixformer.registry import later


class ConvToken(Staged, name="convtoken"):
    @dataclass(frozen=True, kw_only=True)
    class Config(BackboneConfig):
        tokens: Literal["one", "grid"] = "one"
        """One token for each image, or a grid of tokens."""
        conv_dims: Sizes = (64, 128, 256)
        """Channels of the convolutions, each with batch norm and activation; one maximum over 2 x 2 pixels at the
        end."""
        embed_dim: PositiveInt = 256
        """Width of the tokens."""
        depth: PositiveInt = 1
        """Number of blocks."""
        num_heads: PositiveInt = 8
        """Number of attention heads."""
        head_dim: PositiveInt | None = None
        """Width of a head. Left out: embed_dim / num_heads."""
        proj: Annotated[str, Attention] = "linear"
        """How tokens become queries, keys and values."""
        qkv_bias: bool = True
        """Biases for queries, keys and values."""
        out_bias: bool = True
        """A bias for the output of attention."""
        norm: NormName = "layer"
        """Normalization in every block."""
        norm_eps: PositiveFloat = later(EPS)
        """Constant that layer norms add to the variance."""
        residual: Literal["before", "after"] = "before"
        """Whether a layer adds what came in, or what its first norm made of that (its EXP model)."""
        pos: Annotated[str, Positions] = "none"
        """Positions of tokens="grid"."""
        act: Annotated[str, Activation] = "relu"
        """Activation of the MLPs."""
        drop_rate: Rate = 0.0
        """Dropout rate."""
        dropout = ("drop_rate",)

        @property
        def stage_depths(self) -> tuple[int, ...]:
            return (self.depth,)

        def __post_init__(self) -> None:
            super().__post_init__()
            activation(self.act)
            check_heads("embed_dim", self.embed_dim, self.num_heads, self.head_dim)
            if self.tokens == "one" and self.pos != "none":
                raise ValueError(f'one token has no place: leave pos out, or use tokens="grid"; not pos="{self.pos}"')

    config: Config

    def __init__(self, given: Config) -> None:
        super().__init__(given)
        config = self.config
        dim, head_dim = config.embed_dim, config.head_dim or config.embed_dim // config.num_heads
        self._check_size(*self.img_size)
        widths = (self.in_chans, *config.conv_dims)
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), activation(config.act)]
        self.convs = nn.Sequential(*layers, nn.MaxPool2d(2))
        self.grid: Grid = (self.img_size[0] // 2, self.img_size[1] // 2)
        places = self.grid[0] * self.grid[1]
        one = config.tokens == "one"
        self.embed = nn.Sequential(
            Linear(widths[-1] * (places if one else 1), dim), activation(config.act), Dropout(config.drop_rate)
        )
        self.pos = Positions.member(config.pos)(dim, head_dim, self.grid, 0)
        shape = Shape(dim, config.num_heads, head_dim, 1 if one else places, None if one else self.grid)
        options = projection(config.proj, qkv_bias=config.qkv_bias, out_bias=config.out_bias, drop=config.drop_rate)
        self.blocks = nn.ModuleList(
            PlainLayer(
                dim, build_attention(layer, shape, options), config.residual == "after", config.norm, config.norm_eps
            )
            for layer in self.layout.expand(config.depth)
        )
        self.norm = make_norm(config.norm, dim, config.norm_eps)
        self.pool = Mean(dim)
        self.head = self.make_head(self.num_classes)

    @property
    def stages(self) -> list[nn.ModuleList]:
        return [self.blocks]

    def _check_size(self, height: int, width: int) -> None:
        if min(height, width) < 2:
            raise ValueError(f"an image of {height} x {width} is too small to halve: use at least 2 x 2 pixels")

    def start(self, x: Tensor) -> tuple[Tensor, Grid]:
        self._check_size(*x.shape[-2:])
        x = self.convs(x)
        grid = (x.shape[-2], x.shape[-1])
        if self.config.tokens == "grid":
            return self.pos.add(self.embed(x.flatten(2).transpose(1, 2)), grid), grid
        if grid != self.grid:
            built = f"{self.img_size[0]} x {self.img_size[1]}"
            raise ValueError(f'tokens="one" was built for images of {built}: build the model for the others')
        return self.embed(x.flatten(1)).unsqueeze(1), (1, 1)

    def forward_maps(self, x: Tensor) -> list[Tensor]:
        if self.config.tokens == "one":
            raise ValueError('tokens="one" has no map after its convolutions: use tokens="grid"')
        return super().forward_maps(x)


class PlainLayer(nn.Module):
    """Attention between two norms, and no MLP."""

    def __init__(self, dim: int, attn: Attention | Mixing, after: bool, norm: NormName, eps: float) -> None:
        super().__init__()
        self.norm1, self.attn, self.norm2 = make_norm(norm, dim, eps), attn, make_norm(norm, dim, eps)
        self.after = after

    def forward(self, x: Tensor, grid: Grid | None, rotation: Rotation | None) -> Tensor:
        normed = self.norm1(x)
        return self.norm2((normed if self.after else x) + self.attn(normed, grid=grid, rotation=rotation))
