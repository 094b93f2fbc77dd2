"""Find the attention layers of a model that we did not write: run it once and see which modules ask for attention."""

# B images  H heads  N queries  M keys  K head width

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from vixformer.attention.base import Core, Shape
from vixformer.bridges import interface
from vixformer.bridges.multihead import Multihead
from vixformer.bridges.seam import AsksTorch, Patched, words
from vixformer.bridges.untyped import Foreign
from vixformer.jsonfile import Values
from vixformer.ops import Grid

MOST_FRONT = 16
"""Class and register tokens in front of the grid."""


@dataclass
class Place:
    """A layer with attention, as observed in a run of the model."""

    module: nn.Module
    name: str
    kind: type[Patched]
    shape: Shape
    like: Tensor
    """A tensor with the device and the dtype for the core."""
    keys: int | None
    """Number of keys; None if the layer was not run."""
    why_not: str = ""
    """Why no other mechanism can replace this layer; empty if one can."""

    @property
    def is_self(self) -> bool:
        return self.keys is None or self.keys == self.shape.num_tokens


def find(model: nn.Module, example: Foreign = None) -> list[Place]:
    """The layers with attention, in the order in which they run. Without an example, and if the input of the model is
    unknown: only layers of `nn.MultiheadAttention`."""
    tower = _tower(model)
    if example is None:
        example = example_of(tower)
    watch = _Watch(model)
    if example is None:
        watch.unseen()
        if not watch.places:
            raise ValueError(
                f"{type(model).__name__} has no nn.MultiheadAttention, and vix cannot run it to find other attention,"
                " because the input is unknown: give example=, one batch of its input"
            )
    else:
        with watch.around(tower), looking(tower), torch.no_grad():
            run(tower, example)
    return list(watch.places.values())


def run(model: nn.Module, example: Foreign) -> Foreign:
    """Call the model with a tensor, a tuple of arguments, or a dictionary of named arguments."""
    if isinstance(example, dict):
        return model(**example)
    return model(*example) if isinstance(example, tuple | list) else model(example)


