"""What kernels are tested with, and which of them ran."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from vixformer.ops import native
from vixformer.ops.native import build

KERNELS = [
    "relu",
    "relu, total_eps=0.01, scale=half",
    "softmax",
    "softmax, eps=0",
    "gaussian",
    "gaussian, eps=0",
    "exp",
    "exp, eps=0",
]

MAPS = [
    "hedgehog",
    "focused(conv=none)",
    "focused(conv=none, power=2)",
    "cosine",
    "performer(kernel=elu, features=24)",
    "performer(kernel=elu, features=none, alpha=0.3)",
    "performer(kernel=gelu, features=24)",
    "performer(kernel=gelu, features=none)",
    "performer(kernel=mlp, features=48)",
    "performer(kernel=relu, features=24, learned=true)",
    "performer(kernel=exp, features=24, learned=true)",
    "performer(kernel=matrix, features=24)",
    "performer(kernel=matrix, features=none)",
    "performer(kernel=prototypes, features=24)",
    "performer(kernel=cosh, features=12)",
    "performer(kernel=taylor)",
]


@contextlib.contextmanager
def calls() -> Iterator[list[str]]:
    """The kernels that run inside."""
    called: list[str] = []
    plain = native.run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "run", lambda name, *args: (called.append(name), plain(name, *args))[1])
        yield called


compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")


def empty_cache(folder: Path) -> str:
    """For XDG_CACHE_HOME: a cache of nothing but the kernels of before. Every process that a test starts with an empty
    one compiles them again, for 20 seconds of processor time."""
    (folder / "vix").mkdir(parents=True)
    (folder / "vix" / "native").symlink_to(build._cache())
    return str(folder)
