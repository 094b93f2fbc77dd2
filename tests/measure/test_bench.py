"""Benchmarks: what they count, what they decide by, and what they recommend."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from scipy.stats import binom

from vixformer import create_attention, create_model
from vixformer.cli import main
from vixformer.measure import advise as advising
from vixformer.measure import crossover as crossovers
from vixformer.measure import load
from vixformer.measure.advise import Advice, Question, advise
from vixformer.measure.bench import Layers, Measured, Sizes, bench_attention, bench_models
from vixformer.measure.cost import bytes_kept, multiply_adds
from vixformer.measure.crossover import FEWEST, MOST, WITHIN, Probe, _bisected, compared, crossover
from vixformer.measure.latency import Ratio, Timing, median_interval, paired_ratio
from vixformer.measure.memory import Job, peak_memory

QUICK: dict[str, Any] = dict(dim=32, heads=2, seconds=0.01, memory=False)


def test_layers_are_counted_and_timed() -> None:
    rows = bench_attention(["softmax", "performer(features=8)"], Sizes(**QUICK, tokens=(10, 20), batch=3))
    assert [(r.attention, r.tokens, r.batch) for r in rows] == [
        ("softmax", 10, 3), ("performer(features=8)", 10, 3), ("softmax", 20, 3), ("performer(features=8)", 20, 3),
    ]  # fmt: skip
    x = torch.randn(3, 20, 32)
    layer = create_attention("softmax", dim=32, num_heads=2)
    assert rows[2].multiply_adds == multiply_adds(layer, x)
    assert rows[2].kept == bytes_kept(layer, x.requires_grad_())
    for r in rows:
        assert 0 < r.time.min <= r.time.median
        assert r.images_a_second == pytest.approx(3e3 / r.time.min)
        assert r.of_gemm > 0
        assert r.peak is None


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_models_of_several_kinds(train: bool, dtype: Any) -> None:
    sizes = Sizes(seconds=0.01, batch=2, train=train, dtype=dtype, memory=dtype == "float32", threads=1)
    threads = torch.get_num_threads()
    rows = bench_models(["vit", "cct"], ["softmax", "hedgehog"], {"img_size": 16, "depth": 1}, sizes)
    assert [(r.what, r.attention) for r in rows] == [(w, a) for w in ("vit", "cct") for a in ("softmax", "hedgehog")]
    model = create_model("vit", img_size=16, depth=1)
    assert rows[0].multiply_adds == multiply_adds(model, torch.randn(2, 3, 16, 16))
    assert all((r.peak or 0) > 0 for r in rows) == (dtype == "float32")
    assert torch.get_num_threads() == threads


def test_a_training_step_of_a_layer_and_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler is the quick one of torch; inductor is in the next test."""
    compiled: list[Any] = []
    plain = torch.compile
    monkeypatch.setattr(torch, "compile", lambda module, **how: compiled.append(module) or plain(module, backend="eager", **how))
    for train, compile in ((True, False), (False, True)):
        (row,) = bench_attention(["hedgehog"], Sizes(**QUICK, tokens=(8,), batch=2, train=train, compile=compile))
        assert row.time.count >= 5
        assert len(compiled) == int(compile)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # inductor's own
def test_compilation_with_inductor() -> None:
    (row,) = bench_attention(["hedgehog"], Sizes(**QUICK, tokens=(8,), batch=2, compile=True))
    assert row.time.count >= 5


def test_a_device_that_is_not_here() -> None:
    with pytest.raises(ValueError, match="device nowhere cannot be used here"):
        bench_attention(["softmax"], Sizes(**QUICK, device="nowhere"))


@pytest.mark.parametrize("n", [4, 8, 25, 100])
def test_the_interval_of_a_median(n: int) -> None:
    middle, low, high = median_interval([float(i) for i in range(n)])
    assert middle == (n - 1) / 2
    if n < 6:  # five values have no such interval
        assert (low, high) == (0.0, math.inf)
        return
    # the widest pair of order statistics that still leaves at most 2.5 % on each side
    rank = int(low)
    assert binom.cdf(rank, n, 0.5) <= 0.025 < binom.cdf(rank + 1, n, 0.5)
    assert high == n - 1 - rank


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
    assert [Probe(1.0, *ends).verdict for ends in ((0.9, 1.1), (1.01, 1.1), (0.8, 0.99))] == ["undecided", "slower", "faster"]
    with pytest.raises(ValueError, match='unknown attention "performr"'):
        crossover("performr", sizes)


# --- advice


def measured(attention: str, ms: float, what: str = "vit", peak: float = 100.0, macs: int = 1, ratio: Ratio | None = None) -> Measured:
    return Measured(what, attention, 257, 8, Timing(ms, ms, ms, 0.0, 5), 8e3 / ms, macs, 0.5, 0, int(peak * 2**20), ratio)


