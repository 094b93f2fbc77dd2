"""vixformer: vision transformers whose attention can be swapped layer by layer."""

import contextlib
import importlib
import sys
from typing import TYPE_CHECKING, Any

from vixformer.version import __version__

if TYPE_CHECKING:
    from vixformer.attention.base import redraw
    from vixformer.bridges.function import attention_function
    from vixformer.bridges.interface import register_transformers
    from vixformer.bridges.patch import patch
    from vixformer.bridges.source import load_patched
    from vixformer.conversion.distill import distill
    from vixformer.conversion.own import choose_layers
    from vixformer.conversion.published import from_timm, load_weights
    from vixformer.conversion.swap import convert
    from vixformer.data.preprocess import Preprocessing
    from vixformer.export.push import push_to_hub
    from vixformer.models import (
        create_attention,
        create_model,
        from_pretrained,
        list_attentions,
        list_models,
        register_timm,
    )
    from vixformer.plugins import load_plugin
    from vixformer.recipes import list_recipes, load_recipe
    from vixformer.training.loop import train

# Imported when they are asked for: torch takes a second to import, and "vix --help" does not need it.
_WHERE = {
    "redraw": "attention.base",
    **dict.fromkeys(("from_timm", "load_weights"), "conversion.published"),
    "choose_layers": "conversion.own",
    "convert": "conversion.swap",
    "distill": "conversion.distill",
    "Preprocessing": "data.preprocess",
    "push_to_hub": "export.push",
    **dict.fromkeys(
        ("create_attention", "create_model", "from_pretrained", "list_attentions", "list_models", "register_timm"),
        "models",
    ),
    **dict.fromkeys(("list_recipes", "load_recipe"), "recipes"),
    "attention_function": "bridges.function",
    "load_patched": "bridges.source",
    "patch": "bridges.patch",
    "register_transformers": "bridges.interface",
    "load_plugin": "plugins",
    "train": "training.loop",
}

__all__ = [
    "Preprocessing",
    "__version__",
    "attention_function",
    "choose_layers",
    "convert",
    "create_attention",
    "create_model",
    "distill",
    "from_pretrained",
    "from_timm",
    "list_attentions",
    "list_models",
    "list_recipes",
    "load_patched",
    "load_plugin",
    "load_recipe",
    "load_weights",
    "patch",
    "push_to_hub",
    "redraw",
    "register_timm",
    "register_transformers",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        importlib.import_module("vixformer.plugins").load_installed()
        return getattr(importlib.import_module(f"vixformer.{_WHERE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


for module, register in (("timm", "register_timm"), ("transformers.modeling_utils", "register_transformers")):
    if module in sys.modules:
        # whatever is wrong with them, this can be imported; the functions say what it is
        with contextlib.suppress(Exception):
            __getattr__(register)()
