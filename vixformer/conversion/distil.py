"""Teach the layers of a converted model what the layers they replace do: images without labels, the old model as teacher, a few minutes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from vixformer.attention.projection import Attention
from vixformer.backbones.base import Backbone


def distil(
    student: Any,
    teacher: Backbone,
    batches: Iterable[Tensor],
    *,
    steps: int = 300,
    lr: float = 1e-3,
    maps: float = 0.0,
    watch: Callable[[int, float], None] | None = None,
) -> list[float]:
    """Train the attention of the layers that differ, in place; returns the mean relative error of their outputs after every step.

    Every layer gets the tokens that it gets in the teacher, so that all of them learn at once and errors do not add up. `maps` weighs the
    difference of the attention maps beside that of the outputs: quadratic, for small N.
    """
    pairs = [(i, new) for i, (new, old) in enumerate(zip(student.attentions(), teacher.attentions(), strict=True)) if _differ(new, old)]
    parameters = [p for _, module in pairs for p in module.parameters()]
    if not parameters:
        return []
    optimizer = torch.optim.AdamW(parameters, lr=lr, weight_decay=0.0)
    training = student.training
    student.eval()  # batch norms and dropout as they are in use
    errors: list[float] = []
    try:
        for step, images in zip(range(steps), batches, strict=False):
            for group in optimizer.param_groups:
                group["lr"] = lr * (1 - step / steps)
            seen = teacher.attention_inputs(images)
            relative = [_difference(new, *seen[i], maps) for i, new in pairs]
            loss = torch.stack([output + maps * map_ for output, map_ in relative]).sum()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            errors.append(sum(float(output.detach().sqrt()) for output, _ in relative) / len(relative))
            if watch is not None:
                watch(step, errors[-1])
    finally:
        student.train(training)
        optimizer.zero_grad(set_to_none=True)
    return errors


def _differ(new: Any, old: Any) -> bool:
    return isinstance(new, Attention) and isinstance(old, Attention) and new.core.config != old.core.config


def _difference(new: Attention, old: Any, tokens: Tensor, options: dict[str, Any], maps: float) -> tuple[Tensor, Tensor]:
    """Squared relative error of the output, and of the map where that counts."""
    training = old.training
    with torch.no_grad():
        wanted = old.eval()(tokens, **options)
        picture = old.attention_map(tokens, **options) if maps else None
    old.train(training)
    output = (new(tokens, **options) - wanted).square().mean() / wanted.square().mean().clamp(min=1e-12)
    if picture is None:
        return output, output.new_zeros(())
    return output, (new.attention_map(tokens, **options) - picture).square().mean() / picture.square().mean()
