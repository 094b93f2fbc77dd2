"""Give a trained model another attention."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import NonNegativeInt

from vixformer.backbones.backbone import Backbone
from vixformer.bridges.source import is_source, store, trained
from vixformer.commands.flags import (
    Count,
    DataName,
    Expression,
    Points,
    RunFolder,
    changed,
    finished_run,
    recipe_sections,
)
from vixformer.config import Data, Recipe
from vixformer.conversion.choose import Chosen, Point, choose_layers
from vixformer.conversion.distill import part_of_lesson
from vixformer.conversion.outside import convert_outside
from vixformer.conversion.parent import trained_model
from vixformer.conversion.run import converted_recipe, difference_on_images, name_of, recipe_of
from vixformer.conversion.start import TEACHING
from vixformer.conversion.swap import differing, expanded
from vixformer.data.dataset import Whole
from vixformer.jsonfile import Values, read_json
from vixformer.measure.latency import Ratio
from vixformer.models import model_config
from vixformer.options import Changes, Folder, flag_of, sections, words
from vixformer.registry import made_of
from vixformer.results.evidence import MARGIN, judge, sentence
from vixformer.results.runs import LAST, RECIPE, SUMMARY, read_run
from vixformer.tables import Shown, say, say_next, table
from vixformer.terminal import Steps
from vixformer.training.parts import load_parts, pick_device
from vixformer.writing import write_json

CHOICE = "choice.json"
NEAREST = "hedgehog"
"""What comes nearest to its parent before any fine-tuning, on both data sets of docs/results/convert.md."""
SPLIT = ("fraction", "val_fraction", "folds", "fold", "split_seed", "mean", "std", "resize")
"""Options of data that would let images train that validate, or show a model what it was not trained on."""
OURS = {"train.weights": "RUN", "train.distill": "--distill", "train.epochs": "--finetune"}


@dataclass(frozen=True, kw_only=True)
class Options(Shown):
    run: RunFolder = words(
        missing='which run? write "vix convert runs/NAME --attention nystrom"; "vix runs" lists them'
    )
    """Folder of a run, or of a model; latest, or the first letters of a run in runs/; timm:NAME or hf:FOLDER for a
    model of timm or transformers."""
    attention: Expression | None = None
    """Attention for the new layers, as a layout expression, such as 'nystrom(landmarks=16)'; with --choose, hedgehog if
    left out."""
    distill: NonNegativeInt = 0
    """Number of distillation steps, in which the new layers learn the outputs of the old ones, without labels; 200 are
    usual."""
    finetune: NonNegativeInt = 0
    """Number of epochs of fine-tuning after that, at 0.3 of the parent's learning rate."""
    choose: Count | None = None
    """Convert only this number of layers: those that cost the least accuracy for the time they save."""
    data: DataName | None = None
    """Another data set than the parent's. The folder of a model that has no recipe needs it."""
    out: Folder | None = None
    """Folder for the new run. Left out: beside its parent."""
    margin: Points = MARGIN
    """Difference of test top-1 to the parent, in points, that matters to you."""
    changes: Changes = sections(recipe_sections)


def run(options: Options) -> None:
    if is_source(str(options.run)):
        _outside(options)
        return
    parent, attention = options.run, _attention(options)
    own = read_run(parent).recipe.data.name if (parent / RECIPE).exists() else None
    _check_changes(options.changes, own is not None and options.data in (None, own))
    model = trained_model(parent)
    recipe = recipe_of(parent, model, options.data)
    if recipe.data.target:
        raise ValueError(f"{parent} predicts numbers, and vix convert compares classes: convert it in Python, with"
                         " vix.convert")  # fmt: skip
    _say_what_is_taken(options, recipe)

    def converted(attention: str) -> Recipe:
        made = converted_recipe(recipe, parent, model, attention, options.distill, options.finetune)
        return changed(made, options.changes, "convert RUN")

    new = converted(attention)
    where = options.out or parent.resolve().parent
    images = new.data.source().whole()
    device = pick_device(new.train.device)
    choice, lesson, taken = None, None, ()
    if options.choose is not None:
        whole = changed(recipe, options.changes, "convert RUN")
        choice, lesson = _chosen(options, options.choose, whole, model.to(device), images, attention, where)
        _show_choice(choice, options.choose)
        point = choice.curve[options.choose]
        taken, new = point.layers, converted(point.attention)

    def prepare(folder: Path) -> None:
        if choice is not None:
            folder.mkdir(parents=True, exist_ok=True)
            write_json(folder / CHOICE, asdict(choice))
        if lesson is not None and not (folder / LAST).exists():
            part_of_lesson(lesson, taken, folder / TEACHING)

    new_run, became = finished_run(new, name_of(parent, new), where, images, prepare, model)
    _show_conversion(new_run.summary or {})
    apart = difference_on_images(became or trained_model(new_run.folder), model, load_parts(new, device, images).test)
    judged = judge([(apart, "different", options.margin)])[0]
    told = sentence("the new model", "its parent", apart, judged, options.margin)
    say(f"{told}. Models of other seeds may differ otherwise.")
    say(f"The new model is in {new_run.folder}; its recipe names {parent} as what it started from.")
    say_next(f"vix predict {new_run.folder} IMAGE", f"vix export {new_run.folder}")


