"""Runs as figures need them, from real run folders."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ATTENTIONS, RELU
from tests.support.runs import read_groups, recorded, write_run
from tools.runs import RECORDS
from vixformer.attention.layout import parse
from vixformer.report.figures import all_figures
from vixformer.report.figures.costs import FEW, KINDS, _crosses, _over, _placed, _round, _width
from vixformer.report.figures.figure import brief
from vixformer.report.sentences import answers, sentences
from vixformer.results.groups import Group, Placement, differing, layout_of, twin
from vixformer.results.runs import spread


@pytest.mark.parametrize(
    ("attention", "layout"),
    [
        ("softmax", Placement("standard")),
        (RELU, Placement("all", "relu", 16)),
        (f"{RELU} + softmax", Placement("alternate", "relu", 16)),
        ("first(performer(features=64))", Placement("first", "softmax", 64)),
        ("last(hedgehog)", Placement("last", "hedgehog")),
        (f"{RELU} + hedgehog", None),
        ("softmax + hedgehog", None),
        ("first(hedgehog, n=1)", None),
    ],
)
def test_layouts_are_read_off_the_attention(attention: str, layout: Placement | None) -> None:
    assert layout_of(parse(attention).expand(6)) == layout


def test_models_keep_what_their_folders_do_not_share() -> None:
    def shortened(*names: str) -> list[str]:
        return list(brief([Group(name, ()) for name in names]).values())

    assert shortened("quick/exact", "quick/lens") == ["exact", "lens"]
    assert shortened("quick/exact", "lens/cifar10/lens") == ["quick/exact", "lens/cifar10/lens"]
    assert shortened("quick/exact", "/home/me/mine.json") == ["quick/exact", "/home/me/mine.json"]
    assert shortened("quick/exact") == ["quick/exact"]


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
    with pytest.raises(ValueError, match="is no folder here"):
        read_groups([tmp_path / "nowhere"])
    with pytest.raises(ValueError, match="there is no finished run"):
        read_groups([tmp_path])


def _values(spec: Any) -> list[dict[str, Any]]:
    """All data in a chart's definition."""
    if isinstance(spec, dict):
        found = [row for row in spec.get("values", ()) if isinstance(row, dict)]
        return found + [row for value in spec.values() for row in _values(value)]
    return [row for item in spec for row in _values(item)] if isinstance(spec, list) else []


def test_names_in_a_chart_do_not_lie_over_one_another() -> None:
    said = [
        ("a-rather-long-name", 10.0, 50.0, "front"),
        ("another-long-name", 10.4, 50.1, "front"),
        ("far", 90.0, 70.0, "exact"),
        ("beaten", 89.0, 69.0, "other"),
    ]
    rows = [
        {"name": name, "cost": cost, "top1": top1, "kind": KINDS[kind], "front": kind == "front"}
        for name, cost, top1, kind in said
    ]
    wide, high = (math.log(5), math.log(100)), (40.0, 80.0)
    placed = _placed(rows, wide, high, 420, 250, 10)
    boxes = []
    for row in placed:
        x, long = 420 * (math.log(row["lx"]) - wide[0]) / (wide[1] - wide[0]), _width(row["name"], 10)
        left = x - {"left": 0, "center": long / 2, "right": long}[row["align"]]
        y = 250 * (high[1] - row["ly"]) / (high[1] - high[0])
        boxes.append((left, y - 5, left + long, y + 5))
    assert all(left >= 0 and right <= 420 for left, _, right, _ in boxes)
    assert not any(_over(a, b) for a, b in combinations(boxes, 2))
    assert _placed(rows, wide, high, 40, 20, 10)[0]["lx"] is None  # no room, so no name


