"""List the runs in a folder, finished or not, or in a file of records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vixformer.options import Folder, words
from vixformer.tables import Shown, say, table
from vixformer.terminal import count


@dataclass(frozen=True, kw_only=True)
class Options(Shown):
    folder: Folder = words(Path("runs"))
    """Folder of runs, or a file of records."""


def run(options: Options) -> None:
    from vixformer.results.records import recorded_runs
    from vixformer.results.runs import RECIPE, list_runs

    folder = options.folder
    odd: list[str] = []
    found = [*list_runs(folder, odd.append), *recorded_runs(folder, odd.append)]
    if not found and (folder / RECIPE).exists():
        raise ValueError(f"{folder} is a run: give the folder that it is in, {folder.parent}")
    if not found and odd:
        raise ValueError(f"no run in {folder} can be read: {odd[0]}")
    if not found:
        raise ValueError(f'{folder} has no runs: "vix train quick/exact --out {folder}" makes one')
    rows = []
    for one in found:
        s = one.summary
        state = ("", "", "", "", "") if s is None else _summarised(s)
        epochs = f"{len(one.history())} of {one.recipe.train.epochs}"
        parent = "" if one.recipe.train.weights is None else Path(one.recipe.train.weights).name
        rows.append((one.folder.name, one.recipe.data.name, parent, "done" if s else "not finished", epochs, *state))
    titles = ("run", "data", "from", "state", "epochs", "parameters", "top-1 %", "train s", "inference ms", "memory, MiB")
    kept = [i for i, title in enumerate(titles) if title != "from" or any(row[i] for row in rows)]
    drop = ("memory, MiB", "inference ms", "parameters", "train s", "from", "data")
    table([titles[i] for i in kept], [[row[i] for i in kept] for row in rows], drop)
    for problem in odd:
        say(f"left out: {problem}")


def _summarised(s: dict[str, Any]) -> tuple[str, ...]:
    inference = f"{s['inference_ms_mean']:.1f} ± {s['inference_ms_sd']:.1f}" if "inference_ms_mean" in s else ""
    memory = f"{s['peak_train_mb']:.0f}" if "peak_train_mb" in s else ""
    return count(s["parameters"]), f"{s['test_top1']:.2f}", f"{s['train_seconds']:.0f}", inference, memory
