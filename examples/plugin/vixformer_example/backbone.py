"""A ViT for small images whose defaults are small."""

from dataclasses import dataclass

from vixformer.backbones.vit import ViT


class SmallViT(ViT, name="example-vit"):
    variants = {}

    @dataclass(frozen=True, kw_only=True)
    class Config(ViT.Config):
        embed_dim: int = 32
        depth: int = 2
        num_heads: int = 2
