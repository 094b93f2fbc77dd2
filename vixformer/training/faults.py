"""Where a number that is not finite first appeared."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


class NotFiniteError(ValueError):
    """A loss of NaN or infinity, and where it came from."""


@torch.no_grad()
def first_not_finite(model: nn.Module, images: Tensor) -> str:
    """The first module, in the order of computation, that makes NaN or infinity of finite input; or which weights are
    not finite."""
    for name, p in model.named_parameters():
        if not p.isfinite().all():
            return f"the weight {name}"
    if not images.isfinite().all():
        return "the images"
    found: list[str] = []

    def look(name: str) -> Callable[[nn.Module, object, object], None]:
        def hook(module: nn.Module, args: object, out: object) -> None:
            if isinstance(out, Tensor) and not found and not out.isfinite().all():
                found.append(f"{name} ({type(module).__name__})")

        return hook

    hooks = [m.register_forward_hook(look(name)) for name, m in model.named_modules() if name]
    try:
        model(images)
    finally:
        for hook in hooks:
            hook.remove()
    return f"the layer {found[0]}" if found else "the loss itself"
