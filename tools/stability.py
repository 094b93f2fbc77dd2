"""Which ELU and GELU runs of "Optimizing Image Classification" diverge with features as its formulas are, and what
saves them.

python -m tools.stability --fraction 0.1 --epochs 20 --seeds 3     adds to docs/results/stability.json; `make results`
puts it on the page
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from tools.runs import RESULTS
from vixformer import load_recipe
from vixformer.config import Recipe
from vixformer.measure.machine import in_words, machine
from vixformer.options import first_paragraph
from vixformer.training.loop import train
from vixformer.training.observer import NotFiniteError, Observer, Stopped
from vixformer.writing import write_json

FILE = RESULTS / "stability.json"
NAMES = [f"{kernel}-{i}" for kernel in ("gelu", "elu") for i in range(1, 5)]
PLAIN: dict[str, Any] = dict(clip=None, warmup=0.0)
VARIANTS: dict[str, tuple[bool, dict[str, Any]]] = {
    "neither": (True, PLAIN),
    "as printed": (True, {}),
    "clipping": (True, {**PLAIN, "clip": 1.0}),
    "warm-up": (True, {**PLAIN, "warmup": 5.0}),
    "shift": (False, PLAIN),
}
"""Whether features are raw, and what is different in training. `neither` is without clipping and warm-up."""
REMEDIES = ("clipping", "warm-up", "shift")
"""Run only where `neither` diverges."""


@dataclass(frozen=True)
class Outcome:
    recipe: str
    tokens: str
    variant: str
    seed: int
    fraction: float
    most_epochs: int
    precision: str
    machine: str
    diverged: int | None
    """The epoch in which the loss was not finite."""
    val_losses: tuple[float, ...]


class Watch(Observer):
    """Ends a run after some epochs, its schedule being that of all of them."""

    def __init__(self, most: int) -> None:
        self.most, self.epoch, self.losses = most, 0, list[float]()

    def epoch_begins(self, epoch: int, batches: int) -> None:
        self.epoch = epoch + 1

    def epoch_done(self, record: dict[str, Any]) -> None:
        self.losses.append(record["val_loss"])
        if not math.isfinite(self.losses[-1]) or len(self.losses) >= self.most:
            raise Stopped


def variant(recipe: Recipe, name: str, tokens: str = "one") -> Recipe:
    raw, changes = VARIANTS[name]
    model: Any = recipe.model
    attention = model.attention[:-1] + ", raw=true)" if raw else model.attention
    return replace(
        recipe, model=replace(model, attention=attention, tokens=tokens), train=replace(recipe.train, **changes)
    )


def watched(recipe: Recipe, most: int) -> tuple[int | None, tuple[float, ...]]:
    """The epoch in which it diverged, and the validation losses that were finite."""
    watch = Watch(most)
    try:
        train(recipe, observer=watch)
    except NotFiniteError:
        return watch.epoch, tuple(watch.losses)
    except Stopped:
        pass
    good = tuple(loss for loss in watch.losses if math.isfinite(loss))
    return (None if len(good) == len(watch.losses) else watch.epoch), good


def measure(
    path: Path, names: Sequence[str], tokens: str, fraction: float, most: int, seeds: int, precision: str
) -> None:
    """Runs that the file has already are not run again."""
    found: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    have = {_key(outcome): outcome for outcome in found}
    for seed in range(seeds):
        for name in names:
            printed, done = load_recipe(f"cifar-kernels/{name}"), set[str]()
            for title in VARIANTS:
                recipe = variant(printed, title, tokens)
                settings = {"seed": seed, "precision": precision, "measure": False}
                recipe = replace(
                    recipe, data=replace(recipe.data, fraction=fraction), train=replace(recipe.train, **settings)
                )
                wanted = (name, tokens, title, seed, fraction, most, precision)
                fine = have.get((name, tokens, "neither", *wanted[3:]), {"diverged": None})["diverged"] is None
                # some are printed with neither
                if recipe.to_json() in done or wanted in have or (title in REMEDIES and fine):
                    continue
                done.add(recipe.to_json())
                outcome = Outcome(*wanted, in_words(machine(torch.device("cpu"))), *watched(recipe, most))
                found.append(asdict(outcome))
                have[wanted] = found[-1]
                write_json(path, found)
                print(f"{name} {title} seed {seed}: {_cell([found[-1]])}", flush=True)


def section(found: Sequence[Mapping[str, Any]]) -> str:
    """For the page; nothing where nothing was run."""
    if not found:
        return ""
    conditions = {(o["fraction"], o["most_epochs"], o["precision"], o["machine"]) for o in found}
    said = "; ".join(
        f"{f:.0%} of the training images, {e} epochs of its schedule, {p}, {m}" for f, e, p, m in sorted(conditions)
    )
    lost = sum(o["diverged"] is not None for o in found)
    parts = [
        "## Which runs diverge",
        (
            f"{lost or 'None'} of the {len(found)} runs diverged. The document reports NaN by epoch 4 in the first run"
            " of GELU, and in epochs 1 and 15 of the third of ELU. With a part of the images an epoch has fewer steps"
            " than there, so a run that is fine here may diverge later."
        ),
        (
            "Features as its formulas are (`raw=true`), which may be negative, so that the normalizer may vanish."
            " *Neither* is without clipping and warm-up; *clipping* (a norm of 1), *warm-up* (5 epochs) and *shift*"
            " (features above zero) each add one thing to that, and are run where *neither* diverges. Cells are the"
            " epoch in which the loss was no longer finite, or the least validation loss of those epochs. Features,"
            " their sums and the division are float32 here in every precision; under the mixed precision of the"
            f" document PyTorch multiplies features in float16, which ends at 65,504. {said}."
        ),
        "| recipe | tokens | " + " | ".join(VARIANTS) + " |\n|---|---" + "|--:" * len(VARIANTS) + "|",
    ]
    have = {(o["tokens"], o["recipe"]) for o in found} | {("one", name) for name in NAMES}
    for tokens, name in sorted(have, key=lambda key: (key[0] != "one", NAMES.index(key[1]))):
        rows = {
            title: [o for o in found if (o["tokens"], o["recipe"], o["variant"]) == (tokens, name, title)]
            for title in VARIANTS
        }
        printed = load_recipe(f"cifar-kernels/{name}")
        if variant(printed, "as printed") == variant(printed, "neither"):
            rows["as printed"] = rows["neither"]
        fine = bool(rows["neither"]) and all(o["diverged"] is None for o in rows["neither"])
        cells = [
            "not needed" if fine and title in REMEDIES and not rows[title] else _cell(rows[title]) for title in VARIANTS
        ]
        parts[-1] += f"\n| `cifar-kernels/{name}` | {tokens} | " + " | ".join(cells) + " |"
    return "\n\n".join(parts)


def stored() -> list[dict[str, Any]]:
    return json.loads(FILE.read_text()) if FILE.exists() else []


def _key(outcome: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(
        outcome[name] for name in ("recipe", "tokens", "variant", "seed", "fraction", "most_epochs", "precision")
    )


def _cell(outcomes: Sequence[Mapping[str, Any]]) -> str:
    lost = [o["diverged"] for o in outcomes if o["diverged"] is not None]
    kept = [min(o["val_losses"]) for o in outcomes if o["diverged"] is None]
    told = (
        [f"diverges in epoch {' and '.join(map(str, sorted(set(lost))))} ({len(lost)} of {len(outcomes)})"]
        if lost
        else []
    )
    return ", ".join([*told, *([f"{sum(kept) / len(kept):.3f}"] if kept else [])]) or "not run"


def main() -> None:
    parser = argparse.ArgumentParser(description=first_paragraph(__doc__))
    parser.add_argument("names", nargs="*", default=NAMES, metavar="gelu-1")
    parser.add_argument("--tokens", choices=("one", "grid"), default="one")
    parser.add_argument("--fraction", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--precision", choices=("float32", "bfloat16", "float16"), default="float32")
    options = parser.parse_args()
    measure(FILE, options.names, options.tokens, options.fraction, options.epochs, options.seeds, options.precision)


if __name__ == "__main__":
    main()
