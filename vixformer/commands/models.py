"""List the models, with their size for one image."""

from __future__ import annotations

from dataclasses import dataclass

from vixformer.tables import Listed, table
from vixformer.terminal import count


@dataclass(frozen=True, kw_only=True)
class Options(Listed):
    pass


def run(options: Options) -> None:
    import torch

    from vixformer.measure.cost import most_tokens, multiply_adds, one_image, parameters
    from vixformer.models import create_model, list_models

    rows = []
    for name in list_models():
        with torch.device("meta"):  # sizes without weights
            model = create_model(name)
        size, image, found = f"{model.img_size[0]} x {model.img_size[1]}", one_image(model), parameters(model)
        rows.append(
            (name, size, *map(count, (most_tokens(model), found.all, found.modules, multiply_adds(model, image))))
        )
    table(("model", "image", "tokens", "parameters", "in modules", "multiply-adds"), rows, ("in modules", "image"))
