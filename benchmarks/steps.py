"""A whole training step of small models, beside the time that its products of matrices take.

`python -m benchmarks.steps --write docs/speed.md`. A step reads and augments a batch, runs forward and backward and
changes the weights, as `vix train` does. Products are three times the multiply-adds of forward, at the speed of
PyTorch's large matrix product, and of a linear layer here, in the same run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from benchmarks.page import table_command
from vixformer import load_recipe, ops
from vixformer.measure.cost import model_cost
from vixformer.measure.latency import interleaved
from vixformer.training.allocator import keep_freed_memory
from vixformer.training.losses import loss_of
from vixformer.training.optim import make_optimizer
from vixformer.training.parts import load_parts

RECIPES = ("hybrid/mnist/first-relu-64", "quick/exact", "quick/performer-relu", "quick/lens")
SIDE = 1024
LAYER = 4096, 128, 384
CPU = torch.device("cpu")


def step_of(recipe: Any) -> tuple[Callable[[], float], int]:
    """A call that trains for one step, and the multiply-adds of forward for its batch."""
    parts = load_parts(recipe, CPU, None)
    torch.manual_seed(recipe.train.seed)
    model = recipe.build(parts.test.images).train()
    optimizer = make_optimizer(model, recipe.train)
    loss_with = loss_of(recipe.train, parts.train.images.labels, parts.classes, CPU)
    generator = torch.Generator().manual_seed(0)

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            for images, labels in parts.train.batches(parts.train.order(generator), generator, 0):
                if len(labels) == recipe.train.batch_size:
                    yield images, labels

    ready = batches()

    def step() -> float:
        images, labels = next(ready)
        scores = model(images).float()
        loss = loss_with(scores, labels)
        value = loss.item() + float((scores.argmax(1) == labels).sum())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return value

    return step, recipe.train.batch_size * model_cost(model).multiply_adds


def table(seconds: float) -> list[str]:
    keep_freed_memory()
    steps = {name: step_of(load_recipe(name)) for name in RECIPES}
    square, (m, k, n) = torch.randn(SIDE, SIDE), LAYER
    x, weight = torch.randn(m, k), torch.randn(n, k)
    calls: dict[str, Callable[[], Any]] = {name: step for name, (step, _) in steps.items()}
    calls |= {"torch": lambda: square @ square, "ours": lambda: ops.linear(x, weight)}
    timed = {name: timing.min for name, timing in interleaved(calls, seconds).items()}
    speeds = {"torch": SIDE**3 / timed["torch"], "ours": m * k * n / timed["ours"]}
    lines = ["| recipe | step, ms | x products in PyTorch | x products here |", "|---|--:|--:|--:|"]
    for name, (_, macs) in steps.items():
        shares = [f"{timed[name] * speed / (3 * macs):.2f}" for speed in speeds.values()]
        lines.append(f"| `{name}` | {timed[name]:.1f} | {shares[0]} | {shares[1]} |")
    rates = [f"{2 * speed / 1e6:.0f}" for speed in speeds.values()]
    return [*lines, "", f"Products in PyTorch run at {rates[0]} GFLOP/s, here at {rates[1]}."]


if __name__ == "__main__":
    table_command(__doc__, "steps", 20.0, "the least of all, a step with its data", table)
