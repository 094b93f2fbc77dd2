"""What is damaged, and how it is read."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.support.damage import bytes_of, json_of, safetensors_of
from vixformer.data.mini import FashionMini

TEST = FashionMini(Path()).read("test")
Damage = Callable[[bytes, Random], bytes]


@dataclass(frozen=True)
class Kind:
    make: Callable[[Path], None]
    """Writes good files into a folder."""
    use: Callable[[Path], None]
    """Reads that folder as the product does."""
    damages: dict[str, tuple[Damage, ...]]
    """Of the files, by a pattern of their names: one file and one way is picked each time."""
    together: bool = False
    """What is damaged is a run, `odd`, and many of them are read beside a good one."""


JSON, RAW = (json_of, json_of, json_of, bytes_of), (bytes_of,)
TENSORS = (safetensors_of, safetensors_of, bytes_of)
THOROUGH = "VIX_THOROUGH"
"""Set in the environment: go on with the training, and answer whole requests."""


def thorough() -> bool:
    return THOROUGH in os.environ
