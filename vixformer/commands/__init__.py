"""One file a command: `Options`, a dataclass that says what it takes, and `run`. The first line of the file says what
it does."""

from __future__ import annotations

from pathlib import Path

GROUPS = {
    "Train and compare": ("compare", "train", "finetune", "search", "convert", "reproduce"),
    "Choose and measure": ("advise", "bench", "overview", "show"),
    "Look at results": ("report", "serve", "runs", "power"),
    "Use a trained model": ("predict", "export"),
    "Look up names": ("recipes", "data", "models", "attentions"),
    "This program": ("doctor", "completion"),
}
COMMANDS = [word for words in GROUPS.values() for word in words]
"""A command's file is imported when it is called, so that help comes at once."""


def summary(word: str) -> str:
    """The first line of its file, which is read without an import."""
    with (Path(__file__).parent / f"{word}.py").open(encoding="utf-8") as file:
        return file.readline().strip().strip('"')
