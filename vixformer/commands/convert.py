"""`vix convert`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vixformer.commands.flags import changed, take, whole
from vixformer.terminal import Steps, Watch, say, table

CHOICE = "choice.json"


def convert(args: Sequence[str]) -> None:
    """RUN --attention EXPR [--distill 300] [--finetune 1] [--choose K] [--data NAME] [--out DIR]: other attention for a trained model"""
    from vixformer.results.files import write_json
    from vixformer.results.runs import SUMMARY, data_digest, folder_of, read_run
    from vixformer.training.convert import choose_layers, converted_recipe, differing, name_of, recipe_of
    from vixformer.training.loop import train

    words = list(args)
    names = ("attention", "distill", "finetune", "choose", "data", "out")
    attention, distill, finetune, few, data, out = (take(words, f"--{name}") for name in names)
    if not words or words[0].startswith("-"):
        raise ValueError('which run? write "vix convert runs/NAME --attention nystrom"; "vix runs" lists them')
    if attention is None:
        raise ValueError('to which attention? give --attention, such as "nystrom(landmarks=32)"; "vix attentions" lists them')
    parent, options = Path(words[0]), words[1:]
    steps, epochs = whole(distill or "0", "--distill", least=0), whole(finetune or "0", "--finetune", least=0)
    recipe = recipe_of(parent, data)
    new = converted_recipe(recipe, parent, attention, steps, epochs)  # before anything takes time: it may not be possible
    changed(new, options, f"convert {parent}")
    choice = None
    if few is not None:
        count = whole(few, "--choose")
        if count > (most := differing(parent, attention)):
            differ = "no layer differs" if not most else "only 1 layer differs" if most == 1 else f"only {most} layers differ"
            raise ValueError(f"--choose {count}: {differ} from what the model has")
        with Steps() as watch:
            choice = choose_layers(recipe, parent, attention, steps, watch)
        _show_choice(choice, count)
        new = converted_recipe(recipe, parent, choice.curve[count].attention, steps, epochs)
    new = changed(new, options, f"convert {parent}")
    source = new.data.source()
    folder = folder_of(
        Path(out or parent.resolve().parent), name_of(parent, new), new, data_digest(source.read("train"), source.read("test"))
    )
    if (folder / SUMMARY).exists():
        say(f"{folder} is finished; the same content is not run twice")
    else:
        with Watch(folder.name, new, f"vix train --resume {folder}") as bars:
            train(new, folder, resume=True, observer=bars)
    if choice is not None:
        write_json(folder / CHOICE, asdict(choice))
    _show_conversion(read_run(folder).summary or {})
    say(f"The new model is in {folder}; its recipe names {parent} as what it started from.")


def _show_choice(choice: Any, count: int) -> None:
    rows = [
        (str(c.layer), f"{c.error:.0%}", f"{c.top1:+.2f}", f"{c.loss:+.4f}", f"{c.ms:.2f}", f"{c.new_ms:.2f}") for c in choice.costs
    ]  # fmt: skip
    say("One layer converted, the others as they were; top-1 and loss on validation images, milliseconds of its attention:")
    table(("layer", "error", "top-1, points", "loss", "ms before", "ms after"), rows)
    exact = choice.curve[0]
    rows = [
        (str(len(p.layers)), ", ".join(map(str, sorted(p.layers))), f"{p.top1:.2f}", f"{p.ms:.2f}", f"{p.ms / exact.ms:.2f}",
         p.attention + (" (chosen)" if len(p.layers) == count else ""))
        for p in choice.curve
    ]  # fmt: skip
    say("Layer after layer, the cheapest first; milliseconds of the model:")
    table(("converted", "layers", "validation %", "ms", "x before", "attention"), rows)
    if choice.curve[count].ms >= exact.ms:
        say(f"Converting {count} of them wins no time here: with so few tokens exact attention is as fast.")


def _show_conversion(summary: dict[str, Any]) -> None:
    found = summary["conversion"]
    rows = [
        (str(r["layer"]), r["before"], r["after"], f"{r['error']:.0%}", f"{r['q_rms']:.2f}", f"{r['k_rms']:.2f}",
         str(len(r["kept"])), ", ".join(r["new"]) or "none")
        for r in found["layers"] if r["error"] is not None
    ]  # fmt: skip
    table(("layer", "from", "to", "error", "q rms", "k rms", "weights kept", "new"), rows)
    for warning in found["warnings"]:
        say(f"warning: {warning}")
    for note in found["notes"]:
        say(f"note: {note}")
    stages: list[dict[str, Any]] = [*found["stages"]]
    if summary["epochs"]:
        stages.append(
            {"stage": f"fine-tuned, epoch {summary['best_epoch']} of {summary['epochs']}", "seconds": summary["train_seconds"],
             "val_top1": summary["val_top1"], "test_top1": summary["test_top1"]}
        )  # fmt: skip
    said: dict[str, str] = {"parent": "as it was", "converted": "converted", "distilled": "taught by the old layers"}
    rows = [
        (said.get(s["stage"], str(s["stage"])), f"{s['val_top1']:.2f}" if s.get("val_top1") is not None else "", f"{s['test_top1']:.2f}",
         f"{s['seconds']:.0f}" if "seconds" in s else "")
        for s in stages
    ]  # fmt: skip
    table(("model", "validation %", "test top-1 %", "seconds"), rows)