def test_a_name_lies_on_the_front_where_a_few_models_leave_no_other_room() -> None:
    def row(name: str, cost: float, top1: float, kind: str = "front") -> dict[str, Any]:
        return {"name": name, "cost": cost, "top1": top1, "kind": KINDS[kind], "front": kind == "front"}

    front = [row("a", 5.1, 41.0), row("b", 98.0, 79.0)]
    long = row("a-name-almost-as-wide-as-the-chart", math.sqrt(500.0), 50.0, "other")
    wide, high = (math.log(5), math.log(100)), (40.0, 80.0)
    width = _width(long["name"], 10) + 10
    few = _placed([*front, long], wide, high, width, 250, 10)
    many = _placed([*front, long, *(row("", 90.0, 42.0 + i, "other") for i in range(FEW))], wide, high, width, 250, 10)
    assert few[2]["lx"] is not None
    assert many[2]["lx"] is None


def test_names_in_a_chart_do_not_lie_on_the_front() -> None:
    box = (10.0, 10.0, 30.0, 20.0)
    assert _crosses(box, (0.0, 0.0), (40.0, 30.0))
    assert _crosses(box, (20.0, 0.0), (20.0, 40.0))
    assert not _crosses(box, (0.0, 0.0), (9.0, 40.0))
    assert not _crosses(box, (0.0, 25.0), (40.0, 25.0))
    assert not _crosses(box, (0.0, 0.0), (40.0, 8.0))


def test_the_axis_of_costs_has_labels_up_to_its_end() -> None:
    for low, high, ticks in (
        (38.0, 145.0, [40, 50, 70, 100]),
        (5.0, 60.0, [5, 10, 20, 50]),
        (50.0, 80.0, [50, 60, 70]),
    ):
        found = _round(math.log(low), math.log(high))
        assert set(ticks) <= set(found)
        assert 4 <= len(found) <= 8
        assert max(found) > high / 1.25
        assert min(found) < low * 1.25


def test_a_folder_of_images_has_the_name_of_the_folder() -> None:
    def beside(root: str) -> Group:
        (run, *_) = recorded("hybrid/mnist/all-standard")
        data = replace(run.recipe.data, name="folder", root=root)
        return Group(root, (replace(run, recipe=replace(run.recipe, data=data)),))

    flowers, birds = beside("/home/me/flowers"), beside("/home/me/my birds")
    assert (flowers.data, birds.data) == ("flowers", "my birds")
    assert birds.protocol.startswith("my birds, 3 epochs")
    assert twin(flowers, [birds]) is None  # other images
    figures = all_figures([flowers, birds])
    assert all(re.fullmatch(r"[\w.-]+", figure.name) for figure in figures)


def test_runs_are_found_however_deep_and_named_by_their_folders(tmp_path: Path) -> None:
    for run in reversed(recorded("hybrid/mnist/first-relu-64")):
        seed = run.recipe.train.seed
        write_run(run, tmp_path / "deep" / f"first-seed{seed}-0123456789ab")
        write_run(run, tmp_path / "kept" / "first" / f"seed{seed}")
    groups = {g.name: g for g in read_groups([tmp_path])}
    assert groups.keys() == {"first", "kept/first"}
    assert all([run.recipe.train.seed for run in group.runs] == [42, 43, 44] for group in groups.values())
    assert [g.name for g in read_groups([tmp_path / "kept/first/seed43"])] == ["first"]


def test_only_recipes_that_differ_in_attention_alone_share_a_figure_of_layouts() -> None:
    groups = [g for g in read_groups([RECORDS]) if g.name.startswith(("hybrid/", "xformers/cifar10/"))]
    figures = {f.name: f for f in all_figures(groups)}
    for data in ("cifar10", "mnist"):
        shown = _values(figures[f"kernels-hybrid-{data}"].chart.to_dict())
        assert shown
        assert {row["model"].rpartition("/")[0] for row in shown} == {f"hybrid/{data}"}
    by_name = {g.name: g for g in groups}
    vin, vip = by_name["xformers/cifar10/vin"], by_name["xformers/cifar10/vip"]
    exact = by_name["xformers/cifar10/vit"]
    assert (twin(vin, groups), twin(vip, groups)) == (exact, exact)  # and not hybrid-vit, whose stem differs
    assert (differing(vin, exact), differing(vip, exact)) == ([], ["qkv_bias"])
    assert "xformers/cifar10/vit (which differs in qkv_bias too)" in str(sentences(answers([vip, exact])))
