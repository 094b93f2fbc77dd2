"""Benchmarks: what they count, what they decide by, and what they recommend."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch

from vixformer import create_attention, create_model
from vixformer.cli import main
from vixformer.measure import load
from vixformer.measure.bench import Sizes, bench_attention, bench_models
from vixformer.measure.cost import bytes_kept, multiply_adds

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
    monkeypatch.setattr(
        torch, "compile", lambda module, **how: compiled.append(module) or plain(module, backend="eager", **how)
    )
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
        (["advise", "--device", "nowhere"], "device nowhere cannot be used here"),
        (["advise", "--train", "--infer"], "not both"),
    ],
)
def test_wrong_words(
    args: list[str], sentence: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
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
