"""What a table says of itself."""

from __future__ import annotations

from dataclasses import replace

from tests.support import rows
from vixformer.commands.comparison import comparison, rest_of
from vixformer.experiments.budget import Cut
from vixformer.experiments.compare import Comparison, Row


def row(name: str, attention: str, val: float | None) -> Row:
    return rows.row(name, attention, {0: 50.0}, 1, val)


def test_times_and_their_ratio_point_the_same_way() -> None:
    """Both are medians: a single fast call does not make a slower model the faster one."""
    times = {"a": (19.0, 26.0, 27.0, 28.0), "b": (24.0, 25.0, 25.0, 26.0)}
    found = [
        replace(row(name, attention, 51.0), rounds=times[name])
        for name, attention in (("a", "nystrom"), ("b", "softmax"))
    ]
    columns, (nystrom, exact), notes = comparison(Comparison(found))
    ms, times = columns.index("inference ms"), columns.index("x inference")
    assert (nystrom[ms], exact[ms]) == ("26.5", "25.0")
    assert nystrom[times].startswith("1.06")
    assert "median" in notes[1]


def test_a_table_says_which_epoch_it_is_of_and_what_it_compares_with() -> None:
    linear, dropping = row("a", "fourier", None), row("b", "softmax(drop=0.1)", None)
    columns, _, notes = comparison(Comparison([linear, dropping]))
    assert "memory, MiB" not in columns  # nobody measured it
    assert notes[0].startswith("Test top-1 at the last epoch, one seed")
    assert notes[3].startswith("Columns with x are relative to b.")
    _, _, notes = comparison(Comparison([linear, row("b", "softmax", 51.0)]))
    assert notes[0].startswith("Test top-1 at the epoch chosen on validation")
    assert "Test top-1 at the last epoch, because there is no validation: a." in notes


def test_advice_on_the_rest_of_a_budget_is_not_circular() -> None:
    """The advice for 90 s was --budget 1m, which is less than was given."""
    found = Comparison([row("a", "softmax", 1.0)], Cut(1, 0.5, measure=False), True, ("a, seed 1",), enough=120.0)
    assert rest_of(replace(found, budget=60.0)) == [
        "The budget was too small for all runs. Another 2 minutes is enough for the rest: run the same command again"
        " with --budget 2m, which keeps the finished runs."
    ]
    for budget in (120.0, 600.0):
        (told,) = rest_of(replace(found, budget=budget))
        assert "Another 2 minutes is enough for the rest: run the same command again, which" in told
    notes = comparison(found)[2]
    assert "Memory was not measured, to leave the time for training." in notes
    assert any(note.startswith("The budget gave every model 1 epoch and 50.0%") for note in notes)
    assert rest_of(Comparison([])) == []
