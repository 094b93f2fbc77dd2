"""The table of a report: one row per group of runs, costs beside those of exact attention under the same protocol."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vixformer.measure.latency import Ratio
from vixformer.report.sentences import Answer
from vixformer.results.cells import in_csv, in_latex, in_markdown
from vixformer.results.evidence import Effect
from vixformer.results.groups import Group, twin
from vixformer.results.timings import inference_ratio, timed_together, training_ratio

Cell = str | float | None
TEXT = ("model", "data", "attention", "verdict")
ONE_SEED, ABOUT_ONE_SEED = r"^{*}", "One seed: the interval covers the choice of test images alone."
TO_EXACT = "relative to exact attention, with its 95 % interval"


@dataclass(frozen=True)
class Column:
    name: str
    about: str
    value: Callable[[Group], Cell]
    """A word, a number or None."""
    show: Callable[[Any], str] = str
    spread: Callable[[Group], float | None] | None = None
    """Its standard deviation over seeds, where there are several."""
    interval: Callable[[Group], Ratio | Effect | None] | None = None
    """Of a ratio or a difference."""
    main: bool = True
    """Whether the page shows it at once, and a paper's table has it."""

    def cell(self, group: Group) -> str:
        value = self.value(group)
        if value is None:
            return ""
        if self.interval is not None and (interval := self.interval(group)) is not None:
            return str(interval)
        sd = self.spread(group) if self.spread is not None else None
        return self.show(value) + ("" if sd is None else f" ± {self.show(sd)}")

    def brief(self, group: Group) -> str:
        """For a paper: as many digits as the spread leaves a meaning."""
        value = self.value(group)
        if value is None or isinstance(value, str):
            return value or ""
        usual = len(self.show(0.0).partition(".")[2])
        found = self.interval(group) if self.interval is not None else None
        sd = found.half if isinstance(found, Effect) else self.spread(group) if self.spread is not None else None
        if not sd:
            return self.show(value)
        sign, n = "+" if found is not None else "", min(usual, max(1, digits(sd)))
        return f"{value:{sign},.{n}f} ± {sd:,.{n}f}" + (ONE_SEED if self.one_seed(group) else "")

    def one_seed(self, group: Group) -> bool:
        """Whether its interval is of a single seed, and so says nothing about others."""
        found = self.interval(group) if self.interval is not None else None
        return isinstance(found, Effect) and found.method == "test images"


def digits(error: float) -> int:
    """After the point: two significant ones of an error that begins with 1, one of others, and two at most."""
    if error <= 0:
        return 2
    power = math.floor(math.log10(error))
    return min(2, max(0, -power + (error / 10**power < 2)))


def _mean(key: str) -> Callable[[Group], float | None]:
    return lambda group: found.mean if (found := group.spread(key)) else None


def _sd(key: str) -> Callable[[Group], float | None]:
    return lambda group: found.sd if (found := group.spread(key)) else None


def _last_train(group: Group) -> float | None:
    found = [top1 for history in group.histories() if history and (top1 := history[-1].get("train_top1")) is not None]
    return sum(found) / len(found) if found else None


def _top5(group: Group) -> float | None:
    """Of five classes or fewer, all images are right."""
    few = len(group.first.get("confusion") or range(6)) < 6
    return None if few else _mean("test_top5")(group)


def _fixed(digits: int) -> Callable[[float], str]:
    return lambda value: f"{value:,.{digits}f}"


def _measured(name: str, about: str, key: str, digits: int, main: bool = True) -> Column:
    """What a summary says, with its deviation over seeds."""
    return Column(name, about, _mean(key), _fixed(digits), _sd(key), main=main)


