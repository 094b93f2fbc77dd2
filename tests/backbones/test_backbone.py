"""What every backbone promises, with every mechanism."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.attentions import distance
from tests.support.models import EVERY, SMALL, images, small
from vixformer import from_pretrained
from vixformer.backbones.backbone import Backbone


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


def test_a_batch_of_none() -> None:
    for name in ("levit", "cct", "pit"):
        assert small(name).eval()(torch.randn(0, 3, 32, 32)).shape == (0, 10)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("size", [28, 32, 64, 72, 224, (32, 48)])
@pytest.mark.parametrize("channels", [1, 3])
@torch.no_grad()
def test_sizes_and_channels(name: str, size: Any, channels: int) -> None:
    model = small(name, "performer(kernel=relu, features=8)", img_size=size, in_chans=channels).eval()
    assert model(images(model, 1)).shape == (1, 10)
    assert (
        all(torch.isfinite(m).all() and m.dim() == 4 for m in model.forward_maps(images(model, 1)))
        if name != "convtoken"
        else True
    )


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
        ("cvt", dict(pos="rope", kv_stride=2), 'pos="rope" needs as many keys as queries: use kv_stride=1'),
        ("cvt", dict(attention="performer(causal=true)", kv_stride=2), "performer needs as many keys as queries"),
        ("cvt", dict(paddings=(1,)), "dims has 2 stages and paddings 1"),
        ("cvt", dict(proj="linear", scale="width"), 'scale go with proj="conv"'),
        ("cvt", dict(dims=()), r"dims must be at least one number, not \(\)"),
        ("cvt", dict(dims=16), "dims must be several numbers, not 16"),
        ("levit", dict(shrink="softmax | performer"), "shrink is one mechanism"),
        ("levit", dict(shrink="nystrom"), "nystrom needs as many keys as queries"),
        (
            "levit",
            dict(stem="channel-pixels", patch_size=1),
            "puts several tokens on each place, which this model cannot do",
        ),
        (
            "pit",
            dict(stem="channel-pixels", patch_size=1),
            "puts several tokens on each place, which this model cannot do",
        ),
        ("vit", dict(stem_act="relu"), 'stem_norm and stem_act go with stem="conv"'),
        ("vit", dict(stem="resnet", stem_norm=True), 'leave them out for stem="resnet"'),
        ("cct", dict(pool_padding=2), "pool_padding must be at most half of pool_kernel, 3, not 2"),
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
    other.load_state_dict(
        {**other.state_dict(), **{k: v for k, v in model.state_dict().items() if k in other.state_dict()}}
    )
    with torch.no_grad():
        assert distance(other(x), model(x)) <= 1e-5
        with pytest.raises(ValueError, match='tokens="one" was built for images of 32 x 32'):
            model(torch.randn(1, 3, 40, 40))


def test_looking_changes_nothing() -> None:
    model = small("cvt", kv_stride=2).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    maps = model.attention_maps(images(model))
    assert [tuple(m.shape) for m in maps] == [(3, 1, 256, 64), (3, 2, 64, 16)]
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("name", SMALL)
def test_without_weights(name: str) -> None:
    """Sizes can be known without memory: on the meta device everything builds, runs and trains."""
    with torch.device("meta"):
        model = small(name, patch_size=1) if name == "vit" else small(name)
        out = model(images(model))
    out.sum().backward()
    assert out.shape == (3, 10)
