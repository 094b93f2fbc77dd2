"""Fine-tune a trained model on a folder of your images, with a new classifier for its classes."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from vixformer.commands.flags import (
    Expression,
    ModelFolder,
    Seconds,
    changed,
    finished_run,
    picked,
    recipe_sections,
    tested,
)
from vixformer.options import Changes, Folder, flag_of, sections, words
from vixformer.tables import say, say_next

PROBING = 0.1
MEASURED, LEAST = 120.0, 0.25
"""Seconds of a budget from which on inference time and memory are measured, and the share that training gets at
least."""


@dataclass(frozen=True, kw_only=True)
class Options:
    model: ModelFolder = words(
        missing='which model? write "vix finetune pretrained/cifar10 --data FOLDER"',
        extra="name the folder of your images with --data",
    )
    """Run, folder of a saved model, or name of a model on the Hugging Face Hub."""
    data: Folder | None = None
    """Folder with one folder of images per class, CSV or Parquet file, or folder of shards. Unless it says which images
    test, some are set apart for testing."""
    attention: Expression | None = None
    """Convert the model to this attention first, such as 'first(nystrom)'."""
    budget: Seconds | None = None
    """Time for everything, such as 60s or 10m: as many epochs as fit, up to three times the usual number."""
    out: Folder = Path("runs")
    """Folder for the new run."""
    changes: Changes = sections(recipe_sections)


def run(options: Options) -> None:
    began = time.perf_counter()
    from vixformer.conversion.parent import trained_model
    from vixformer.conversion.run import finetuned_name, finetuned_recipe
    from vixformer.experiments.budget import Prober
    from vixformer.hub import here
    from vixformer.results.groups import counted
    from vixformer.training.group import refuse_torchrun
    from vixformer.training.parts import Reader

    if options.data is None:
        raise ValueError("which images? give --data FOLDER, a folder with one folder of images per class")
    for name in options.changes:
        if name.startswith("model.") or name in (
            "train.weights",
            "train.distill",
            "data.name",
            "data.root",
            "data.gray",
        ):
            raise ValueError(f"leave out {flag_of(name)}: fine-tuning keeps the model, and --data names the images")
    if options.budget is not None:
        refuse_torchrun("--budget")
    place = here(options.model)
    model = trained_model(place)
    recipe = changed(finetuned_recipe(place, model, options.data, options.attention), options.changes, "finetune")
    if recipe.data.resize != model.img_size[0]:  # learned positions are interpolated
        recipe = replace(recipe, model=replace(recipe.model, img_size=None))
    recipe = picked({"": recipe}, options.changes, options.budget)[""]
    read = Reader()
    images, training = read(recipe.data), None
    if options.budget is not None:
        if options.budget < MEASURED and "train.measure" not in options.changes:
            recipe = replace(recipe, train=replace(recipe.train, measure=False))
        probe = Prober(PROBING * options.budget, read)(recipe)
        left = options.budget - (time.perf_counter() - began)
        fits = (epochs for epochs in range(recipe.train.epochs, 0, -1) if probe.seconds(epochs, 1.0) <= left)
        recipe = replace(recipe, train=recipe.train.shortened(next(fits, 1)))
        epochs, each = counted(recipe.train.epochs, "epoch"), probe.seconds(1, 1.0) - probe.seconds(0, 1.0)
        after = probe.seconds(0, 1.0) + probe.val_images * probe.evaluated_image  # of the last epoch, and of the test
        left = options.budget - (time.perf_counter() - began) - after
        training = max(LEAST * options.budget, left)
        if each > training:
            ends = f"training ends after {training:.0f} s, before the epoch is over"
        else:
            ends = "if the machine becomes slower, training ends earlier"
        say(f"Training {epochs}, the most that fits into --budget: an epoch takes about {each:.0f} s; {ends}.")
        if training > left:
            say("Reading the images took most of --budget, but training still gets a quarter of it.")
    found, _ = finished_run(
        recipe,
        finetuned_name(place, options.data, options.attention),
        options.out,
        images,
        given=model,
        seconds=training,
    )
    say(tested(found))
    say_next(f"vix predict {found.folder} IMAGE", f"vix serve {found.folder}", f"vix export {found.folder}")
