"""hybrid/*: "Hybrid Transformer Models with Performer and Regular Attention" (2025), tables 1 and 2: five layouts, two kernels, features.

Settings that its text leaves out are those of its public configuration: width 64, depth 4, 4 heads, MLP ratio 2, batch 128, AdamW 1e-3,
weight decay 1e-4, 50 epochs. It reports the best test epoch, so `track_test` records it, in columns of their own.
"""

from __future__ import annotations

from functools import partial

from vixformer.backbones.vit import ViT
from vixformer.config import Data, Recipe, Train
from vixformer.recipes.registry import add

DATA = {
    "mnist": Data(name="mnist", rotate=5.0, mean=(0.5,), std=(0.5,)),
    "cifar10": Data(name="cifar10", rotate=5.0, flip=True, mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010)),
}
LAYOUTS = {"all": "{0}", "alternate": "{0} + softmax", "first": "first({0})", "last": "last({0})"}
FEATURES = (8, 16, 32, 64, 128, 256)


def hybrid(data: str, attention: str) -> Recipe:
    """Command: `vix train hybrid/mnist/first-relu-64` (and the others)."""
    return Recipe(
        data=DATA[data],
        model=ViT.Config(attention=attention, patch_size=4, embed_dim=64, depth=4, num_heads=4, mlp_ratio=2.0),
        train=Train(
            epochs=50, batch_size=128, optimizer="adamw", lr=1e-3, weight_decay=1e-4, schedule="constant", seed=42, track_test=True
        ),
    )


for _data in DATA:
    add(f"hybrid/{_data}/all-standard", partial(hybrid, _data, "softmax"))
    for _layout, _pattern in LAYOUTS.items():
        for _kernel in ("relu", "softmax"):
            for _features in FEATURES:
                _attention = _pattern.format(f"performer(kernel={_kernel}, features={_features})")
                add(f"hybrid/{_data}/{_layout}-{_kernel}-{_features}", partial(hybrid, _data, _attention))
