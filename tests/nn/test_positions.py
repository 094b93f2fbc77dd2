"""Positions of tokens."""

from __future__ import annotations

import math

import pytest
import torch

from tests.support.models import images, small, small_vit
from vixformer import create_model
from vixformer.nn.positions import NoPositions


@pytest.mark.parametrize("name", ["vit", "levit", "pit", "convtoken-grid", "cct", "cvt", "cvt-cls"])
@pytest.mark.parametrize("pos", ["rope", "rope2d"])
@pytest.mark.parametrize(
    "word", ["softmax", "performer", "linformer(rank=8)", "nystrom(landmarks=8)", "hedgehog", "focused", "cosine"]
)
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


def test_channel_pixels_share_their_position() -> None:
    model = small_vit(stem="channel-pixels", patch_size=1, img_size=8, pool="mean", attention="performer(kernel=relu)")
    assert model.num_tokens == 3 * 64
    assert model.pos.embed.shape == (1, 64, 32)
    x = torch.randn(2, 3, 8, 8)
    added = model.pos.added((8, 8), 3, torch.device("cpu"))
    assert added is not None
    assert torch.equal(added[:, :64], added[:, 64:128])
    tokens = model.patch_embed(x)
    red, weight, bias = x[0, 0, 1, 2], model.patch_embed.proj.weight, model.patch_embed.proj.bias
    assert torch.allclose(tokens[0, 10], red * weight[:32, 0, 0, 0] + bias[:32], atol=1e-6)
    assert model(x).shape == (2, 10)
    assert create_model("vit", stem="channel-pixels", patch_size=1, depth=1).num_tokens == 3 * 32 * 32 + 1
    with pytest.raises(ValueError, match="patch_size must be 1, not 4"):
        small_vit(stem="channel-pixels")
    with pytest.raises(ValueError, match="several tokens on each place"):
        model.forward_maps(x)


def test_interpolated_positions_keep_their_place() -> None:
    model = small_vit(pos="learned")
    ramp = torch.arange(4.0).repeat(4)[:, None].expand(16, 32)
    model.pos.embed.data[0, 1:] = ramp
    added = model.pos.added((4, 8), 1, torch.device("cpu"))
    assert added is not None
    assert added.shape == (1, 33, 32)
    columns = added[0, 1:].unflatten(0, (4, 8))
    assert (columns[:, 1:] >= columns[:, :-1] - 1e-4).all()
    assert torch.equal(added[:, :1], model.pos.embed[:, :1])


@pytest.mark.parametrize("pos", ["sincos", "rope", "rope2d"])
def test_positions_do_not_lose_precision_with_the_weights(pos: str) -> None:
    model = small_vit(pos=pos, img_size=64)
    half = small_vit(pos=pos, img_size=64).bfloat16()
    tokens, cpu = torch.zeros(1, 257, 32), torch.device("cpu")
    for fine, coarse in zip(
        *(
            [m.pos.added((16, 16), 1, cpu), *(m.pos.rotation(tokens.to(m.head.weight.dtype), (16, 16)) or ())]
            for m in (model, half)
        ),
        strict=True,
    ):
        assert fine is coarse is None or torch.equal(fine, coarse)  # pyright: ignore[reportArgumentType]
    assert half(torch.randn(1, 3, 64, 64, dtype=torch.bfloat16)).dtype == torch.bfloat16


@torch.no_grad()
def test_rotary_positions_are_relative() -> None:
    """Moving all tokens by the same way changes no score: q . k depends on the difference of places only."""
    from vixformer.nn.positions import Positions
    from vixformer.ops import rotate

    rope = Positions.member("rope")(32, 16, (1, 40), 0)
    q, k = torch.randn(2, 1, 1, 1, 16).unbind(0)
    cos, sin = rope.rotation(torch.zeros(1, 40, 32), (1, 40))
    score = lambda i, j: (rotate(q, cos[i], sin[i]) * rotate(k, cos[j], sin[j])).sum()  # noqa: E731
    assert torch.allclose(score(3, 7), score(23, 27), atol=1e-4)
    assert torch.allclose(
        cos, torch.tensor([[math.cos(p * 10_000 ** (-i / 8)) for i in range(8)] for p in range(40)]), atol=1e-5
    )
    after = Positions.member("rope")(32, 16, (1, 40), 1).rotation(torch.zeros(1, 41, 32), (1, 40))
    assert torch.equal(after[0][:40], cos)  # the class token is at place 0, the first patch at 1
    assert not torch.allclose(score(3, 7), score(3, 17), atol=1e-2)

    axial = Positions.member("rope2d")(32, 16, (5, 8), 1)
    cos, sin = axial.rotation(torch.zeros(1, 41, 32), (5, 8))
    assert torch.equal(cos[0], torch.ones(8))  # the class token stays
    turns = [
        [math.cos(along * 100 ** (-i / 4)) for along in (column, row) for i in range(4)]
        for row in range(5)
        for column in range(8)
    ]
    assert torch.allclose(cos[1:], torch.tensor(turns), atol=1e-5)
    place = lambda row, column: 1 + row * 8 + column  # noqa: E731
    assert torch.allclose(score(place(0, 1), place(2, 4)), score(place(2, 3), place(4, 6)), atol=1e-4)
    assert torch.equal(cos[place(0, 0), 4:], cos[place(0, 5), 4:])  # rows turn half of the pairs,
    assert torch.equal(cos[place(0, 3), :4], cos[place(4, 3), :4])  # columns the other half
