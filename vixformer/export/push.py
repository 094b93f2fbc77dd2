"""A model to the Hugging Face hub, with a card from its run: what it is, what it was trained on and how, what it
reaches, with its spread, and what it costs."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from vixformer import hub as reach
from vixformer.backbones.backbone import CONFIG_FILE, WEIGHTS_FILE, read_config
from vixformer.config import Recipe
from vixformer.data.preprocess import PREPROCESSING_FILE, Preprocessing
from vixformer.measure.machine import in_words
from vixformer.results.cells import in_markdown
from vixformer.results.groups import Group, counted, find_runs
from vixformer.results.predictor import model_folder
from vixformer.results.runs import RECIPE, Run, read_run
from vixformer.version import __version__


def push_to_hub(
    folder: str | Path, name: str, private: bool = False, licence: str = "mit", token: str | None = None
) -> str:
    """The model of a run, with a card filled from the run, as `owner/name`; its address. `HF_TOKEN` or `token` says who
    you are."""
    if not reach.is_name(name):
        raise ValueError(f'a model on the hub is called "owner/name", not "{name}"')
    hub, folder = reach.library(), Path(folder)
    model = model_folder(folder)
    with tempfile.TemporaryDirectory() as temporary:
        ready = Path(temporary)
        for file in (CONFIG_FILE, WEIGHTS_FILE, PREPROCESSING_FILE):
            if not (model / file).exists():
                raise ValueError(f"{model / file} is missing, and a model is not shared without it")
            shutil.copy(model / file, ready)
        if (folder / RECIPE).exists():
            run = read_run(folder)
            (ready / RECIPE).write_text(public(run.recipe).to_json(run.name))
        (ready / "README.md").write_text(card(folder, name, licence))
        api = hub.HfApi(token=token)
        try:
            api.create_repo(name, private=private, exist_ok=True)
            api.upload_folder(repo_id=name, folder_path=ready, commit_message="A model, its preprocessing and its card")
        except Exception as error:  # the hub's own, its HTTP client's, the system's
            raise ValueError(f"the hub did not take {name}: {reach.first_line(error)}") from None
    return f"{api.endpoint}/{name}"


def card(folder: Path, name: str, licence: str) -> str:
    """In Markdown, for a run folder or a model folder, of which less is known."""
    model = model_folder(folder)
    prepare = Preprocessing.load(model)
    backbone, config = read_config(model)
    head = {
        "license": licence,
        "library_name": "vixformer",
        "pipeline_tag": "image-classification",
        "tags": ["vision", "attention"],
    }
    lines = ["---", *(f"{key}: {json.dumps(value)}" for key, value in head.items()), "---", "", f"# {name}", ""]
    lines += [
        f"A {backbone} with the attention `{config['attention']}`, made with vixformer {__version__}.",
        "",
        (
            f"It takes images of {prepare.size[0]} x {prepare.size[1]} with {counted(prepare.channels, 'channel')} for"
            f" one of {len(prepare.classes)} classes:"
            f" {in_markdown(', '.join(prepare.classes[:20]))}{' ...' if prepare.classes[20:] else ''}."
        ),
        "",
        "```python",
        "import vixformer as vix",
        "",
        f'model = vix.from_pretrained("{name}")',
        "```",
        "",
        f"or, with classes and preprocessing, `vix predict {name} picture.jpg`.",
    ]
    group = _group(folder)
    return (
        "\n".join(
            [*lines, *(_trained(group, read_run(folder)) if group else ["", "How it was trained was not recorded."])]
        )
        + "\n"
    )


def public(recipe: Recipe) -> Recipe:
    """Without the folders it was trained from."""
    weights = None if recipe.train.weights is None else Path(recipe.train.weights).name
    return replace(recipe, data=replace(recipe.data, root=None), train=replace(recipe.train, weights=weights))


def _group(folder: Path) -> Group | None:
    """The run with those beside it that differ in the seed alone: a number without its spread is half a number."""
    if not (folder / RECIPE).exists() or read_run(folder).summary is None:
        return None
    beside = find_runs([folder.resolve().parent]).groups
    return next(
        (group for group in beside if any(run.folder.name == folder.resolve().name for run in group.runs)), None
    )


def _trained(group: Group, run: Run) -> list[str]:
    recipe, first = run.recipe, run.summary or {}
    train, data = recipe.train, recipe.data
    part = "all" if data.fraction == 1 else f"{data.fraction:.0%}"
    top1, seconds, inference = (
        group.spread("test_top1"),
        group.spread("train_seconds"),
        group.spread("inference_ms_min"),
    )
    runs = (
        f"{top1} % over {len(group.runs)} seeds"
        if len(group.runs) > 1
        else "one run, so nothing is known about its spread"
    )
    lines = [
        "",
        "## Training",
        "",
        (
            f"* Data: {data.shown}, {part} of its training images ({first['train_images']:,} to learn from); a"
            " stratified part of them chose the epoch, and the test images were read once."
        ),
        (
            f"* {counted(first['epochs'], 'epoch')} in batches of {train.batch_size}, {train.optimizer}, rate"
            f" {train.lr:g} ({train.schedule}), weight decay {train.weight_decay:g}, {train.precision}, seed"
            f" {train.seed}."
        ),
        f"* Test top-1: {first['test_top1']:.2f} % ({runs}) on {first['test_images']:,} images.",
        f"* {first['parameters']:,} parameters"
        + (f", {first['multiply_adds']:,} multiply-adds an image." if "multiply_adds" in first else "."),
    ]
    if seconds is not None:
        lines.append(f"* Training took {seconds.mean:.0f} s on {in_words(first['machine'])}.")
    if inference is not None:
        lines.append(f"* Inference: {inference.mean:.1f} ms for {first['inference_batch']} images there.")
    return [*lines, "", "The whole recipe:", "", "```json", public(recipe).to_json().strip(), "```"]
