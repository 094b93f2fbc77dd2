"""The little language of attention layouts: which mechanism in which layer, as one expression. Parsed with `ast`, never
evaluated.

expression = stage ("|" stage)*                    one pattern a stage of the backbone
stage      = term ("+" term)* | first(term, n=, rest=term) | last(term, n=, rest=term)
term       = word | word(key=value, ...) | term "*" number
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, get_type_hints

from vixformer.attention.base import Mechanism
from vixformer.expressions import is_number, literal, options_of, parsed, written
from vixformer.jsonfile import Values
from vixformer.registry import Configured, checked, unknown

Layer = Mechanism.Config
"""The configuration of one layer: an instance of some mechanism's `Config`."""

HALVES = ("first", "last")
MOST_LAYERS = 1000


@dataclass(frozen=True)
class Pattern:
    """Layers that repeat over the depth."""

    layers: tuple[Layer, ...]

    def expand(self, depth: int) -> list[Layer]:
        if len(self.layers) > depth:
            raise ValueError(
                f'the layout "{self}" names {len(self.layers)} layers and the depth is {depth}: make it shorter or the'
                " model deeper"
            )
        return [self.layers[i % len(self.layers)] for i in range(depth)]

    def __str__(self) -> str:
        runs = [(print_layer(layer), sum(1 for _ in run)) for layer, run in groupby(self.layers)]
        return " + ".join(text if count == 1 else f"{text}*{count}" for text, count in runs)


@dataclass(frozen=True)
class Half:
    """One mechanism in the first or last n layers (half of them, rounded as "Hybrid Transformer Models" does), another
    in the rest."""

    word: str
    layer: Layer
    n: int | None
    rest: Layer

    def expand(self, depth: int) -> list[Layer]:
        # both first() and last() split at floor(depth / 2)
        count = self.n if self.n is not None else depth // 2 if self.word == "first" else depth - depth // 2
        if count > depth:
            raise ValueError(
                f'the layout "{self}" asks for {count} layers and the depth is {depth}: n must be at most {depth}'
            )
        chosen, rest = [self.layer] * count, [self.rest] * (depth - count)
        return chosen + rest if self.word == "first" else rest + chosen

    def __str__(self) -> str:
        rest = print_layer(self.rest)
        options = [
            print_layer(self.layer),
            f"n={self.n}" if self.n is not None else "",
            f"rest={rest}" if rest != "softmax" else "",
        ]
        return f"{self.word}({', '.join(filter(None, options))})"


@dataclass(frozen=True)
class Layout:
    stages: tuple[Pattern | Half, ...]

    def expand(self, *depths: int) -> list[Layer]:
        """One configuration a layer, for a backbone whose stages have these depths. One stage alone is tiled over all
        blocks in order."""
        if len(self.stages) == 1:
            return self.stages[0].expand(sum(depths))
        if len(self.stages) != len(depths):
            have = f"{len(depths)} stage{'s' if len(depths) > 1 else ''}"
            raise ValueError(
                f'the layout "{self}" has {len(self.stages)} stages and the model {have}: give one pattern, or one a'
                " stage"
            )
        return [layer for stage, depth in zip(self.stages, depths, strict=True) for layer in stage.expand(depth)]

    def __str__(self) -> str:
        return " | ".join(map(str, self.stages))


def parse(text: str) -> Layout:
    if not isinstance(text, str) or not text.strip():
        raise ValueError('an attention layout must be text such as "softmax" or "first(performer)"')
    wrong = ValueError(
        f'cannot read the layout "{text[:200]}": write words, options in parentheses, and + * | between them'
    )
    tree = parsed(text)
    if tree is None:
        raise wrong
    try:
        return Layout(tuple(_stage(node) for node in _flatten(tree, ast.BitOr)))
    except RecursionError:
        raise wrong from None


def print_layers(layers: Sequence[Layer]) -> str:
    """The shortest pattern that expands to these layers."""
    layers = tuple(layers)
    for period in range(1, len(layers) + 1):
        if layers == tuple(Pattern(layers[:period]).expand(len(layers))):
            return str(Pattern(layers[:period]))
    return ""


def print_layer(layer: Layer) -> str:
    options = _options(layer)
    return layer.owner.name + (f"({', '.join(f'{key}={value}' for key, value in options.items())})" if options else "")


