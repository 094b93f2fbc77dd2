"""Which experiment comes first: the one that decides most claims an hour."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from tools.lab.jobs import Experiment, Job, foreseen
from tools.pages.answers import answers
from vixformer.config import Data
from vixformer.documents import DOCUMENTS
from vixformer.documents.claims import is_cost
from vixformer.documents.reproduce import forward_macs
from vixformer.documents.verdicts import paired_rows
from vixformer.results.records import Record, family


@dataclass(frozen=True)
class Planned:
    experiment: Experiment
    runs: int
    done: int
    hours: float
    """On one thread, of what is left."""
    claims: int
    """Open ones that it has both sides of; one seed decides none."""

    @property
    def rank(self) -> float:
        return (self.claims + self.experiment.worth) / max(self.hours, 0.01)


def plan(experiments: Iterable[Experiment], known: Mapping[str, Record], failed: Collection[str] = ()) -> list[Planned]:
    """What is left, in the order in which the lab takes it up."""
    paces = _paces(known.values())
    found = [_planned(experiment, known, failed, paces) for experiment in experiments]
    return sorted((p for p in found if p.done < p.runs), key=lambda p: -p.rank)


def _planned(
    experiment: Experiment, known: Mapping[str, Record], failed: Collection[str], paces: Mapping[str, float]
) -> Planned:
    every = list(foreseen(experiment, known, failed))
    left = [job for job in every if job.id not in known and job.id not in failed]
    hours = sum(_seconds(job, paces) for job in left) / 3600
    return Planned(experiment, len(every), len(every) - len(left), hours, _open_claims(experiment))


def _open_claims(experiment: Experiment) -> int:
    rows = experiment.recipes()
    every = [answer for document in DOCUMENTS.values() for answer in answers(document)]
    asked = [a.found.claim for a in every if a.found.judged.verdict == "open" and not is_cost(a.found.claim.measure)]
    return sum(all(paired_rows(claim, rows)) for claim in asked) if experiment.seeds > 1 else 0


def _seconds(job: Job, paces: Mapping[str, float]) -> float:
    pace = paces.get(family(job.name)) or statistics.median(paces.values())
    return pace * job.recipe.train.epochs * _images(job.recipe.data) * forward_macs(job.recipe)


def _paces(records: Iterable[Record]) -> dict[str, float]:
    """By family, the median of seconds a multiply-add of a forward pass."""
    found: dict[str, list[float]] = {}
    for record in records:
        budget, summary = record["budget"], record["summary"]
        if work := budget["epochs"] * budget["train_images"] * summary["multiply_adds"]:
            found.setdefault(family(record["name"]), []).append(summary["train_seconds"] / work)
    return {name: statistics.median(paces) for name, paces in found.items()}


def _images(data: Data) -> float:
    held = data.val_fraction if data.folds is None else 1 / data.folds
    return _whole(data.name, data.root) * data.fraction * (1 - held)


@cache
def _whole(name: str, root: str | None) -> int:
    return len(Data(name=name, root=root, resize=32).source().read("train"))
