"""docs/results/lens.md."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from pathlib import Path

from tools.pages import tuned
from tools.pages.tables import RUNS, TIMES, Cell, Column, count, ours, ratio, settings, table
from tools.runs import ELSEWHERE, RESULTS
from tools.timings import kept_timings
from vixformer.measure.machine import in_words
from vixformer.recipes.lens import PARTS, RIVALS, SETTINGS
from vixformer.results.evidence import MARGIN, effect, judge

TITLES = {
    "cifar10": "CIFAR-10, patches of 4",
    "tiny-imagenet": "Tiny ImageNet, patches of 4",
    "fashion-mnist": "Fashion-MNIST, patches of 4",
    "pixels": "CIFAR-10, a token a pixel",
    "parts": "What the parts bring: other features, positions and starts on a quarter of CIFAR-10",
}
OURS = ("prism", "lens")
TOKENS = {"cifar10": 64, "tiny-imagenet": 256, "pixels": 1024}
TIMED = {
    "`prism` to exact": ("prism", "exact"),
    "`lens` to exact": ("lens", "exact"),
    "`prism` to Performer-softmax, 64 features": ("prism", "performer-softmax"),
    "`prism` to Performer-ReLU, 64 features": ("prism", "performer-relu"),
}
CLOCKED = {name for pair in TIMED.values() for name in pair}
HEADS = (16, 32, 64)
GROUPS = {
    "as they are": ("prism", "lens", "exact", "exact-conv"),
    "no convolution, a wider one": ("prism-no-conv", "no-conv", "conv-5"),
    "Prism with other positions": ("learned-positions", "no-positions"),
    "Prism's network: its end, its width, its start": ("end-relu", "end-elu", "wider", "orthogonal", "plain-start"),
    "ReLU features, sharpened, gated, normalized": ("power-2", "learned-power", "focused", "cosine", "gate", "norm"),
    "ReLU features that see neighbors": ("look-conv", "look-graph"),
    "features along directions: random, learned, growing, prototypes": (
        "random",
        "learned-directions",
        "grown",
        "prototypes",
    ),
    "features a layer, chosen by `vix search`": ("searched",),
    "both signs, polynomial": ("both-signs", "polynomial"),
    "exponentials": ("exp", "temperature", "softmax-features"),
    "Prism from exact attention, distilled from it": ("warm-start",),
}
"""Rows of the ablation, by what they change."""
CLEAN = (2, 3, 4)
"""Seeds of CIFAR-10 that were not looked at when Prism was chosen among its variants."""


def page() -> str:
    parts = [
        "# Lens and Prism beside other attention",
        (
            "One ViT (width 64, depth 4, 4 heads, rotary positions), one budget, the same seeds and splits, and the"
            " parameters of `prism` within 2 %. *prism minus it* and *lens minus it* are mean differences over the"
            " seeds that both have, with their paired 95 % intervals; where that leaves out zero the difference is"
            f" more than the noise of seeds. *In short* says what is shown against a margin of {MARGIN} points, with"
            " Holm's correction for the rows of a table; what is neither shown nor ruled out is open. All are judged"
            " by the same test images: that other images would say the same is not in an interval, and of Tiny"
            " ImageNet there are a thousand. One learning rate for all, tuned for none; random features are drawn"
            " once, since these trainings are too short to draw them anew; `matrix` has as many features as a head is"
            " wide, since more would be more weights. Times are of one training step and one inference of the whole"
            " model with two threads, in turn, to exact attention, on"
            f" {TIMES['lens/cifar10/prism']['machine']['processor']} (`python -m tools.runs time 'lens/cifar10/*'`, and"
            " so on). Where a table names two machines some pairs are of both: such a pair has the same start, data"
            " and order, and rounds differently."
        ),
        "## The record",
        _record(),
    ]
    for where, setting in SETTINGS.items():
        base = f"lens/{where}/"
        names = [base + name for name in setting.names if base + name in RUNS]
        ours_here = [name for name in OURS if base + name in names]
        if not ours_here:
            parts += [f"## {TITLES[where]}", "Not run yet."]
            continue
        columns: list[Column] = [
            *([("attention", _attention)] if where == "parts" else []),
            ("top-1", ours("test_top1")), ("seeds", count),
            *((f"{one} minus it", _minus(base, one)) for one in ours_here),
            *([("prism minus it, seeds 2 to 4", _minus(base, "prism", CLEAN))] if where == "cifar10" else []),
            ("parameters", ours("parameters", 0)),
            ("step, to exact", ratio("step", "exact")), ("inference, to exact", ratio("inference", "exact")),
        ]  # fmt: skip
        short = "**In short:** " + " ".join(_short(base, one, names) for one in ours_here)
        many = where == "parts"  # too many for sentences
        parts += [
            f"## {TITLES[where]}",
            settings({name: RUNS[name] for name in names}),
            *([] if many else [short]),
            table(names, columns),
        ]
        seeds = len(RUNS[base + ours_here[0]])
        each = statistics.fmean(min(run.summary["seconds_in_all"] for run in RUNS[name]) for name in names)
        # rows that are not run yet count as the mean of those that are
        hours = seeds * len(setting.names) * each / 2 / 3600
        command = f"`vix compare 'lens/{where}/*' --seeds {seeds} --against {base}{ours_here[0]} --jobs 2`"
        parts += [f"{command}, about {hours:.1f} hours by the fastest run of each row."]
    parts += ["## With equal tuning", *_tuned()]
    return "\n\n".join([*parts, "## The record, epoch by epoch", _epochs_of_the_record()])


def _tuned() -> list[str]:
    base = "lens/cifar10/"
    found = tuned.table([base + name for name in SETTINGS["cifar10"].names], f"{base}exact")
    return [tuned.PROTOCOL, found] if found else ["Not run yet: `python -m tools.lab run --only lens-tuned`."]


def overview() -> str:
    """Of docs/lens.md: what `prism` is ahead by, a column a setting."""
    places = [where for where in SETTINGS if where != "parts" and f"lens/{where}/prism" in RUNS]
    rivals = [
        name
        for name in SETTINGS["cifar10"].names
        if name != "prism" and any(f"lens/{where}/{name}" in RUNS for where in places)
    ]
    lines = [
        "| `prism` minus | " + " | ".join(TITLES[where] for where in places) + " |",
        "|---" + "|--:" * len(places) + "|",
    ]
    tops = [f"{statistics.fmean(_seeds(f'lens/{where}/prism').values()):.1f} %" for where in places]
    lines += ["| (`prism` itself) | " + " | ".join(tops) + " |"]
    for name in rivals:
        lines += [f"| `{name}` | " + " | ".join(_ahead(f"lens/{where}/", name) for where in places) + " |"]
    return "\n".join(lines)


def ablation() -> str:
    """Of docs/lens.md: test top-1 of every part, by what it changes."""
    seeds = sorted(
        {len(RUNS[f"lens/parts/{name}"]) for name in SETTINGS["parts"].names if f"lens/parts/{name}" in RUNS}
    )
    lines = [f"| what | test top-1, mean of {' or '.join(map(str, seeds))} seeds |", "|---|---|"]
    for what, names in GROUPS.items():
        found = {name: _seeds(f"lens/parts/{name}").values() for name in names if f"lens/parts/{name}" in RUNS}
        lines += [f"| {what} | {', '.join(f'`{name}` {statistics.fmean(tops):.1f}' for name, tops in found.items())} |"]
    return "\n".join(lines)


def times() -> str:
    """Of docs/lens.md: a training step and inference to those of others, a row a number of tokens and machine."""
    lines = ["| tokens | machine | " + " | ".join(TIMED) + " |", "|--:|---" + "|--:" * len(TIMED) + "|"]
    for where, tokens in TOKENS.items():
        for timings in (TIMES, kept_timings(ELSEWHERE)):
            here = {name.removeprefix(f"lens/{where}/"): timing for name, timing in timings.items()}
            step, inference = (
                {name: here[name][key]["median"] for name in CLOCKED} for key in ("step_ms", "inference_ms")
            )
            lines += [f"| {tokens:,} | {here['prism']['machine']['processor']} | {_ratios(step, inference)} |"]
    return "\n".join(lines)


def heads() -> str:
    """Of docs/lens.md: the same for heads of other widths, at 1,025 tokens, from what `vix bench model --json` kept."""
    lines = ["| head width | " + " | ".join(TIMED) + " |", "|--:" * (len(TIMED) + 1) + "|"]
    for width in HEADS:
        step, inference = (_medians(RESULTS / "heads" / f"{width}-{what}.json") for what in ("train", "inference"))
        lines += [f"| {width} | {_ratios(step, inference)} |"]
    return "\n".join(lines)


def _medians(path: Path) -> dict[str, float]:
    found = {row["attention"]: row["time"]["median"] for row in json.loads(path.read_text())["rows"]}
    return {name: found[(RIVALS | PARTS)[name]] for name in CLOCKED}


def _ratios(step: dict[str, float], inference: dict[str, float]) -> str:
    return " | ".join(
        f"{step[one] / step[other]:.2f}, {inference[one] / inference[other]:.2f}" for one, other in TIMED.values()
    )


def _ahead(base: str, name: str) -> str:
    if base + name not in RUNS:
        return ""
    mine, theirs = _shared(_seeds(base + "prism"), _seeds(base + name))
    apart = effect(mine, theirs)
    if apart is None:
        return f"{_mean(mine) - _mean(theirs):+.1f} ({len(mine)})"
    text = f"{apart.mean:+.1f} ± {apart.half:.1f} ({apart.count})"
    return f"**{text}**" if abs(apart.mean) > apart.half else text


def _attention(name: str) -> str:
    return f"`{RUNS[name][0].recipe['model']['attention']}`"


def _seeds(name: str) -> dict[int, float]:
    return {run.summary["seed"]: run.summary["test_top1"] for run in RUNS.get(name, [])}


def _shared(
    a: dict[int, float], b: dict[int, float], seeds: Iterable[int] | None = None
) -> tuple[dict[int, float], dict[int, float]]:
    """What both have: the same start, split and order."""
    both = [seed for seed in a if seed in b and (seeds is None or seed in set(seeds))]
    return {seed: a[seed] for seed in both}, {seed: b[seed] for seed in both}


def _mean(values: dict[int, float]) -> float:
    return statistics.fmean(values.values())


def _minus(base: str, one: str, seeds: Iterable[int] | None = None) -> Cell:
    def cell(name: str) -> str:
        mine, theirs = _shared(_seeds(base + one), _seeds(name), seeds)
        if name == base + one or not mine:
            return ""
        return str(effect(mine, theirs) or f"{_mean(mine) - _mean(theirs):+.2f} (one seed)")

    return cell


def _short(base: str, one: str, rivals: Iterable[str]) -> str:
    """Judged as one family."""
    names = [name for name in rivals if name != base + one]
    effects = [effect(*_shared(_seeds(base + one), _seeds(name)), images=None) for name in names]
    found: dict[str, list[str]] = {}
    for name, apart, judged in zip(
        names, effects, judge([(apart, "different", MARGIN) for apart in effects]), strict=True
    ):
        what = {
            "shown": "beats" if apart and apart.mean > 0 else "loses to",
            "ruled out": f"is within {MARGIN} points of",
        }
        found.setdefault(what.get(judged.verdict, ""), []).append(f"`{name.removeprefix(base)}`")
    undecided = found.pop("", [])
    told = [f"`{one}` {what} {', '.join(names)}" for what, names in found.items()]
    told += [f"whether it differs from {', '.join(undecided)} is open"] if undecided else []
    return "; ".join(told) + "."


def _record() -> str:
    run = RUNS["lens/record"][0]
    s, seconds = run.summary, sum(epoch["seconds"] for epoch in run.history)
    return (
        f"`lens/record`: a convolutional stem and {run.recipe['model']['depth']} layers of `lens`, {s['parameters']:,}"
        f" parameters, no other attention. **{s['test_top1']:.2f} %** of the CIFAR-10 test images, read once, at the"
        " epoch that validation chose; the documents' best is 88.64 % (Performer-GELU on an A100). One seed; the test"
        " images had been read for one earlier configuration (91.33 %, in the recipe's docstring)."
        f" {seconds / 3600:.1f} hours on {in_words(s['machine'])}, two processes of one thread, with other work on the"
        " same cores at times: `OMP_NUM_THREADS=1 torchrun --standalone --nproc-per-node 2 -m vixformer train"
        " lens/record` ([every epoch](#the-record-epoch-by-epoch))."
    )


def _epochs_of_the_record() -> str:
    lines = ["| epoch | train top-1 | validation top-1 | s |", "|--:|--:|--:|--:|"]
    for e in RUNS["lens/record"][0].history:
        lines += [f"| {e['epoch']} | {e['train_top1']:.2f} | {e['val_top1']:.2f} | {e['seconds']:.0f} |"]
    return "\n".join(lines)
