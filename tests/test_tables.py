"""Tables as wide as a terminal, and for programs."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from vixformer.commands import bench, predict
from vixformer.tables import Shown, for_programs, say, table, tables_as

TITLES = ["model", "attention", "top-1 %", "what it is", "sd"]
ROWS = [
    ["quick/exact", "softmax", "91.5", "all exact, the model that the others are compared with", "0.10"],
    ["quick/relu", "performer(kernel=relu, features=32)", "1,234", "linear", ""],
    ["quick/mix", "performer(kernel=relu, features=32)*2 + softmax", "88", "both", "0.30"],
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(monkeypatch: pytest.MonkeyPatch, width: int, shown: Shown | None = None, **options: Any) -> str:
    out = Terminal()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("vixformer.tables._width", lambda: width)
    with tables_as(shown or Shown()):
        table(TITLES, ROWS, **options)
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())


@pytest.mark.parametrize("width", [60, 70, 80, 100, 140])
def test_no_line_is_too_long_and_no_word_is_broken(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    out = printed(monkeypatch, width, drop=("sd", "what it is"))
    assert max(map(len, out.splitlines())) <= width
    words = {word for row in [TITLES, *ROWS] for cell in row for word in cell.split()}
    short = {"exact", "relu", "mix", "performer", "performer*2"}  # without the folder, without options
    shown = {
        word
        for line in out.split("\n\n")[0].splitlines()
        for word in line.split()
        if not re.match(r"─|…|\[\d+\]$", word)
    }
    assert shown <= words | short


def test_what_goes_first_and_what_is_said_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Not shown" not in printed(monkeypatch, 140, drop=("sd", "what it is"))
    out = printed(monkeypatch, 60, drop=("sd", "what it is"))
    assert "Not shown: sd" in out
    assert " sd" not in out.splitlines()[0]
    narrow = printed(monkeypatch, 45, drop=("sd", "what it is"))
    assert "Every name in the column model begins with quick/" in narrow.replace("\n", " ")
    assert "performer [1]" in narrow
    assert "[2] performer(kernel=relu, features=32)*2 + softmax" in narrow.replace("\n", " ").replace("  ", " ")


def test_columns_by_their_first_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    out = printed(monkeypatch, 60, Shown(columns=("top", "Model")))
    assert out.splitlines()[0].split() == ["top-1", "%", "model"]
    assert "quick/exact" in out


def test_a_column_that_is_not_there_loses_no_result(capsys: pytest.CaptureFixture[str]) -> None:
    def shown() -> None:
        with tables_as(Shown(columns=("mdel",))):
            table(TITLES, ROWS)
            say("said")

    with pytest.raises(
        ValueError, match="--columns: mdel is no column; choose from model, attention, top-1, what-it-is, sd"
    ):
        shown()
    assert "quick/exact" in (out := capsys.readouterr().out)
    assert out.endswith("said\n")


def test_wide_and_pipes_are_in_full(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    wide = printed(monkeypatch, 40, Shown(wide=True))
    assert all(cell in wide for row in ROWS for cell in row)
    monkeypatch.undo()
    with tables_as(None):
        table(TITLES, ROWS, drop=("sd",))
    out = capsys.readouterr().out
    assert all(cell in out for cell in ROWS[0])


def test_json_and_csv_are_alone_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    with tables_as(Shown(json=True)):
        assert for_programs()
        table(TITLES, ROWS)
        say("a note")
    out, err = capsys.readouterr()
    assert json.loads(out)[1] == {
        "model": "quick/relu", "attention": "performer(kernel=relu, features=32)", "top-1 %": 1234,
        "what it is": "linear", "sd": None,
    }  # fmt: skip
    assert err == "a note\n"
    with tables_as(Shown(csv=True, columns=("model", "sd"))):
        table(TITLES, ROWS)
    assert capsys.readouterr().out == "model,sd\nquick/exact,0.10\nquick/relu,\nquick/mix,0.30\n"
    with tables_as(predict.Options(model="m", images=("a.png",), json=True)):
        say("a note")
    assert capsys.readouterr() == ("", "a note\n")
    with tables_as(bench.Attention(json=Path("bench.json"))):
        assert not for_programs()


def test_cells_of_a_json_column_have_one_type(capsys: pytest.CaptureFixture[str]) -> None:
    with tables_as(Shown(json=True)):
        table(["a", "b", "c", "d"], [["1", "1", "1", ""], ["2.5", "1 ± 2", "", ""], ["", "", "1,000", ""]])
    rows = json.loads(capsys.readouterr().out)
    columns = {name: [row[name] for row in rows] for name in "abcd"}
    assert columns == {"a": [1.0, 2.5, None], "b": ["1", "1 ± 2", None], "c": [1, None, 1000], "d": [None] * 3}
    assert [type(cell) for cell in columns["a"][:2]] == [float, float]


def test_json_of_a_table_is_printed_even_if_the_command_fails_afterwards(capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> None:
        with tables_as(Shown(json=True)):
            table(TITLES, ROWS)
            raise ValueError("the disk is full")

    with pytest.raises(ValueError, match="the disk is full"):
        fails()
    assert len(json.loads(capsys.readouterr().out)) == len(ROWS)


def test_several_tables_have_names(capsys: pytest.CaptureFixture[str]) -> None:
    with tables_as(Shown(json=True)):
        table(TITLES, ROWS[:1], name="first")
        table(TITLES, ROWS, name="second")
    assert {name: len(rows) for name, rows in json.loads(capsys.readouterr().out).items()} == {"first": 1, "second": 3}
