"""photos/*: attention on photographs of 160 x 160 pixels, with 400 tokens (patches of 8) or 1,600 (patches of 4).

Any folder of photographs will do: give `--data.root FOLDER`, with train/CLASS/*.jpg and test/CLASS/*.jpg in it. One ViT
of width 64, depth 4 and 4 heads with rotary positions, and one budget, so that rows differ in attention alone.
`exact-conv` has the convolution of `lens`, so that its share in the difference to `exact` can be seen.

What they gave on photographs of five flowers: docs/results/photos.md.

`photos/224px/*` and `photos/512px/*` are for larger photographs, with 784 and 4,096 tokens: a convolutional stem with
batch norm, width 128 and depth 6, random crops of at least a third, RandAugment, a long warm-up and an average of the
weights. At 512 pixels, gradient checkpointing keeps the peak of a step of 16 images at 1.9 GiB (lens, float32, one
thread). They have not been trained to the end here.
"""

from __future__ import annotations

from functools import partial

from vixformer.backbones.vit import ViT
from vixformer.config import Data, Recipe, Train
from vixformer.recipes.catalog import add

PATCHES = {400: 8, 1600: 4}
"""By the number of tokens."""
ATTENTIONS = {
    "exact": "softmax",
    "exact-conv": "softmax(conv=3)",
    "lens": "lens",
    "performer-relu": "performer(kernel=relu, features=64)",
    "first-performer": "first(performer(kernel=relu, features=64))",
    "linformer": "linformer(rank=64)",
    "nystrom": "nystrom(landmarks=64)",
}


BATCHES = {224: 32, 512: 16}
"""By pixels a side, for `photos/224px/*` and `photos/512px/*`."""


def photos(tokens: int, attention: str) -> Recipe:
    """Command: `vix train photos/400/lens --data.root ~/photos` (and the others)."""
    return Recipe(
        data=Data(name="folder", resize=160, crop=16, flip=True),
        model=ViT.Config(
            attention=attention,
            patch_size=PATCHES[tokens],
            embed_dim=64,
            depth=4,
            num_heads=4,
            mlp_ratio=2.0,
            pool="mean",
            pos="rope2d",
        ),
        train=Train(epochs=20, batch_size=32, lr=1e-3, weight_decay=0.05, schedule="cosine", warmup=2.0, clip=1.0),
    )


def large(side: int, attention: str) -> Recipe:
    """Command: `vix train photos/224px/lens --data.root ~/photos` (and the others)."""
    return Recipe(
        data=Data(name="folder", resize=side, crop_scale=(0.35, 1.0), flip=True, rand_augment=1),
        model=ViT.Config(
            attention=attention,
            stem="conv",
            stem_norm=True,
            stem_act="relu",
            patch_size=8,
            embed_dim=128,
            depth=6,
            num_heads=4,
            mlp_ratio=3.0,
            pool="mean",
            pos="rope2d",
        ),
        train=Train(
            epochs=60, batch_size=BATCHES[side], lr=1e-3, weight_decay=0.05, schedule="cosine", warmup=5.0, clip=1.0,
            ema=0.998, checkpoint=side > 224,
        ),
    )  # fmt: skip


for _side in BATCHES:
    for _name, _attention in ATTENTIONS.items():
        add(f"photos/{_side}px/{_name}", partial(large, _side, _attention))
for _tokens in PATCHES:
    for _name, _attention in ATTENTIONS.items():
        add(f"photos/{_tokens}/{_name}", partial(photos, _tokens, _attention))
