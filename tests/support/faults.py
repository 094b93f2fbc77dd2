"""Every kind of file that is read, damaged in many ways: what comes of it is a result or a sentence, soon, and within
some memory.

`python -m tests.support.faults 1000 [KIND...]` counts faults, as docs/reliability.md has them.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import torch

from tests.support.kinds import images, searches
from tests.support.kinds import runs as written
from tests.support.kinds.kind import THOROUGH, Kind

KINDS = {**written.KINDS, **searches.KINDS, **images.KINDS}
SECONDS, WAIT = 10, 120
"""Of the processor for one file, and by the clock: other work may be running."""
BYTES = 2 * 2**30
"""More than the process has before."""


class HangError(BaseException):
    pass


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Memory and time of what is inside."""

    def late(*_: object) -> None:
        raise HangError(f"more than {SECONDS} s of the processor, or {WAIT} s in all")

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    clocks = ((signal.ITIMER_PROF, signal.SIGPROF, SECONDS), (signal.ITIMER_REAL, signal.SIGALRM, WAIT))
    old = [signal.signal(sign, late) for _, sign, _ in clocks]
    resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + BYTES, hard))
    for clock, _, seconds in clocks:
        signal.setitimer(clock, seconds)
    try:
        yield
    finally:
        for (clock, sign, _), handler in zip(clocks, old, strict=True):
            signal.setitimer(clock, 0)
            signal.signal(sign, handler)
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))


def faults(name: str, tries: int, folder: Path) -> list[str]:
    """Of so many damaged files, those that ended in anything but a result or a sentence."""
    kind, found = KINDS[name], []
    folder.mkdir()
    kind.make(folder)
    kind.use(folder)  # which is right, and may compile kernels
    for first in range(0, tries, TOGETHER if kind.together else 1):
        numbers = range(first, min(tries, first + (TOGETHER if kind.together else 1)))
        trouble = _trouble(kind, name, folder, numbers)
        if trouble and len(numbers) > 1:
            found += [told for n in numbers if (told := _trouble(kind, name, folder, [n]))] or [f"together {trouble}"]
        elif trouble:
            found.append(trouble)
    return found


TOGETHER = 20


def _trouble(kind: Kind, name: str, good: Path, numbers: Sequence[int]) -> str:
    with tempfile.TemporaryDirectory() as place:
        folder, damaged = Path(place) / "files", ""
        if kind.together:
            shutil.copytree(good / "good", folder / "good")
            for number in numbers:
                shutil.copytree(good / "odd", folder / f"odd{number}")
                damaged = _damage(kind, folder / f"odd{number}", Random(f"{name} {number}"))
        else:
            shutil.copytree(good, folder)
            damaged = _damage(kind, folder, Random(f"{name} {numbers[0]}"))
        try:
            with limited():
                kind.use(folder)
        except (ValueError, OSError) as error:
            return "" if not kind.together else f"{name} {numbers[0]} ({damaged}): {error}"
        except (Exception, HangError) as error:
            frames = traceback.extract_tb(error.__traceback__)
            place = ([frame for frame in frames if "/vixformer/" in frame.filename] or frames)[-1]
            return (
                f"{name} {numbers[0]} ({damaged}): {type(error).__name__}: {str(error)[:150]} in"
                f" {place.filename}:{place.lineno}"
            )
        return ""


def _damage(kind: Kind, folder: Path, random: Random) -> str:
    choices = [
        (path, ways)
        for pattern, ways in kind.damages.items()
        for path in sorted(folder.glob(pattern))
        if path.is_file()
    ]
    path, ways = random.choice(choices)
    path.write_bytes(random.choice(ways)(path.read_bytes(), random))
    return path.name


def main() -> None:
    os.environ[THOROUGH] = "1"
    tries, *names = sys.argv[1:]
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    for name in names or KINDS:
        with tempfile.TemporaryDirectory() as folder:
            found = faults(name, int(tries), Path(folder) / "files")
            print(f"{name}: {len(found)} of {tries}", flush=True)
            for line in found:
                print(f"    {line}", flush=True)


if __name__ == "__main__":
    main()