def is_exact(text: str) -> bool:
    """Whether a layout is exact attention in every layer, which may drop weights in training or compute all of them at
    once."""
    return re.fullmatch(r"softmax(\((drop|naive)=[^,()]*(, naive=[^,()]*)?\))?", text) is not None


# --- reading


def _flatten(node: ast.expr, op: type[ast.operator]) -> list[ast.expr]:
    parts = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, op):
        parts.append(node.right)
        node = node.left
    return [node, *reversed(parts)]


def _stage(node: ast.expr) -> Pattern | Half:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in HALVES:
        return _half(node, node.func.id)
    return Pattern(tuple(layer for term in _flatten(node, ast.Add) for layer in _term(term)))


def _half(node: ast.Call, word: str) -> Half:
    options = {keyword.arg: keyword.value for keyword in node.keywords}
    for key in options:
        if key not in ("n", "rest"):
            raise ValueError(unknown(f"option of {word}(...)", str(key), ("n", "rest")))
    if len(node.args) != 1:
        raise ValueError(f"{word}(...) takes one attention, such as {word}(performer), and the options n and rest")
    count = literal(options["n"], f"{word}: n") if "n" in options else None
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 0):
        raise ValueError(f"{word}: n must be a number of layers, not {count}")
    rest = _layer(options["rest"]) if "rest" in options else Mechanism.member("softmax").Config()
    return Half(word, _layer(node.args[0]), count, rest)


def _term(node: ast.expr) -> list[Layer]:
    first, *factors = _flatten(node, ast.Mult)
    count = 1
    for factor in factors:
        number = literal(factor, "the number after *")
        count = count * number if is_number(number) and isinstance(number, int) and number > 0 else 0
        if not 1 <= count <= MOST_LAYERS:
            raise ValueError(
                f'"*" repeats a layer and must be followed by a number from 1 to {MOST_LAYERS}, not'
                f" {ast.unparse(factor)}"
            )
    return [_layer(first)] * count


def _layer(node: ast.expr) -> Layer:
    if isinstance(node, ast.Name):
        return _configured(node.id, {})
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id in HALVES:
            raise ValueError(f"{node.func.id}(...) stands alone: it cannot be nested, added or repeated")
        return _configured(node.func.id, options_of(node, node.func.id))
    raise ValueError(f'expected an attention such as softmax or performer(features=64), not "{ast.unparse(node)}"')


def _configured(word: str, options: Values) -> Layer:
    if word not in Mechanism.members:
        raise ValueError(unknown("attention", word, (*Mechanism.members, *HALVES)))
    config = Mechanism.members[word].Config
    values = dict(options)
    for field, family in _choices(config).items():
        # A choice such as kernel= is a word, and its options stand beside it in the same parentheses.
        chosen = family.member(str(values[field])).Config if field in values else type(_default(config, field))
        inner = {f.name for f in dataclasses.fields(chosen)}
        known = {f.name for f in dataclasses.fields(config)} | inner
        for key in values:
            if key not in known:
                raise ValueError(unknown(f"option of {word}({field}={chosen.owner.name})", key, known))
        own = {key: values.pop(key) for key in list(values) if key in inner}
        values[field] = checked(chosen, own, word)
    return checked(config, values, word)


# --- writing


def _options(layer: Layer) -> dict[str, str]:
    """Options that are not what they would be anyway, choices first."""
    choices = _choices(type(layer))
    options: dict[str, str] = {}
    for field in choices:
        chosen = getattr(layer, field)
        if type(chosen) is not type(_default(type(layer), field)):
            options[field] = chosen.owner.name
        options |= _options(chosen)
    for field in dataclasses.fields(layer):
        value = getattr(layer, field.name)
        if field.name not in choices and value != _default(type(layer), field.name):
            options[field.name] = written(value)
    return options


def _choices(config: type) -> dict[str, type[Configured]]:
    """Fields that hold the configuration of a member of another family, such as a kernel."""
    return {
        name: vars(hint)["chooses"]
        for name, hint in get_type_hints(config).items()
        if "chooses" in getattr(hint, "__dict__", {})
    }


def _default(config: type, name: str) -> Any:
    field = next(f for f in dataclasses.fields(config) if f.name == name)
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
