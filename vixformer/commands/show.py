"""Print what a model costs, layer by layer, or with --json the recipe to start your own from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vixformer.commands.flags import ModelOrRecipe, set_options
from vixformer.options import Changes, Sections, sections, words
from vixformer.tables import Listed, say, table
from vixformer.terminal import count, megabytes

if TYPE_CHECKING:
    from vixformer.backbones.backbone import BackboneConfig


def _sections(name: str | None) -> Sections:
    from vixformer.backbones.backbone import Backbone

    return {"": [_config(name)] if name is not None else [backbone.Config for backbone in Backbone.members.values()]}


@dataclass(frozen=True, kw_only=True)
class Options(Listed):
    name: ModelOrRecipe = words(
        missing='which model? write "vix show vit --attention softmax"; "vix models" lists them'
    )
    """A model of "vix models", a recipe, a file with a recipe, or the folder of a run or a model."""
    changes: Changes = sections(_sections)


def _config(name: str) -> BackboneConfig:
    """Of a model, or of a recipe's model for its images."""
    from vixformer.models import model_config
    from vixformer.recipes import is_recipe, load_recipe, unknown_recipe

    if is_recipe(name):
        return load_recipe(name).build().config
    if Path(name).is_dir():
        from vixformer.backbones.backbone import from_pretrained

        return from_pretrained(name).config
    if "/" in name:
        raise ValueError(unknown_recipe(name))
    return model_config(name)


def _write(options: Options) -> None:
    """The recipe, with the options that were given for its model."""
    from vixformer.recipes import load_recipe

    recipe = load_recipe(options.name)
    if options.changes:
        given = set_options({"": recipe.model}, options.changes, f"show {options.name}")[""]
        recipe = replace(recipe, model=recipe.model.owner.Config(**{**vars(recipe.model), **given}))
    print(recipe.to_json(), end="")


def run(options: Options) -> None:
    from vixformer.backbones.levit import LeViT
    from vixformer.measure.cost import layer_costs, model_cost
    from vixformer.models import create_model, model_config
    from vixformer.recipes import is_recipe

    if options.json and is_recipe(options.name):
        return _write(options)
    name, config = options.name, _config(options.name)
    if options.changes:
        config = model_config(
            config.owner.name, **{**vars(config), **set_options({"": config}, options.changes, f"show {name}")[""]}
        )
    model = create_model(config.owner.name, **vars(config))
    cost = model_cost(model)
    say(
        f"{name}: {model.attention_expression()}"
        + (f"; between stages: {config.shrink}" if isinstance(config, LeViT.Config) else "")
    )
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
        f"whole model, one image: {count(cost.parameters.all)} parameters ({count(cost.parameters.modules)} in"
        f" modules), {count(cost.multiply_adds)} multiply-adds, {megabytes(cost.bytes_kept)} kept for backward"
    )
