"""What the options of several commands share."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, Field

from vixformer.jsonfile import Values
from vixformer.notes import note
from vixformer.options import Changes, Means, Sections, find_options, flag_of, unknown_option, value_of
from vixformer.registry import unknown
from vixformer.tables import say

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from vixformer.backbones.backbone import Backbone
    from vixformer.config import Recipe
    from vixformer.data.dataset import Whole
    from vixformer.results.runs import Run


LATEST, SEVERAL = "latest", 4


def _names(module: str, function: str) -> Callable[[], Iterable[str]]:
    """Names that a function gives, whose module takes a while to import."""
    return lambda: getattr(importlib.import_module(f"vixformer.{module}"), function)()


_recipes, _models, _attentions = (
    _names(*place) for place in (("recipes", "list_recipes"), ("models", "list_models"), ("models", "list_attentions"))
)


def _data_sets() -> Iterable[str]:
    from vixformer.data.dataset import DataSet

    return DataSet.members


def _seconds(given: object) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", given) if isinstance(given, str) else None
    if found is None or not float(found[1]):
        raise ValueError(f"must be a time such as 90s, 20m or 1.5h, not {given}")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]]


def find_run(given: str | Path, out: Path = Path("runs"), unfinished: bool = False) -> str | Path:
    """The folder of a run, from the beginning of its name or the word latest, in the folder `out` or another
    (`other/latest`). With `unfinished`, latest is the latest run that can be resumed."""
    path = Path(given)
    if path.exists() or not path.name or (path.is_absolute() and not path.parent.is_dir()):
        return given
    folder = path.parent if path.parent != Path() else out
    found = sorted(file.parent for file in folder.glob("*/recipe.json"))
    if path.name == LATEST:
        if not found:
            raise ValueError(
                f'says {given}, and {folder} has no runs: "vix train quick/exact --out {folder}" makes one'
            )
        if unfinished and not (found := [run for run in found if not (run / "summary.json").exists()]):
            raise ValueError(f'says {given}, and all runs in {folder} are finished: "vix runs {folder}" lists them')
        return max(found, key=lambda run: max(file.stat().st_mtime for file in run.iterdir()))
    found = [run for run in found if run.name.startswith(path.name)]
    if len(found) > 1:
        names = ", ".join(run.name for run in found[:SEVERAL]) + (", ..." if len(found) > SEVERAL else "")
        raise ValueError(
            f"must name one run, and {given} is the beginning of {len(found)}: {names}; write more letters of one of"
            " them"
        )
    return found[0] if found else given


RecipeName = Annotated[str, Means("the name of a recipe", "RECIPE", _recipes)]
ModelOrRecipe = Annotated[str, Means("a model or a recipe", "MODEL", lambda: [*_models(), *_recipes()])]
DataName = Annotated[str, Means("a data set", "NAME", _data_sets)]
DataOrFolder = Annotated[str, Means("a data set, a folder of images, or a CSV file", "NAME|FOLDER|FILE", _data_sets)]
Expression = Annotated[str, Means("an attention, such as performer(features=64)", "ATTENTION", _attentions)]
_found = BeforeValidator(lambda given: find_run(given))
RunFolder = Annotated[Path, _found, Means("the folder of a run", "RUN")]
RunsFolder = Annotated[Path, _found, Means("a folder of runs, a run or a file of records", "RUNS")]
RunsOrBench = Annotated[
    str, BeforeValidator(lambda given: str(find_run(given))), Means("a folder of runs, a run or a JSON file", "RUNS")
]
ModelFolder = Annotated[
    str, BeforeValidator(lambda given: str(find_run(given))), Means("the folder of a run or a model", "MODEL")
]
Seconds = Annotated[float, BeforeValidator(_seconds), Means("a time such as 90s, 20m or 1.5h", "TIME")]
Points = Annotated[float, Field(gt=0, lt=100), Means("a number of points above 0 and below 100", "POINTS")]
Count = Annotated[int, Field(ge=1)]
Folds = Annotated[int, Field(ge=2)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


def recipe_sections(name: str | None) -> Sections:
    """The options of a recipe with its values; those of every model where no recipe is named."""
    from vixformer.backbones.backbone import Backbone
    from vixformer.config import Data, Train
    from vixformer.recipes import is_recipe, load_recipe

    if name is not None and is_recipe(name):
        recipe = load_recipe(name)
        return {"data": [recipe.data], "model": [recipe.model], "train": [recipe.train]}
    models = sorted(Backbone.members.values(), key=lambda backbone: backbone.name != "vit")
    return {"data": [Data], "model": [backbone.Config for backbone in models], "train": [Train]}


def set_options(configs: Mapping[str, DataclassInstance], changes: Changes, command: str) -> dict[str, Values]:
    """The values that were given for the options of these, by section."""
    known = {
        option.name: option
        for option in find_options({section: [config] for section, config in configs.items()}).values()
    }
    values: dict[str, Values] = {section: {} for section in configs}
    for name, raw in changes.items():
        if name not in known:
            raise ValueError(unknown_option(flag_of(name), [option.flag for option in known.values()], command))
        section, _, field = name.rpartition(".")
        values[section][field] = value_of(known[name], raw)
    return values


def with_short_forms(changes: Changes, given: Mapping[str, object]) -> Changes:
    """Options of a command that stand for options of a recipe, such as --epochs for --train.epochs."""
    return {**changes, **{name: (str(value),) for name, value in given.items() if value is not None}}


def changed(recipe: Recipe, changes: Changes, command: str) -> Recipe:
    """A recipe with other values for some of its options."""
    if not changes:
        return recipe
    from vixformer.config import recipe_from_dict

    given = set_options({"data": recipe.data, "model": recipe.model, "train": recipe.train}, changes, command)
    return recipe_from_dict(
        {name: {**part, **given[name]} for name, part in recipe.to_dict().items()}, command.partition(" ")[2]
    )


def asked_recipe(name: str, changes: Changes, command: str) -> Recipe:
    """A recipe by its name, with other values for some of its options."""
    from vixformer.recipes import load_recipe

    recipe = changed(load_recipe(name), changes, f"{command} {name}")
    _warn_of_emulation(recipe)
    _warn_of_edges(recipe)
    return recipe


def _warn_of_emulation(recipe: Recipe) -> None:
    from vixformer.measure.machine import computes_in
    from vixformer.training.parts import pick_device

    if not computes_in(recipe.train.precision, pick_device(recipe.train.device)):
        note(
            f"{recipe.train.precision} is emulated on this processor and many times slower; --train.precision float32"
            " is not"
        )


def _warn_of_edges(recipe: Recipe) -> None:
    from vixformer.data.dataset import DataSet

    size = recipe.model.img_size or recipe.data.resize
    sides = (
        (size, size) if isinstance(size, int) else size or DataSet.member(recipe.data.name.partition(":")[0]).shape[1:]
    )
    if (patch := getattr(recipe.model, "patch_size", None)) is not None:
        for side in sides:
            if told := left_out(side, patch):
                note(told)


def left_out(side: int, patch: int) -> str:
    """What a model does not see if its patches do not divide the images; nothing if they do."""
    over = side % patch
    if not over or side < patch:
        return ""
    fits = [n for n in range(2, side // 2 + 1) if side % n == 0]
    near = f"; patches of {min(fits, key=lambda n: abs(n - patch))} do divide it" if fits else ""
    return f"patches of {patch} pixels do not divide {side}, so the last {over} rows or columns are not seen{near}"


def finished_run(
    recipe: Recipe,
    name: str,
    out: Path,
    data: Whole,
    prepare: Callable[[Path], None] = lambda _: None,
    given: Backbone | None = None,
    seconds: float | None = None,
) -> tuple[Run, Backbone | None]:
    """The run of this recipe, trained where it is not there yet, with a bar, and then its model. `prepare` gets its
    folder before that; `given` is the model that it starts from where it was loaded before; `seconds` are those that
    training may take."""
    from vixformer.commands.watch import Watch
    from vixformer.results.runs import SUMMARY, folder_of, read_run
    from vixformer.training.loop import run

    folder = folder_of(out, name, recipe, data.digest)
    if (folder / SUMMARY).exists():
        say(f"{folder} is finished; the same content is not run twice")
        return read_run(folder), None
    prepare(folder)
    with Watch(name, recipe, f"vix train --resume {folder}", folder) as watch:
        model = run(
            recipe, folder, resume=True, observer=watch, name=name, data=data, given=given, seconds=seconds
        ).model
    return read_run(folder), model


def tested(run: Run) -> str:
    """What a finished run reached, in a sentence."""
    summary = run.summary or {}
    how = "(the last: there is no validation)" if summary["val_loss"] is None else "chosen on validation"
    chosen = f"epoch {summary['best_epoch']} of {summary['epochs']} {how}, {summary['seconds_an_epoch']:.1f} s an epoch"
    if "test_rmse" in summary:
        off = ", ".join(f"{name} {summary[f'test_{name.lower()}']:.4g}" for name in ("RMSE", "MAE", "R2"))
        return f"{run.folder}: test {off} of {summary['target']}, {chosen}"
    five = f"top-5 {summary['test_top5']:.2f} %, " if summary["test_top5"] < 100 else ""  # 100 % of few classes
    return f"{run.folder}: test top-1 {summary['test_top1']:.2f} %, {five}{chosen}"


def data_options(word: str | None) -> dict[str, str]:
    """The options of a recipe that `--data` stands for: a known data set, a folder of images or of shards, or a
    table."""
    from vixformer.data.dataset import DataSet
    from vixformer.data.listing import is_table, kind_of

    if word is None:
        return {}
    if word.partition(":")[0] in DataSet.members:
        return {"data.name": word}
    path = Path(word).expanduser()
    if path.is_dir() or (path.is_file() and is_table(path)):
        return {"data.name": kind_of(path), "data.root": str(path.resolve())}
    if "/" in word or is_table(path):
        raise ValueError(
            f"there is no {'file' if is_table(path) else 'folder'} {word}: --data takes a folder with one folder"
            " of images per class, a CSV or Parquet file, a folder of .tar shards, or a data set"
        )
    raise ValueError(f"{unknown('data set', word, DataSet.members)}, or a folder with one folder of images per class")


def picked(recipes: dict[str, Recipe], given: Collection[str], seconds: float | None = None) -> dict[str, Recipe]:
    """Recipes for one folder of images with what suits it; says so. `given` are the options that somebody set,
    `seconds` is the time that a budget leaves for one training."""
    from vixformer.data.folder import Folder
    from vixformer.experiments.suit import suited

    if not isinstance(next(iter(recipes.values())).data.source(), Folder):
        return recipes
    found, told = suited(recipes, given, seconds)
    say(told)
    return found


def make_folder(path: Path, flag: str) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise ValueError(f"{path} is a file, and {flag} takes a folder") from None
    except OSError as error:
        raise ValueError(f"cannot make the folder {path} for {flag}: {error.strerror}") from None
