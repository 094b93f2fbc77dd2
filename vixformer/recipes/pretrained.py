"""pretrained/*: small models of digits and of clothes with linear attention alone; that of photographs is
`lens/record`."""

from __future__ import annotations

from functools import partial

from vixformer.backbones.vit import ViT
from vixformer.config import Data, Recipe, Train
from vixformer.recipes.catalog import add

FLIPPED = {"mnist": False, "fashion-mnist": True}


def pretrained(data: str) -> Recipe:
    """Command: `vix train pretrained/mnist`, about ten minutes on two cores."""
    return Recipe(
        data=Data(name=data, crop=2, flip=FLIPPED[data]),
        model=ViT.Config(
            attention="lens", stem="vgg", patch_size=4, embed_dim=96, depth=2, num_heads=3, mlp_ratio=2.0, pool="mean"
        ),
        train=Train(
            epochs=10,
            batch_size=128,
            optimizer="adamw",
            lr=3e-3,
            weight_decay=0.05,
            schedule="onecycle",
            label_smoothing=0.1,
            clip=1.0,
        ),
    )


for _data in FLIPPED:
    add(f"pretrained/{_data}", partial(pretrained, _data))
