"""Every line of docs/tutorial.md with the seconds that it takes, from `git clone` to an exported model: `python -m
benchmarks.tutorial`, about ten minutes. `--here` leaves clone and installation out."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.page import alone
from vixformer.data.folder import list_images
from vixformer.options import first_paragraph

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tutorial.md"
CLONE = "clone"
DECIDED = (CLONE, "1", "2", "3", "4")
"""Steps after which you know which attention to use."""


def main() -> None:
    parser = argparse.ArgumentParser(description=first_paragraph(__doc__))
    parser.add_argument("--photos", type=Path, default=Path(os.environ.get("VIX_DATA", "data")) / "flowers")
    parser.add_argument("--here", action="store_true", help="use the environment that this runs in")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made, alone(publishes=False):
        place, rows = Path(made) / "vixformer", []
        for step, line in [(CLONE, f"git clone {ROOT} {place.name}"), *lines()]:
            if options.here and line.startswith(("make", "source")):
                continue
            seconds = _run(line, step, Path(made) if step == CLONE else place, options.here)
            print(f"{seconds:7.1f} s  {line}", flush=True)
            rows.append((step, seconds))
            if step == CLONE:
                _photos(options.photos, place)
        print()
        for step in dict.fromkeys(step for step, _ in rows):
            print(f"{sum(s for other, s in rows if other == step):7.1f} s  {step}")
        print(f"{sum(s for step, s in rows if step.startswith(DECIDED)):7.1f} s  until the verdicts are read")
        print(f"{sum(s for _, s in rows):7.1f} s  in all")


def lines() -> Iterator[tuple[str, str]]:
    """What the page asks to type, each with the title of its step; a program in Python is one line."""
    for section in PAGE.read_text().split("\n## ")[1:]:
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```", section, re.DOTALL | re.MULTILINE):
            text = re.sub(r"\\\n\s*", "", block)
            typed = [f"python -c {shlex.quote(block)}"] if language == "python" else text.splitlines()
            for line in typed:
                if line.startswith(("vix ", "make ", "source ", "python ")):
                    yield section.partition("\n")[0], line


def _photos(given: Path, place: Path) -> None:
    """The user's: one folder a class, and a picture to classify."""
    for photo in list_images(given.rglob("*")):
        folder = place / "photos" / photo.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{photo.parent.parent.name}-{photo.name}").symlink_to(photo.resolve())
    shutil.copy(next(iter(list_images(given.rglob("*")))), place / "holiday.jpg")


def _run(line: str, step: str, place: Path, here: bool) -> float:
    programs = Path(sys.executable).parent if here else place / ".venv" / "bin"
    kept = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    env = {**kept, "PATH": f"{programs}{os.pathsep}{kept['PATH']}", "XDG_CACHE_HOME": str(place.parent / "cache")}
    if "runs/RUN" in line:  # the run that the step is about: an exact model to convert, or the fine-tuned one to use
        kind = "quick-exact-seed" if "vix convert" in line else "cifar10-on-photos-"
        line = line.replace("runs/RUN", str(next((place / "runs").glob(f"{kind}*")).relative_to(place)))
    began = time.perf_counter()
    if line.startswith("vix serve"):
        server = subprocess.Popen(shlex.split(line), cwd=place, env=env, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        said = next((text for text in server.stdout if "http://" in text), "")
        seconds = time.perf_counter() - began
        server.terminate()
        server.wait()
        if not said:
            raise SystemExit(f"{line}: it did not say where it is")
        return seconds
    done = subprocess.run(line, shell=True, executable="/bin/bash", cwd=place, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{step}: {line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
