"""The lint for English finds what it is there for, and the pages pass it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.prose import LONGEST, MADE, PROGRAM, ROOT, WRITTEN, faults, faults_of_program, main, misspelled, sentences

PLAIN = "# A title\n\nRerun the same command to resume. It trains `quick/exact`, and `vix runs` lists it.\n"
LONG = " ".join(["word"] * (LONGEST + 1))


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ("The same command goes on where it was interrupted.", '"goes on": write resume'),
        ("* What a model takes\n  pictures for.", '"takes pictures for"'),
        ("| column |\n|---|\n| so many trainings |", '"so many"'),
        (f"A sentence. {LONG.capitalize()}.", f"{LONGEST + 1} words in a sentence"),
        (f"| column |\n|---|\n| short |\n| {LONG} |", f"{LONGEST + 1} words in a sentence"),
        ("The weights are normalised.", "normalised ==> normalized"),
        ("It was recieved.", "recieved ==> received"),
    ],
)
def test_a_planted_fault_is_found(planted: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{PLAIN}\n{planted}\n")
    with pytest.raises(SystemExit, match="1"):
        main([str(page)])
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{page}:")
    assert said in line


@pytest.mark.parametrize(
    "fine",
    [
        "",
        f"```\n{LONG} goes on\n```",
        f"The formula:\n\n    {LONG} goes on\n",
        f"<!-- demo -->\n| {LONG} |\n<!-- end -->",
        f"`{LONG}` is code, and [a link](goes-on.md) is a link.",
        " ".join(["One sentence is short."] * LONGEST),
        '"Optimising Colour" is a title.',
    ],
)
def test_what_is_no_fault_passes(fine: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{PLAIN}\n{fine}\n")
    with pytest.raises(SystemExit, match="0"):
        main([str(page)])


def test_sentences_end_where_they_end() -> None:
    assert sentences("It takes 0.5 s. Then it stops (or not). Code is next? Yes.") == [
        "It takes 0.5 s.",
        "Then it stops (or not).",
        "Code is next?",
        "Yes.",
    ]


@pytest.mark.parametrize("page", [*WRITTEN, *MADE], ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_no_fault(page: Path) -> None:
    assert not list(faults(page.read_text(), long=page in WRITTEN))


def test_the_pages_are_spelled_as_americans_do() -> None:
    assert len(WRITTEN) > 20
    assert not misspelled(WRITTEN)


def test_help_and_messages_of_the_program_pass() -> None:
    assert len(PROGRAM) > 150
    assert faults_of_program(PROGRAM) == []


def test_a_planted_fault_in_a_message_is_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('''
class Options:
    rate: float = 0.1
    """So many rates."""


def run(x):
    """It goes on, which only readers of code see."""
    say(f"{x} is normalised")
    raise ValueError(f"the first {x}" if x else f"{x} goes on")
''')
    assert [(fault.split(":")[1], fault.split(": ", 1)[1]) for fault in sorted(faults_of_program([module]))] == [
        ("10", '"goes on": write resume, continue'), ("4", '"So many": write the number of ...'),
        ("9", "normalised ==> normalized"),
    ]  # fmt: skip
