"""What is written down of a finished run."""

from __future__ import annotations

from vixformer.config import Recipe
from vixformer.jsonfile import Values
from vixformer.measure.accuracy import Scores
from vixformer.training.parts import Parts
from vixformer.training.state import State
from vixformer.version import code_version


def summarize(recipe: Recipe, parts: Parts, state: State, scores: Scores, chosen: Values) -> Values:
    """`scores` are of the test set, `chosen` is the record of the epoch that validation chose."""
    history = state.history
    seconds = sum(r["seconds"] for r in history)
    taught = 0.0 if state.conversion is None else sum(stage.get("seconds", 0.0) for stage in state.conversion["stages"])
    summary: Values = {
        "attention": state.model.attention_expression(),
        "data": recipe.data.name,
        "data_digest": parts.digest,
        "code": code_version(),
        "seed": recipe.train.seed,
        "train_images": len(parts.train.images),
        "test_images": len(parts.test.images),
        "epochs": len(history),
        "best_epoch": chosen["best_epoch"],
        "monitor": recipe.train.monitor if parts.target is None else "val_loss",
        "stopped_early": len(history) < recipe.train.epochs,
        "train_seconds": taught + seconds,
        "seconds_an_epoch": seconds / max(len(history), 1),
        "ms_a_step": 1e3 * seconds / max(state.steps, 1),
        "seconds_in_all": taught + seconds + sum(r["evaluation_seconds"] for r in history),
        **{f"val_{k}": chosen.get(f"val_{k}") for k in scores.measures if k not in scores.several},
        **prefixed("test", scores),
    }
    if parts.target is None:
        summary["per_class"] = scores.per_class(parts.classes)
        if scores.logits is None:
            summary["confusion"] = scores.confusion(len(parts.classes))
    else:
        summary["target"] = recipe.data.target
    if parts.split_off:
        summary["split_off"] = parts.split_off
    if state.conversion is not None:
        summary["conversion"] = state.conversion
    if recipe.train.track_test and history and parts.target is None:
        summary |= {"test_max_top1": max(r["test_top1"] for r in history), "test_last_top1": history[-1]["test_top1"]}
    return summary


def prefixed(part: str, scores: Scores) -> dict[str, float]:
    return {f"{part}_{name}": value for name, value in scores.measures.items()}
