"""Noise of the size of ImageNet's photographs, with labels: for measuring time, where content does not matter."""

from __future__ import annotations

import torch

from vixformer.data.dataset import DataSet, Images, Part


class Synthetic(DataSet, name="synthetic"):
    """Standard normal floats, as in "Hybrid Transformer Models". A few hundred images are drawn and repeat."""

    about = "N(0, 1) noise, 224 x 224, 1000 classes"
    shape = (3, 224, 224)
    counts = {"train": 10_000, "test": 1_000}
    drawn = 256

    def here(self) -> bool:
        return True

    def read(self, part: Part) -> Images:
        generator = torch.Generator().manual_seed(0 if part == "train" else 1)
        count = self.counts[part]
        pixels = torch.randn(self.drawn, *self.shape, generator=generator)
        labels = torch.randint(1000, (count,), generator=generator)
        return Images(pixels, labels, tuple(f"class {i}" for i in range(1000)), torch.arange(count) % self.drawn)
