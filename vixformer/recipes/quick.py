"""quick/*: nine attentions on the images in the package, small enough that all of them train in minutes on two cores.

`vix compare --jobs 2` is the demo. `exact-conv` is exact attention with the convolution that `lens` has.
"""

from __future__ import annotations

from functools import partial

from vixformer.backbones.vit import ViT
from vixformer.config import Data, Recipe, Train
from vixformer.recipes.catalog import add

ATTENTIONS = {
    "exact": "softmax",
    "exact-conv": "softmax(conv=3)",
    "lens": "lens",
    "performer-relu": "performer(kernel=relu, features=32)",
    "performer-softmax": "performer(features=32)",
    "linformer": "linformer(rank=16)",
    "nystrom": "nystrom(landmarks=16)",
    "fourier": "fourier",
    "first-relu": "first(performer(kernel=relu, features=32))",
}


def quick(attention: str) -> Recipe:
    """Command: `vix train quick/exact` (and the others)."""
    return Recipe(
        data=Data(name="fashion-mini"),
        model=ViT.Config(attention=attention, patch_size=4, embed_dim=64, depth=2, num_heads=4, mlp_ratio=2.0),
        train=Train(epochs=4, batch_size=64, lr=3e-3, warmup=0.5, clip=1.0),
    )


for _name, _attention in ATTENTIONS.items():
    add(f"quick/{_name}", partial(quick, _attention))
