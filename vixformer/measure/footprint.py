"""Everything a trained model costs, as facts for the summary of a run."""

from __future__ import annotations

import torch
from torch import Tensor

from vixformer.attention.layout import is_exact
from vixformer.backbones.backbone import Backbone
from vixformer.jsonfile import Values
from vixformer.measure.cost import model_cost, parameters, torchsummary_bytes, weight_bytes
from vixformer.measure.latency import interleaved, settled
from vixformer.measure.load import Sample
from vixformer.measure.memory import Job, peak_memory

MEBI = 2**20


def sizes(model: Backbone) -> Values:
    """What needs no run of the model."""
    found = parameters(model)
    return {"parameters": found.all, "parameters_in_modules": found.modules}


def counted(model: Backbone) -> Values:
    """The same on every machine. Multiply-adds and bytes kept are of one image."""
    cost = model_cost(model)
    return {
        "multiply_adds": cost.multiply_adds,
        "kept_bytes": cost.bytes_kept,
        "size_mb": weight_bytes(model) / MEBI,
        "torchsummary_mb": torchsummary_bytes(model) / MEBI,
    }


def timed(model: Backbone, images: Tensor, precision: torch.dtype) -> Values:
    """Inference of one batch, by a model in evaluation mode."""
    kind = images.device.type

    def call() -> None:
        with torch.autocast(kind, dtype=precision, enabled=precision != torch.float32):
            model(images)
        settled(images.device)

    sample = Sample()
    with torch.inference_mode():
        timing = interleaved({"": call}, seconds=0.5, least=10)[""]
    return {
        "inference_batch": len(images),
        "inference_ms_mean": timing.mean,
        "inference_ms_sd": timing.sd,
        "inference_ms_min": timing.min,
        "inference_ms_median": timing.median,
        "inference_calls": timing.count,
        "inference_others": sample.since().others,
    }


def peaks(model: Backbone, batch: int, precision: str, checkpoint: bool = False) -> Values:
    """Of training and inference with a batch, and training's beside that of the twin with exact attention, which is
    100. With `checkpoint`, both use gradient checkpointing."""
    options = {"name": model.name, **vars(model.config)}
    twin = {**options, "attention": "softmax"}
    exact = is_exact(model.attention_expression())
    jobs = [Job(given, batch, precision, checkpoint) for given in ([options] if exact else [options, twin])]
    found = peak_memory(jobs, next(model.parameters()).device.type)
    if found is None:
        return {}
    return {
        "peak_batch": batch,
        "peak_train_mb": found[0].train / MEBI,
        "peak_inference_mb": found[0].inference / MEBI,
        "resource_used": 100 * found[0].train / found[-1].train,
    }