@pytest.fixture
def decide(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Advice]:
    """Advice on times that are given, so that the decision can be checked."""

    def decided(times: dict[str, float], peaks: dict[str, float] | None = None, noise: float = 0.01, **options: Any) -> Advice:
        def layers(attentions: Any, _: Any) -> list[Measured]:
            return [measured(a, times.get(a, 1e3), "layer", macs=int(re.sub(r"\D", "", a) or 1)) for a in attentions]

        def models(_: Any, attentions: Any, __: Any, ___: Any) -> list[Measured]:
            found = []
            for a in attentions:
                word, _, count = a.removeprefix("first(").removesuffix(")").partition(", n=") if a.startswith("first(") else (a, "", "")
                share = 1.0 if not count else int(count) / 12
                mixed = [(1 - share) * t["softmax"] + share * t[word] for t in (times, peaks or dict.fromkeys(times, 100.0))]
                ms, exact = 10 + 12 * mixed[0], 10 + 12 * times["softmax"]
                ratio = None if a == "softmax" else Ratio(ms / exact, ms / exact * (1 - noise), ms / exact * (1 + noise))
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
    assert "takes 130.0 ms with exact attention and 34.0 ms with focused: 3.82 times as fast (3.79 to 3.86)." in found.reason
    assert [m.attention for m in found.models] == ["softmax", "focused", "hedgehog"]


def test_a_tie_is_called_a_tie(decide: Callable[..., Advice]) -> None:
    close = decide({"softmax": 100.0, "hedgehog": 40.82, "focused": 40.8, "linformer(rank=32)": 40.79, "cosine": 50.0})
    assert close.attention == "hedgehog"  # in the order of accuracy, not by a tenth of a per cent
    assert close.ties == ("linformer(rank=32)", "focused")
    unclear = decide({"softmax": 10.0, "hedgehog": 3.0}, noise=2.0)
    assert unclear.attention == "softmax"
    assert "these cannot be told apart, so exact attention stays" in unclear.reason


def test_ratios_are_of_pairs() -> None:
    calm = [10.0, 10.1, 10.0, 9.9, 10.0, 10.1, 10.0, 10.0]
    drifting = [t * 2**i for i, t in enumerate(calm)]  # other work that grows is in both of a pair
    found = paired_ratio([0.5 * t for t in drifting], drifting)
    assert (found.ratio, found.low, found.high, found.verdict) == (0.5, 0.5, 0.5, "faster")
    noisy = paired_ratio([107.1, 20.0, 400.0, 30.0, 35.0, 28.0], [60.0] * 6)
    assert noisy.low < 1 < noisy.high
    assert noisy.verdict == "undecided"
    assert str(found) == "0.50 (0.50 to 0.50)"
    assert "too few" in str(paired_ratio(calm[:5], calm[:5]))


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
    with pytest.raises(ValueError, match="patch must divide image: 7 does not divide 32"):
        advise(Question(image=32, patch=7))


def test_confidence_of_many_pairs() -> None:
    """More than a float can count."""
    middle, low, high = median_interval([float(i) for i in range(3000)])
    assert middle == 1499.5
    assert low == pytest.approx(1499.5 - 0.98 * 3000**0.5, abs=2)
    assert high == pytest.approx(1499.5 + 0.98 * 3000**0.5, abs=2)


def test_crossover_uses_the_threads_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    plain = crossovers.rounds
    monkeypatch.setattr(crossovers, "rounds", lambda *args, **named: seen.append(torch.get_num_threads()) or plain(*args, **named))
    probe = compared("fourier", "torch", 32, Layers(dim=32, heads=2, seconds=0.01, batch=1, threads=1))
    assert set(seen) == {1}
    assert probe.this_us > 0
    assert probe.exact_us > 0


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["bench", "attention", "--tokens"], "tokens"),
        (["bench", "attention", "--device", "meta"], "device meta cannot be used here"),
        (["bench", "attention", "--chart", "/nowhere/x.svg"], "there is no folder /nowhere"),
        (["bench", "attention", "--json", "/tmp"], "is a folder"),
        (["bench", "attention", "softmax", "--dim", "10", "--heads", "3"], "3 does not divide 10"),
        (["bench", "model", "softmax", "--models", "vat"], 'unknown model "vat"'),
        (["bench", "crossover", "hedgehog", "--against", "performr"], 'unknown attention "performr"'),
        (["bench", "crossover", "--tokens", "8"], "bench crossover has no option --tokens"),
        (["advise", "--image", "32", "--patch", "7"], "7 does not divide 32"),
        (["advise", "--device", "nowhere"], "device nowhere cannot be used here"),
        (["advise", "--train", "--infer"], "not both"),
    ],
)
def test_wrong_words(args: list[str], sentence: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "waited", lambda _: pytest.fail("waited for other work first"))
    with pytest.raises(SystemExit) as stop:
        main(args)
    assert stop.value.code
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("args", [["bench", "attention"], ["bench", "crossover"], ["advise"]])
def test_help_lists_the_options(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(SystemExit):
        main([*args, "--help"])
    out = capsys.readouterr().out
    assert {"attention": "--tokens", "crossover": "--against", "advise": "--budget-ms"}[args[-1]] in out


def test_memory_of_a_layer_without_weights() -> None:
    peaks = peak_memory([Job({"attention": "fourier", "dim": 64, "num_heads": 2, "num_tokens": 1024}, 16)])
    if peaks is None:
        pytest.skip("memory cannot be measured here")
    assert peaks[0].train >= 16 * 1024 * 64 * 4
