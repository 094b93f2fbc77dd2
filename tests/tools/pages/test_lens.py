"""The page of lens."""

from __future__ import annotations

import json

import pytest

from tests.support.kept import invented, ran
from tools.pages import figures, lens
from tools.runs import Kept
from vixformer.documents import DOCUMENTS
from vixformer.recipes.lens import SETTINGS


def test_every_part_has_its_place_in_the_ablation() -> None:
    assert sorted(name for names in lens.GROUPS.values() for name in names) == sorted(SETTINGS["parts"].names)


def test_there_is_no_difference_without_a_seed_in_common(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lens, "_seeds", {"a/prism": {0: 60.0}, "a/other": {1: 50.0}, "a/same": {0: 50.0}}.get)
    cell = lens._minus("a/", "prism")
    assert (cell("a/other"), cell("a/same")) == ("", "+10.00 (one seed)")


def test_what_a_mixture_learned_is_drawn(no_runs: pytest.MonkeyPatch) -> None:
    name = "cifar-kernels/ftheta-mixture"
    assert figures.learned_figure(DOCUMENTS["cifar-kernels"]) is None
    run = invented(name, 50.0)
    ran(
        no_runs,
        name,
        Kept(
            run.recipe,
            run.summary,
            [r | {"blocks.0.attn.core.kernel.mixture": 0.4 + 0.1 * i} for i, r in enumerate(run.history)],
        ),
    )
    drawn = figures.learned_figure(DOCUMENTS["cifar-kernels"])
    assert drawn is not None
    assert "0.6000000000000001" in json.dumps(drawn.chart.to_dict())