@contextmanager
def looking(model: nn.Module) -> Iterator[None]:
    """In evaluation mode, and as it was before afterwards, module by module."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def _tower(model: Foreign) -> Foreign:
    """The part that sees images, of a model for images and text."""
    tower = getattr(model, "vision_model", None)
    return tower if isinstance(tower, nn.Module) and not _image_size(model) else model


def example_of(model: Foreign) -> Foreign:
    """An image of its size, for models of timm, transformers and ours."""
    model = _tower(model)
    size = _image_size(model)
    if size is None:
        return None
    like = next(model.parameters())
    channels = next((m.in_channels for m in model.modules() if isinstance(m, nn.Conv2d)), 3)
    config = getattr(model, "config", None)
    channels = getattr(config, "num_channels", channels)
    image = torch.zeros(1, channels, *size, device=like.device, dtype=like.dtype)
    return {"pixel_values": image} if hasattr(config, "_attn_implementation") else image


def _image_size(model: Foreign) -> tuple[int, int] | None:
    config = getattr(model, "config", None)
    size = getattr(model, "img_size", None) or getattr(config, "image_size", None)
    if size is None:
        size = getattr(getattr(model, "patch_embed", None), "img_size", None)
    if size is None:
        size = (getattr(model, "default_cfg", None) or {}).get("input_size", (None,))[-2:]
    if isinstance(size, int):
        return (size, size)
    return (size[0], size[1]) if isinstance(size, tuple | list) and len(size) == 2 else None


class _Watch(TorchFunctionMode):
    """While a model runs: which module is running, and which of them asks for attention."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.names = {module: name for name, module in model.named_modules()}
        self.running: list[nn.Module] = []
        self.given: list[tuple[int, ...]] = []
        """The shapes of what the running modules got."""
        self.grids: list[Grid] = []
        self.images = 0
        self.places: dict[nn.Module, Place] = {}
        self.model = model

    @contextmanager
    def around(self, tower: nn.Module) -> Iterator[None]:
        hooks = [
            hook
            for module in tower.modules()
            for hook in (
                module.register_forward_pre_hook(self.enter, with_kwargs=True),
                module.register_forward_hook(self.leave, always_call=True),
            )
        ]
        unfused: list[Foreign] = [m for m in tower.modules() if getattr(m, "fused_attn", True) is False]
        for module in unfused:
            module.fused_attn = True
        try:
            with self, interface.watched(tower, self.asked):
                yield
        finally:
            for hook in hooks:
                hook.remove()
            for module in unfused:
                module.fused_attn = False

    def enter(self, module: nn.Module, args: Foreign, kwargs: Values) -> None:
        given = next((tuple(t.shape) for t in (*args, *kwargs.values()) if isinstance(t, Tensor)), ())
        if not self.running:
            self.images = given[0] if given else 0
        self.running.append(module)
        self.given.append(given)
        if isinstance(module, nn.MultiheadAttention):
            got = dict(zip(("query", "key"), args, strict=False)) | kwargs
            axis = -2 if module.batch_first else 0
            n, m = (got[name].shape[axis] for name in ("query", "key"))
            grid = self.grid_for(n, self.images)
            self.add(module, Multihead, _shape(module, n, grid), module.out_proj.weight, m, _multihead(module, got))

    def leave(self, module: nn.Module, _: Foreign, out: Foreign) -> None:
        self.running.pop()
        self.given.pop()
        if isinstance(module, nn.Conv2d) and isinstance(out, Tensor) and out.dim() == 4:
            self.grids.append((int(out.shape[2]), int(out.shape[3])))

    def __torch_function__(
        self, func: Callable[..., Foreign], types: Foreign, args: Foreign = (), kwargs: Values | None = None
    ) -> Foreign:
        if func is F.scaled_dot_product_attention and self.running:
            asker = self.running[-1]
            if not isinstance(asker, nn.MultiheadAttention | Core):
                self.asked(AsksTorch, asker, **words(*args, **(kwargs or {})))
        return func(*args, **(kwargs or {}))

    def asked(
        self,
        kind: type[Patched],
        module: nn.Module,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        **_: Foreign,
    ) -> None:
        if kind is AsksTorch and getattr(self.places.get(module), "kind", None) is interface.AsksInterface:
            return  # it asked the interface, which asked torch
        b, heads, n, width = q.shape if q.dim() == 4 else (0, 0, q.shape[-2], q.shape[-1])
        grid = self.grid_for(n, self.images if b == self.images else -1)
        shape = Shape(heads * width, heads or 1, width, n, grid, value_dim=v.shape[-1])
        given = self.given[-1]
        across = len(given) == 3 and n * heads == given[2] and width == given[1] != n
        why_not = "attends to channels, not to tokens" if across else _why_not(q, mask, causal)
        self.add(module, kind, shape, q, k.shape[-2], why_not)

    def add(
        self, module: nn.Module, kind: type[Patched], shape: Shape, like: Tensor, keys: int | None, why_not: str = ""
    ) -> None:
        before = self.places.get(module)
        if before is not None and before.shape != shape:
            why_not = why_not or "runs with several numbers of tokens or heads"
        self.places[module] = Place(module, self.names.get(module, ""), kind, shape, like, keys, why_not)

    def grid_for(self, n: int, images: int) -> Grid | None:
        """The last image of at most n places that a convolution made, if the others can be class and register
        tokens."""
        if images < 1:
            return None
        fitting = [grid for grid in self.grids if 0 <= n - grid[0] * grid[1] <= min(MOST_FRONT, n // 2)]
        if fitting:
            return fitting[-1]
        embed: Foreign = getattr(self.model, "patch_embed", None)
        size = getattr(embed, "grid_size", None)
        return tuple(size) if size is not None and 0 <= n - size[0] * size[1] <= MOST_FRONT else None

    def unseen(self) -> None:
        decoders = {
            part for layer in self.names if isinstance(layer, nn.TransformerDecoderLayer) for part in layer.modules()
        }
        for module in self.names:
            if isinstance(module, nn.MultiheadAttention) and module not in decoders:
                shape = _shape(module, None, None)
                self.add(module, Multihead, shape, module.out_proj.weight, None, _multihead(module, {}))


def _shape(module: nn.MultiheadAttention, n: int | None, grid: Grid | None) -> Shape:
    return Shape(module.embed_dim, module.num_heads, module.head_dim, n, grid)


def _why_not(q: Tensor, mask: Tensor | None, causal: bool) -> str:
    if q.dim() != 4:
        return f"asks for attention with {q.dim()} axes, not (batch, heads, tokens, width)"
    if causal:
        return "is causal: no token sees those after it"
    if mask is not None:
        return (
            "adds a bias to the scores of its attention, such as relative positions, and other mechanisms have no"
            " scores to add it to"
            if mask.is_floating_point()
            else "hides different tokens from each other with a mask"
        )
    return ""


def _multihead(module: nn.MultiheadAttention, got: Values) -> str:
    if got.get("attn_mask") is not None or got.get("is_causal"):
        return "takes a mask of pairs of tokens (attn_mask)"
    if module.bias_k is not None or module.add_zero_attn:
        return "adds keys of its own (add_bias_kv or add_zero_attn)"
    return ""
