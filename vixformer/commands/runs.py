"""List the runs in a folder, finished or not, or in a file of records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from vixformer.jsonfile import Values
from vixformer.options import Folder, words
from vixformer.tables import Listed, say, table
from vixformer.terminal import count, rounded


@dataclass(frozen=True, kw_only=True)
class Options(Listed):
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
    if not found and folder.is_file():
        raise ValueError(f"{folder} has no runs: give a folder of runs, or a .jsonl file of their records")
    if not found:
        raise ValueError(f'{folder} has no runs: "vix train quick/exact --out {folder}" makes one')
    rows = []
    for one in found:
        s = one.summary
        state = ("", "", "", "", "") if s is None else _summarized(s)
        epochs = f"{len(one.history())} of {one.recipe.train.epochs}"
        parent = "" if one.recipe.train.weights is None else Path(one.recipe.train.weights).name
        done = "done" if s else "not finished"
        rows.append((one.folder.name, _date(one.folder), done, epochs, *state, one.recipe.data.shown, parent))
    reached = ("top-1 %", "parameters", "train s", "inference ms", "memory, MiB")
    titles = ("run", "date", "state", "epochs", *reached, "data", "from")
    kept = [i for i, title in enumerate(titles) if title not in ("date", "from") or any(row[i] for row in rows)]
    drop = ("memory, MiB", "inference ms", "parameters", "train s", "from", "data", "epochs")
    table([titles[i] for i in kept], [[row[i] for i in kept] for row in rows], drop)
    for one in found:
        if one.summary is None and one.folder.is_dir():
            say(f"Resume with: vix train --resume {one.folder}")
    for problem in odd:
        say(f"left out: {problem}")


def _date(folder: Path) -> str:
    """When anything was last written; a record has none."""
    if not folder.is_dir():
        return ""
    return datetime.fromtimestamp(max(file.stat().st_mtime for file in folder.iterdir())).strftime("%Y-%m-%d %H:%M")


def _summarized(s: Values) -> tuple[str, ...]:
    inference = f"{s['inference_ms_mean']:.1f} ± {s['inference_ms_sd']:.1f}" if "inference_ms_mean" in s else ""
    memory = f"{s['peak_train_mb']:.0f}" if "peak_train_mb" in s else ""
    reached = f"{s['test_top1']:.2f}" if "test_top1" in s else f"RMSE {s['test_rmse']:.4g}"
    return reached, count(s["parameters"]), rounded(s["train_seconds"]), inference, memory