def _attention(options: Options) -> str:
    if options.attention is not None:
        return options.attention
    if options.choose is None:
        raise ValueError(
            'to which attention? give --attention, such as "nystrom(landmarks=32)"; "vix attentions" lists them'
        )
    say(
        f"No --attention given: converting to {NEAREST}, which comes nearest to its parent before fine-tuning; "
        '"vix attentions" lists the others.'
    )
    return NEAREST


def _outside(options: Options) -> None:
    """A model of timm or transformers: it stays one, in a folder that `vix.load_patched` reads."""
    if options.finetune:
        raise ValueError(
            "--finetune is for runs of vix train: load the converted model with vix.load_patched and train it as you"
            " trained it before"
        )
    name, attention = str(options.run), _attention(options)
    out = options.out or Path("runs") / re.sub(r"[^a-z0-9]+", "-", f"{name} to {attention}".lower()).strip("-")[:80]
    if out.exists() and any(out.iterdir()):
        raise ValueError(f"{out} is there already: give another folder with --out")
    model, parts = trained(name), None
    if options.data is not None:
        size = {"img_size": model.img_size[0], "in_chans": model.in_chans}
        recipe = Recipe(data=Data(name=options.data, resize=model.img_size[0]), model=model_config("vit", **size))
        parts = load_parts(changed(recipe, options.changes, f"convert {name}"), next(model.parameters()).device)
        channels = parts.train.images.shape[0]
        if channels != model.in_chans:
            raise ValueError(
                f"{options.data} has {channels} color channels and the model takes {model.in_chans}: give other images"
            )
    with Steps() as watch:
        made = convert_outside(
            model, attention, parts and parts.train, parts and parts.val, watch, steps=options.distill,
            count=options.choose,
        )  # fmt: skip
    store(made.model, name, out)
    if made.chosen is not None and options.choose is not None:
        _show_choice(made.chosen, options.choose)
    rows = [
        (str(r.layer), r.before, r.after, "" if r.error is None else f"{r.error:.0%}", str(len(r.kept)),
         ", ".join(r.new) or "none")
        for r in made.change.layers
    ]  # fmt: skip
    table(("layer", "from", "to", "error", "weights kept", "new"), rows, ("weights kept", "new"), "layers")
    for warning in made.change.warnings:
        say(f"warning: {warning}")
    if options.data is None:
        say("No --data given: nothing was fitted or measured, so fine-tune the model before you use it.")
    say(f'The new model is in {out}: vix.load_patched("{out}") loads it.')


def _say_what_is_taken(options: Options, recipe: Recipe) -> None:
    """Of a parent that leaves something open."""
    stored = (options.run / RECIPE).exists()
    if stored and not (options.run / SUMMARY).exists():
        say(f"{options.run} is not finished, so this command converts its best epoch so far.")
    if not stored and recipe.data.mean is None and "data.mean" not in options.changes:
        say(
            f"{options.run} does not say how its images are normalized: {recipe.data.name}'s own mean and deviation are"
            " taken; --data.mean and --data.std give others."
        )


def _chosen(
    options: Options, count: int, recipe: Recipe, model: Backbone, images: Whole, attention: str, where: Path
) -> tuple[Chosen, Path | None]:
    most = len(differing(model, expanded(model, attention)))
    if count > most:
        differ = {0: "no layer differs", 1: "only 1 layer differs"}.get(most, f"only {most} layers differ")
        raise ValueError(f"--choose {count}: {differ} from what the model has")
    folder = where / f"{options.run.resolve().name}-choices"
    return _choice(recipe, model, images, attention, options.distill, folder, most)


def _choice(
    recipe: Recipe, model: Backbone, images: Whole, attention: str, steps: int, folder: Path, most: int
) -> tuple[Chosen, Path | None]:
    """The choice, and the file of the converted layers if there is one. It is measured once: the same command finds it
    again, and with it the run that was made of it."""
    asked = json.dumps(
        [recipe.to_dict(), attention, steps, {k: float(v.double().sum()) for k, v in model.state_dict().items()}]
    )
    path = folder / f"{hashlib.sha256(asked.encode()).hexdigest()[:12]}.json"
    lesson = path.with_suffix(".safetensors")
    if path.exists():
        say(f"Measured before, in {path}: delete it to measure again.")
    else:
        recipe.model_for(images.test)
        parts = load_parts(recipe, next(model.parameters()).device, images)
        if parts.val is None:
            raise ValueError("layers are chosen on validation images, and this recipe has none: set data.val_fraction")
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with Steps() as watch:
                found = choose_layers(
                    model,
                    attention,
                    parts.train,
                    parts.val,
                    seed=recipe.train.seed,
                    steps=steps,
                    watch=watch,
                    keep=lesson,
                )
            write_json(path, asdict(found))
        finally:
            if not any(folder.iterdir()):
                folder.rmdir()
    return read_choice(path, most), lesson if lesson.exists() else None


