"""The answer of each set of runs that can be compared: which attention, by how much, what that rests on, and what would
change it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vixformer.jsonfile import Values
from vixformer.measure.machine import in_words
from vixformer.recipes import list_recipes, load_recipe
from vixformer.report.figures.figure import brief
from vixformer.report.sentences import Answer
from vixformer.results.cells import duration
from vixformer.results.evidence import LEVEL, METHODS, Effect
from vixformer.results.groups import Group, by_protocol, counted, differing, twin
from vixformer.results.power import need
from vixformer.results.runs import Run

MOST_FIELDS = 3
"""Options of a recipe that a headline names."""
OF_A_RUN = ("data.split_seed", "data.fold", "train.seed", "train.device", "train.loggers", "train.weights")
"""Options that `vix compare` sets itself, or that do not change what a run shows."""


@dataclass(frozen=True)
class Conclusion:
    protocol: str
    headline: str
    verdict: str = ""
    """On the difference to exact attention; empty where there is none."""
    model: str = ""
    """The model that the headline is about."""
    why: str = ""
    """What makes the verdict, in a sentence."""
    effect: Effect | None = None
    facts: dict[str, str] = field(default_factory=dict)
    command: str = ""
    """What to type to know more."""
    other: str = ""
    """What the model is compared with."""

    def to_dict(self, margin: float) -> Values:
        found = self.effect
        bar = None if found is None else {"mean": found.mean, "low": found.low, "high": found.high, "margin": margin}
        told = {key: value for key, value in vars(self).items() if key != "effect"}
        return {**told, "difference": bar and {**bar, "says": str(found)}}


def conclusions(groups: Sequence[Group], answers: Mapping[str, Sequence[Answer]], margin: float) -> list[Conclusion]:
    """One for each protocol, the largest first."""
    alike = by_protocol(groups).items()
    found = [(some, _conclusion(protocol, some, answers.get(protocol, ()), margin)) for protocol, some in alike]
    found.sort(key=lambda pair: (pair[1].effect is None, -sum(len(group.runs) for group in pair[0])))
    return [conclusion for _, conclusion in found]


def _conclusion(protocol: str, groups: Sequence[Group], answers: Sequence[Answer], margin: float) -> Conclusion:
    by_name, names = {group.name: group for group in groups}, brief(groups)
    beside = [a for a in answers if a.question.model is not None] or [a for a in answers if a.question.one in by_name]
    if not beside:
        return _without_exact(protocol, groups)
    better, equal, worse, undecided = _sorted(beside)
    answer = max(better or equal or undecided or worse, key=lambda a: a.question.found.mean)
    group, found = by_name[answer.question.one], answer.question.found
    name, exact = names[group.name], twin(group, groups) if answer.question.model is not None else None
    base = answer.question.other if exact is None else f"exact attention{_too(group, exact)}"
    size = f"{abs(found.mean):.1f} ± {found.half:.1f} points"
    if better:
        headline = f"{name} is more accurate than {base}, by {size}."
    elif equal:
        headline = f"{name} is as accurate as {base}: any difference is below {margin:g} points."
    elif undecided:
        headline = f"Not decided yet: {name} is {size} {'ahead of' if found.mean > 0 else 'behind'} {base}."
    else:
        headline = f"{base[0].upper()}{base[1:]} is the most accurate; {name} comes closest, {size} behind."
    others = [
        (better, f"more accurate than {base}"),
        (equal, "as accurate"),
        (undecided, "open"),
        (worse, "less accurate"),
    ]
    change, command = _change(answer, group, exact, len(answers), margin)
    facts = {
        "Attention": group.attention,
        "Test accuracy": _accuracy(group) + ("" if exact is None else f"; exact attention {_accuracy(exact)}"),
        "Difference": f"{found} points, 95 % interval, {METHODS[found.method]}",
        "Cost against exact attention": _costs(answer) if exact is not None else "",
        "The other models": _others(others, answer),
        "Rests on": _rests_on(protocol, group, exact, groups),
        "What would change it": change,
    }
    told = {key: text for key, text in facts.items() if text}
    why = _why(answer, len(answers), margin)
    other = "exact" if exact is not None else answer.question.other.partition(" (")[0]
    return Conclusion(protocol, headline, answer.judged.verdict, name, why, found, told, command, other)


def _too(group: Group, exact: Group) -> str:
    """What else than attention may make the difference."""
    fields = differing(group, exact)
    rest = f" and {counted(len(fields) - MOST_FIELDS, 'more option')}" if fields[MOST_FIELDS:] else ""
    return f" (which differs in {', '.join(fields[:MOST_FIELDS])}{rest} too)" if fields else ""


def _why(answer: Answer, family: int, margin: float) -> str:
    found, verdict = answer.question.found, answer.judged.verdict
    corrected = f", corrected for {family} comparisons (Holm)" if family > 1 else ""
    if verdict == "shown":
        return f"Shown: the 95 % interval lies beyond zero{corrected}."
    if verdict == "ruled out":
        return f"Ruled out: any difference is smaller than the margin of {margin:g} points{corrected}."
    if found.method == "test images":
        return "Open: one seed decides nothing."
    if found.low > 0 or found.high < 0:
        return (
            f"Open, although the 95 % interval lies beyond zero: among {family} comparisons, one such interval can be"
            " chance (Holm)."
        )
    return (
        f"Open: the runs show neither a difference nor that it is smaller than the margin of {margin:g}"
        f" points{corrected}."
    )


def _costs(answer: Answer) -> str:
    told = answer.question.costs
    return ", ".join(told if any(cost.endswith("time") for cost in told) else (*told, "no clear difference in time"))


def _sorted(beside: Sequence[Answer]) -> tuple[list[Answer], list[Answer], list[Answer], list[Answer]]:
    """Better than exact attention, equal, worse, and open."""
    kinds: dict[str, list[Answer]] = {"above": [], "within": [], "below": [], "open": []}
    for answer in beside:
        kinds["open" if answer.judged.verdict == "open" else answer.judged.direction].append(answer)
    return kinds["above"], kinds["within"], kinds["below"], kinds["open"]


def _others(kinds: Sequence[tuple[list[Answer], str]], told: Answer) -> str:
    counts = [(sum(a is not told for a in some), what) for some, what in kinds]
    return ", ".join(f"{n} {what}" for n, what in counts if n)


def _accuracy(group: Group) -> str:
    top1 = group.spread("test_top1")
    return "" if top1 is None else f"{top1.mean:.1f} %" + ("" if top1.sd is None else f" ± {top1.sd:.1f}")


def _rests_on(protocol: str, group: Group, exact: Group | None, groups: Sequence[Group]) -> str:
    seconds = sum(s for g in groups for s in g.values("train_seconds"))
    machines = sorted({in_words(m) for g in groups for run in g.runs if (m := (run.summary or {}).get("machine"))})
    seeds = sorted({len(g.repetitions()) for g in (group, exact) if g is not None})
    each = f"{seeds[0]} to {seeds[-1]} seeds" if seeds[1:] else counted(seeds[0], "seed")
    runs = counted(sum(len(g.runs) for g in groups), "run")
    several = runs if len(groups) <= 2 else f"{runs} of {counted(len(groups), 'model')} in all"
    told = [
        each
        if exact is None and len(groups) == 1
        else f"{each} of each model compared, {several}"
        if exact is not None
        else f"{each} of the most accurate model, {several}",
        protocol,
        f"{group.first['test_images']:,} test images",
        *([f"{duration(seconds)} of training in all"] if seconds else []),
        *machines[:2],
        *([f"and {counted(len(machines) - 2, 'more machine')}"] if machines[2:] else []),
    ]
    return "; ".join(told)


def _change(answer: Answer, group: Group, exact: Group | None, family: int, margin: float) -> tuple[str, str]:
    """In words, and the command that would do it."""
    found = answer.question.found
    trained = counted(group.runs[0].recipe.train.epochs, "epoch")
    longer = f"These models trained for {trained}: longer training can change the order."
    if exact is None:
        return f"More seeds of both. {longer}", ""
    compare = command_of(group, exact)
    if found.method == "test images":
        return f"More seeds: one says nothing about the spread. {longer}", compare and f"{compare} --seeds 3"
    if answer.judged.verdict != "open":
        return f"More seeds would only narrow the interval. {longer}", ""
    size = max(abs(found.mean), margin)
    wanted = need(group, exact, found, size, margin, LEVEL / family)
    paths = [
        (wanted.show, f"to show a true difference of {size:.1f} points"),
        (wanted.rule_out, f"to rule out one of {margin:g}"),
    ]
    if wanted.show == wanted.rule_out:
        paths = paths[:1]
    told = " or ".join(
        f"{seeds:,} seeds of each {what} (about {duration(wanted.seconds_for(seeds))} more)" for seeds, what in paths
    )
    seeds = min(seeds for seeds, _ in paths)
    return f"About {told}, with a chance of 80 %. {longer}", compare and f"{compare} --seeds {seeds}"


def command_of(group: Group, exact: Group) -> str:
    """What trains both in the way that their runs were trained; empty where no one command does."""
    runs = [exact.runs[0], group.runs[0]]
    if not all(run.name in list_recipes() for run in runs):
        return ""
    options, others = (_options(run) for run in runs)
    if options is None or options != others:
        return ""
    folders = {run.folder.parent for g in (exact, group) for run in g.runs if run.epochs is None}
    out = ["--out", str(*folders)] if len(folders) == 1 and folders != {Path("runs")} else []
    return shlex.join(["vix", "compare", *(run.name or "" for run in runs), *options, *out])


def _options(run: Run) -> list[str] | None:
    """Those that make its recipe of the one of its name; None where none do."""
    assert run.name is not None
    plain, made = (recipe.to_dict(whole=True) for recipe in (load_recipe(run.name), run.recipe))
    if plain["model"]["name"] != made["model"]["name"]:
        return None
    found = []
    for section, values in made.items():
        for key, value in values.items():
            if value == plain[section].get(key) or f"{section}.{key}" in OF_A_RUN:
                continue
            if key == "folds":
                found += ["--folds", str(value)]
            elif isinstance(value, bool):
                found.append(f"--{section}.{'' if value else 'no-'}{key.replace('_', '-')}")
            else:
                words = value if isinstance(value, tuple) else [value]
                found += [f"--{section}.{key.replace('_', '-')}", *("none" if w is None else str(w) for w in words)]
    return found


def _without_exact(protocol: str, groups: Sequence[Group]) -> Conclusion:
    best = max(groups, key=_mean)
    facts = {
        "Attention": best.attention,
        "Test accuracy": _accuracy(best),
        "Rests on": _rests_on(protocol, best, None, groups),
    }
    name, exact = brief(groups)[best.name], any(group.exact for group in groups)
    if len(groups) == 1:
        headline = f"One model: {name} reaches {_mean(best):.1f} %. There is nothing to compare it with."
    else:
        headline = (
            f"{name} has the highest accuracy, {_mean(best):.1f} %. There is no {'other' if exact else 'exact'}"
            " attention to compare with."
        )
    missing = "another attention" if exact else "exact attention"
    facts["What would change it"] = f"Runs with {missing}, trained in the same way."
    return Conclusion(protocol, headline, model=name, facts=facts)


def _mean(group: Group) -> float:
    top1 = group.spread("test_top1")
    return 0.0 if top1 is None else top1.mean
