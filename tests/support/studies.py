"""Small studies, and what they tried."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import optuna

from tests.support.recipes import tiny
from vixformer.config import Recipe
from vixformer.experiments.search.space import Space, read_space
from vixformer.experiments.search.storage import close_storage, open_storage
from vixformer.experiments.search.study import Plan, Spectator, Standing

RECIPE = tiny(attention="softmax", fraction=0.02, epochs=2, batch_size=16)


def plan(space: str | Space, **options: Any) -> Plan:
    given = read_space(space) if isinstance(space, str) else space
    return Plan(**{"name": "study", "recipe": RECIPE, "space": given, "trials": 3, "pruner": "none", **options})


class Seen(Spectator):
    def __init__(self) -> None:
        self.recipes: list[Recipe] = []
        self.ends: list[tuple[str, str | None]] = []
        self.standing: Standing | None = None

    def trial_begins(self, number: int, recipe: Recipe, standing: Standing) -> None:
        self.recipes.append(recipe)

    def trial_done(self, number: int, state: str, reason: str | None, standing: Standing) -> None:
        self.ends.append((state, reason))
        self.standing = standing


def trials(folder: Path, name: str = "study") -> list[Any]:
    storage = open_storage(None, folder)
    try:
        return optuna.load_study(study_name=name, storage=storage).get_trials()
    finally:
        close_storage(storage)
