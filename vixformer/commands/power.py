"""Compute how many seeds, and how much time, it takes to show a difference, or to rule it out."""

from __future__ import annotations

from dataclasses import dataclass

from vixformer.commands.flags import Points, RunsFolder
from vixformer.options import words
from vixformer.registry import pick
from vixformer.results.evidence import MARGIN, methods
from vixformer.tables import Shown, say, table
from vixformer.terminal import count


@dataclass(frozen=True, kw_only=True)
class Options(Shown):
    runs: tuple[RunsFolder, ...] = words(missing='which runs? write "vix power runs"; "vix compare" leaves them there')
    """Folders of runs, or files of records."""
    effect: Points = 1.0
    """Difference of top-1, in points, that the runs should show."""
    margin: Points = MARGIN
    """Difference of top-1, in points, that matters to you, and that the runs should rule out."""
    against: str | None = None
    """Model that the others are compared with. Left out: exact attention of the same protocol."""


def run(options: Options) -> None:
    from vixformer.results.cells import duration
    from vixformer.results.groups import counted, find_runs, some_groups
    from vixformer.results.power import POWER, needs, uncertainty

    folders = list(options.runs)
    found = find_runs(folders)
    groups = some_groups(found, folders)
    if options.against is not None:
        pick({group.name: group for group in groups}, options.against, "model of these runs")
    for problem in found.damaged:
        say(f"left out: {problem}")
    made, few = needs(groups, options.effect, options.margin, options.against)
    if not made:
        why = f"{few[0]} have too few seeds" if few else "there is only one model of each protocol"
        raise ValueError(
            f"no pair of models in {', '.join(map(str, folders))} has a spread: {why}; a spread takes 2 seeds of both"
            " (--seeds 2)"
        )
    columns = (
        "model", "against", "difference", "spread", "seeds", f"seeds to show {options.effect:g}", "time to show",
        f"seeds to rule out {options.margin:g}", "time to rule out",
    )  # fmt: skip
    rows = [
        (n.one, n.other, str(n.found), f"{n.sd:.2f}", str(n.found.count), count(n.show),
         duration(n.seconds_for(n.show)), count(n.rule_out), duration(n.seconds_for(n.rule_out)))
        for n in made
    ]  # fmt: skip
    table(columns, rows, ("spread", "seeds", "against"))
    others = sorted({n.other for n in made})
    base = others[0] if len(others) == 1 else "exact attention of the same training conditions"
    say(f"The difference is to {base}. {methods([n.found for n in made])}")
    say(
        f"Seeds to show: of each model, so that a difference of {options.effect:g} points is shown with {POWER:.0%}"
        f" probability. Seeds to rule out: so that a difference of {options.margin:g} points is ruled out if there is"
        " none. Time: for the missing seeds, one run at a time. Spread is the standard deviation of paired"
        " differences, or of the runs of one model where nothing pairs them."
    )
    least = min(n.found.count for n in made)
    low, high = uncertainty(least)
    say(
        f"A spread of {counted(least, 'seed')} is uncertain: the true one is {low:.1f} to {high:.1f} times as large (95"
        " %), and seeds grow with its square. Ask again when more seeds are there."
    )
    if few:
        say(f"Too few seeds for a spread: {'; '.join(few)}.")
