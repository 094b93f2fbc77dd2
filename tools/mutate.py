"""Do tests fail when the code is wrong? Changes one place of the source at a time and runs the tests that pass through
it.

python -m tools.mutate vixformer/results vixformer/ops --tests tests/results tests/ops --count 50 --out mutants.jsonl

Mutants are drawn at random, with a seed. A test that fails, or hangs, kills a mutant; survivors are printed. Rerun the
same command to resume.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
SECONDS = 60.0
"""Tests of one mutant, the fastest first, take no longer than this on the code as it is."""
HANGS = 4
"""Times as long, after which a mutant hangs."""
BROKEN = 70
"""What a process of tests ends with that could not begin."""
OPERATORS: Mapping[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    file: str
    line: int
    start: int
    """Characters from the beginning of the file."""
    end: int
    before: str
    after: str


def mutants(path: Path) -> Iterator[Mutant]:
    """Every place of a file where something small can be wrong. Words that people read, and types, are left as they
    are."""
    text = path.read_text()
    lines = text.split("\n")

    def place(line: int, column: int) -> int:  # ast counts bytes
        return sum(len(before) + 1 for before in lines[: line - 1]) + len(lines[line - 1].encode()[:column].decode())

    for node in _places(ast.parse(text)):
        for other in _wrong(node):
            assert isinstance(node, ast.expr | ast.stmt)
            start, end = place(node.lineno, node.col_offset), place(node.end_lineno or 0, node.end_col_offset or 0)
            after = ast.unparse(other)
            after = f"({after})" if isinstance(other, ast.expr) else after
            yield Mutant(path.relative_to(ROOT).as_posix(), node.lineno, start, end, text[start:end], after)


def _places(tree: ast.AST) -> Iterator[ast.AST]:
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list") or isinstance(
            tree, ast.Raise | ast.Assert | ast.JoinedStr
        ):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not (
                isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            ):
                yield child
                yield from _places(child)


def _wrong(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in OPERATORS:
        yield ast.Compare(node.left, [OPERATORS[type(node.ops[0])]()], node.comparators)  # pyright: ignore
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        yield ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)  # pyright: ignore
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(OPERATORS[type(node.op)](), node.values)  # pyright: ignore
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield ast.IfExp(node.test, node.orelse, node.body)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield ast.Constant(node.value + 1)
    elif isinstance(node, ast.Constant) and isinstance(node.value, float):
        yield ast.Constant(2 * node.value or 1.0)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield ast.Pass()


@dataclass
class Seen:
    """What the tests pass through as the code is."""

    tests: dict[str, dict[int, set[str]]]
    """By file and line; line 0 has every test of the file."""
    seconds: dict[str, float]

    def chosen(self, mutant: Mutant) -> list[str]:
        lines = self.tests.get(mutant.file, {})
        some = lines.get(mutant.line) or lines.get(0, set())  # a line that runs at import matters to all
        chosen, total = list[str](), 0.0
        for test in sorted(some, key=lambda test: self.seconds.get(test, 0.0)):
            total += self.seconds.get(test, 0.0)
            if chosen and total > SECONDS:
                break
            chosen.append(test)
        return chosen


def look(tree: Path, sources: Sequence[Path], tests: Sequence[str]) -> Seen:
    from coverage import CoverageData

    data, report, settings = tree / ".coverage", tree / "junit.xml", tree / "coveragerc"
    files = "\n  ".join(str(tree / path.relative_to(ROOT)) for path in sources)
    settings.write_text(f"[run]\ndata_file = {data}\ndynamic_context = test_function\ninclude =\n  {files}\n")
    measured = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}"]
    command = [*measured, "-m", "pytest", "-q", "-p", "no:xdist", f"--junitxml={report}", *tests]
    done = subprocess.run(command, cwd=tree, env=_environment(tree), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{done.stdout[-2000:]}\nthese tests fail before anything is changed")
    read = CoverageData(str(data))
    read.read()
    found: dict[str, dict[int, set[str]]] = {}
    for file in read.measured_files():
        lines = {line: {_node(c, tree) for c in some if c} for line, some in read.contexts_by_lineno(file).items()}
        found[Path(file).relative_to(tree).as_posix()] = {0: set().union(*lines.values()), **lines}
    seconds: dict[str, float] = {}
    for case in ET.parse(report).iter("testcase"):
        name = _node(f"{case.get('classname')}.{(case.get('name') or '').partition('[')[0]}", tree)
        seconds[name] = seconds.get(name, 0.0) + float(case.get("time") or 0)
    return Seen(found, seconds)


def _node(dotted: str, tree: Path) -> str:
    """tests.ops.test_maps.test_relu -> tests/ops/test_maps.py::test_relu"""
    words = dotted.split(".")
    for i in range(len(words), 0, -1):
        if (tree / Path(*words[:i])).with_suffix(".py").exists():
            return "::".join([Path(*words[:i]).with_suffix(".py").as_posix(), *words[i:]])
    return dotted


def _environment(tree: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def killed(mutant: Mutant, tree: Path, seen: Seen) -> bool:
    """In a process that has torch already: importing it takes longer than most tests."""
    target, tests = tree / mutant.file, seen.chosen(mutant)
    if not tests:
        return False
    text = target.read_text()
    target.write_text(text[: mutant.start] + mutant.after + text[mutant.end :])
    try:
        child = os.fork()
        if not child:
            code = BROKEN
            try:
                code = _tested(tree, tests)
            finally:
                os._exit(code)
        until = time.monotonic() + HANGS * (10 + sum(seen.seconds.get(test, 0.0) for test in tests))
        while time.monotonic() < until:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                if code == BROKEN:
                    raise RuntimeError(f"the tests of {mutant} could not be started")
                return code != 0
            time.sleep(0.05)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return True
    finally:
        target.write_text(text)


def _tested(tree: Path, tests: Sequence[str]) -> int:
    import pytest

    os.setsid()
    os.chdir(tree)
    os.environ.update(_environment(tree))
    sys.path[:] = [str(tree), *(place for place in sys.path if Path(place or ".").resolve() != ROOT)]
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    quiet = ["-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "no:xdist", "-p", "no:cacheprovider"]
    return int(pytest.main(["-x", "-q", *quiet, *tests]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sources", nargs="+", type=Path, help="files or folders of the product")
    parser.add_argument("--tests", nargs="+", default=["tests"], help="tests that may kill them")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    options = parser.parse_args()
    sources = sorted(
        {file.resolve() for path in options.sources for file in (path.rglob("*.py") if path.is_dir() else [path])}
    )
    every = [mutant for file in sources for mutant in mutants(file)]
    drawn = random.Random(options.seed).sample(every, min(options.count, len(every)))
    known = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    done = {json.dumps(result["mutant"], sort_keys=True): result["killed"] for result in known}
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name)
        for file in subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")[:-1]:
            (tree / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, tree / file)
        seen = look(tree, sources, options.tests)
        compileall.compile_dir(tree, quiet=2)
        for cached in (
            path
            for file in sources
            for path in (tree / file.relative_to(ROOT)).parent.glob(f"__pycache__/{file.stem}.*")
        ):
            cached.unlink()  # a changed source of the same size and second would not be compiled
        import hypothesis  # noqa: F401
        import torch

        torch.set_num_threads(1)
        sys.dont_write_bytecode = True
        with options.out.open("a") as out:
            for i, mutant in enumerate(drawn, 1):
                key = json.dumps(asdict(mutant), sort_keys=True)
                if key not in done:
                    done[key] = killed(mutant, tree, seen)
                    out.write(json.dumps({"mutant": asdict(mutant), "killed": done[key]}) + "\n")
                    out.flush()
                if not done[key]:
                    print(
                        f"{i}: {mutant.file}:{mutant.line}: {mutant.before!r} -> {mutant.after!r} survives", flush=True
                    )
    dead = sum(done[json.dumps(asdict(mutant), sort_keys=True)] for mutant in drawn)
    print(f"{dead} of {len(drawn)} mutants killed ({dead / len(drawn):.0%})")


if __name__ == "__main__":
    main()
