"""fashion-mini: 10,000 + 2,000 images of Fashion-MNIST, the same number of every class, inside the package."""

from __future__ import annotations

import lzma
from importlib import resources

import torch

from vixformer.data.dataset import Images, Part
from vixformer.data.mnist import FashionMNIST

SIDE = 28


class FashionMini(FashionMNIST, name="fashion-mini"):
    about = "photographs of clothes, in the package"
    counts = {"train": 10_000, "test": 2_000}
    digests = {}
    downloads = ()

    def here(self) -> bool:
        return True

    def read(self, part: Part) -> Images:
        packed = resources.files("vixformer.data.embedded").joinpath(f"fashion-mini-{part}.xz").read_bytes()
        count = self.counts[part]
        content = torch.frombuffer(bytearray(lzma.decompress(packed)), dtype=torch.uint8)
        labels, pixels = content[:count], content[count:]
        return Images.all(pixels.reshape(count, 1, SIDE, SIDE), labels.to(torch.int64), self.classes)


def pack(images: Images, per_class: int) -> bytes:
    """The first images of every class, in the order of the set, as `read` wants them. `tools/make_fashion_mini.py`
    calls this."""
    chosen = (
        torch.cat([(images.labels == label).nonzero().flatten()[:per_class] for label in range(len(images.classes))])
        .sort()
        .values
    )
    part = images.take(chosen)
    content = torch.cat([part.labels.to(torch.uint8), part.pixels[part.rows].flatten()])
    return lzma.compress(content.numpy().tobytes(), preset=9 | lzma.PRESET_EXTREME)
