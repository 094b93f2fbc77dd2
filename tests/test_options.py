"""The options of every command, and what is said of wrong ones."""

from __future__ import annotations

import importlib
import re
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, PositiveInt

from vixformer.cli import main
from vixformer.commands import COMMANDS
from vixformer.options import (
    Changes,
    Separated,
    all_options,
    help_of,
    options_of,
    parse,
    sections,
    short,
    takes,
    usage,
    words,
)


@dataclass(frozen=True, kw_only=True)
class Inner:
    rate: float = 0.1
    """The learning rate."""
    measure: bool = True
    sizes: tuple[PositiveInt, ...] | None = None
    weights: bool | tuple[float, ...] = False


@dataclass(frozen=True, kw_only=True)
class Options:
    name: str = words(missing="which one?")
    others: tuple[str, ...] = words(())
    count: Annotated[int, Field(ge=2)] = 3
    """How many
    there are."""
    kind: Literal["a", "b"] = "a"
    out: str = short("-o", "here")
    forms: Separated[Literal["svg", "png"]] = ("svg",)
    quiet: bool = False
    changes: Changes = sections(lambda _: {"in": [Inner]})


def test_words_and_flags_come_in_any_order() -> None:
    expected = Options(name="x", others=("y", "z"), count=5, out="there", quiet=True)
    assert parse(Options, ["--forms", "svg,png", "x", "y"], "try") == Options(
        name="x", others=("y",), forms=("svg", "png")
    )
    for line in (
        "x y z --count 5 -o there --quiet",
        "--quiet x --count=5 y --out there z",
        "--out=there --count 5 x --quiet y z",
    ):
        assert parse(Options, line.split(), "try") == expected


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        ("x --in.rate 2", {"in.rate": ["2"]}),
        ("--in.rate 2 x", {"in.rate": ["2"]}),
        ("x --in.sizes 1 2 3 --quiet", {"in.sizes": ["1", "2", "3"]}),
        ("x --in.no-measure", {"in.measure": ["false"]}),
        ("x --in.weights", {"in.weights": []}),
        ("x --in.no-weights", {"in.weights": ["false"]}),
    ],
)
def test_options_of_a_section_keep_their_words(line: str, changes: dict[str, list[str]]) -> None:
    assert parse(Options, line.split(), "try").changes == changes


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", "which one?"),
        ("x --count 1", "--count must be a whole number of at least 2, not 1"),
        (f"x --count {10**400}", f"--count must be a whole number of at least 2, not {10**400}"),
        ("x --count 3.5", "--count must be a whole number of at least 2, not 3.5"),
        ("x --count", "--count needs a value: a whole number of at least 2"),
        ("x --count --quiet", "--count needs a value: a whole number of at least 2"),
        ("x --count=", "--count needs a value: a whole number of at least 2"),
        ("x --count 3 --count 4", "--count is given twice: give it once"),
        ("x --kind c", "--kind must be a or b, not c"),
        ("x --forms svg,pgn", "--forms must be one or more of svg, png, separated by commas, not svg,pgn"),
        ("x --quiet=yes", "--quiet takes no value, not yes: write --quiet, or leave it out"),
        ("x --cuont 3", "try has no option --cuont; did you mean --count?"),
        ("x --in.rat 3", "try has no option --in.rat; did you mean --in.rate?"),
        ("x --rate 3", "try has no option --rate; did you mean --in.rate?"),
        (
            "x --nope 1",
            "try has no option --nope; it takes --count, --kind, --out, --forms, --quiet, and options of the",
        ),
        ("x --", "try has no option --; it takes"),
        ("x --in.measure --in.no-measure", "--in.measure is given twice: give it once"),
    ],
)
def test_what_is_wrong_what_is_accepted_and_what_was_meant(line: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
        parse(Options, line.split(), "try")


def test_help_has_every_option_its_text_its_choices_and_its_default() -> None:
    assert usage(Options, "try") == "vix try NAME [OTHERS...] [OPTIONS]"
    page = help_of(Options, "try", "Try it.", width=100)
    for line in (
        "  --count N                 How many there are. (default: 3)",
        "--kind a|b",
        "  -o --out OUT",
        "--forms svg,png",
        "--in.rate X",
    ):
        assert line in page
    assert "(default: on; --in.no-measure turns it off)" in page
    assert max(map(len, page.splitlines())) <= 100


def kinds_of(word: str) -> dict[str, Any]:
    found = importlib.import_module(f"vixformer.commands.{word}").Options
    return {f"{word} {name}": kind for name, kind in found.items()} if isinstance(found, dict) else {word: found}


KINDS = {command: kind for word in COMMANDS for command, kind in kinds_of(word).items()}


def fails(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main(args)
    out, err = capsys.readouterr()
    assert (stop.value.code, out, err.count("\n")) == (2, "", 1)
    return err


@pytest.mark.parametrize("command", KINDS)
def test_what_is_required_is_asked_for(command: str) -> None:
    """Each in turn, with the others given: a command without one of them ended in a traceback."""
    required = [option for option in options_of(KINDS[command]) if option.default is MISSING]
    for left_out in required:
        given = [option for option in required if option is not left_out and "words" not in option.metadata]
        # of words, a later one cannot be given without those before
        places = [option for option in required if "words" in option.metadata and option is not left_out]
        words = [] if "words" in left_out.metadata else [WORDS.get(place.name, "softmax") for place in places]
        flags = [word for option in given for word in (option.flag, "softmax")]
        with pytest.raises(ValueError, match=r"^which |needs --"):
            parse(KINDS[command], [*words, *flags], command)


@dataclass(frozen=True, kw_only=True)
class Strict:
    rate: float


def test_a_required_flag_without_a_sentence_of_its_own_is_asked_for_too() -> None:
    with pytest.raises(ValueError, match=r"^try needs --rate: a number$"):
        parse(Strict, [], "try")
    assert parse(Strict, ["--rate", "2"], "try") == Strict(rate=2.0)


WORDS = {"action": "list", "shell": "bash"}


@pytest.mark.parametrize("command", KINDS)
def test_every_command_refuses_wrong_options(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    typed, own = command.split(), options_of(KINDS[command])
    assert f"{command} has no option --nonsense" in fails(capsys, *typed, "--nonsense", "3")
    for option in own:
        if "words" in option.metadata:
            continue
        once = [option.flag] if option.hint is bool else [option.flag, "1"]
        assert f"{option.flag} is given twice" in fails(capsys, *typed, *once, *once)
        if option.hint is bool:
            assert f"{option.flag} takes no value, not x" in fails(capsys, *typed, f"{option.flag}=x")
            continue
        assert f"{option.flag} needs a value" in fails(capsys, *typed, option.flag)
        assert f"{option.flag} needs a value" in fails(capsys, *typed, f"{option.flag}=")
        # those take any word
        if not (takes(option.hint, str) or takes(option.hint, Path) or option.name in ("models", "columns")):
            places = [WORDS.get(place.name, "softmax") for place in own if "words" in place.metadata]
            assert f"{option.flag} must be" in fails(capsys, *typed, *places, option.flag, "wrong!")


@pytest.mark.parametrize("command", KINDS)
def test_every_option_has_a_text(command: str) -> None:
    assert [option.flag for option in all_options(KINDS[command]) if not option.about] == []
