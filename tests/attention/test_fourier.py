"""The Fourier mixer over a grid."""

from __future__ import annotations

import pytest
import torch

from tests.support.attentions import distance
from tests.support.formulas import HEADS, K, core
from vixformer import create_model


@pytest.mark.parametrize("grid", [(2, 3), (4, 4), (1, 5), (3, 1)])
def test_fourier_over_the_grid_is_a_transform_of_the_image_and_its_channels(grid: tuple[int, int]) -> None:
    """Of images (B, D, height, width), by torch's own transform of three axes."""
    mixer = core("fourier(grid=true)")
    image = torch.randn(2, HEADS * K, *grid, requires_grad=True)
    tokens = image.detach().flatten(2).mT.requires_grad_()
    weight = torch.randn(2, grid[0] * grid[1], HEADS * K)
    expected = torch.fft.fftn(image, dim=(1, 2, 3)).real.flatten(2).mT
    out = mixer(tokens, grid)
    assert distance(out, expected) <= 1e-5
    assert distance(mixer.reference(tokens, grid), expected) <= 1e-5
    (out * weight).sum().backward()
    (expected * weight).sum().backward()
    assert image.grad is not None
    assert tokens.grad is not None
    assert distance(tokens.grad, image.grad.flatten(2).mT) <= 1e-5


def test_fourier_over_the_grid_has_no_place_for_a_class_token() -> None:
    with pytest.raises(ValueError, match='17 tokens are not the 4 x 4 places of the image: use pool="mean"'):
        create_model(
            "vit", attention="fourier(grid=true)", img_size=16, patch_size=4, embed_dim=8, depth=1, num_heads=2
        )
    model = create_model(
        "vit", attention="fourier(grid=true)", pool="mean", img_size=16, patch_size=4, embed_dim=8, depth=1, num_heads=2
    )
    images, turned = torch.randn(1, 3, 16, 16), []
    for size in ((16, 16), (8, 32)):  # as many tokens of another shape
        turned.append(model.eval()(images.reshape(1, 3, *size)))
    assert not torch.allclose(*turned)
