"""vixformer: vision transformers whose attention can be swapped layer by layer."""

import importlib
from typing import TYPE_CHECKING, Any

from vixformer.attention.base import redraw
from vixformer.models import create_attention, create_model, from_pretrained, list_attentions, list_models
from vixformer.version import __version__

if TYPE_CHECKING:
    from vixformer.conversion.published import from_timm
    from vixformer.conversion.swap import convert
    from vixformer.export.hub import push_to_hub
    from vixformer.recipes import list_recipes, load_recipe
    from vixformer.training.loop import train

# What training needs takes a second to import, and a model does not need it.
_LATER = {
    "train": "vixformer.training.loop",
    "load_recipe": "vixformer.recipes",
    "list_recipes": "vixformer.recipes",
    "convert": "vixformer.conversion.swap",
    "from_timm": "vixformer.conversion.published",
    "push_to_hub": "vixformer.export.hub",
}

__all__ = [
    "__version__",
    "convert",
    "create_attention",
    "create_model",
    "from_pretrained",
    "from_timm",
    "list_attentions",
    "list_models",
    "list_recipes",
    "load_recipe",
    "push_to_hub",
    "redraw",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
