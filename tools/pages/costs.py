"""Columns and sentences about what rows cost: time in turn, peak memory, parameters."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from functools import cache

import torch

from tools.pages.tables import MEMORY, REPORTED, TIMES, Column, either
from tools.runs import TIMINGS
from tools.timings import NAIVE, Kept, kept_timings, ratio_of
from vixformer import load_recipe
from vixformer.data.dataset import DataSet
from vixformer.documents.claims import Column as Printed
from vixformer.documents.reproduce import epoch_images, example
from vixformer.measure.cost import parameters
from vixformer.measure.machine import in_words

TIMED = {"seconds_an_epoch": "step", "ms_a_step": "step", "inference_ms": "inference"}
"""Columns of a document that stand beside what was timed in turn, not beside seconds of runs, which had other work
beside them."""
GPU = kept_timings(TIMINGS / "cuda")


@cache
def counted(name: str) -> str:
    """Parameters of a recipe's model, which need no run."""
    recipe = load_recipe(name)
    with torch.device("meta"):
        return f"{parameters(recipe.build(example(recipe.data))).modules:,}"


def times(c: Printed, what: str, base: str | None) -> list[Column]:
    def told(name: str) -> str:
        mine, theirs = (REPORTED.get(n, {}).get(c.printed) for n in (name, base or ""))
        return f"{float(mine) / float(theirs):.2f}" if mine and theirs else ""

    def here(name: str) -> str:
        ratio = None if base is None else ratio_of(TIMES, name, base, what)
        return "" if ratio is None else "1" if name == base else str(ratio)

    to = "" if base is None else f"to `{base.rpartition('/')[2]}`"
    relative = [] if base is None else [(f"{c.title} {to}, printed", told)]
    beside = [] if base is None else [(f"{c.title} {to}, here", here)]
    return [
        *relative,
        (f"{c.title}, here", lambda name: _absolute(TIMES, name, c, what)),
        *beside,
        (f"{c.title}, here on a GPU", lambda name: _absolute(GPU, name, c, what)),
    ]


def _absolute(times: Kept, name: str, c: Printed, what: str) -> str:
    """In the unit of the document: milliseconds a batch, or seconds over an epoch or the test images."""
    timing = times.get(name)
    if timing is None:
        return ""
    ms: float = timing[f"{what}_ms"]["median"]
    if "seconds" not in c.printed:
        return f"{ms:,.1f}"
    recipe = load_recipe(name)
    images = (
        epoch_images(recipe) if what == "step" else DataSet.member(recipe.data.name.partition(":")[0]).counts["test"]
    )
    seconds = images / timing["batch"] * ms / 1e3
    return f"{seconds:,.0f}" if seconds >= 100 else f"{seconds:,.1f}"


def peaks(base: str | None) -> list[Column]:
    def peak(name: str) -> float | None:
        return statistics.median(MEMORY[name]["train_mb"]) if name in MEMORY else None

    def absolute(name: str) -> str:
        fused, whole = peak(name), peak(name + NAIVE)
        return "" if fused is None else f"{fused:,.0f}" if whole is None else f"{fused:,.0f}, naive {whole:,.0f}"

    def relative(name: str) -> str:
        exact = None if base is None or base + NAIVE not in MEMORY else peak(base + NAIVE)
        fused, whole = peak(name), peak(name + NAIVE)
        if exact is None or fused is None or MEMORY[name]["batch"] != MEMORY[f"{base}{NAIVE}"]["batch"]:
            return ""
        return (
            f"{100 * fused / exact:.0f}"
            if whole is None
            else f"{100 * fused / exact:.0f}, naive {100 * whole / exact:.0f}"
        )

    return [("peak MiB, here", absolute), ("naive exact = 100, here", relative)]


def timing(names: Sequence[str], base: str | None) -> str:
    timed = [name for name in names if name in TIMES]
    if not timed:
        return ""
    batches = sorted({TIMES[name]["batch"] for name in timed})
    own = sorted({load_recipe(name).train.batch_size for name in timed})
    images = sorted({epoch_images(load_recipe(name)) for name in timed})
    calls = sorted({TIMES[name]["step_ms"]["count"] for name in timed})
    machines = sorted({in_words(TIMES[name]["machine"]) for name in timed})
    whole = all("step_calls" in TIMES[name] for name in timed)
    told = [
        f"Times here: the median of {either(calls)} training steps and of as many inferences of each row, in batches of"
        f" {either(batches)}" + (f" (the recipes': {either(own)})" if own != batches else ""),
        (
            f"seconds extrapolated to an epoch of {either(images)} images or to the test images, on"
            f" {' or '.join(machines)}."
        ),
    ]
    if base is not None:
        known = (
            "are of pairs of calls"
            if whole
            else "are from the spread of each row: single calls were not kept, so they are wider"
        )
        told.append(f"Ratios are of rows timed in turn; their 95 % intervals {known}.")
    return " ".join([", ".join(told[:2]), *told[2:]])


def ranges(names: Sequence[str], base: str | None) -> str:
    """Over all rows that were timed, trained or not."""
    parts = []
    for what, verb in (("step", "a training step takes"), ("inference", "inference takes")):
        found = {
            name: r for name in names if base and name != base and (r := ratio_of(TIMES, name, base, what)) is not None
        }
        if len(found) > 1 and base:
            ratios = [r.ratio for r in found.values()]
            verdicts = Counter(r.verdict for r in found.values())
            told = ", ".join(f"{verdicts[v]} {v}" for v in ("faster", "slower", "undecided") if verdicts[v])
            parts.append(
                f"{verb} {min(ratios):.2f} to {max(ratios):.2f} times that of `{base}` over all {len(found)} rows timed"
                f" ({told})"
            )
    return f"{'; '.join(parts).capitalize()}." if parts else ""
