"""Stems: what stands between an image and its tokens."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.support.attentions import distance
from tests.support.models import images, small, small_vit


@torch.no_grad()
def test_the_resnet_stem_is_a_resnet() -> None:
    model = small("vit", stem="resnet", patch_size=4)
    model(images(model))  # batch norms see something
    stem, x = model.eval().patch_embed, images(model)
    wanted = F.relu(F.batch_norm(F.conv2d(x, stem.first[0].weight, padding=1), *norm(stem.first[1])))
    for block, stride in zip(stem.blocks, (2, 2, 1), strict=True):
        body = F.relu(
            F.batch_norm(F.conv2d(wanted, block.body[0].weight, stride=stride, padding=1), *norm(block.body[1]))
        )
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


def test_conv_stems_look_at_every_pixel() -> None:
    for patch in (1, 2, 3, 4, 6, 8):
        model = small_vit(stem="conv", img_size=24, patch_size=patch, pool="mean")
        x = torch.randn(1, 3, 24, 24, requires_grad=True)
        model(x).square().sum().backward()
        assert x.grad is not None
        # the last lines may fall off, as with patches that do not divide the image
        assert (x.grad[..., 1:-patch, 1:-patch] != 0).all()
