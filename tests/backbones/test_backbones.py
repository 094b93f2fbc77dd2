"""What every backbone promises, with every mechanism."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.attention.cases import WORDS, distance
from vixformer import create_model, from_pretrained
from vixformer.backbones.base import Backbone
from vixformer.blocks.positions import NoPositions

SMALL: dict[str, tuple[str, dict[str, Any]]] = {
    "vit": ("vit", dict(embed_dim=32, depth=2, num_heads=2)),
    "cct": ("cct", dict(embed_dim=32, depth=2, num_heads=2, pool_stride=4)),
    "cvt": ("cvt", dict(dims=(16, 32), depths=(1, 1), num_heads=(1, 2), kernels=(3, 3), strides=(2, 2))),
    "cvt-cls": ("cvt", dict(dims=(16, 32), depths=(1, 1), num_heads=(1, 2), kernels=(3, 3), strides=(2, 2), pool="cls")),
    "levit": ("levit", dict(dims=(32, 64), depths=(1, 1), num_heads=(2, 4), head_dim=16)),
    "pit": ("pit", dict(embed_dim=32, depths=(1, 1), num_heads=(2, 4), head_dim=16)),
    "convtoken": ("convtoken", dict(conv_dims=(8, 16), embed_dim=32, num_heads=2)),
    "convtoken-grid": ("convtoken", dict(conv_dims=(8, 16), embed_dim=32, num_heads=2, tokens="grid", img_size=16)),
}
EVERY = [(name, word) for name in SMALL for word in WORDS]


def small(name: str, attention: str = "softmax", **options: Any) -> Any:
    model, sizes = SMALL[name]
    return create_model(model, attention=attention, **{**sizes, **options})


def images(model: Any, count: int = 3) -> torch.Tensor:
    return torch.randn(count, model.config.in_chans, *model.img_size)


def test_every_backbone_is_here() -> None:
    assert {model for model, _ in SMALL.values()} | {"cnn"} == set(Backbone.members)


@pytest.mark.parametrize(("name", "word"), EVERY)
def test_one_step_of_training(name: str, word: str) -> None:
    torch.manual_seed(0)
    model = small(name, word).train()
    model(images(model)).square().mean().backward()
    for parameter, p in model.named_parameters():
        assert p.grad is not None, parameter
        assert p.grad.isfinite().all(), parameter
    assert sum(p.grad.abs().sum() for p in model.parameters()) > 0


@pytest.mark.parametrize(("name", "word"), EVERY)
@torch.no_grad()
def test_images_do_not_see_each_other_and_answers_are_the_same_again(name: str, word: str, tmp_path: Path) -> None:
    model = small(name, word)
    model(images(model))  # batch norms see something
    model.eval()
    x = images(model)
    out = model(x)
    assert torch.equal(model(x), out)
    assert distance(model(x[1:2]), out[1:2]) <= 1e-5
    assert out.shape == (3, 10)
    model.save_pretrained(tmp_path)
    assert torch.equal(from_pretrained(tmp_path)(x), out)
    low = model.to(torch.bfloat16)(x.to(torch.bfloat16))
    assert low.dtype == torch.bfloat16
    assert low.isfinite().all()


@pytest.mark.parametrize(("name", "word"), EVERY)
def test_export(name: str, word: str) -> None:
    model = small(name, word).eval()
    x = images(model, 2)
    with torch.no_grad():
        assert distance(torch.export.export(model, (x,)).module()(x), model(x)) <= 1e-5


@pytest.mark.parametrize(("name", "word"), EVERY)
def test_compiles_in_one_graph(name: str, word: str) -> None:
    torch.compiler.reset()
    model = small(name, word).eval()
    x = images(model, 2)
    with torch.no_grad():
        assert distance(torch.compile(model, fullgraph=True, backend="aot_eager")(x), model(x)) <= 1e-5


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # inductor's own
@pytest.mark.parametrize("name", SMALL)
def test_compiles_with_inductor(name: str) -> None:
    """In evaluation, and in training, where blocks make some things again unless a compiler decides."""
    torch.compiler.reset()
    model = small(name, "performer(kernel=relu, features=8)").eval()
    x = images(model, 2)
    with torch.no_grad():
        assert distance(torch.compile(model, fullgraph=True)(x), model(x)) <= 1e-4
    torch.compile(model.train())(x).square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("size", [28, 32, 64, 72, 224, (32, 48)])
@pytest.mark.parametrize("channels", [1, 3])
@torch.no_grad()
def test_sizes_and_channels(name: str, size: Any, channels: int) -> None:
    model = small(name, "performer(kernel=relu, features=8)", img_size=size, in_chans=channels).eval()
    assert model(images(model, 1)).shape == (1, 10)
    assert all(torch.isfinite(m).all() and m.dim() == 4 for m in model.forward_maps(images(model, 1))) if name != "convtoken" else True


@pytest.mark.parametrize("name", ["vit", "levit", "pit", "convtoken-grid", "cct", "cvt", "cvt-cls"])
@pytest.mark.parametrize("pos", ["rope", "rope2d"])
@pytest.mark.parametrize("word", ["softmax", "performer", "linformer(rank=8)", "nystrom(landmarks=8)", "hedgehog", "focused", "cosine"])
@torch.no_grad()
def test_rotary_positions(name: str, pos: str, word: str) -> None:
    """Every layer turns q and k, and it matters."""
    model = small(name, word, pos=pos).eval()
    x = images(model)
    turned, seen = model(x), model.attention_inputs(x)
    assert turned.isfinite().all()
    assert all(options["rotation"] is not None for _, _, options in seen)
    model.pos = NoPositions(*[1, 1, (1, 1), 0])
    assert not torch.allclose(model(x), turned)


@pytest.mark.parametrize("name", ["cvt", "levit", "pit"])
def test_one_pattern_a_stage(name: str, tmp_path: Path) -> None:
    model = small(name, "performer(features=8) | softmax").eval()
    assert model.attention_expression() == "performer(features=8) + softmax"
    model.save_pretrained(tmp_path)
    assert from_pretrained(tmp_path).attention_expression() == model.attention_expression()
    with pytest.raises(ValueError, match="has 3 stages and the model 2 stages"):
        small(name, "softmax | softmax | softmax")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("levit", dict(attention="performer", attention_bias=True), "and performer has none: set attention_bias=false"),
        ("levit", dict(shrink="fourier"), "shrink needs a mechanism with q and k, not fourier"),
        ("levit", dict(num_heads=(2,)), "dims has 2 stages and num_heads 1"),
        ("cvt", dict(depths=(1,)), "dims has 2 stages and depths 1"),
        ("cvt", dict(pos="rope", kv_stride=2), 'pos="rope" needs heads of one width in all stages and kv_stride=1'),
        ("cvt", dict(pos="rope2d", num_heads=(1, 1)), "needs heads of one width"),
        ("cvt", dict(proj="linear", kv_stride=2), 'go with proj="conv"'),
        ("pit", dict(num_heads=(2,)), "depths has 2 stages and num_heads 1"),
        ("pit", dict(stem="conv", patch_stride=2), 'patch_stride goes with stem="linear"'),
        ("convtoken", dict(pos="learned"), "one token has no place"),
        ("cct", dict(img_size=1, pool_padding=0), "too short for these convolutions"),
        ("cct", dict(conv_stride=(2, 1)), "conv_stride has 2 numbers and there are 1 conv_layers"),
        ("cct", dict(num_heads=5), "num_heads must divide embed_dim"),
    ],
)
def test_options_that_do_not_fit(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(name, **options)


def test_one_token_makes_every_attention_the_same() -> None:
    """What the docs say about it: attention over one token returns v."""
    model = small("convtoken").eval()
    x = images(model)
    other = small("convtoken", "performer(kernel=relu, features=8)").eval()
    other.load_state_dict({**other.state_dict(), **{k: v for k, v in model.state_dict().items() if k in other.state_dict()}})
    with torch.no_grad():
        assert distance(other(x), model(x)) <= 1e-5
        with pytest.raises(ValueError, match='tokens="one" was built for images of 32 x 32'):
            model(torch.randn(1, 3, 40, 40))


def test_a_bias_for_every_distance() -> None:
    torch.manual_seed(0)
    model = small("levit", attention_bias=True).eval()
    cores = [m for m in model.modules() if getattr(m, "distances", None) is not None]
    assert len(cores) == 3  # two blocks and the attention between stages
    with torch.no_grad():
        before = model(images(model))
        for core in cores:
            torch.nn.init.normal_(core.distances)
            q, k, v = torch.randn(2, 2, 64, 16), torch.randn(2, 2, 64, 16), torch.randn(2, 2, 64, 16)
            if core.shape.num_tokens == 64 and core.shape.num_heads == 2:
                assert distance(core(q, k, v), core.reference(q, k, v)) <= 1e-5
                bias = core._bias(q, k)
                assert bias[0, 9, 10] == bias[0, 10, 9] == core.distances[0, 1]  # one column apart
                assert bias[1, 0, 17] == core.distances[1, 2 * 8 + 1]  # two rows and a column
    assert not torch.allclose(model(images(model)), before)
    with pytest.raises(ValueError, match="built for a grid of 8 x 8 and got 256 tokens"):
        model(torch.randn(1, 3, 64, 64))


def test_a_plain_cnn(tmp_path: Path) -> None:
    model = create_model("cnn", conv_dims=(8, 16)).eval()
    x = torch.randn(2, 3, 32, 32)
    assert [tuple(m.shape) for m in model.forward_maps(x)] == [(2, 8, 16, 16), (2, 16, 8, 8)]
    assert model.attention_expression() == "none"
    model.save_pretrained(tmp_path)
    assert torch.equal(from_pretrained(tmp_path)(x), model(x))
    with pytest.raises(ValueError, match="attention must be none"):
        create_model("cnn", attention="softmax")
