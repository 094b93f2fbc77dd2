"""vixformer: vision transformers whose attention can be swapped layer by layer."""

import contextlib
import importlib
import sys
from typing import TYPE_CHECKING, Any

from vixformer.version import __version__

if TYPE_CHECKING:
    from vixformer.attention.base import redraw
    from vixformer.conversion.published import from_timm
    from vixformer.conversion.swap import convert
    from vixformer.conversion.timm import patch, register_timm
    from vixformer.export.push import push_to_hub
    from vixformer.models import create_attention, create_model, from_pretrained, list_attentions, list_models
    from vixformer.recipes import list_recipes, load_recipe
    from vixformer.training.loop import train

# Imported when they are asked for: torch takes a second to import, and "vix --help" does not need it.
_WHERE = {
    "redraw": "attention.base",
    "from_timm": "conversion.published",
    "convert": "conversion.swap",
    "push_to_hub": "export.push",
    **dict.fromkeys(("create_attention", "create_model", "from_pretrained", "list_attentions", "list_models"), "models"),
    **dict.fromkeys(("list_recipes", "load_recipe"), "recipes"),
    **dict.fromkeys(("patch", "register_timm"), "conversion.timm"),
    "train": "training.loop",
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
    "patch",
    "push_to_hub",
    "redraw",
    "register_timm",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(f"vixformer.{_WHERE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


if "timm" in sys.modules:
    with contextlib.suppress(Exception):  # whatever is wrong with timm, this can be imported; register_timm() says what it is
        __getattr__("register_timm")()
