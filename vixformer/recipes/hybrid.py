"""hybrid/*: "Hybrid Transformer Models with Performer and Regular Attention" (2025), tables 1 to 3: five layouts, two
kernels, features.

Settings that its text leaves out are those of its public configuration: width 64, depth 4, 4 heads, MLP ratio 2, batch
128, AdamW 1e-3, weight decay 1e-4, 50 epochs; for noise of the size of ImageNet's photographs, which is there to be
timed, width 192, depth 8, 3 heads, MLP ratio 4, batch 64, 3e-4, weight decay 5e-2, patches of 8 (`hybrid/imagenet`) and
16 (`hybrid/imagenet16`), 128 features. Its tables have 16 to 256 features on MNIST and 16 to 512 on CIFAR-10, its grid
8 too. It reports the best test epoch, so `track_test` records it, in columns of their own. Its text says that test
images are left as they are, its code turned them; here they are left.

From its public code, too: positions start at 0.02, layer norms add 1e-5, all weights decay, turned images take the
nearest pixel, and features are drawn once. `hybrid-as-printed/*` train on all training images and report the last
epoch. `hybrid-gated/*`, its outlook on learned feature dimensions, begin with the most features of its grid and pay for
each: what is left is in the summary of the run.

What they gave here: docs/results/hybrid.md.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from vixformer.backbones.vit import ViT
from vixformer.config import Data, Recipe, Train
from vixformer.recipes.catalog import add, add_as_printed

DATA = {
    "mnist": Data(name="mnist", rotate=5.0, mean=(0.5,), std=(0.5,)),
    "cifar10": Data(name="cifar10", rotate=5.0, flip=True, mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010)),
}
GATE = 0.1
"""The price of a feature of `hybrid-gated/*`."""
LAYOUTS = {"all": "{0}", "alternate": "{0} + softmax", "first": "first({0})", "last": "last({0})"}
FEATURES = {"mnist": (8, 16, 32, 64, 128, 256), "cifar10": (8, 16, 32, 64, 128, 256, 512)}


def hybrid(data: str, attention: str) -> Recipe:
    """Command: `vix train hybrid/mnist/first-relu-64` (and the others)."""
    recipe = small(data, attention)
    return _as_its_code(replace(recipe, data=replace(recipe.data, interpolation="nearest")))


def small(data: str, attention: str) -> Recipe:
    """What its text says; what only its code does is as elsewhere here."""
    return Recipe(
        data=DATA[data],
        model=ViT.Config(attention=attention, patch_size=4, embed_dim=64, depth=4, num_heads=4, mlp_ratio=2.0),
        train=Train(
            epochs=50,
            batch_size=128,
            optimizer="adamw",
            lr=1e-3,
            weight_decay=1e-4,
            schedule="constant",
            seed=42,
            track_test=True,
        ),
    )


def _as_its_code(recipe: Recipe) -> Recipe:
    assert isinstance(recipe.model, ViT.Config)
    model = replace(recipe.model, pos_std=0.02, norm_eps=1e-5)
    return replace(recipe, model=model, train=replace(recipe.train, decays="all", redraw_every=None))


def imagenet(patch_size: int, attention: str) -> Recipe:
    """Command: `vix train hybrid/imagenet/all-relu-128 --train.epochs 1` (and the others)."""
    recipe = Recipe(
        data=Data(name="synthetic", mean=(0.0,), std=(1.0,)),
        model=ViT.Config(
            attention=attention, patch_size=patch_size, embed_dim=192, depth=8, num_heads=3, mlp_ratio=4.0
        ),
        train=Train(
            epochs=1, batch_size=64, optimizer="adamw", lr=3e-4, weight_decay=5e-2, schedule="constant", seed=42
        ),
    )
    return _as_its_code(recipe)


def _layouts(features: tuple[int, ...]) -> dict[str, str]:
    names = {"all-standard": "softmax"}
    for layout, pattern in LAYOUTS.items():
        for kernel in ("relu", "softmax"):
            for m in features:
                names[f"{layout}-{kernel}-{m}"] = pattern.format(f"performer(kernel={kernel}, features={m})")
    return names


for _data, _features in FEATURES.items():
    for _name, _attention in _layouts(_features).items():
        add(f"hybrid/{_data}/{_name}", partial(hybrid, _data, _attention))
    add_as_printed(f"hybrid/{_data}/*")
    add(
        f"hybrid-gated/{_data}",
        partial(hybrid, _data, f"performer(kernel=relu, features={_features[-1]}, gate={GATE})"),
    )
for _folder, _patch in (("imagenet", 8), ("imagenet16", 16)):
    for _name, _attention in _layouts((128,)).items():
        add(f"hybrid/{_folder}/{_name}", partial(imagenet, _patch, _attention))
