"""Runs that were kept, and run folders made of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tools.runs import RECORDS
from vixformer.results.groups import Group, find_runs, some_groups
from vixformer.results.records import recorded_runs
from vixformer.results.runs import HISTORY, RECIPE, SUMMARY, Run


def recorded(name: str) -> list[Run]:
    """In the order of seeds."""
    return [run for run in recorded_runs(RECORDS / f"{name.partition('/')[0]}.jsonl") if run.name == name]


def write_run(run: Run, folder: Path) -> None:
    """As its training left it, without weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RECIPE).write_text(run.recipe.to_json())
    (folder / SUMMARY).write_text(json.dumps(run.summary))
    (folder / HISTORY).write_text("".join(json.dumps(epoch) + "\n" for epoch in run.history()))


def read_groups(folders: Sequence[Path]) -> list[Group]:
    return some_groups(find_runs(folders), folders)
