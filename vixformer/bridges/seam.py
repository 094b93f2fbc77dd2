"""An attention layer of somebody else's model with a core of ours: its weights, names and `forward` stay."""

# B images  H heads  N tokens  K head width

from __future__ import annotations

import functools
from collections.abc import Callable
from inspect import signature

import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from vixformer.attention.base import Core, Shape
from vixformer.attention.layout import Layer
from vixformer.bridges.attend import attend
from vixformer.bridges.untyped import Foreign
from vixformer.jsonfile import Values
from vixformer.ops import Grid


class Patched(nn.Module):
    """Stands in front of the class of a module, which keeps everything else (see `join`)."""

    core: Core
    keeps_grid = True

    def grid_of(self, options: Values) -> Grid | None:
        return self.core.shape.grid

    def asked(self, q: Tensor, k: Tensor, v: Tensor, **options: Foreign) -> Tensor:
        """The answer to a call of attention in the module's own `forward`."""
        shape = self.core.shape
        grid = shape.grid if self.core.uses_grid else None
        if grid is not None and k.shape[2] != shape.num_tokens:
            front = (shape.num_tokens or 0) - grid[0] * grid[1]
            raise ValueError(
                f"{self.core.name} was put into a model for a grid of {grid[0]} x {grid[1]} and got"
                f" {k.shape[2] - front} tokens: make the model for that image size, or use a mechanism without a"
                " convolution"
            )
        return attend(self.core, q, k, v, grid=grid, **options)

    def heads(self, *args: Foreign, **options: Foreign) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v as the core gets them."""
        seen: list[tuple[Tensor, Tensor, Tensor]] = []
        hook = self.core.register_forward_pre_hook(lambda _, given: seen.append(given[:3]))
        try:
            self(*args, **options)
        finally:
            hook.remove()
        return seen[0]

    def attention_map(self, *args: Foreign, **options: Foreign) -> Tensor:
        q, k, _ = self.heads(*args, **options)
        return self.core.attention_map(*self.core.looking(q, k, None, self.grid_of(options)), None)

    def __reduce_ex__(
        self, protocol: Foreign
    ) -> Foreign:  # pickle looks classes up by their names, and this one has none
        kind, base = type(self).__bases__
        return _blank, (kind, base), self.__getstate__() if hasattr(self, "__getstate__") else dict(vars(self))


class AsksTorch(Patched):
    """One that calls `torch.nn.functional.scaled_dot_product_attention`."""

    def forward(self, *args: Foreign, **options: Foreign) -> Foreign:
        with _Instead(self):
            return super().forward(*args, **options)


class _Instead(TorchFunctionMode):
    def __init__(self, module: AsksTorch) -> None:
        super().__init__()
        self.module = module

    def __torch_function__(
        self, func: Callable[..., Foreign], types: Foreign, args: Foreign = (), kwargs: Values | None = None
    ) -> Foreign:
        if func is F.scaled_dot_product_attention:
            return self.module.asked(**words(*args, **(kwargs or {})))
        return func(*args, **(kwargs or {}))


def words(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Values:
    """The arguments of `scaled_dot_product_attention`, in ours."""
    return dict(q=query, k=key, v=value, mask=attn_mask, dropout=dropout_p, causal=is_causal, scale=scale)


def join(module: nn.Module, kind: type[Patched], core: Core) -> None:
    """Make a module one whose attention is that of `core`, which becomes its part."""
    if not isinstance(module, Patched):
        module.__class__ = _joined(kind, type(module))
    made: Foreign = module
    if hasattr(made, "fused_attn"):
        made.fused_attn = True  # timm's: whether it calls torch's function
    made.core = core


def core_for(layer: Layer, shape: Shape, like: Tensor) -> Core:
    core = layer.owner(layer, shape).to(like.device, like.dtype if like.is_floating_point() else None)
    assert isinstance(core, Core)
    if core.uses_grid and shape.grid is None:
        raise ValueError(
            f"{core.name} convolves over the image, and these tokens do not lie on a grid that vix knows: use a"
            " mechanism without a convolution, or give example=, one batch of images, if you gave none"
        )
    core.imitate()
    return core


def layers_of(model: nn.Module) -> list[Patched]:
    return [module for module in model.modules() if isinstance(module, Patched)]


def named(module: nn.Module, args: tuple[Foreign, ...]) -> Values:
    """Arguments after the first that its own `forward` got by place, by their names."""
    own = type(module).__bases__[-1] if isinstance(module, Patched) else type(module)
    return dict(zip(list(signature(own.forward).parameters)[2:], args[1:], strict=False))


@functools.cache
def _joined(kind: type[Patched], base: type[nn.Module]) -> type[nn.Module]:
    return type(base.__name__, (kind, base), {"__module__": base.__module__, "__doc__": base.__doc__})


def _blank(kind: type[Patched], base: type[nn.Module]) -> nn.Module:
    made = _joined(kind, base)
    return made.__new__(made)
