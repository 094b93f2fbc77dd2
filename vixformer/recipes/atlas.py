"""atlas/*: every mechanism, with the options that a user would take, on four data sets at five numbers of tokens.

`atlas/DATA-TOKENS/NAME` is trained from scratch; `-converted` starts from the trained `exact` of the same cell, which
`exact-longer` trains on for as long. One ViT of width 64, depth 4 and 4 heads with rotary positions and no class token,
so the number of tokens is exact. Rows of a cell differ in attention alone. Cells with more tokens see fewer images,
so that each training takes minutes on one core.

`python -m tools.atlas` makes the atlas in the package of what has a record; docs/results/atlas.md shows it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from vixformer.backbones.vit import ViT
from vixformer.config import FINE_TUNING, Data, Recipe, Train
from vixformer.recipes.catalog import add

PERFORMER = "performer(kernel=relu, features=64)"
ATTENTIONS = {
    "exact": "softmax",
    "exact-conv": "softmax(conv=3)",
    "lens": "lens",
    "prism": "prism",
    "performer-relu": PERFORMER,
    "performer-softmax": "performer(features=64)",
    "hedgehog": "hedgehog",
    "focused": "focused",
    "cosine": "cosine",
    "linformer": "linformer(rank=32)",
    "nystrom": "nystrom(landmarks=32)",
    "fourier": "fourier",
    "mlp": "mlp",
    "first-performer": f"first({PERFORMER})",
    "first-lens": "first(lens)",
    "alternate-performer": f"{PERFORMER} + softmax",
    "alternate-lens": "lens + softmax",
}
CONVERTED = tuple(name for name in ATTENTIONS if name not in ("exact", "exact-conv", "fourier", "mlp"))
"""What can take over the weights of exact attention."""
DATA = {
    "fashion-mnist": Data(name="fashion-mnist", crop=2, flip=True),
    "cifar10": Data(name="cifar10", crop=4, flip=True),
    "tiny-imagenet": Data(name="tiny-imagenet", crop=8, flip=True),
    "flowers": Data(name="folder", crop=16, flip=True),
}
"""Flowers are photographs in a folder: give `--data.root FOLDER`."""
IMAGES = {"fashion-mnist": 60_000, "cifar10": 50_000, "tiny-imagenet": 10_000, "flowers": 2_934}
"""To train and validate on."""
SIDES = {"fashion-mnist": (32, 40), "cifar10": (32, 40), "tiny-imagenet": (64, 80), "flowers": (128, 160)}
"""In pixels: for grids of a power of two, and for the others."""
NATIVE = {"cifar10": 32, "tiny-imagenet": 64}
BUDGETS = {64: (5, 45_000), 256: (6, 12_500), 400: (10, 6_000), 1024: (6, 2_000), 1600: (6, 1_200)}
"""By the number of tokens: epochs, and the most images of one."""
TESTED = {1024: 0.2, 1600: 0.2}
"""The part of large test sets that is read where it would take longer than training."""
DISTILLED, TUNED = 100, 2
"""Steps of distillation and epochs of fine-tuning of what is converted."""


def trained(data: str, tokens: int, attention: str) -> Recipe:
    """Command: `vix compare 'atlas/cifar10-256/*' --seeds 3` (and the others)."""
    grid = round(tokens**0.5)
    side = SIDES[data][grid % 5 == 0]
    epochs, images = BUDGETS[tokens]
    own = DATA[data]
    return Recipe(
        data=replace(
            own,
            resize=None if side == NATIVE.get(data) else side,
            fraction=min(1.0, round(images / IMAGES[data], 3)),
            test_fraction=TESTED.get(tokens, 1.0) if IMAGES[data] >= 50_000 else 1.0,
        ),
        model=ViT.Config(
            attention=attention, patch_size=side // grid, embed_dim=64, depth=4, num_heads=4, mlp_ratio=2.0,
            pool="mean", pos="rope2d",
        ),
        train=Train(epochs=epochs, batch_size=64, lr=2e-3, weight_decay=0.05, schedule="cosine", warmup=1.0, clip=1.0),
    )  # fmt: skip


def converted(data: str, tokens: int, attention: str) -> Recipe:
    """Command: `vix compare 'atlas/cifar10-256/*' --seeds 3` (and the others), which trains the exact model of every
    seed first."""
    recipe = trained(data, tokens, attention)
    steps = 0 if attention == "softmax" else DISTILLED
    train = replace(
        recipe.train, epochs=TUNED, warmup=0.0, lr=FINE_TUNING * recipe.train.lr, distill=steps,
        weights=f"atlas/{data}-{tokens}/exact",
    )  # fmt: skip
    return replace(recipe, train=train)


for _data in DATA:
    for _tokens in BUDGETS:
        for _name, _attention in ATTENTIONS.items():
            add(f"atlas/{_data}-{_tokens}/{_name}", partial(trained, _data, _tokens, _attention))
        for _name in CONVERTED:
            add(f"atlas/{_data}-{_tokens}/{_name}-converted", partial(converted, _data, _tokens, ATTENTIONS[_name]))
        add(f"atlas/{_data}-{_tokens}/exact-longer", partial(converted, _data, _tokens, "softmax"))
