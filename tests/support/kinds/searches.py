"""Studies and their spaces."""

from __future__ import annotations

import contextlib
import json
from itertools import islice
from pathlib import Path

import pytest
from optuna.trial import create_trial

from tests.support.damage import bytes_of, lines_of, sqlite_of
from tests.support.kinds.kind import JSON, Kind
from tests.support.recipes import tiny
from vixformer.experiments.search import study as studies
from vixformer.experiments.search.plan import Plan
from vixformer.experiments.search.space import Range, read_space
from vixformer.experiments.search.storage import close_storage, open_storage


def _spaces(folder: Path) -> None:
    space = {
        "train.lr": {"log": [1e-4, 1e-2]}, "train.batch_size": [16, 32], "layers": ["softmax", "hedgehog"],
        "model.embed_dim": "{width}",
        "width": [16, 32], "optimizer": {"adam": {"train.optimizer": "adam"}, "sgd": {"train.optimizer": "sgd"}},
    }  # fmt: skip
    (folder / "space.json").write_text(json.dumps(space))


def _search(folder: Path) -> None:
    space, recipe = read_space(str(folder / "space.json")), tiny()
    space.check(recipe)
    space.size(2)
    domains = space.variables(2)
    first = {name: d.low if isinstance(d, Range) else d.values[0] for name, d in domains.items()}
    space.applied(recipe, first)
    with contextlib.suppress(ValueError):  # of ranges there is none
        list(islice(space.grid(2), 20))


def _study(folder: Path, where: str | None = None) -> None:
    store = open_storage(where, folder)
    study = studies.opened(_plan(), store)
    distributions = studies._distributions(_plan())  # pyright: ignore[reportPrivateUsage]
    for value in (1e-3, 2e-3):
        attributes = {"attention": "softmax", "folders": ["a"]}
        study.add_trial(
            create_trial(params={"train.lr": value}, distributions=distributions, value=value, user_attrs=attributes)
        )
    close_storage(store)


def _journal(folder: Path) -> str:
    return f"journal:{folder / 'study.log'}"


def _plan() -> Plan:
    return Plan(
        name="study",
        recipe=tiny(),
        space=read_space("train.lr=1e-4..1e-2:log"),
        trials=2,
        sampler="random",
        pruner="none",
    )


def _join(folder: Path, where: str | None = None) -> None:
    store = open_storage(where, folder)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(studies, "OPENING", 0.1)  # nobody is filling it
            studies.found(studies.opened(_plan(), store), _plan())
    finally:
        close_storage(store)


KINDS = {
    "search space": Kind(_spaces, _search, {"space.json": JSON}),
    "study.db": Kind(_study, _join, {"study.db": (sqlite_of, sqlite_of, bytes_of)}),
    "journal of a study": Kind(
        lambda f: _study(f, _journal(f)), lambda f: _join(f, _journal(f)), {"study.log": (lines_of, bytes_of)}
    ),
}