def columns(groups: Sequence[Group], answers: Mapping[str, Sequence[Answer]] | None = None) -> list[Column]:
    """Those that any of the groups has a value for. `answers` have the difference of a model to exact attention, and
    the verdict on it."""
    known = {a.question.model: a for some in (answers or {}).values() for a in some if a.question.model is not None}

    def apart(group: Group) -> Effect | None:
        return known[group.name].question.found if group.name in known else None

    def verdict(group: Group) -> str | None:
        return known[group.name].judged.verdict if group.name in known else None

    def relative(key: str) -> Callable[[Group], float | None]:
        def value(group: Group) -> float | None:
            exact = twin(group, groups)
            mine, theirs = _mean(key)(group), exact and _mean(key)(exact)
            return None if mine is None or not theirs else mine / theirs

        return value

    def beside_exact(measured: Callable[[Group, Group], Ratio | None]) -> Callable[[Group], Ratio | None]:
        known: dict[int, Ratio | None] = {}

        def value(group: Group) -> Ratio | None:
            if id(group) not in known:
                exact = twin(group, groups)
                known[id(group)] = None if exact is None or exact is group else measured(group, exact)
            return known[id(group)]

        return value

    def middle(interval: Callable[[Group], Ratio | None], key: str) -> Callable[[Group], float | None]:
        plain = relative(key)
        return lambda group: found.ratio if (found := interval(group)) is not None else plain(group)

    training, inference, together = beside_exact(training_ratio), beside_exact(inference_ratio), timed_together(groups)

    def top5_sd(group: Group) -> float | None:
        return None if _top5(group) is None else _sd("test_top5")(group)

    tracked = "(train.track_test)"
    inference_ms = _measured("inference ms", "of a batch, the fastest call of a run", "inference_ms_min", 1)
    if together:
        about = "64 images, the median of all calls, all models in turn"
        inference_ms = Column("inference ms", about, lambda g: together[g.name], _fixed(1))
    every = [
        Column("model", "recipe", lambda g: g.name),
        Column("data", "data set", lambda g: g.data, main=len({g.data for g in groups}) > 1),
        Column("attention", "layout", lambda g: g.attention),
        Column("runs", "one per seed and fold", lambda g: len(g.runs)),
        _measured("top-1 %", "of the test images, at the epoch that validation chose", "test_top1", 2),
        _measured("best test %", f"the largest of all epochs {tracked}", "test_max_top1", 2, main=False),
        _measured("last test %", f"of the last epoch {tracked}", "test_last_top1", 2, main=False),
        Column("train %", "training top-1 of the last epoch", _last_train, _fixed(2), main=False),
        _measured("epochs", "trained; fewer than planned if early stopping ended the run", "epochs", 0, main=False),
        Column("top-5 %", "of the test images", _top5, _fixed(2), top5_sd, main=False),
        Column(
            "difference",
            "of top-1 to exact attention, in points, with its 95 % interval",
            lambda g: found.mean if (found := apart(g)) else None,
            _fixed(2),
            interval=apart,
        ),
        Column("verdict", "on that difference: shown, ruled out or open", verdict),
        Column("parameters", "all of them", lambda g: g.first["parameters"], _fixed(0)),
        _measured("train s", "all epochs and distillation, without evaluation", "train_seconds", 0),
        inference_ms,
        _measured("memory MiB", "peak of a training step", "peak_train_mb", 0),
        Column(
            "x train",
            f"train s, {TO_EXACT} over epochs",
            middle(training, "train_seconds"),
            _fixed(2),
            interval=training,
            main=False,
        ),
        Column(
            "x inference",
            f"inference, {TO_EXACT}, over pairs of calls if vix compare timed both in turn",
            middle(inference, "inference_ms_min"),
            _fixed(2),
            interval=inference,
            main=False,
        ),
        Column("x memory", "memory relative to exact attention", relative("peak_train_mb"), _fixed(2), main=False),
    ]
    return [column for column in every if any(column.value(group) is not None for group in groups)]


def as_csv(groups: Sequence[Group], answers: Mapping[str, Sequence[Answer]] | None = None) -> str:
    """Unrounded numbers, with columns for each standard deviation and for the ends of each interval."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    found = columns(groups, answers)
    writer.writerow([name for c in found for name in (c.name, *(f"{c.name} {end}" for end in _ends(c)))])
    for group in groups:
        values = [value for c in found for value in (c.value(group), *(end(group) for end in _ends(c).values()))]
        writer.writerow([in_csv(value) for value in values])
    return file.getvalue()


def _ends(column: Column) -> dict[str, Callable[[Group], float | None]]:
    """What a table of numbers has beside a value."""
    if column.spread is not None:
        return {"sd": column.spread}
    interval = column.interval
    if interval is None:
        return {}
    return {
        "low": lambda group: None if (found := interval(group)) is None else found.low,
        "high": lambda group: None if (found := interval(group)) is None else found.high,
    }


def as_markdown(groups: Sequence[Group], answers: Mapping[str, Sequence[Answer]] | None = None) -> str:
    found = columns(groups, answers)
    lines = [[c.name for c in found], ["---" if c.name in TEXT else "--:" for c in found]]
    lines += [[in_markdown(c.cell(group)) for c in found] for group in groups]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _in_math(number: str) -> str:
    """With a minus that is no hyphen."""
    told = number.replace("±", r"\pm").replace(",", "{,}")
    return f"${told}$" if number else ""


def as_latex(groups: Sequence[Group], answers: Mapping[str, Sequence[Answer]] | None = None) -> str:
    """For the package booktabs: the main columns, with the digits that their spread leaves."""
    found = [column for column in columns(groups, answers) if column.main]
    form = "".join("l" if c.name in TEXT else "r" for c in found)
    rows = [
        [in_latex(c.brief(group)) if c.name in TEXT else _in_math(c.brief(group)) for c in found] for group in groups
    ]
    body = "".join(f"{' & '.join(row)} \\\\\n" for row in rows)
    heads = " & ".join(in_latex(c.name) for c in found)
    note = ""
    if any(c.one_seed(group) for c in found for group in groups):
        note = f"\\multicolumn{{{len(found)}}}{{l}}{{\\footnotesize ${ONE_SEED}$ {ABOUT_ONE_SEED}}} \\\\\n"
    end = f"\\bottomrule\n{note}\\end{{tabular}}\n"
    return f"\\begin{{tabular}}{{{form}}}\n\\toprule\n{heads} \\\\\n\\midrule\n{body}{end}"


FORMS = {"md": as_markdown, "latex": as_latex, "csv": as_csv}
ENDINGS = {"md": "md", "latex": "tex", "csv": "csv"}
