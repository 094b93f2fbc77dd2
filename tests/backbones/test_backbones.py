"""What every backbone promises, with every mechanism."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.attention.cases import WORDS, convolves, distance, slow_unless
from vixformer import create_model, from_pretrained, load_recipe
from vixformer.backbones.backbone import Backbone
from vixformer.nn.positions import NoPositions

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
COVERING = [slow_unless(word == "prism" or (name == "vit" and convolves(word)), name, word) for name, word in EVERY]
"""Every backbone, and in one of them every mechanism that may want its grid: test_contract.py traces all mechanisms."""


def small(name: str, attention: str = "softmax", **options: Any) -> Any:
    model, sizes = SMALL[name]
    return create_model(model, attention=attention, **{**sizes, **options})


def traced(name: str, attention: str) -> Any:
    """One layer of a kind is enough for a tracer, which takes as long for each."""
    return small(name, attention, **{key: 1 for key in SMALL[name][1] if key == "depth"}).eval()


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


@pytest.mark.parametrize(("name", "word"), COVERING)
def test_export(name: str, word: str) -> None:
    model = traced(name, word)
    x = images(model, 2)
    with torch.no_grad():
        assert distance(torch.export.export(model, (x,)).module()(x), model(x)) <= 1e-5


@pytest.mark.parametrize(("name", "word"), COVERING)
def test_compiles_in_one_graph(name: str, word: str) -> None:
    torch.compiler.reset()
    model = traced(name, word)
    x = images(model, 2)
    with torch.no_grad():
        assert distance(torch.compile(model, fullgraph=True, backend="eager")(x), model(x)) <= 1e-5


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
        ("cvt", dict(pos="rope", kv_stride=2), 'pos="rope" needs as many keys as queries: use kv_stride=1'),
        ("cvt", dict(attention="performer(causal=true)", kv_stride=2), "performer needs as many keys as queries"),
        ("cvt", dict(paddings=(1,)), "dims has 2 stages and paddings 1"),
        ("cvt", dict(proj="linear", scale="width"), 'scale go with proj="conv"'),
        ("cvt", dict(dims=()), r"dims must be at least one number, not \(\)"),
        ("cvt", dict(dims=16), "dims must be several numbers, not 16"),
        ("levit", dict(shrink="softmax | performer"), "shrink is one mechanism"),
        ("levit", dict(shrink="nystrom"), "nystrom needs as many keys as queries"),
        ("levit", dict(stem="channel-pixels", patch_size=1), "puts several tokens on each place, which this model cannot do"),
        ("pit", dict(stem="channel-pixels", patch_size=1), "puts several tokens on each place, which this model cannot do"),
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
    other.load_state_dict({**other.state_dict(), **{k: v for k, v in model.state_dict().items() if k in other.state_dict()}})
    with torch.no_grad():
        assert distance(other(x), model(x)) <= 1e-5
        with pytest.raises(ValueError, match='tokens="one" was built for images of 32 x 32'):
            model(torch.randn(1, 3, 40, 40))


@pytest.mark.parametrize("name", ["levit", "vit", "pit", "cct", "cvt", "convtoken-grid"])
def test_a_bias_for_every_distance(name: str) -> None:
    """Of LeViT's layers by one option, of any other model's by `softmax(bias=true)`."""
    torch.manual_seed(0)
    options: dict[str, Any] = dict(attention_bias=True) if name == "levit" else dict(attention="softmax(bias=true)")
    model = small(name, **options).eval()
    cores = [m for m in model.modules() if getattr(m, "distances", None) is not None]
    assert len(cores) == {"levit": 3, "convtoken-grid": 1}.get(name, 2)  # in LeViT the attention between stages too
    x = images(model)
    with torch.no_grad():
        before = model(x)
        for core in cores:
            torch.nn.init.normal_(core.distances)
        assert not torch.allclose(model(x), before, atol=1e-3)
        core, (height, width) = cores[0], cores[0].shape.grid
        q, k = torch.randn(2, 2, core.shape.num_heads, core.shape.num_tokens, core.shape.head_dim)
        v = torch.randn(*q.shape[:3], core.shape.value_dim or core.shape.head_dim)
        assert distance(core(q, k, v), core.reference(q, k, v)) <= 1e-5
        bias, front = core._bias(q, k), core.shape.num_tokens - height * width
        place = lambda row, column: front + row * width + column  # noqa: E731
        assert bias[0, place(1, 1), place(1, 2)] == bias[0, place(1, 2), place(1, 1)] == core.distances[0, 1]  # one column apart
        assert bias[-1, place(0, 0), place(2, 1)] == core.distances[-1, 2 * width + 1]  # two rows and a column
        assert (bias[:, :front] == 0).all()
        assert (bias[:, :, :front] == 0).all()
    other = torch.randn(1, 3, 2 * model.img_size[0], model.img_size[1] // 2)  # as many places, otherwise
    with pytest.raises(ValueError, match=rf"built for a grid of {height} x {width} and got {2 * height} x {width // 2}"):
        model(other)


@pytest.mark.parametrize("word", WORDS)
def test_fewer_keys_and_wider_values(word: str) -> None:
    """Mechanisms that cannot do with fewer keys than queries say so when the model is built; all of them take wider values."""
    square = convolves(word)
    mixes = word in ("fourier", "mlp")
    for name, options in (("cvt", dict(kv_stride=2)), ("levit", dict(shrink=word))):
        if square or (mixes and name == "levit"):
            with pytest.raises(ValueError, match=r"needs as many keys as queries|needs a mechanism with q and k"):
                small(name, word, **options)
        else:
            model = small(name, word if name == "cvt" else "softmax", **options)
            model(images(model)).sum().backward()
            assert all(p.grad is not None and (p.grad != 0).flatten(1).any(1).all() for n, p in model.named_parameters() if "core.E" in n)
    wide = small("levit", word, value_ratio=2)
    wide(images(wide)).sum().backward()
    assert all(p.grad is not None for p in wide.parameters())


@pytest.mark.parametrize("after", [False, True])
def test_convtoken_is_what_the_document_says(after: bool) -> None:
    """LN2(x + attention(LN1 x)), in EXP LN2(LN1 x + attention(LN1 x)), where attention over one token is two linear maps."""
    model = small("convtoken", residual="after" if after else "before", drop_rate=0.1).eval()
    x = images(model)
    block = model.blocks[0]
    with torch.no_grad():
        token = F.relu(model.embed[0](F.max_pool2d(model.convs[:-1](x), 2).flatten(1)))
        normed = block.norm1(token)
        attended = block.attn.proj(block.attn.qkv(normed).chunk(3, -1)[2])
        wanted = model.head(model.norm(block.norm2((normed if after else token) + attended)))
        assert distance(model(x), wanted) <= 1e-5
        dropped = model.train().embed(torch.ones(4, model.embed[0].in_features))
    assert (dropped == 0).any()
    best: Any = load_recipe("cifar-kernels/relu").model
    with torch.device("meta"):
        assert best.owner(best).embed[0].weight.shape == (960, 65_536)


@torch.no_grad()
def test_the_resnet_stem_is_a_resnet() -> None:
    model = small("vit", stem="resnet", patch_size=4)
    model(images(model))  # batch norms see something
    stem, x = model.eval().patch_embed, images(model)
    wanted = F.relu(F.batch_norm(F.conv2d(x, stem.first[0].weight, padding=1), *norm(stem.first[1])))
    for block, stride in zip(stem.blocks, (2, 2, 1), strict=True):
        body = F.relu(F.batch_norm(F.conv2d(wanted, block.body[0].weight, stride=stride, padding=1), *norm(block.body[1])))
        body = F.batch_norm(F.conv2d(body, block.body[3].weight, padding=1), *norm(block.body[4]))
        short = F.batch_norm(F.conv2d(wanted, block.short[0].weight, stride=stride), *norm(block.short[1]))
        wanted = F.relu(body + short)
    assert distance(stem(x), wanted.flatten(2).transpose(1, 2)) <= 1e-5


@torch.no_grad()
def test_the_resnet9_stem_has_a_residual_block_after_each_maximum() -> None:
    model = small("vit", stem="resnet9", patch_size=4, embed_dim=48, num_heads=3).eval()
    kinds = [type(layer).__name__ for layer in model.patch_embed.layers]
    assert kinds == ["Conv2d", "BatchNorm2d", "GELU", *["MaxPool2d", "Conv2d", "BatchNorm2d", "GELU", "Residual"] * 2]
    assert model(torch.randn(2, 3, *model.img_size)).isfinite().all()
    with pytest.raises(ValueError, match='stem="resnet9" halves the image'):
        small("vit", stem="resnet9", patch_size=3, embed_dim=48)


@torch.no_grad()
def test_the_vgg_stem_is_convolutions_and_maxima() -> None:
    model = small("vit", stem="vgg", patch_size=4, embed_dim=48, num_heads=3)
    model(images(model))
    stem, given = model.eval().patch_embed, images(model)
    x = given
    convolutions = [(m, n) for m, n in pairwise(stem.layers) if isinstance(m, torch.nn.Conv2d)]
    assert [m.out_channels for m, _ in convolutions] == [16, 32, 32, 48]
    for i, (convolution, after) in enumerate(convolutions):
        x = F.max_pool2d(x, 2) if i in (1, 3) else x
        x = F.gelu(F.batch_norm(F.conv2d(x, convolution.weight, padding=1), *norm(after)))
    assert distance(stem(given), x.flatten(2).transpose(1, 2)) <= 1e-5
    for side, dim in ((3, 48), (4, 64)):
        with pytest.raises(ValueError, match='stem="vgg" halves the image'):
            small("vit", stem="vgg", patch_size=side, embed_dim=dim)


def norm(module: Any) -> Any:
    return module.running_mean, module.running_var, module.weight, module.bias


@pytest.mark.parametrize("stem", ["conv", "resnet"])
@pytest.mark.parametrize("stride", [1, 2, 3, 5, 7, 8, 14, 16])
def test_any_stride_in_front(stem: str, stride: int) -> None:
    """And every pixel of a whole patch is looked at."""
    for name in ("vit", "pit"):
        model = small(name, stem=stem, patch_size=stride, img_size=2 * stride + 6).eval()
        side = (2 * stride + 6) // stride
        assert model.grid == (side, side)
    x = torch.randn(1, 3, 2 * stride, 2 * stride, requires_grad=True)
    model.patch_embed(x).square().sum().backward()
    assert (x.grad != 0).any(1).all()  # pyright: ignore[reportOptionalMemberAccess]


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


def test_a_plain_cnn(tmp_path: Path) -> None:
    model = create_model("cnn", conv_dims=(8, 16)).eval()
    x = torch.randn(2, 3, 32, 32)
    assert [tuple(m.shape) for m in model.forward_maps(x)] == [(2, 8, 16, 16), (2, 16, 8, 8)]
    assert model.attention_expression() == "none"
    model.save_pretrained(tmp_path)
    assert torch.equal(from_pretrained(tmp_path)(x), model(x))
    with pytest.raises(ValueError, match="attention must be none"):
        create_model("cnn", attention="softmax")
    with pytest.raises(ValueError, match="3 x 3 cannot be halved 2 times"):
        model(torch.randn(1, 3, 3, 3))


def test_a_stem_alone_is_a_cnn(tmp_path: Path) -> None:
    """The baseline of a ViT behind the same stem: its features are those of the stem."""
    model = create_model("cnn", stem="resnet", embed_dim=16, patch_size=4).eval()
    vit = create_model("vit", stem="resnet", embed_dim=16, patch_size=4, depth=1, num_heads=2).eval()
    vit.patch_embed.load_state_dict(model.stem.state_dict())  # pyright: ignore
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(model.forward_features(x), vit.patch_embed(x))  # pyright: ignore
    assert torch.equal(model(x), model.head(vit.patch_embed(x).mean(1)))  # pyright: ignore
    model.save_pretrained(tmp_path)
    assert torch.equal(from_pretrained(tmp_path)(x), model(x))
    with pytest.raises(ValueError, match="smaller than one patch"):
        create_model("cnn", stem="resnet", img_size=3)
