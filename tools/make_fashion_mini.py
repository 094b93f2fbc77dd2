"""Makes the embedded data set from Fashion-MNIST: `python tools/make_fashion_mini.py ROOT`, once, by us."""

from __future__ import annotations

import sys
from pathlib import Path

from vixformer.data.dataset import Part
from vixformer.data.mini import pack
from vixformer.data.mnist import FashionMNIST

source = FashionMNIST(Path(sys.argv[1]))
target = Path(__file__).parent.parent / "vixformer" / "data" / "embedded"
sizes: dict[Part, int] = {"train": 1000, "test": 200}
for part, per_class in sizes.items():
    (target / f"fashion-mini-{part}.xz").write_bytes(pack(source.read(part), per_class))
