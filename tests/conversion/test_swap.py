"""Other attention for a model, and back."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.attention.cases import WORDS, distance
from tests.backbones.test_backbones import SMALL, images, small
from vixformer import convert, create_model

CORES = [word for word in WORDS if word not in ("fourier", "mlp", "softmax")]


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("word", CORES)
@torch.no_grad()
def test_there_and_back_is_the_same_model(name: str, word: str) -> None:
    torch.manual_seed(0)
    model = small(name).eval()
    other, report = convert(model, word)
    assert other.attention_expression() != "softmax"
    assert [r.before for r in report.layers] == ["softmax"] * len(report.layers)
    assert all(torch.equal(a, b) for a, b in zip(model.head.parameters(), other.head.parameters(), strict=True))
    back, _ = convert(other, "softmax")
    x = images(model)
    assert torch.equal(back(x), model(x))


@pytest.mark.parametrize("word", CORES)
@torch.no_grad()
def test_with_images_it_says_how_far_off_it_is(word: str) -> None:
    torch.manual_seed(0)
    model = small("vit").eval()
    x = images(model, 8)
    _, before = convert(model, word)
    assert all(r.error is None for r in before.layers)
    other, report = convert(model, word, x)
    for (_, tokens, options), (new, _, _), r in zip(model.attention_inputs(x), other.attention_inputs(x), report.layers, strict=True):
        q, k, v = new.heads(tokens, **options)  # pyright: ignore
        wanted = model.attentions()[r.layer].core(q, k, v, None, options["grid"])
        found = new.core(q, k, v, None, options["grid"])
        assert float((found - wanted).norm() / wanted.norm()) == pytest.approx(r.error, rel=1e-3)
        assert r.q_rms == pytest.approx(float(q.square().mean().sqrt()), rel=1e-4)
        assert r.error is not None and r.error < 1.0, word  # noqa: PT018


def test_learned_features_are_fitted() -> None:
    torch.manual_seed(0)
    model = small("vit").eval()
    x = images(model, 8)
    for word in ("hedgehog", "linformer(rank=16)", "performer(kernel=mlp, features=16)"):
        plain, _ = convert(model, word)
        fitted, _ = convert(model, word, x)
        error = {True: [], False: []}
        for which, new in ((False, plain), (True, fitted)):
            for (old, tokens, options), module in zip(model.attention_inputs(x), new.attentions(), strict=True):
                q, k, v = old.heads(tokens, **options)  # pyright: ignore
                error[which].append(distance(module.core(q, k, v), old.core(q, k, v)))  # pyright: ignore
        assert sum(error[True]) < 0.9 * sum(error[False]), word


def test_warnings_where_random_features_cannot_work() -> None:
    torch.manual_seed(0)
    model = small("vit", depth=1).eval()
    with torch.no_grad():
        model.blocks[0].attn.qkv.weight.mul_(8)
    _, report = convert(model, "performer(features=32)", images(model, 8))
    assert "layer 0: " in report.warnings[0]
    assert "random features cannot estimate softmax for q and k this large" in report.warnings[0]


def test_what_is_kept_and_what_is_new() -> None:
    model: Any = create_model("vit", depth=2, embed_dim=32, num_heads=2)
    other, report = convert(model, "hedgehog + softmax")
    first, second = report.layers
    assert first.kept == ("proj.bias", "proj.weight", "qkv.bias", "qkv.weight")
    assert first.new == ("weight_k", "weight_q")
    assert (second.new, second.before, second.after) == ((), "softmax", "softmax")
    assert report.attention == "hedgehog + softmax"
    again, _ = convert(other, "first(hedgehog)")
    assert torch.equal(again.blocks[0].attn.core.weight_q, other.blocks[0].attn.core.weight_q)
    performers, _ = convert(model, "performer")
    assert performers.attention_expression() == "performer(scaling=sqrt)"
    assert convert(model, "performer(scaling=chi)")[0].attention_expression() == "performer"


@pytest.mark.parametrize(
    ("options", "word", "message"),
    [
        (dict(attention="fourier"), "performer", "layer 0 cannot go from fourier to performer: fourier has no q and k"),
        (dict(attention="softmax"), "mlp", "layer 0 cannot go from softmax to mlp: mlp has no q and k"),
        (dict(attention="softmax"), "performer | softmax", "2 stages and the model 1 stage"),
        (dict(attention="softmax"), "performr", 'unknown attention "performr"'),
    ],
)
def test_what_cannot_be_converted(options: dict[str, Any], word: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        convert(create_model("vit", depth=2, embed_dim=32, num_heads=2, **options), word)


def test_the_bias_of_levit_is_dropped_and_said() -> None:
    model = small("levit", attention_bias=True).eval()
    _, report = convert(model, "softmax(bias=true) + performer(features=8)")
    assert [r.dropped for r in report.layers] == [(), ("distances",)]


@torch.no_grad()
def test_one_key_value_head_stays_one_and_that_is_said() -> None:
    model: Any = create_model("vit", depth=2, embed_dim=32, num_heads=2, attention="linformer(rank=8, share=kv)", proj="one-kv").eval()
    exact, report = convert(model, "softmax")
    assert "one key-value head for all heads and keeps it" in report.notes[0]
    assert exact.config.proj == "one-kv"
    back, _ = convert(exact, "linformer(rank=8, share=kv)")
    assert torch.equal(back.blocks[0].attn.kv.weight, model.blocks[0].attn.kv.weight)
    assert convert(model, "linformer(rank=8, share=kv)")[1].notes == ()
    assert convert(create_model("vit", depth=2, embed_dim=32, num_heads=2), "performer")[1].notes == ()
