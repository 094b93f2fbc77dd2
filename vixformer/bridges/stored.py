"""Load a patched model of transformers, which its own `save_pretrained` stored."""

from __future__ import annotations

import importlib
from pathlib import Path

from vixformer.bridges.patch import STORED, patch
from vixformer.bridges.untyped import Foreign
from vixformer.jsonfile import read_json

CONFIG_FILE = "config.json"


def load_transformers(place: Path, **options: Foreign) -> Foreign:
    """The model that `save_pretrained` of a patched model wrote, with its attention, in evaluation mode."""
    if not (place / CONFIG_FILE).exists():
        raise ValueError(f"{place} has no {CONFIG_FILE}: give a folder that save_pretrained of a patched model wrote")
    config: Foreign = read_json(place / CONFIG_FILE)
    attention = patched_as(config)
    if attention is None:
        raise ValueError(
            f"{place / CONFIG_FILE} names no attention of vixformer: load that model with from_pretrained of"
            " transformers, and call vix.patch"
        )
    kind: Foreign = class_of(place, config)

    class Patching(kind):
        """Patched as soon as it is built, so that transformers loads the weights of the cores as it does all others."""

        def __init__(self, *args: Foreign, **more: Foreign) -> None:
            super().__init__(*args, **more)
            patch(self, attention)

    # by these, transformers finds the older names of the weights
    Patching.__name__, Patching.__module__ = kind.__name__, kind.__module__
    model: Foreign = Patching.from_pretrained(str(place), **options)
    model.__class__ = kind
    return model.eval()


def patched_as(config: Foreign) -> str | None:
    """The layout that the configuration of a patched model names."""
    said = config.get(STORED) if isinstance(config, dict) else None
    attention = said.get("attention") if isinstance(said, dict) else None
    return attention if isinstance(attention, str) else None


def class_of(place: Path, config: Foreign) -> Foreign:
    """The class that a folder of transformers names."""
    transformers = importlib.import_module("transformers")
    names = config.get("architectures") or []
    if not names:
        raise ValueError(f"{place / CONFIG_FILE} names no class in architectures: save the model with save_pretrained")
    kind = getattr(transformers, names[0], None)
    if kind is None:
        raise ValueError(
            f"{place / CONFIG_FILE} names {names[0]}, which is not in transformers {transformers.__version__}"
        )
    return kind
