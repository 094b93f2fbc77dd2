"""Advice is what was measured."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from vixformer.measure import advise as advising
from vixformer.measure.advise import Advice, Question, advise
from vixformer.measure.bench import Measured
from vixformer.measure.latency import Ratio, Timing


def measured(
    attention: str, ms: float, what: str = "vit", peak: float = 100.0, macs: int = 1, ratio: Ratio | None = None
) -> Measured:
    return Measured(
        what, attention, 257, 8, Timing(ms, ms, ms, 0.0, 5), 8e3 / ms, macs, 0.5, 0, int(peak * 2**20), ratio
    )


@pytest.fixture
def decide(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Advice]:
    """Advice on times that are given, so that the decision can be checked."""

    def decided(
        times: dict[str, float], peaks: dict[str, float] | None = None, noise: float = 0.01, **options: Any
    ) -> Advice:
        def layers(attentions: Any, _: Any) -> list[Measured]:
            return [measured(a, times.get(a, 1e3), "layer", macs=int(re.sub(r"\D", "", a) or 1)) for a in attentions]

        def models(_: Any, attentions: Any, __: Any, ___: Any) -> list[Measured]:
            found = []
            for a in attentions:
                word, _, count = (
                    a.removeprefix("first(").removesuffix(")").partition(", n=")
                    if a.startswith("first(")
                    else (a, "", "")
                )
                share = 1.0 if not count else int(count) / 12
                mixed = [
                    (1 - share) * t["softmax"] + share * t[word] for t in (times, peaks or dict.fromkeys(times, 100.0))
                ]
                ms, exact = 10 + 12 * mixed[0], 10 + 12 * times["softmax"]
                ratio = (
                    None if a == "softmax" else Ratio(ms / exact, ms / exact * (1 - noise), ms / exact * (1 + noise))
                )
                found.append(measured(a, ms, peak=mixed[1], ratio=ratio))
            return found

        monkeypatch.setattr(advising, "bench_attention", layers)
        monkeypatch.setattr(advising, "bench_models", models)
        return advise(Question(**options))

    return decided


def test_exact_attention_where_nothing_is_faster(decide: Callable[..., Advice]) -> None:
    found = decide({"softmax": 1.0, "hedgehog": 2.0})
    assert (found.attention, found.fits) == ("softmax", True)
    assert "no other attention is faster here" in found.reason
    close = decide({"softmax": 1.0, "hedgehog": 0.95})
    assert close.attention == "softmax"
    assert "is not worth another attention" in close.reason


def test_the_fastest_where_it_pays(decide: Callable[..., Advice]) -> None:
    found = decide({"softmax": 10.0, "hedgehog": 3.0, "focused": 2.0})
    assert (found.attention, found.ties) == ("focused", ())
    assert (
        "takes 130.0 ms with exact attention and 34.0 ms with focused: 3.82 times as fast (3.79 to 3.86)."
        in found.reason
    )
    assert [m.attention for m in found.models] == ["softmax", "focused", "hedgehog"]


def test_a_tie_is_called_a_tie(decide: Callable[..., Advice]) -> None:
    close = decide({"softmax": 100.0, "hedgehog": 40.82, "focused": 40.8, "linformer(rank=32)": 40.79, "cosine": 50.0})
    assert close.attention == "hedgehog"  # in the order of accuracy, not by a tenth of a per cent
    assert close.ties == ("linformer(rank=32)", "focused")
    unclear = decide({"softmax": 10.0, "hedgehog": 3.0}, noise=2.0)
    assert unclear.attention == "softmax"
    assert "these cannot be told apart, so exact attention stays" in unclear.reason


def test_more_features_where_they_cost_next_to_nothing(decide: Callable[..., Advice]) -> None:
    word = "performer(kernel=relu, features={})".format
    found = decide({"softmax": 10.0, word(16): 1.0, word(32): 1.05, word(64): 1.09, word(128): 2.0})
    assert found.attention == word(64)


def test_no_more_layers_than_a_budget_needs(decide: Callable[..., Advice]) -> None:
    times = {"softmax": 10.0, "hedgehog": 2.0}  # 130 ms, and 34 with all of 12
    enough = decide(times, budget_ms=140.0)
    assert (enough.attention, enough.fits) == ("softmax", True)
    assert "there is no reason to give it up" in enough.reason
    some = decide(times, budget_ms=100.0)  # each layer wins 8
    assert (some.attention, some.fits) == ("first(hedgehog, n=4)", True)
    assert "stays within the given limits" in some.reason
    none = decide(times, budget_ms=20.0)
    assert (none.attention, none.fits) == ("hedgehog", False)
    assert "nothing measured stays within the given limits" in none.reason
    slower = decide({**times, "cosine": 3.0}, {"softmax": 900.0, "hedgehog": 800.0, "cosine": 300.0}, memory=400.0)
    assert (slower.attention.partition(",")[0], slower.fits) == ("first(cosine", True)  # the fastest takes too much
    memory = decide(times, {"softmax": 200.0, "hedgehog": 80.0}, memory=150.0)  # each layer wins 10 MiB
    assert memory.attention == "first(hedgehog, n=5)"
    little = decide({"softmax": 1.0, "hedgehog": 0.95}, budget_ms=21.7)  # not worth it, but it is what was asked for
    assert (little.attention, little.fits) == ("first(hedgehog, n=6)", True)


def test_real_advice() -> None:
    found = advise(Question(image=32, patch=8, dim=32, depth=2, heads=2, batch=2, seconds=0.2))
    assert found.layers[0].time.min <= found.layers[-1].time.min
    assert found.models[0].attention == "softmax"
    assert found.attention in [m.attention for m in found.models]
    with pytest.raises(ValueError, match="heads must divide dim: 5 does not divide 192"):
        advise(Question(image=32, patch=8, heads=5))
    with pytest.raises(ValueError, match="smaller than one patch"):
        advise(Question(image=32, patch=64))


def test_mixers_are_no_candidates() -> None:
    assert advising.mixers() == ["fourier", "mlp"]
    assert not set(advising.mixers()) & {word.partition("(")[0] for word in advising._candidates(197)}
