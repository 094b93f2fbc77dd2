"""Runs as figures need them, from real run folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ATTENTIONS, RELU
from vixformer.attention.layout import parse
from vixformer.report.figures import all_figures
from vixformer.report.figures.costs import _name
from vixformer.results.groups import Layout, layout_of, read_groups
from vixformer.results.runs import spread


@pytest.mark.parametrize(
    ("attention", "layout"),
    [
        ("softmax", Layout("standard")),
        (RELU, Layout("all", "relu", 16)),
        (f"{RELU} + softmax", Layout("alternate", "relu", 16)),
        ("first(performer(features=64))", Layout("first", "softmax", 64)),
        ("last(hedgehog)", Layout("last", "hedgehog")),
        (f"{RELU} + hedgehog", None),
        ("softmax + hedgehog", None),
        ("first(hedgehog, n=1)", None),
    ],
)
def test_layouts_are_read_off_the_attention(attention: str, layout: Layout | None) -> None:
    assert layout_of(parse(attention).expand(6)) == layout


def test_groups_and_figures_say_what_the_runs_say(runs: Path, tmp_path: Path) -> None:
    groups = {g.name: g for g in read_groups([runs])}
    assert set(groups) == set(ATTENTIONS)
    assert all(len(g.runs) == 2 for g in groups.values())
    figures = {f.name: f for f in all_figures(list(groups.values()))}
    by_name = {row["model"]: row for row in _values(figures["pareto-training"].chart.to_dict())}
    for name, group in groups.items():
        top1 = spread([run.summary["test_top1"] for run in group.runs if run.summary])
        assert by_name[name]["top1"] == pytest.approx(top1.mean)
        assert by_name[name]["high"] - by_name[name]["low"] == pytest.approx(2 * (top1.sd or 0))
    assert {"curves", "classes", "features", "layouts"} <= set(figures)
    with pytest.raises(ValueError, match="is not there"):
        read_groups([tmp_path / "nowhere"])
    with pytest.raises(ValueError, match="there is no finished run"):
        read_groups([tmp_path])


def _values(spec: Any) -> list[dict[str, Any]]:
    """All data in a chart's definition."""
    if isinstance(spec, dict):
        found = spec["values"] if isinstance(spec.get("values"), list) else []
        return found + [row for value in spec.values() for row in _values(value)]
    return [row for item in spec for row in _values(item)] if isinstance(spec, list) else []


def test_names_in_a_chart_do_not_lie_over_one_another() -> None:
    rows = [
        {"model": "a-rather-long-name", "cost": 10.0, "top1": 50.0, "front": True},
        {"model": "another-long-name", "cost": 10.4, "top1": 50.1, "front": True},
        {"model": "far", "cost": 90.0, "top1": 70.0, "front": True},
        {"model": "beaten", "cost": 95.0, "top1": 20.0, "front": False},
    ]
    _name(rows)
    assert [row["named"] for row in rows] == [False, True, True, False]
