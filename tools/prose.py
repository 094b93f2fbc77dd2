"""Checks the English of the documentation, help and messages: `python -m tools.prose [PAGES...]`, which `make lint`
runs.

It finds what a machine can find: phrases with a plainer form, long sentences and, by codespell, misspelled and British
words."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
WRITTEN = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md"))]
MADE = sorted(ROOT.glob("docs/results/*.md"))
"""Pages that come from records: only their phrases are checked."""
PROGRAM = sorted(ROOT.glob("vixformer/**/*.py"))
SAYING = ("say", "note", "tell", "stays", "now")
"""Functions whose arguments a person reads, beside errors."""
LONGEST = 35
"""Words in a sentence."""
INSTEAD = {
    r"takes? \w+ for": "classify",
    r"so many": "the number of ...",
    r"such as it is|of one's own": "leave it out",
    r"go(es|ing)? on|went on": "resume, continue",
    r"(is|are|can be) had": "exists, is available",
    r"shall": "must, or the present tense",
    r"manieth": "every n-th",
    r"put away": "unloaded",
    r"can bear": "can be converted",
    r"loops? in C|C loops?": "compiled kernel",
    r"taught|teach(es|ing)?": "train, distill",
    r"what would be right|is not zero": "how to fix it; exits with status 2",
    r"whatever has|what is left out": "name the thing first",
}
"""What the table of the style guide replaces, and what to write."""
SPELLING = ("--builtin", "clear,rare,en-GB_to_en-US", "--ignore-regex", r"`[^`]*`|\]\([^)]*\)|\"[^\"]*\"|<[^>]*>")
"""Of codespell. Titles of documents, in quotation marks, stay as they were printed."""
MARKS = r"^([*#-]+|\d+\.) |\*+"
"""Of list items, headings and bold words."""


def paragraphs(page: str) -> Iterator[tuple[int, str]]:
    """The number of the first line of each paragraph, list item, heading and cell of a table, and its words without
    markup."""

    def blank(found: re.Match[str]) -> str:
        return "\n" * found[0].count("\n")

    page = re.sub(r"^```.*?^```$|<!-- (?!end)[^>]*-->.*?<!-- end -->", blank, page, flags=re.DOTALL | re.MULTILINE)
    page = re.sub(r"(?<=\n\n)(    .*\n)+", blank, page)
    page = re.sub(r"^(<[^>]*>|\|[-:| ]*\|)$", "", page, flags=re.MULTILINE)
    # a capital, so that a sentence may begin with it
    page = re.sub(r"`[^`]*`", lambda found: "Code" + blank(found), page)
    page = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", page)
    start, words = 0, ""
    for number, line in enumerate([*page.splitlines(), ""], 1):
        if not line.strip() or re.match(r"\s*([*#-]+ |\d+\. |\|)", line):
            if words:
                yield start, words
            words = ""
        if line.startswith("|"):
            yield from ((number, cell.strip(" *")) for cell in re.split(r"(?<!\\)\|", line) if cell.strip(" *"))
        elif line.strip():
            start = start if words else number
            words = f"{words} {re.sub(MARKS, '', line.strip())}".strip()


def sentences(words: str) -> list[str]:
    return re.split(r"(?<=[.!?])[)\"]?\s+(?=[^a-z])", words)


def faults(page: str, long: bool = True) -> Iterator[tuple[int, str]]:
    for number, words in paragraphs(page):
        for pattern, better in INSTEAD.items():
            if found := re.search(rf"\b({pattern})\b", words, re.IGNORECASE):
                yield number, f'"{found[0]}": write {better}'
        for sentence in sentences(words) if long else ():
            if (count := len(sentence.split())) > LONGEST:
                yield number, f'{count} words in a sentence, at most {LONGEST}: "{sentence[:60]}..."'


def said(source: str) -> Iterator[tuple[int, str]]:
    """The lines and texts of errors, messages and options' help in a module, with code where a value stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            for field, text in zip(node.body, node.body[1:], strict=False):
                match field, text:
                    case ast.AnnAssign(), ast.Expr(value=ast.Constant(value=str(words), lineno=line)):
                        yield line, words
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name.endswith("Error") or name in SAYING:
                yield from (found for argument in node.args for found in _texts(argument))


def _texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    match node:
        case ast.JoinedStr(values=parts, lineno=line):
            yield line, "".join(str(part.value) if isinstance(part, ast.Constant) else "`value`" for part in parts)
        case ast.Constant(value=str(words), lineno=line):
            yield line, words
        case _:
            for inner in ast.iter_child_nodes(node):
                yield from _texts(inner)


def faults_of_program(modules: Sequence[Path]) -> list[str]:
    texts = [(path, line, " ".join(words.split())) for path in modules for line, words in said(path.read_text())]
    found = [f"{path}:{line}: {fault}" for path, line, words in texts for _, fault in faults(words)]
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "texts"
        page.write_text("".join(f"{words}\n" for *_, words in texts))
        for line in misspelled([page]):
            number, fault = line.removeprefix(f"{page}:").split(": ", 1)
            path, at, _ = texts[int(number) - 1]
            found.append(f"{path}:{at}: {fault}")
    return found


def misspelled(pages: Sequence[Path]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "codespell_lib", *SPELLING, *map(str, pages)], capture_output=True, text=True
    )
    if done.returncode and not done.stdout:
        raise RuntimeError(done.stderr)
    return done.stdout.splitlines()


def main(argv: Sequence[str]) -> None:
    pages = [Path(name) for name in argv] or [*WRITTEN, *MADE]
    found = [
        f"{page}:{number}: {fault}" for page in pages for number, fault in faults(page.read_text(), page not in MADE)
    ]
    found += misspelled([page for page in pages if page not in MADE])
    found += [] if argv else faults_of_program(PROGRAM)
    print(*found, sep="\n", end="\n" * bool(found))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
