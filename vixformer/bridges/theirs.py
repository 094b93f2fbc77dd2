"""Somebody else's model as one of ours, for everything that converts, distils and chooses."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vixformer.attention.layout import Layer
from vixformer.backbones.backbone import Backbone, BackboneConfig
from vixformer.bridges.find import example_of, looking
from vixformer.bridges.patch import patch, recore
from vixformer.bridges.seam import Patched, layers_of, named
from vixformer.bridges.untyped import Foreign
from vixformer.jsonfile import Values
from vixformer.ops import Grid


@dataclass(frozen=True, kw_only=True)
class TheirConfig(BackboneConfig):
    layers: int = 0
    """Number of layers with attention."""

    @property
    def stage_depths(self) -> tuple[int, ...]:
        return (self.layers,)


class Theirs(Backbone):
    """A patched model: it has layers and scores, and stays what it is inside."""

    name = "model"

    def __init__(self, inner: nn.Module) -> None:
        nn.Module.__init__(self)
        self.inner = inner
        self.config = TheirConfig(layers=len(layers_of(inner)))
        self.training = inner.training
        image = example_of(inner)
        image = image["pixel_values"] if isinstance(image, dict) else image
        if isinstance(image, Tensor) and image.dim() == 4:
            self.in_chans, self.img_size = image.shape[1], (image.shape[2], image.shape[3])
        self.num_classes = getattr(inner, "num_classes", getattr(inner, "num_labels", 0))

    def forward(self, x: Tensor) -> Tensor:
        return scores_of(answer_to(self.inner, x))

    def run(self, x: Tensor) -> Iterator[tuple[Tensor, Grid]]:
        raise NotImplementedError("another library's model does not say what its blocks give")

    def attentions(self) -> Foreign:
        return layers_of(self.inner)

    @torch.no_grad()
    def attention_inputs(self, x: Tensor) -> Foreign:
        seen: list[tuple[Patched, Tensor, Values]] = []

        def note(module: Foreign, args: tuple[Foreign, ...], options: Values, _: Foreign) -> None:
            seen.append((module, args[0], {**named(module, args), **options}))

        hooks = [module.register_forward_hook(note, with_kwargs=True) for module in self.attentions()]
        try:
            with looking(self.inner):
                answer_to(self.inner, x)
        finally:
            for hook in hooks:
                hook.remove()
        order = {module: i for i, module in enumerate(self.attentions())}
        return sorted(seen, key=lambda found: order[found[0]])

    def check_images(self, x: Tensor) -> None:
        if not x.is_floating_point():
            raise ValueError(
                f"images must be floating-point numbers, normalized as the model was trained, not {x.dtype}"
            )

    def with_layers(self, layers: Sequence[Layer]) -> Theirs:
        """A copy with this attention."""
        new = Theirs(copy.deepcopy(self.inner))
        recore(new.inner, layers)
        return new


def theirs(model: nn.Module, example: Foreign = None) -> Foreign:
    """A model of ours itself; another one as `Theirs`. One that is not patched is left alone: a copy that shares all
    its weights has exact attention of ours."""
    if isinstance(model, Backbone):
        return model
    if not layers_of(model):
        same = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
        given = example_of(model)
        few = example[:1] if given is None and isinstance(example, Tensor) else None
        model = patch(copy.deepcopy(model, dict(same)), "softmax", few)
    return Theirs(model)


def answer_to(model: Foreign, images: Tensor) -> Foreign:
    """Models for images and text are asked for the image alone."""
    if hasattr(model, "get_image_features") and hasattr(model, "vision_model"):
        return model.get_image_features(pixel_values=images)
    return model(images)


def scores_of(out: Foreign) -> Tensor:
    """Class scores, or the features of a model without a classifier."""
    if isinstance(out, Tensor):
        return out
    for name in ("logits", "image_embeds", "pooler_output", "last_hidden_state"):
        found = getattr(out, name, None)
        if isinstance(found, Tensor):
            return found if found.dim() == 2 else found.flatten(1, -2).mean(1)
    if isinstance(out, tuple | list) and out and isinstance(out[0], Tensor):
        return out[0]
    raise ValueError(f"the model gives {type(out).__name__}, which has no class scores: wrap it so that it has")
