"""Recipes of tiny trainings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from vixformer.backbones.vit import ViT
from vixformer.config import Data, Recipe, Train
from vixformer.recipes import load_recipe


def tiny(**options: Any) -> Recipe:
    model = ViT.Config(
        attention=options.pop("attention", "first(performer(kernel=relu, features=8))"),
        patch_size=7,
        embed_dim=16,
        depth=2,
        num_heads=2,
    )
    data = Data(fraction=options.pop("fraction", 0.05), crop=2, flip=True, rotate=5.0, **options.pop("data", {}))
    return Recipe(
        data=data, model=model, train=Train(**{"epochs": 2, "batch_size": 32, "lr": 3e-3, "measure": False, **options})
    )


def quick(name: str) -> tuple[str, object]:
    recipe = load_recipe(name)
    model = replace(recipe.model, embed_dim=16, depth=2, num_heads=2, patch_size=7)  # pyright: ignore[reportCallIssue]
    return name, replace(
        recipe,
        data=Data(fraction=0.02),
        model=model,
        train=replace(recipe.train, epochs=1, batch_size=32, measure=False),
    )
