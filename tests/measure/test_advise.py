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
                share = int(count) / 12 if count else 0.5 if a.startswith("first(") else 1.0
                word = word.removesuffix(" + softmax")
                mixed = [
                    (1 - share) * t["softmax"] + share * t.get(word, 1e3)
                    for t in (times, peaks or dict.fromkeys(times, 100.0))
                ]
                ms, exact = 10 + 12 * mixed[0], 10 + 12 * times["softmax"]
                ratio = (
                    None if a == "softmax" else Ratio(ms / exact, ms / exact * (1 - noise), ms / exact * (1 + noise))
                )
                found.append(measured(a, ms, peak=mixed[1], ratio=ratio))
            return found

        monkeypatch.setattr(advising, "bench_attention", layers)
        monkeypatch.setattr(advising, "bench_models", models)
        monkeypatch.setattr(advising, "peak_memory", lambda *_: None)
        monkeypatch.setattr(advising, "_affordable_batch", lambda question, _: question.batch)
        return advise(Question(**options))

    return decided


def test_exact_attention_where_nothing_is_worth_it(decide: Callable[..., Advice]) -> None:
    found = decide({"softmax": 1.0, "hedgehog": 2.0}, trained=True)
    assert (found.attention, found.fits) == ("softmax", True)
    assert "exact attention is better if half the time is worth 1 point" in found.reason
    close = decide({"softmax": 1.0, "hedgehog": 0.95}, trained=True)
    assert close.attention == "softmax"


def test_the_fastest_of_equal_accuracy(decide: Callable[..., Advice]) -> None:
    found = decide({"softmax": 10.0, "hedgehog": 3.0, "linformer(rank=32)": 2.0}, trained=True)
    assert (found.attention, found.ties) == ("hedgehog", ())  # converted Linformer is behind by over a point
    assert "takes 130.0 ms with exact attention and 46.0 ms with hedgehog" in found.reason
    assert "The expected difference in accuracy is +0.2 (" in found.reason
    assert found.weighed is not None
    assert {one.attention for one in found.weighed.others} >= {"softmax", "linformer(rank=32)"}


def test_times_that_tell_nothing_leave_exact_attention(decide: Callable[..., Advice]) -> None:
    unclear = decide({"softmax": 10.0, "hedgehog": 3.0}, noise=0.99, trained=True)
    assert unclear.attention == "softmax"
    assert unclear.weighed is not None
    assert not unclear.weighed.clear


def test_more_features_where_they_cost_next_to_nothing(decide: Callable[..., Advice]) -> None:
    word = "performer(kernel=relu, features={})".format
    found = decide({"softmax": 10.0, word(16): 1.0, word(32): 1.05, word(64): 1.09, word(128): 2.0}, trained=True)
    assert found.attention == word(64)


def test_what_the_atlas_does_not_know_is_timed_and_not_recommended(decide: Callable[..., Advice]) -> None:
    found = decide({"softmax": 10.0, "hedgehog": 3.0, "cosine": 0.1}, trained=True)
    assert "cosine" not in dict(found.known)
    assert (found.attention, "cosine" in [m.attention for m in found.models]) == ("hedgehog", True)


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
