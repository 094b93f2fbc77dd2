"""Other attention for a model, and back."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from tests.support.attentions import WORDS, distance, slow_unless
from tests.support.models import SMALL, images, small
from vixformer import convert, create_model
from vixformer.conversion.swap import expanded, swap

CORES = [word for word in WORDS if word not in ("fourier", "mlp", "softmax")]


@pytest.mark.parametrize(
    ("word", "name"),
    [slow_unless(name == "vit" or word in ("performer", "prism"), word, name) for word in CORES for name in SMALL],
)
@torch.no_grad()
def test_there_and_back_is_the_same_model(word: str, name: str) -> None:
    torch.manual_seed(0)
    model = scrambled(small(name).eval())
    other, report = convert(model, word)
    assert other.attention_expression() != "softmax"
    assert [r.before for r in report.layers] == ["softmax"] * len(report.layers)
    assert all(torch.equal(a, b) for a, b in zip(model.head.parameters(), other.head.parameters(), strict=True))
    back, _ = convert(other, "softmax")
    x = images(model)
    assert torch.equal(back(x), model(x))


def test_one_pattern_a_stage() -> None:
    model = small("pit", depths=(2, 2))
    other, report = convert(model, "hedgehog | softmax")
    assert other.attention_expression() == "hedgehog*2 + softmax*2"
    assert [r.after for r in report.layers] == ["hedgehog"] * 2 + ["softmax"] * 2


def scrambled(model: Any) -> Any:
    """Norms and their statistics start alike everywhere, where nobody would miss them."""
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.is_floating_point():
                tensor.copy_(tensor + 0.1 * torch.rand_like(tensor))
    return model


@pytest.mark.parametrize("word", CORES)
@torch.no_grad()
def test_with_images_it_says_how_far_off_it_is(word: str) -> None:
    torch.manual_seed(0)
    model = small("vit").eval()
    x = images(model, 8)
    _, before = convert(model, word)
    assert all(r.error is None for r in before.layers)
    other, report = convert(model, word, x)
    for (_, tokens, options), (new, _, _), r in zip(
        model.attention_inputs(x), other.attention_inputs(x), report.layers, strict=True
    ):
        q, k, v = new.heads(tokens, **options)  # pyright: ignore
        wanted = model.attentions()[r.layer].core(q, k, v, None, options["grid"])
        found = new.core(q, k, v, None, options["grid"])
        off = (found - wanted)[1::2].norm() / wanted[1::2].norm()  # the others are fitted to
        assert float(off) == pytest.approx(r.error, rel=1e-3)
        assert r.q_rms == pytest.approx(float(q.square().mean().sqrt()), rel=1e-4)
        assert r.k_rms == pytest.approx(float(k.square().mean().sqrt()), rel=1e-4)
        assert r.error is not None and r.error < 1.0, word


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
    assert f"warning: {report.warnings[0]}" in str(report)


@torch.no_grad()
def test_errors_are_those_against_exact_attention() -> None:
    torch.manual_seed(0)
    model = small("vit", attention="performer(features=8)").eval()
    x = images(model, 8)
    exact, report = convert(model, "softmax", x)
    assert [r.error for r in report.layers] == pytest.approx([0.0] * len(report.layers), abs=1e-6)
    assert all(r.change is not None and r.change > 0.01 for r in report.layers)
    assert report.warnings == []
    assert exact.attention_expression() == "softmax"


def test_the_bias_of_levit_does_not_come_back_and_that_is_said() -> None:
    _, report = convert(small("levit", attention_bias=True), "performer(features=8)")
    assert "the learned bias on distances has no place in the new attention" in report.notes[0]


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        ("runs/x", None, "convert takes a model, a torch.nn.Module, not str"),
        (None, [1.0], "data must be a tensor, .* not list"),
        (None, torch.full((2, 3, 16, 16), torch.nan), "data has values that are not finite"),
    ],
)
def test_what_is_no_model_or_no_data(model: Any, data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        convert(small("vit") if model is None else model, "performer", data)


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


@torch.no_grad()
def test_the_bias_of_levit_stays_where_exact_attention_stays() -> None:
    torch.manual_seed(0)
    model = small("levit", attention_bias=True).eval()
    for name, p in model.named_parameters():
        if name.endswith("distances"):
            p.normal_()  # they start at zero, where nobody would miss them
    x = images(model)
    same, report = convert(model, "softmax")
    assert torch.equal(same(x), model(x))
    assert [r.dropped for r in report.layers] == [()] * len(report.layers)
    other, report = convert(model, "softmax + performer(features=8)")
    assert [r.dropped for r in report.layers[:2]] == [(), ("distances",)]
    given, own = model.state_dict(), other.state_dict()
    left = {name for name in given if name not in own}
    assert left == {name for i, module in enumerate(model.attentions()) if i % 2 for name in _names(model, module)}
    assert all(torch.equal(given[name], own[name]) for name in own if name.endswith("distances"))


def _names(model: Any, module: Any) -> list[str]:
    return [name for name, p in model.named_parameters() if p is module.core.distances]


@torch.no_grad()
def test_one_key_value_head_stays_one_and_that_is_said() -> None:
    model: Any = create_model(
        "vit", depth=2, embed_dim=32, num_heads=2, attention="linformer(rank=8, share=kv)", proj="one-kv"
    ).eval()
    exact, report = convert(model, "softmax")
    assert "one key-value head for all heads and keeps it" in report.notes[0]
    assert exact.config.proj == "one-kv"
    back, _ = convert(exact, "linformer(rank=8, share=kv)")
    assert torch.equal(back.blocks[0].attn.kv.weight, model.blocks[0].attn.kv.weight)
    assert convert(model, "linformer(rank=8, share=kv)")[1].notes == ()
    assert convert(create_model("vit", depth=2, embed_dim=32, num_heads=2), "performer")[1].notes == ()


@torch.no_grad()
def test_a_layer_written_as_it_is_stays() -> None:
    model: Any = create_model(
        "vit", depth=2, embed_dim=32, num_heads=2, attention="performer(features=8) + softmax"
    ).eval()
    x = images(model)
    same, _ = convert(model, model.attention_expression())
    assert torch.equal(same(x), model(x))
    other, _ = convert(model, "performer(features=8) + hedgehog")
    assert torch.equal(other.blocks[0].attn.core.projection, model.blocks[0].attn.core.projection)


def test_one_matrix_for_all_layers_is_fitted_to_all() -> None:
    torch.manual_seed(0)
    model = small("vit", depth=4).eval()
    x = images(model, 16)
    word = "linformer(rank=8, share=layerwise)"
    new, report = convert(model, word, x)
    unfitted, _ = convert(model, word)
    assert unfitted.blocks[0].attn.core.E is unfitted.blocks[3].attn.core.E

    def errors(converted: Any) -> list[float]:
        found = []
        for (old, tokens, options), module in zip(model.attention_inputs(x), converted.attentions(), strict=True):
            q, k, v = (t[1::2] for t in old.heads(tokens, **options))  # pyright: ignore
            wanted = old.core(q, k, v)  # pyright: ignore
            found.append(float(((module.core(q, k, v) - wanted).norm() / wanted.norm()).detach()))
        return found

    assert errors(new) == pytest.approx([r.error for r in report.layers], rel=1e-3)
    assert sum(errors(new)) < sum(errors(unfitted))
    half: Any = create_model("vit", depth=2, embed_dim=32, num_heads=2, attention=f"{word} + softmax").eval()
    whole, report = convert(half, word, images(half, 4))
    assert torch.equal(whole.blocks[0].attn.core.E, half.blocks[0].attn.core.E)  # it is the other layer's too
    assert report.layers[1].kept[:1] == ("core.E",)


def test_mechanisms_of_one_kind_keep_what_is_of_one_shape() -> None:
    model: Any = create_model("vit", depth=1, embed_dim=32, num_heads=2, attention="nystrom(landmarks=4)")
    other, report = convert(model, "nystrom(landmarks=8)")
    assert torch.equal(other.blocks[0].attn.core.conv.weight, model.blocks[0].attn.core.conv.weight)
    assert "core.conv.weight" in report.layers[0].kept
    assert report.layers[0].dropped == ()


@pytest.mark.parametrize(("fewer", "more"), [(4, 20), (20, 4)])
def test_another_number_of_features_keeps_those_there_are(fewer: int, more: int) -> None:
    model: Any = create_model(
        "vit", depth=1, embed_dim=32, num_heads=2, attention=f"performer(kernel=relu, features={fewer}, bias=true)"
    )
    other, _ = convert(model, f"performer(kernel=relu, features={more}, bias=true)")
    old, new = (m.blocks[0].attn.core for m in (model, other))
    rows = min(fewer, more)
    assert torch.equal(new.projection[:rows], old.projection[:rows])
    assert torch.equal(new.bias[:rows], old.bias[:rows])
    assert (new.projection[rows:].norm(dim=1) > 0).all()


def test_random_features_depend_on_the_seed_and_the_layer_alone() -> None:
    model = small("vit", depth=3)
    layers = expanded(model, "performer(features=8)")
    all_of_them, _ = swap(model, layers, seed=5)
    last, _ = swap(model, [*expanded(model, "softmax")[:2], layers[2]], seed=5)
    assert torch.equal(all_of_them.blocks[2].attn.core.projection, last.blocks[2].attn.core.projection)
    assert not torch.equal(all_of_them.blocks[1].attn.core.projection, last.blocks[2].attn.core.projection)
    for i, module in enumerate(all_of_them.attentions()):  # numbers that stored runs were made with
        again = copy.deepcopy(module.core)
        again.draw(torch.Generator().manual_seed(5 + i))
        assert torch.equal(again.projection, module.core.projection)


def test_every_other_image_is_fitted_to_and_the_rest_measure() -> None:
    model = small("vit").eval()
    x = images(model, 6)
    fitted = [convert(model, "hedgehog", images_)[0] for images_ in (x, torch.cat([x[:1], -x[1:2], x[2:]]))]
    first, second = (model.state_dict() for model in fitted)
    assert all(torch.equal(first[name], second[name]) for name in first)
    other = convert(model, "hedgehog", torch.cat([x[:2], -x[2:3], x[3:]]))[0].state_dict()
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_data_that_are_no_images() -> None:
    model = small("vit")
    with pytest.raises(ValueError, match="data has no images"):
        convert(model, "hedgehog", images(model)[:0])
    with pytest.raises(ValueError, match="images must have the shape"):
        convert(model, "hedgehog", torch.randn(4, 4))
    with pytest.raises(ValueError, match="a cnn has no attention to convert"):
        convert(create_model("cnn"), "hedgehog")
