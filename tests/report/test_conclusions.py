"""The answer that a page begins with: the verdict of the runs, in words that a reader can act on."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.runs import read_groups, recorded
from tools.runs import RECORDS
from vixformer.commands.compare import Options
from vixformer.commands.flags import asked_recipe
from vixformer.options import parse
from vixformer.report.conclusions import Conclusion, command_of, conclusions
from vixformer.report.sentences import answers
from vixformer.results.cells import duration
from vixformer.results.evidence import LEVEL
from vixformer.results.groups import Group
from vixformer.results.power import need

EXACT, RELU = "hybrid/mnist/all-standard", "hybrid/mnist/all-relu-64"


def group(name: str, tops: Sequence[float]) -> Group:
    """Kept runs of three seeds with other accuracies."""
    runs = recorded(name)[: len(tops)]
    return Group(
        name,
        tuple(
            replace(run, summary={**(run.summary or {}), "test_top1": top}) for run, top in zip(runs, tops, strict=True)
        ),
    )


def concluded(exact: Sequence[float], relu: Sequence[float], margin: float = 0.5) -> Conclusion:
    groups = [some for some in (group(EXACT, exact), group(RELU, relu)) if some.runs]
    (found,) = conclusions(groups, answers(groups, margin), margin)
    return found


@pytest.mark.parametrize(
    ("relu", "verdict", "headline"),
    [
        ((55.0, 56.1, 57.0), "shown", "all-relu-64 is more accurate than exact attention, by 5.0 ± 0.1 points."),
        (
            (45.0, 46.1, 47.0),
            "shown",
            "Exact attention is the most accurate; all-relu-64 comes closest, 5.0 ± 0.1 points behind.",
        ),
        (
            (50.0, 51.1, 52.0),
            "ruled out",
            "all-relu-64 is as accurate as exact attention: any difference is below 0.5 points.",
        ),
        ((51.0, 50.1, 55.0), "open", "Not decided yet: all-relu-64 is 1.0 ± 4.8 points ahead of exact attention."),
        ((49.0, 48.1, 53.0), "open", "Not decided yet: all-relu-64 is 1.0 ± 4.8 points behind exact attention."),
        ((55.0,), "open", "Not decided yet: all-relu-64 is 4.0 ± "),
    ],
)
def test_the_headline_is_the_verdict(relu: Sequence[float], verdict: str, headline: str) -> None:
    found = concluded((50.0, 51.0, 52.0), relu)
    assert found.verdict == verdict
    assert found.headline.startswith(headline)
    assert found.why.lower().startswith(f"{verdict}: ")
    each = "3 seeds" if len(relu) == 3 else "1 to 3 seeds"
    assert found.facts["Rests on"].startswith(f"{each} of each model compared, {3 + len(relu)} runs;")


def test_an_open_answer_says_how_many_seeds_would_close_it() -> None:
    found = concluded((50.0, 51.0, 52.0), (51.0, 50.1, 55.0))
    assert found.effect is not None
    sides = group(RELU, (51.0, 50.1, 55.0)), group(EXACT, (50.0, 51.0, 52.0))
    wanted = need(*sides, found.effect, abs(found.effect.mean), 0.5, LEVEL)
    assert found.facts["What would change it"].startswith(
        f"About {wanted.show:,} seeds of each to show a true difference of {found.effect.mean:.1f} points"
    )
    assert f" or {wanted.rule_out:,} seeds of each to rule out one of 0.5" in found.facts["What would change it"]
    assert found.command.startswith(f"vix compare {EXACT} {RELU} --data.fraction 0.25 ")
    assert found.command.endswith(f" --seeds {min(wanted.show, wanted.rule_out)}")
    assert found.why == "Open: the runs show neither a difference nor that it is smaller than the margin of 0.5 points."
    assert concluded((50.0,), (51.0,)).command.endswith(" --seeds 3")
    assert concluded((50.0, 51.0, 52.0), (55.0, 56.1, 57.0)).command == ""


def test_without_exact_attention_there_is_no_verdict() -> None:
    alone = concluded((), (55.0, 56.0))
    assert (alone.verdict, alone.effect) == ("", None)
    assert alone.headline == "One model: hybrid/mnist/all-relu-64 reaches 55.5 %. There is nothing to compare it with."
    assert alone.facts["What would change it"] == "Runs with exact attention, trained in the same way."
    assert alone.facts["Rests on"].startswith("2 seeds; mnist, ")


def changed(some: Group, folder: Path | None = None, **train: object) -> Group:
    runs = [replace(run, recipe=replace(run.recipe, train=replace(run.recipe.train, **train))) for run in some.runs]
    if folder is not None:
        runs = [replace(run, folder=folder / run.folder.name, epochs=None) for run in runs]
    return Group(some.name, tuple(runs))


def test_the_command_trains_with_the_options_of_the_runs(tmp_path: Path) -> None:
    exact, relu = group(EXACT, (50.0, 51.0, 52.0)), group(RELU, (51.0, 50.1, 55.0))
    options = {"epochs": 3, "label_smoothing": 0.1, "measure": False, "patience": 2}
    command = command_of(*(changed(some, tmp_path, **options) for some in (relu, exact)))
    _, _, one, other, *words = shlex.split(command)
    assert (one, other) == (EXACT, RELU)
    asked = parse(Options, [one, other, *words], "compare")
    assert asked.out == tmp_path
    for name, some in ((EXACT, exact), (RELU, relu)):
        made = asked_recipe(name, asked.changes, "compare")
        recipe = changed(some, **options).runs[0].recipe
        assert made == replace(recipe, train=replace(recipe.train, seed=made.train.seed))
    assert command_of(changed(relu, epochs=7), exact) == ""  # no one command gives two models two numbers of epochs
    assert command_of(Group("mine", tuple(replace(run, name="mine") for run in relu.runs)), exact) == ""


def test_what_else_differs_and_why_it_is_open_are_said_beside_the_headline() -> None:
    groups = read_groups([RECORDS / "lens.jsonl"])
    told = {conclusion.model: conclusion for conclusion in conclusions(groups, answers(groups), 0.5)}
    found = told["conv-5"]
    assert (found.other, told["lens/parts/grown"].other) == ("exact", "lens/parents/random-16")
    assert "ahead of exact attention (which differs in mlp_dim too)" in found.headline
    assert found.why == (
        "Open, although the 95 % interval lies beyond zero: among 31 comparisons, one such interval can be chance"
        " (Holm)."
    )
    assert found.facts["Rests on"].startswith("3 to 5 seeds of each model compared, 120 runs of 31 models in all; ")


def test_durations_have_the_unit_that_people_use() -> None:
    assert [duration(seconds) for seconds in (45, 600, 7200, 626_000)] == ["45 s", "10 min", "2.0 h", "174 h"]
    edges = (89, 90, 5399, 5400, 35_999, 36_000)
    assert [duration(seconds) for seconds in edges] == ["89 s", "2 min", "90 min", "1.5 h", "10.0 h", "10 h"]
