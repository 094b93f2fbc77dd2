"""Vision Transformer (arXiv:2010.11929) with any attention, stem, positions, pooling and head.

With `attention="fourier"` it is FNet, with `"mlp"` and `pool="mean"` MLP-Mixer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import PositiveInt

from vixformer.backbones.transformer import Transformer, TransformerConfig
from vixformer.jsonfile import Values
from vixformer.nn.activations import Activation, activation
from vixformer.nn.stems import Stem, StemOptions


class ViT(Transformer, name="vit"):
    @dataclass(frozen=True, kw_only=True)
    class Config(TransformerConfig):
        patch_size: PositiveInt = 4
        """Side of a patch, in pixels."""
        stem: Annotated[str, Stem] = "linear"
        """How the image becomes tokens."""
        stem_norm: bool = False
        """Batch norm in the stem."""
        stem_act: Annotated[str, Activation] | None = None
        """Activation in the stem."""

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.stem_act is not None:
                activation(self.stem_act)

    config: Config

    variants: ClassVar[dict[str, Values]] = {
        f"vit-{size}": dict(
            img_size=224,
            num_classes=1000,
            patch_size=16,
            embed_dim=64 * heads,
            depth=12,
            num_heads=heads,
            mlp_ratio=4.0,
        )
        for size, heads in (("tiny", 3), ("small", 6), ("base", 12))
    }

    def make_stem(self) -> Stem:
        config = self.config
        options = StemOptions(self.in_chans, config.embed_dim, config.patch_size, config.stem_norm, config.stem_act)
        return Stem.member(config.stem)(options)
