"""The atlas is asked for the nearest conditions, and says how near they are."""

from __future__ import annotations

from typing import Any

import pytest

from vixformer.measure.atlas import Row
from vixformer.measure.nearest import known


def row(attention: str, points: float, half: float = 1.0, **more: Any) -> Row:
    values: dict[str, Any] = dict(
        setting="atlas/cifar10-64", data="cifar10", tokens=64, start="scratch", name="one", attention=attention,
        top1=60.0, exact_top1=60.0, points=points, low=points - half, high=points + half, method="paired",
        verdict="open", seeds=3, epochs=5, images=1000, parameters=1, width=64, depth=4, records=("a",),
        exact_records=("b",),
    )  # fmt: skip
    return Row(**values | more)


def test_the_very_attention_at_the_nearest_number_of_tokens() -> None:
    rows = [row("lens", 1.0), row("lens", 3.0, tokens=1024), row("prism", 9.0, tokens=1024)]
    found = known("lens", 900, "scratch", rows)
    assert found is not None
    assert (found.points, found.low, found.high, found.alike) == (3.0, 2.0, 4.0, True)
    assert found.conditions == "cifar10 (1,024 tokens, 3 seeds), trained from scratch"
    assert str(found) == "+3.0 (+2.0 to +4.0)"


def test_nothing_is_known_of_another_start_or_layout() -> None:
    rows = [row("lens", 1.0), row("performer(kernel=relu, features=64)", 1.0)]
    assert known("lens", 64, "converted", rows) is None
    assert known("first(lens)", 64, "scratch", rows) is None
    assert known("performer(features=64)", 64, "scratch", rows) is None


def test_other_numbers_of_features_count_where_there_are_no_better() -> None:
    rows = [row("performer(kernel=relu, features=16)", 1.0), row("performer(kernel=relu, features=128)", 2.0)]
    found = known("first(performer(kernel=relu, features=64), n=3)", 64, "scratch", [row("first(lens)", 1.0), *rows])
    assert found is None
    near = known("performer(kernel=relu, features=64)", 64, "scratch", rows)
    assert near is not None
    assert (near.points, near.alike) == (2.0, False)
    assert near.conditions.endswith("with performer(kernel=relu, features=128)")
    part = known("first(lens, n=5)", 64, "scratch", [row("first(lens)", 1.0)])
    assert part is not None
    assert part.alike


def test_data_sets_are_averaged_and_their_differences_widen_the_interval() -> None:
    alike = [row("lens", 1.0), row("lens", 1.0, data="fashion-mnist", tokens=49)]
    other = [row("lens", 5.0), row("lens", -3.0, data="fashion-mnist", tokens=49)]
    same, apart = (known("lens", 64, "scratch", rows) for rows in (alike, other))
    assert same is not None
    assert apart is not None
    assert same.points == apart.points == pytest.approx(1.0)
    assert same.high - same.points == pytest.approx(2**-0.5)
    assert apart.high - apart.points > 5


def test_of_a_data_set_the_longest_training_counts() -> None:
    found = known("lens", 64, "scratch", [row("lens", 4.0, epochs=2), row("lens", 1.0, epochs=9)])
    assert found is not None
    assert (found.points, len(found.rows)) == (1.0, 1)
