"""Maps of attention are where the model looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PIL import Image

from vixformer.report.maps import looks, overlay


def test_maps_are_where_the_model_looks(runs: Path) -> None:
    import torch

    from vixformer.backbones.backbone import from_pretrained

    model: Any = from_pretrained(next(runs.glob("mixed-seed0*")) / "best")
    image = torch.randn(1, 28, 28)
    seen = looks(model, image)
    assert seen.names == ("performer", "softmax")
    whole = model.attention_maps(image[None])
    for layer, weights in zip(seen.layers, whole, strict=True):
        assert layer is not None
        torch.testing.assert_close(layer.flatten(1), weights[0, :, 0, 1:])
    half = [0.5 * w[0].mean(0) / w[0].mean(0).sum(-1, keepdim=True) + 0.5 * torch.eye(17) for w in whole]
    assert seen.rollout is not None
    torch.testing.assert_close(seen.rollout.flatten(), (half[1] @ half[0])[0, 1:])
    spot = torch.zeros(4, 4)
    spot[0, 0] = 1
    drawn = overlay(Image.new("L", (28, 28)), spot, 64)
    assert sum(drawn.getpixel((4, 4))) > sum(drawn.getpixel((60, 60)))  # pyright: ignore
