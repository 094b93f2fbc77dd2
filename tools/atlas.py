"""The atlas of the package, from records and timings: `python -m tools.atlas` writes vixformer/measure/atlas.json.

Every group of finished runs with two seeds or more is compared with the exact attention of its own setting: the same
data, budget and backbone. Converted models are compared with the exact model trained on for as long, or else with the
model that they came from.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from tools.runs import ELSEWHERE, RECORDS, TIMINGS
from tools.timings import Kept, comparable, kept_timings, ratio_of
from vixformer.attention.layout import is_exact, parse
from vixformer.attention.project.projection import mechanism_of
from vixformer.backbones.backbone import NO_ATTENTION
from vixformer.documents.reproduce import example
from vixformer.measure.atlas import FILE, VERSION, Atlas, Cost, Row, Start
from vixformer.measure.latency import Ratio
from vixformer.recipes import RECIPES, load_recipe
from vixformer.results.evidence import MARGIN, Effect, Judged, effect, judge
from vixformer.results.groups import Group, differing, find_runs
from vixformer.results.runs import flat, name_in
from vixformer.results.timings import epochs_ratio
from vixformer.writing import write_text

PLACE = Path(__file__).parent.parent / "vixformer/measure" / FILE
LEAST_SEEDS = 2
SAME_SIZE = {"mlp_dim"}
"""Fields in which a row may differ from its exact twin: a narrower MLP makes up for weights of the attention."""
DATA = {"folder": "flowers"}
"""Photographs come from a folder; those of the records are flowers."""


def atlas(records: Path = RECORDS) -> Atlas:
    groups = [group for group in find_runs([records]).groups if _comparable(group)]
    settings: dict[tuple[str, Start], list[Group]] = {}
    for group in groups:
        settings.setdefault((_setting(group), _start(group)), []).append(group)
    rows = [
        row
        for (setting, start), some in sorted(settings.items())
        for row in _rows(setting, start, some, settings.get((setting, "scratch"), []))
    ]
    return Atlas(VERSION, tuple(rows), tuple(_costs({(row.setting, row.name) for row in rows})))


def _comparable(group: Group) -> bool:
    return len(group.repetitions()) >= LEAST_SEEDS and group.attention != NO_ATTENTION


def _name(group: Group) -> str:
    return group.runs[0].name or group.name


def _setting(group: Group) -> str:
    return _of(_name(group))


def _start(group: Group) -> Start:
    return "scratch" if group.runs[0].recipe.train.weights is None else "converted"


def _rows(setting: str, start: Start, some: Sequence[Group], scratch: Sequence[Group]) -> Iterator[Row]:
    """Of one setting, which is one family of claims."""
    pairs: list[tuple[Group, Group, Effect]] = []
    for group in some:
        base = _base(group, some if start == "scratch" else [*some, *scratch], start)
        if base is not None and base is not group:
            images = group.first["test_images"]
            found = effect(group.repetitions(), base.repetitions(), images)
            if found is not None:
                pairs.append((group, base, found))
    verdicts = judge([(found, "different", MARGIN) for _, _, found in pairs])
    for (group, base, found), judged in zip(pairs, verdicts, strict=True):
        yield _row(setting, start, group, base, found, judged)


def _base(group: Group, some: Sequence[Group], start: Start) -> Group | None:
    exact = [g for g in some if is_exact(g.runs[0].recipe.model.attention)]
    if start == "converted":
        longer = [g for g in exact if _start(g) == "converted"]
        parents = {name_in(Path(run.recipe.train.weights or "").name) for run in group.runs}
        mine = [g for g in exact if _start(g) == "scratch" and parents == {flat(_name(g))}]
        return next(iter([*longer, *mine]), None)
    able = [g for g in exact if g.protocol == group.protocol and set(differing(group, g)) <= SAME_SIZE]
    return min(able, key=lambda g: len(differing(group, g)), default=None)


def _row(setting: str, start: Start, group: Group, base: Group, found: Effect, judged: Judged) -> Row:
    recipe, budget = group.runs[0].recipe, group.first
    with torch.device("meta"):
        layers = recipe.build(example(recipe.data)).attentions()
    shape = mechanism_of(layers[0]).shape
    tops, exact = (statistics.fmean(side.repetitions().values()) for side in (group, base))
    peak = epochs_ratio(group.values("peak_train_mb"), base.values("peak_train_mb"))
    return Row(
        setting=setting, data=DATA.get(group.data, group.data),
        tokens=math.prod(shape.grid) if shape.grid else shape.tokens_for("the atlas"), start=start,
        name=_name(group).rpartition("/")[2], attention=str(parse(recipe.model.attention)),
        top1=round(tops, 2), exact_top1=round(exact, 2), points=round(found.mean, 2), low=round(found.low, 2),
        high=round(found.high, 2), method=found.method, verdict=judged.verdict, seeds=found.count,
        epochs=budget["epochs"], images=budget["train_images"], parameters=budget["parameters"], width=shape.dim,
        depth=len(layers), records=_ids(group), exact_records=_ids(base),
        memory_ratio=peak and round(peak.ratio, 3), memory_interval=_interval(peak),
    )  # fmt: skip


def _ids(group: Group) -> tuple[str, ...]:
    return tuple(run.folder.name.rpartition("-")[2] for run in group.runs)


def _costs(shown: set[tuple[str, str]]) -> Iterator[Cost]:
    """Of recipes with a row that were timed, and of the exact ones that were timed in turn with them."""
    settings = {setting for setting, _ in shown}
    for folder in (TIMINGS, ELSEWHERE):
        kept = kept_timings(folder)
        known = {name: load_recipe(name).model.attention for name in kept if name in RECIPES and _of(name) in settings}
        exact = {(_of(name), kept[name]["session"]): name for name, words in known.items() if is_exact(words)}
        for name, words in sorted(known.items()):
            base = exact.get((_of(name), kept[name]["session"]))
            if (
                base is not None
                and comparable(kept, [name, base])
                and (name == base or (_of(name), name.rpartition("/")[2]) in shown)
            ):
                yield _cost(name, words, kept, base)


def _cost(name: str, attention: str, kept: Kept, base: str) -> Cost:
    mine, facts = kept[name], kept[name]["machine"]
    step, look = (ratio_of(kept, name, base, what) if name != base else None for what in ("step", "inference"))
    return Cost(
        setting=_of(name), name=name.rpartition("/")[2], attention=str(parse(attention)),
        machine=f"{facts['processor']}, {facts['threads']} threads, {facts.get('instructions') or 'older kernels'}",
        batch=mine["batch"],
        step_ms=round(mine["step_ms"]["median"], 2), inference_ms=round(mine["inference_ms"]["median"], 2),
        step_ratio=round(step.ratio, 3) if step else 1.0, inference_ratio=round(look.ratio, 3) if look else 1.0,
        step_interval=_interval(step), inference_interval=_interval(look),
    )  # fmt: skip


def _interval(found: Ratio | None) -> tuple[float, float] | None:
    return found and (round(found.low, 3), round(found.high, 3))


def _of(name: str) -> str:
    return name.rpartition("/")[0]


def main() -> None:
    made = atlas()
    write_text(PLACE, made.to_json())
    print(f"{PLACE}: {len(made.rows)} differences, {len(made.costs)} costs")


if __name__ == "__main__":
    main()
