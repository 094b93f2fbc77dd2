"""convert/*: what conversion of a trained model gives, beside training the same from the beginning in as much time.

One exact model (`exact`, the ViT of the hybrid recipes but for what only the code of that work does), four epochs; from
it, each mechanism by conversion, 200 steps of teaching and one epoch of fine-tuning. `-from-scratch` trains the same
mechanism for two epochs, one for the teaching and one more, which is what conversion takes where the parent is there;
`-from-scratch-long` for six, with the parent's. `vix compare 'convert/mnist/*' --seeds 3` trains the parent of every
seed first.

What they gave here: docs/results/convert.md.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from vixformer.config import FINE_TUNING, Recipe
from vixformer.recipes.catalog import add
from vixformer.recipes.hybrid import small

ATTENTIONS = {
    "performer-softmax-64": "performer(features=64, scaling=sqrt)",
    "performer-relu-64": "performer(kernel=relu, features=64)",
    "hedgehog": "hedgehog",
    "linformer": "linformer(rank=16)",
    "nystrom": "nystrom(landmarks=16)",
}
PARENT, CONVERSION = 4, 2
"""Epochs, and how many the teaching and fine-tuning are worth."""
TEACHING = 200


def from_scratch(data: str, attention: str, epochs: int) -> Recipe:
    """Command: `vix train convert/mnist/nystrom-from-scratch` (and the others)."""
    recipe = small(data, attention)
    return replace(recipe, train=replace(recipe.train, epochs=epochs, schedule="cosine", track_test=False))


def converted(data: str, attention: str) -> Recipe:
    """Command: `vix train convert/mnist/nystrom` (and the others)."""
    recipe = from_scratch(data, attention, 1)
    rate = FINE_TUNING * recipe.train.lr
    return replace(recipe, train=replace(recipe.train, weights=f"convert/{data}/exact", distill=TEACHING, lr=rate))


for _data in ("mnist", "cifar10"):
    add(f"convert/{_data}/exact", partial(from_scratch, _data, "softmax", PARENT))
    for _name, _attention in ATTENTIONS.items():
        add(f"convert/{_data}/{_name}", partial(converted, _data, _attention))
        add(f"convert/{_data}/{_name}-from-scratch", partial(from_scratch, _data, _attention, CONVERSION))
        add(f"convert/{_data}/{_name}-from-scratch-long", partial(from_scratch, _data, _attention, PARENT + CONVERSION))
