"""How far a command goes: files it passes through, calls between them, and models it builds.

python -m tools.hops compare quick/exact quick/fourier --seeds 1 --train.epochs 1 --data.fraction 0.02 --out /tmp/runs
python -m tools.hops --create-model vit          create_model, and one image through it
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from vixformer.backbones.backbone import Backbone
from vixformer.cli import main as vix
from vixformer.models import create_model

PACKAGE = Path(__file__).parent.parent / "vixformer"


class Hops:
    """Counts, while it is entered, what this thread calls."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.calls: Counter[tuple[str, str]] = Counter()
        """From a file into another."""
        self.models = 0

    def __enter__(self) -> Hops:
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _seen(self, frame: FrameType, event: str, _: Any) -> None:
        here = _file(frame)
        # modules and classes are not called
        if event != "call" or here is None or not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            return
        self.files.add(here)
        caller = frame.f_back
        while caller is not None and _file(caller) is None:  # through torch and the standard library
            caller = caller.f_back
        if caller is not None and (there := _file(caller)) not in (None, here):
            self.calls[str(there), here] += 1
        self.models += frame.f_code is Backbone.__init__.__code__


def _file(frame: FrameType) -> str | None:
    path = Path(frame.f_code.co_filename)
    return path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else None


def main(words: list[str]) -> None:
    for module in pkgutil.walk_packages([str(PACKAGE)], "vixformer."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)  # beforehand, because importing calls much
    with Hops() as hops:
        if words[0] == "--create-model":
            model = create_model(words[1])
            model(torch.randn(1, model.in_chans, *model.img_size))
        else:
            vix(words)
    print(f"{len(hops.files)} files, {len(hops.calls)} ways from one to another, {hops.models} models built")


if __name__ == "__main__":
    main(sys.argv[1:])
