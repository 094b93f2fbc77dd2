"""Print what a model costs, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vixformer.commands.flags import ModelOrRecipe, set_options
from vixformer.options import Changes, sections, words
from vixformer.tables import Shown, say, table
from vixformer.terminal import count, megabytes


def _sections(name: str | None) -> dict[str, list[Any]]:
    from vixformer.backbones.backbone import Backbone

    return {"": [_config(name)] if name is not None else [backbone.Config for backbone in Backbone.members.values()]}


@dataclass(frozen=True, kw_only=True)
class Options(Shown):
    name: ModelOrRecipe = words(missing='which model? write "vix show vit --attention softmax"; "vix models" lists them')
    """A model of "vix models", a recipe, or a recipe's JSON file."""
    changes: Changes = sections(_sections)


def _config(name: str) -> Any:
    """Of a model, or of a recipe's model for its images."""
    from vixformer.models import model_config
    from vixformer.recipes import list_recipes, load_recipe, unknown_recipe

    if name in list_recipes() or name.endswith(".json"):
        built: Any = load_recipe(name).build()
        return built.config
    if "/" in name:
        raise ValueError(unknown_recipe(name))
    return model_config(name)


def run(options: Options) -> None:
    from vixformer.backbones.levit import LeViT
    from vixformer.measure.cost import layer_costs, model_cost
    from vixformer.models import create_model, model_config

    name, config = options.name, _config(options.name)
    if options.changes:
        config = model_config(config.owner.name, **{**vars(config), **set_options({"": config}, options.changes, f"show {name}")[""]})
    model = create_model(config.owner.name, **vars(config))
    cost = model_cost(model)
    say(f"{name}: {model.attention_expression()}" + (f"; between stages: {config.shrink}" if isinstance(config, LeViT.Config) else ""))
    columns = ("layer", "attention", "tokens", "parameters", "multiply-adds", "of the mechanism", "kept for backward")
    table(
        columns,
        [
            (
                str(c.layer),
                c.attention,
                *map(count, (c.tokens, c.parameters, c.multiply_adds, c.core_multiply_adds)),
                megabytes(c.bytes_kept),
            )
            for c in layer_costs(model)
        ],
    )
    say(
        f"whole model, one image: {count(cost.parameters.all)} parameters ({count(cost.parameters.modules)} in modules), "
        f"{count(cost.multiply_adds)} multiply-adds, {megabytes(cost.bytes_kept)} kept for backward"
    )
