"""Whether records can be trusted: some of them, drawn at random, are trained again and must give the same numbers."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from tools import runs
from vixformer.measure.machine import machine
from vixformer.ops import native
from vixformer.results.records import Record, record_of, run_of
from vixformer.results.runs import Run
from vixformer.training.loop import train


@dataclass(frozen=True)
class Again:
    record: Record
    differs: dict[str, tuple[Any, Any]]
    """Numbers that were not the same: then and now."""


def rerun(records: Iterable[Record], count: int, seed: int) -> Iterator[Again]:
    """Of those that this machine can repeat to the bit: trained from scratch, on its kind of processor, with its
    torch."""
    here = {**machine(torch.device("cpu")), "instructions": native.status().instructions}
    able = [record for record in records if _repeatable(record, here)]
    if not able:
        raise ValueError(
            f"no record was made on a machine like this one ({here['processor']}, {here['instructions']}): nothing to"
            " repeat"
        )
    for record in random.Random(seed).sample(able, min(count, len(able))):
        torch.set_num_threads(record["conditions"]["threads"] or 1)
        recipe = run_of(record, runs.RECORDS).recipe
        result = train(recipe)
        now = record_of(Run(runs.RECORDS, recipe, result.summary, record["name"], result.history), record["name"])
        yield Again(record, dict(_differing(record, now)))


def _repeatable(record: Record, here: dict[str, Any]) -> bool:
    conditions: Any = record["conditions"]
    same = all(conditions[key] == here.get(key) for key in ("processor", "torch", "instructions"))
    return (
        same and record["recipe"]["train"].get("weights") is None and record["recipe"]["data"].get("name") != "folder"
    )


def _differing(then: Record, now: Record) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Accuracies and losses, of the run and of every epoch."""
    for part in ("summary", "curve"):
        for key, value in then[part].items():
            if key.endswith(("_loss", "_top1", "_top5")) and now[part].get(key) != value:
                yield f"{part}.{key}", (value, now[part].get(key))
