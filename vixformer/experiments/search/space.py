"""Spaces: which fields of a recipe vary, and how. From a name, a JSON file, or words such as
`train.lr=1e-4..1e-2:log`."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from vixformer.config import Recipe, recipe_from_dict
from vixformer.jsonfile import Given, parse_json, read_json
from vixformer.registry import unknown

Value = str | int | float | bool | None
TEMPLATE = re.compile(r"\{(\w+)\}")
"""Only this, and not everything that `str.format` does: a space may come from anywhere."""


def _plain(value: object) -> None:
    if isinstance(value, dict | list):
        raise ValueError(f"a value must be a word, a number, true, false or null, not {str(value)[:60]}")


@dataclass(frozen=True)
class Choice:
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("a choice needs at least one value")
        for value in self.values:
            _plain(value)
        object.__setattr__(self, "values", tuple(dict.fromkeys(self.values)))  # a value given twice is one


@dataclass(frozen=True)
class Range:
    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not all(isinstance(end, int | float) and not isinstance(end, bool) for end in (self.low, self.high)):
            raise ValueError(f"a range has two numbers, not {self.low}..{self.high}")
        if not self.low < self.high:
            raise ValueError(f"a range goes up: {self.low}..{self.high} does not")
        if self.log and self.low <= 0:
            raise ValueError(f"a log range starts above 0: {self.low}..{self.high} does not")

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)


@dataclass(frozen=True)
class Space:
    """Fields of a recipe (`train.lr`) and names for their templates, with what they vary over.

    `fixed` are templates and plain values: `{"model.attention": "performer(features={features})"}` takes `features`
    from what varies. `bundles` are names that set several fields at once: `{"optimizer": {"sgd": {"train.optimizer":
    "sgd", "train.schedule": "cosine"}}}`. `layers`, where given, are attentions of which every layer has one: variables
    `layer0`, `layer1`, ...
    """

    varied: Mapping[str, Choice | Range]
    fixed: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    bundles: Mapping[str, Mapping[str, Mapping[str, Value]]] = dataclasses.field(default_factory=dict)
    layers: tuple[str, ...] = ()

    def variables(self, depth: int) -> dict[str, Choice | Range]:
        per_layer = {f"layer{i}": Choice(self.layers) for i in range(depth)} if self.layers else {}
        return {**self.varied, **{name: Choice(tuple(options)) for name, options in self.bundles.items()}, **per_layer}

    def applied(self, recipe: Recipe, found: Mapping[str, Value]) -> Recipe:
        """The recipe with these values; a sentence where they cannot be together."""
        values = recipe.to_dict(whole=True)
        together = {
            name: value
            for bundle, options in self.bundles.items()
            for name, value in options[str(found[bundle])].items()
        }
        for name, value in {**self.fixed, **together, **found}.items():
            if isinstance(value, str):
                value = TEMPLATE.sub(lambda word: str(found[word[1]]), value)
            if "." in name:
                section, _, field = name.partition(".")
                values[section][field] = value
        if self.layers:
            values["model"]["attention"] = " + ".join(
                str(found[f"layer{i}"]) for i in range(len(found)) if f"layer{i}" in found
            )
        return recipe_from_dict(values, "this trial")

    def grid(self, depth: int) -> Iterator[dict[str, Value]]:
        """Every combination; a range has no end of values."""
        variables = self.variables(depth)
        for name, domain in variables.items():
            if isinstance(domain, Range):
                raise ValueError(
                    f"a grid needs a list of values, and {name} is a range: list values, or use --sampler tpe"
                )
        for values in itertools.product(*(d.values for d in variables.values() if isinstance(d, Choice))):
            yield dict(zip(variables, values, strict=True))

    def size(self, depth: int) -> float:
        """How many combinations there are."""
        domains = self.variables(depth).values()
        return math.prod(len(d.values) if isinstance(d, Choice) else math.inf for d in domains)

    def _possible(self, recipe: Recipe) -> None:
        """That something can be tried in every field: values of the wrong kind would be pruned one by one until no
        trial is left."""
        tries: dict[str, list[dict[str, Value]]] = {
            name: [{name: value} for value in domain.values]
            for name, domain in self.varied.items()
            if "." in name and isinstance(domain, Choice)
        }
        tries |= {name: [dict(fields) for fields in options.values()] for name, options in self.bundles.items()}
        for name, options in tries.items():
            reasons = []
            for fields in options:
                values = recipe.to_dict(whole=True)
                for field, value in fields.items():
                    values[field.partition(".")[0]][field.partition(".")[2]] = value
                try:
                    recipe_from_dict(values, "this space")
                except ValueError as error:
                    if not any(isinstance(value, str) and "{" in value for value in fields.values()):
                        reasons.append(str(error))
            if len(reasons) == len(options):
                raise ValueError(f"{name}: none of its values can be: {reasons[0]}")

    def check(self, recipe: Recipe) -> None:
        """That every field exists and every template finds what it names."""
        values = recipe.to_dict(whole=True)
        together = [name for options in self.bundles.values() for fields in options.values() for name in fields]
        for name in together:
            if "." not in name:
                raise ValueError(
                    f'"{name}" is not a field of a recipe: fields that go together are written in full, such as'
                    " train.lr"
                )
        for name in (*self.varied, *self.fixed, *together):
            section, dot, field = name.partition(".")
            if dot and section not in values:
                raise ValueError(f"{name}: {unknown('section', section, values)}")
            if dot and field not in values[section]:
                raise ValueError(f"{name}: {unknown(f'field of {section}', field, values[section])}")
        choices = [value for domain in self.varied.values() if isinstance(domain, Choice) for value in domain.values]
        bundled = [
            value for options in self.bundles.values() for fields in options.values() for value in fields.values()
        ]
        templates = [value for value in (*self.fixed.values(), *choices, *bundled) if isinstance(value, str)]
        wanted = {word for value in templates for word in TEMPLATE.findall(value)}
        names = {name for name in self.varied if "." not in name}
        for word in wanted - names:
            raise ValueError(f"a template names {{{word}}}, which the space has no values for")
        for word in names - wanted:
            raise ValueError(f'"{word}" is not a field of a recipe (such as train.lr) and no template names it')
        self._possible(recipe)


SPACES: dict[str, Callable[[], Space]] = {}


def add_space(name: str, make: Callable[[], Space]) -> None:
    if name in SPACES:
        raise ValueError(f'there are two spaces called "{name}"')
    SPACES[name] = make


def read_space(words: str) -> Space:
    """A name, a JSON file, or assignments parted by `;`."""
    if words in SPACES:
        return SPACES[words]()
    if words.endswith(".json"):
        return _from_file(Path(words))
    if "=" in words:
        return space_from_dict(dict(_assigned(part) for part in words.split(";") if part.strip()))
    raise ValueError(
        f'{unknown("space", words, SPACES)}; or give a JSON file, or "train.lr=1e-4..1e-2:log; train.batch_size=64|128"'
    )


def _from_file(path: Path) -> Space:
    values = read_json(path)
    if not isinstance(values, dict):
        raise ValueError(f'{path} is no space: it should be an object such as {{"train.lr": {{"log": [1e-4, 1e-2]}}}}')
    return space_from_dict(values)


def space_from_dict(values: Given) -> Space:
    """`[a, b]` are choices, `{"range": [low, high]}` and `{"log": [low, high]}` ranges, an object of objects bundles,
    anything else stays as it is; under `layers` stand the attentions that every layer chooses from."""
    varied: dict[str, Choice | Range] = {}
    fixed: dict[str, Value] = {}
    bundles: dict[str, dict[str, dict[str, Value]]] = {}
    layers: tuple[str, ...] = ()
    for name, value in values.items():
        try:
            if name == "layers":
                if not isinstance(value, list | tuple):
                    raise ValueError(f"give a list of attentions, not {value}")
                layers = tuple(str(item) for item in Choice(tuple(value)).values)
            elif isinstance(value, list | tuple):
                varied[name] = Choice(tuple(value))
            elif value == {}:
                raise ValueError('give it a range, such as {"log": [1e-4, 1e-2]}, or options by name')
            elif isinstance(value, dict) and all(isinstance(fields, dict) for fields in value.values()):
                for inner in (inner for fields in value.values() for inner in fields.values()):
                    _plain(inner)
                bundles[name] = value
            elif isinstance(value, dict):
                kind, ends = next(iter(value.items()))
                if len(value) != 1 or kind not in ("range", "log"):
                    raise ValueError(unknown("kind of range", kind, ("range", "log")))
                if not isinstance(ends, list | tuple) or len(ends) != 2:
                    raise ValueError(f"a range has two numbers, not {ends}")
                varied[name] = Range(ends[0], ends[1], kind == "log")
            else:
                fixed[name] = value
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}: {error}") from None
    if not varied and not layers and not bundles:
        raise ValueError("nothing varies in this space: give a list of values or a range to some field")
    return Space(varied, fixed, bundles, layers)


def _assigned(text: str) -> tuple[str, object]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name or not value:
        raise ValueError(f'write NAME=VALUES, such as train.lr=1e-4..1e-2:log, not "{text.strip()}"')
    if found := re.fullmatch(r"(\S+?)\.\.(\S+?)(:log)?", value):
        low, high = (_value(word) for word in found.groups()[:2])
        if not all(isinstance(end, int | float) and not isinstance(end, bool) for end in (low, high)):
            raise ValueError(f"{name}: a range has two numbers, not {value}")
        return name, {"log" if found[3] else "range": [low, high]}
    if name == "layers" or "|" in value:
        return name, [_value(word.strip()) for word in value.split("|")]
    return name, value if "{" in value else [_value(value)]


def _value(word: str) -> Value:
    try:
        return parse_json(word, word)
    except ValueError:
        return word
