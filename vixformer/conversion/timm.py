"""Our models by the `create_model` of timm."""

from __future__ import annotations

import importlib
from typing import Any

from vixformer.models import create_model, list_models

PREFIX = "vixformer_"


def register_timm() -> list[str]:
    """Make our models known to timm: `timm.create_model("vixformer_vit_tiny", attention="first(performer)")`. Returns
    their names."""
    try:
        register_model = importlib.import_module("timm.models").register_model
        return [register_model(_entry(name)).__name__ for name in list_models()]
    except Exception as error:  # timm imports much, and a broken one raises anything
        raise ValueError(f"timm cannot be imported here: {error}") from None


def _entry(name: str) -> Any:
    def create(pretrained: bool = False, **options: Any) -> Any:
        if pretrained:
            raise ValueError("these models have no pretrained weights in timm: vix.from_pretrained reads ours")
        theirs = ("pretrained_cfg", "pretrained_cfg_overlay", "cache_dir", "scriptable", "exportable", "no_jit")
        given = {key: value for key, value in options.items() if key not in theirs}
        if not given.pop("features_only", False):
            return create_model(name, **given)
        features: Any = importlib.import_module("timm.models._features")
        chosen = {key: given.pop(key) for key in ("out_indices", "output_fmt") if key in given}
        model = create_model(name, **given)
        return features.FeatureGetterNet(model, **{"out_indices": tuple(range(len(model.feature_info))), **chosen})

    create.__name__ = PREFIX + name.replace("-", "_")
    create.__doc__ = f'`create_model("{name}")` of vixformer.'
    return create
