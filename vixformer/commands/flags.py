"""Reading what several commands take."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vixformer.notes import note
from vixformer.terminal import read, say

if TYPE_CHECKING:
    from vixformer.backbones.backbone import Backbone
    from vixformer.config import Recipe
    from vixformer.data.dataset import Whole
    from vixformer.results.runs import Run


def asked_recipe(name: str, options: Sequence[str], command: str, own: Sequence[str] = ()) -> Recipe:
    """A recipe by its name, with the flags that override parts of it; `own` are the other flags of the command."""
    from vixformer.recipes import load_recipe

    recipe = changed(load_recipe(name), options, f"{command} {name}", own)
    _warn_of_emulation(recipe)
    return recipe


def _warn_of_emulation(recipe: Recipe) -> None:
    from vixformer.measure.machine import computes_in
    from vixformer.training.parts import pick_device

    if not computes_in(recipe.train.precision, pick_device(recipe.train.device)):
        note(f"{recipe.train.precision} is emulated on this processor and many times slower; --train.precision float32 is not")


def changed(recipe: Recipe, options: Sequence[str], command: str, own: Sequence[str] = ()) -> Recipe:
    """A recipe with the flags that override parts of it."""
    if not options:
        return recipe
    from vixformer.config import Recipe, recipe_from_dict

    # a switch that also takes numbers has no negation of its own
    negated = {"--train.no-class-weights": ("--train.class-weights", "False")}
    options = [word for option in options for word in negated.get(option, (option,))]
    return recipe_from_dict(read(Recipe, options, command, recipe, own).to_dict(), command.partition(" ")[2])


def finished_run(
    recipe: Recipe, name: str, out: Path, data: Whole, prepare: Callable[[Path], None] = lambda _: None, given: Backbone | None = None
) -> tuple[Run, Backbone | None]:
    """The run of this recipe, trained where it is not there yet, with a bar, and then its model. `prepare` gets its folder before that;
    `given` is the model that it starts from where it was loaded before."""
    from vixformer.commands.watch import Watch
    from vixformer.results.runs import SUMMARY, folder_of, read_run
    from vixformer.training.loop import run

    folder = folder_of(out, name, recipe, data.digest)
    if (folder / SUMMARY).exists():
        say(f"{folder} is finished; the same content is not run twice")
        return read_run(folder), None
    prepare(folder)
    with Watch(name, recipe, f"vix train --resume {folder}", folder) as watch:
        model = run(recipe, folder, resume=True, observer=watch, name=name, data=data, given=given).model
    return read_run(folder), model


def take(words: list[str], flag: str) -> str | None:
    """Take `flag VALUE`, or `flag=VALUE`, out of the words."""
    for i, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == flag:
            value = value if equals else next(iter(words[i + 1 :]), "")
            if not value or value.startswith("--"):
                raise ValueError(f"{flag} needs a value")
            del words[i : i + (1 if equals else 2)]
            if any(other.partition("=")[0] == flag for other in words):
                raise ValueError(f"{flag} is given twice: give it once")
            return value
    return None


def split_flags(args: Sequence[str], switches: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Words, and flags with their values, in any order, for a command whose flags all take one value, but for its switches."""
    words, flags, rest = [], [], iter(args)
    for arg in rest:
        if arg.startswith("--"):
            flags.append(arg)
            flags += [] if "=" in arg or arg in ("--help", *switches) else [value for value in (next(rest, None),) if value is not None]
        else:
            words.append(arg)
    return words, flags


def make_folder(path: Path, flag: str) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise ValueError(f"{path} is a file, and {flag} takes a folder") from None
    except OSError as error:
        raise ValueError(f"cannot make the folder {path} for {flag}: {error.strerror}") from None


def whole(text: str, flag: str, least: int = 1, most: int = 2**32 - 1) -> int:
    if not text.isdecimal() or int(text) < least:
        raise ValueError(f"{flag} must be a whole number of at least {least}, not {text}")
    if int(text) > most:
        raise ValueError(f"{flag} must be a whole number of at most {most}, not {text}")
    return int(text)


def points(text: str | None, default: float, flag: str = "--margin") -> float:
    """A number of percentage points above 0."""
    if text is None:
        return default
    with contextlib.suppress(ValueError):
        if 0 < (found := float(text)) < 100:
            return found
    raise ValueError(f"{flag} must be a number of points above 0 and below 100, not {text}")


def seconds(text: str) -> float:
    """20m, 90s, 1.5h."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
    if found is None or not float(found[1]):
        raise ValueError(f"--budget must be a time such as 90s, 20m or 1.5h, not {text}")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]]


def choice(word: str, choices: Sequence[str], flag: str) -> Any:
    if word not in choices:
        raise ValueError(f"{flag} must be {' or '.join(choices)}, not {word}")
    return word


def several(text: str, allowed: Sequence[str], flag: str) -> list[str]:
    """svg,png: words with commas between them."""
    words = [word for word in text.replace(" ", "").split(",") if word]
    for word in words:
        if word not in allowed:
            raise ValueError(f"{flag} takes {', '.join(allowed)}, with commas between them, not {word}")
    return words
