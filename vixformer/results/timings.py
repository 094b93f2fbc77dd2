"""Inference of several runs' models timed in turn, kept beside the runs, so that every table of them has the same
ratios."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from vixformer.jsonfile import Given, Values, read_json
from vixformer.measure.latency import Ratio, paired_ratio
from vixformer.measure.load import Load
from vixformer.notes import note
from vixformer.registry import made_of
from vixformer.results.evidence import welch
from vixformer.results.groups import Group
from vixformer.room import cores
from vixformer.writing import write_json

TIMINGS = "timings.json"


@dataclass(frozen=True)
class Session:
    """Calls one after the other, round by round."""

    batch: int
    machine: Values
    load: Values
    """What others did meanwhile."""
    ms: dict[str, Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=1)]]
    """By the name of a run's folder, the milliseconds of every round."""

    def of(self, group: Group) -> Sequence[float] | None:
        return next((self.ms[run.folder.name] for run in group.runs if run.folder.name in self.ms), None)


def keep_session(out: Path, session: Session) -> None:
    """In place of those that had no other models."""
    others = [old for old in read_sessions(out) if not set(old.ms) <= set(session.ms)]
    write_json(out / TIMINGS, [asdict(s) for s in (*others, session)])


def read_sessions(out: Path) -> list[Session]:
    """The oldest first. A damaged file is named once, and as if it were not there: comparing again measures it
    again."""
    path = out / TIMINGS
    if not path.exists():
        return []
    try:
        found = made_of(list[Session], read_json(path), f"{path} is damaged, and vix compare writes it again")
    except ValueError as error:
        note(str(error))
        return []
    return [session for session in found if len({len(times) for times in session.ms.values()}) == 1]


def inference_ratio(group: Group, other: Group) -> Ratio | None:
    """Of pairs of calls, where both were timed in turn. Otherwise of runs that were timed when each of them ended,
    which may have been beside other work: from the least call of the one and the usual call of the other to the
    reverse."""
    for session in _sessions([group, other]):
        these, those = session.of(group), session.of(other)
        if these is not None and those is not None:
            return paired_ratio(these, those)
    spans = [_span(group), _span(other)]
    if (
        len({(s or {}).get("inference_batch") for g in (group, other) for s in (run.summary for run in g.runs)}) > 1
        or None in spans
    ):
        return None
    (low, usual, high), (others_low, others_usual, others_high) = (span for span in spans if span is not None)
    return Ratio(usual / others_usual, low / others_high, high / others_low)


def _span(group: Group) -> tuple[float, float, float] | None:
    """The least call of any run, the mean of the least calls of all, and a standard deviation above the mean of the
    slowest run."""
    least, mean, sd = (group.values(f"inference_ms_{key}") for key in ("min", "mean", "sd"))
    if not least or len(least) != len(mean) or len(least) != len(sd) or min(least) <= 0:
        return None
    return min(least), sum(least) / len(least), max(a + b for a, b in zip(mean, sd, strict=True))


def training_ratio(group: Group, other: Group) -> Ratio | None:
    """Of whole trainings, with the interval over their epochs; None where other work is known to have shared the
    cores."""
    if any(disturbed(run.summary or {}) for g in (group, other) for run in g.runs):
        return None
    mine, theirs = (
        [r["seconds"] for history in g.histories() for r in history if "seconds" in r] for g in (group, other)
    )
    ours, those = group.spread("train_seconds"), other.spread("train_seconds")
    if ours is None or those is None or not ours.mean or not those.mean:
        return None
    return epochs_ratio(mine, theirs, ours.mean / those.mean)


def epochs_ratio(these: Sequence[float], those: Sequence[float], share: float | None = None) -> Ratio | None:
    """Of times that were not taken in pairs, such as the epochs of two trainings: Welch's interval of their logarithms.
    None where a side has fewer than two. `share` is the ratio that the interval is put around, such as that of whole
    trainings."""
    if min((*these, *those), default=0) <= 0:
        return None
    found = welch([math.log(x) for x in these], [math.log(x) for x in those])
    if found is None:
        return None
    middle = math.exp(found.mean) if share is None else share
    return Ratio(middle, middle * math.exp(-found.half), middle * math.exp(found.half))


def timed_together(groups: Sequence[Group]) -> dict[str, float]:
    """The median milliseconds of every group by its name, where all of them were timed in turn; otherwise nothing."""
    for session in _sessions(groups):
        found = {group.name: times for group in groups if (times := session.of(group)) is not None}
        if len(found) == len(groups):
            return {name: statistics.median(times) for name, times in found.items()}
    return {}


def disturbed(summary: Given) -> bool:
    """Whether other work shared the cores while a run was trained, as far as it says."""
    threads = (summary.get("machine") or {}).get("threads", 1)
    return Load(summary.get("train_others"), summary.get("train_cores") or cores(), None).disturbs(threads)


def _sessions(groups: Sequence[Group]) -> Iterator[Session]:
    """The newest first."""
    for out in dict.fromkeys(run.folder.parent for group in groups for run in group.runs):
        yield from reversed(read_sessions(out))