def read_choice(path: Path, most: int) -> Chosen:
    """`most` is how many layers differ."""
    found = made_of(Chosen, read_json(path), f"{path} is damaged, delete it to measure again")
    if [len(point.layers) for point in found.curve] != list(range(most + 1)):
        raise ValueError(f"{path} is damaged: its curve should go from 0 to {most} layers; delete it to measure again")
    return found


def _check_changes(changes: Changes, of_a_run: bool) -> None:
    for name in changes:
        flag = flag_of(name)
        if name.startswith("model."):
            raise ValueError(f"a conversion changes the attention alone: leave out {flag}")
        if name in OURS:
            raise ValueError(f"{OURS[name]} says that here: leave out {flag}")
        if of_a_run and name in [f"data.{word}" for word in SPLIT]:
            raise ValueError(
                f"leave out {flag}: the images must stay split as in the parent's run, or some of its training images"
                " would validate"
            )


def _show_choice(choice: Chosen, count: int) -> None:
    rows = [
        (str(c.layer), f"{c.error:.0%}", f"{c.top1:+.2f}", f"{c.loss:+.4f}", f"{c.ms:.2f}", f"{c.new_ms:.2f}")
        for c in choice.costs
    ]
    say(
        "Each row has one converted layer; top-1 and loss are on validation images, ms are of the attention of that"
        " layer:"
    )
    table(("layer", "error", "top-1, points", "loss", "ms before", "ms after"), rows, ("loss",), "one layer")
    before = choice.curve[0].ms
    rows = [
        (str(len(p.layers)), ", ".join(map(str, sorted(p.layers))), f"{p.top1:.2f}", f"{p.ms:.2f}",
         _times(p, before), p.attention + (" (chosen)" if len(p.layers) == count else ""))
        for p in choice.curve
    ]  # fmt: skip
    say("Layer after layer, the cheapest first; ms are of the model:")
    table(
        ("converted", "layers", "validation %", "ms", "x before", "attention"),
        rows,
        ("layers", "ms"),
        "layer after layer",
    )
    say(_won(choice.curve[count], before, count))
    say(choice.told)


def _times(point: Point, before: float) -> str:
    """To the model as it was."""
    return "1.00" if not point.layers else str(point.ratio or f"{point.ms / before:.2f}")


def _won(point: Point, before: float, count: int) -> str:
    """What the chosen layers do to the time; nothing where they win some."""
    layers = f"the chosen {count} layers" if count > 1 else "the chosen layer"
    ratio = point.ratio or Ratio(*3 * (point.ms / before,))
    if ratio.verdict == "faster":
        return ""
    if ratio.verdict == "slower":
        return (
            f"With {layers} converted the model is slower here: {before:.2f} -> {point.ms:.2f} ms,"
            f' {_times(point, before)} times as long. Linear attention pays off with more tokens: "vix bench'
            ' crossover" says from how many.'
        )
    return (
        f"With {layers} converted the model takes as long as before, within the measurement error:"
        f" {_times(point, before)} times."
    )


def _show_conversion(summary: Values) -> None:
    found = summary["conversion"]
    rows = [
        (str(r["layer"]), r["before"], r["after"], f"{r['error']:.0%}", f"{r['q_rms']:.2f}", f"{r['k_rms']:.2f}",
         str(len(r["kept"])), ", ".join(r["new"]) or "none", ", ".join(r["dropped"]) or "none")
        for r in found["layers"] if r["error"] is not None
    ]  # fmt: skip
    columns = ("layer", "from", "to", "error", "q rms", "k rms", "weights kept", "new", "dropped")
    table(columns, rows, ("q rms", "k rms", "weights kept", "dropped", "new"), "layers")
    for warning in found["warnings"]:
        say(f"warning: {warning}")
    for note in found["notes"]:
        say(f"note: {note}")
    stages: list[Values] = [*found["stages"]]
    if summary["epochs"]:
        tuned = f"fine-tuned, epoch {summary['best_epoch']} of {summary['epochs']}"
        stages.append(
            {"stage": tuned if summary["best_epoch"] else "fine-tuning discarded",
             "seconds": summary["epochs"] * summary["seconds_an_epoch"], "val_top1": summary["val_top1"],
             "test_top1": summary["test_top1"]}
        )  # fmt: skip
    said: dict[str, str] = {
        "parent": "as it was",
        "converted": "converted",
        "distilled": "distilled from the old layers",
    }
    rows = [
        (said.get(s["stage"], str(s["stage"])), f"{s['val_top1']:.2f}" if s.get("val_top1") is not None else "",
         f"{s['test_top1']:.2f}",
         f"{s['seconds']:.0f}" if "seconds" in s else "")
        for s in stages
    ]  # fmt: skip
    table(("model", "validation %", "test top-1 %", "seconds"), rows, name="stages")
    if summary["epochs"] and not summary["best_epoch"]:
        epochs = "the epoch" if summary["epochs"] == 1 else f"none of {summary['epochs']} epochs"
        did = "did not validate" if summary["epochs"] == 1 else "validated"
        say(
            f"Fine-tuning was discarded: {epochs} {did} better than the model before it, which is kept; a smaller"
            " --train.lr may help."
        )
