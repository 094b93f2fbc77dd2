"""ablation/cifar10/*: what each augmentation, Muon and an average of the weights add to the same ViT, where images are
few: a tenth of CIFAR-10, for 60 epochs.

Command: `vix compare 'ablation/cifar10/*' --seeds 3`. Every row has an average of the weights, which is validated and
tested beside the weights (`ema_val_top1`, `ema_test_top1`), so that its effect needs no row of its own. `tools.lab` has
the experiment.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from vixformer.config import Recipe
from vixformer.recipes.catalog import add
from vixformer.recipes.lens import SETTINGS, rival

ALL: dict[str, Any] = dict(rand_augment=2, mixup=0.8, cutmix=1.0, erase=0.25)
MILD: dict[str, Any] = dict(rand_augment=1, cutmix=0.3, erase=0.1)
DATA: dict[str, dict[str, Any]] = {
    "plain": {},
    "resized-crop": {"crop": 0, "crop_scale": (0.35, 1.0)},
    "rand-augment": {"rand_augment": 2},
    "auto-augment": {"auto_augment": "cifar"},
    "jitter": {"color_jitter": 0.4},
    "erase": {"erase": 0.25},
    "mixup": {"mixup": 0.8},
    "cutmix": {"cutmix": 1.0},
    "mild": MILD,
    "all": ALL,
}
TRAIN: dict[str, dict[str, Any]] = {"muon": {"optimizer": "muon"}}
FRACTION, EPOCHS, DECAY = 0.1, 60, 0.99


def ablated(data: dict[str, Any], train: dict[str, Any]) -> Recipe:
    """Command: `vix train ablation/cifar10/all` (and the others)."""
    recipe = rival(SETTINGS["cifar10"], "exact-conv", "softmax(conv=3)")
    return replace(
        recipe,
        data=replace(recipe.data, fraction=FRACTION, **data),
        train=replace(recipe.train.lasting(EPOCHS), ema=DECAY, tta="flip", **train),
    )


for _name in (*DATA, *TRAIN):
    add(f"ablation/cifar10/{_name}", partial(ablated, DATA.get(_name, {}), TRAIN.get(_name, {})))
