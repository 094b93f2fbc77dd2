"""The images in the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from vixformer.data.mini import FashionMini


def test_the_embedded_set() -> None:
    parts: tuple[Any, ...] = (("train", 1000), ("test", 200))
    for part, each in parts:
        images = FashionMini(Path("nowhere")).read(part)
        assert images.shape == (1, 28, 28)
        assert torch.bincount(images.labels).tolist() == [each] * 10
        assert images.pixels.float().std() > 50
