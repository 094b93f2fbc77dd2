"""Values as people and programs read them. The name of a class, a run or a folder may have any characters."""

from __future__ import annotations

MARKDOWN = {"|": r"\|", "\\": "&#92;", "<": "&lt;", "`": "&#96;"}
LATEX = {
    "\\": r"\textbackslash{}", "±": r"$\pm$", "|": r"\textbar{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}  # fmt: skip


def in_csv(value: object) -> object:
    """Words that a spreadsheet would take for a formula begin with an apostrophe; numbers stay numbers."""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{value}"
    return "" if value is None else value


def in_markdown(text: str) -> str:
    """On one line, and without what begins another cell, code or HTML."""
    return "".join(MARKDOWN.get(letter, letter) for letter in " ".join(text.split()))


def in_latex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in " ".join(text.split()))


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:,.{1 if seconds < 36_000 else 0}f} h"
