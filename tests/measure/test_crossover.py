"""Where one attention becomes faster than another."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from vixformer.measure import crossover as crossovers
from vixformer.measure.bench import Layers, Sizes
from vixformer.measure.crossover import FEWEST, MOST, WITHIN, Probe, _bisected, compared, crossover


def crossing_at(tokens: float, doubt: float = 1.0) -> Callable[[int], bool | None]:
    return lambda n: None if tokens / doubt < n < tokens * doubt else n < tokens


@pytest.mark.parametrize("tokens", [20.5, 150.5, 999.5, 12000.5])
def test_bisection_finds_where_lines_cross(tokens: float) -> None:
    found = _bisected("x", crossing_at(tokens), [])
    assert found.slower_at is not None
    assert found.faster_at is not None
    assert found.slower_at < tokens < found.faster_at
    assert found.faster_at <= WITHIN * found.slower_at + 1
    assert found.side(16) == 16 * math.ceil(math.sqrt(found.faster_at))


def test_bisection_where_it_cannot_be_told_and_at_the_ends() -> None:
    found = _bisected("x", crossing_at(1000, doubt=1.5), [])
    assert found.slower_at is not None
    assert found.faster_at is not None
    assert found.slower_at == pytest.approx(1000 / 1.5, rel=WITHIN - 1)
    assert found.faster_at == pytest.approx(1000 * 1.5, rel=WITHIN - 1)
    always, never = _bisected("x", crossing_at(1), []), _bisected("x", crossing_at(10**6), [])
    assert (always.slower_at, always.faster_at) == (None, FEWEST)
    assert (never.slower_at, never.faster_at, never.side(16)) == (MOST, None, None)


def test_a_real_comparison() -> None:
    sizes = Sizes(dim=64, heads=2, seconds=0.2, batch=1)
    long = compared("performer(kernel=relu, features=8)", "torch", 4096, sizes)
    assert long.verdict == "faster"  # some forty times fewer multiply-adds
    assert long.low <= long.ratio <= long.high
    assert [Probe(1.0, *ends).verdict for ends in ((0.9, 1.1), (1.01, 1.1), (0.8, 0.99))] == [
        "undecided",
        "slower",
        "faster",
    ]
    with pytest.raises(ValueError, match='unknown attention "performr"'):
        crossover("performr", sizes)


def test_crossover_uses_the_threads_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    plain = crossovers.rounds
    monkeypatch.setattr(
        crossovers, "rounds", lambda *args, **named: seen.append(torch.get_num_threads()) or plain(*args, **named)
    )
    probe = compared("fourier", "torch", 32, Layers(dim=32, heads=2, seconds=0.01, batch=1, threads=1))
    assert set(seen) == {1}
    assert probe.this_us > 0
    assert probe.exact_us > 0
