"""Write the options of every command into docs/commands.md, as `vix COMMAND --help` explains them: `python -m
tools.commands`."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from vixformer.commands import summary
from vixformer.options import help_of

PAGE = Path(__file__).parent.parent / "docs" / "commands.md"
WIDTH = 100


def filled(page: str) -> str:
    """Under the heading of each command: what it does, where to read more, and its options without those of a
    recipe."""

    def section(found: re.Match[str]) -> str:
        word, more = found["word"], found["more"]
        return f"### `vix {word}`\n\n{summary(word)}{more}\n\n```text\n{_options(word)}```\n"

    return re.sub(r"### `vix (?P<word>\w+)`\n\n.*?(?P<more> More: .*)\n\n```.*\n(.*\n)*?```\n", section, page)


def _options(word: str) -> str:
    kinds = importlib.import_module(f"vixformer.commands.{word}").Options
    kinds = {f"{word} {name}": kind for name, kind in kinds.items()} if isinstance(kinds, dict) else {word: kinds}
    pages = []
    for command, kind in kinds.items():
        usage, _, rest = help_of(kind, command, "ABOUT", width=WIDTH).partition("\n\nABOUT\n")
        pages.append(
            f"{usage}\n{rest.partition('Options of the recipe')[0].partition('Every command')[0]}".rstrip() + "\n"
        )
    return "\n".join(pages)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
