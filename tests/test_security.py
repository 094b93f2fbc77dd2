"""What SECURITY.md promises, and that the tests it names are there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from vixformer.attention.layout import parse

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "vixformer").rglob("*.py"))


def calls(path: Path) -> Iterator[str]:
    """What it calls, as it is written there."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def imports(path: Path) -> set[str]:
    tree = ast.walk(ast.parse(path.read_text()))
    found = [name.name for node in tree if isinstance(node, ast.Import) for name in node.names]
    return {*found, *re.findall(r"^\s*from ([\w.]+) import", path.read_text(), re.MULTILINE)}


def test_every_test_it_names_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "SECURITY.md").read_text())
    assert len(named) > 15
    for path, name in named:
        assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE), f"{path}::{name}"


def test_nothing_runs_what_it_reads() -> None:
    unpickling = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "yaml"}
    assert [path.name for path in SOURCES if imports(path) & unpickling] == ["pickles.py"]
    running = {"eval", "exec", "compile", "torch.load", "os.system", "os.popen", "np.load", "numpy.load"}
    assert not [(path.name, call) for path in SOURCES for call in calls(path) if call in running]
    assert not [
        path.name for path in SOURCES if re.search(r"shell\s*=\s*True|trust_remote_code|allow_pickle", path.read_text())
    ]


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "softmax(features=__import__('os'))",
        "(lambda: 1)()",
        "softmax if 1 else fourier",
        "[softmax][0]",
    ],
)
def test_an_expression_is_not_evaluated(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected an attention|must be a number|options of"):
        parse(text)


def test_only_serve_listens() -> None:
    listening = re.compile(r"create_server|\.listen\(|\.bind\(|HTTPServer|start_server|uvicorn\.run")
    assert [str(path.relative_to(ROOT)) for path in SOURCES if listening.search(path.read_text())] == [
        "vixformer/commands/serve.py"
    ]
    from vixformer.commands.serve import LOOPBACK, Options

    assert Options().host in LOOPBACK
