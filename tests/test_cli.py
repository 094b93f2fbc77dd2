"""The command, as a person meets it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import vixformer
from tests.support.command import fails, run
from vixformer.commands import COMMANDS, summary
from vixformer.version import __version__


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    for args in ([], ["--help"], ["help"]):
        out = run(capsys, *args)
        assert all(f"vix {command}" in out for command in ("models", "attentions", "show", "overview", "runs"))
        assert "vix --version" in out
    for word in ("--version", "-V", "version"):
        assert run(capsys, word) == f"vix {__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], command: str) -> None:
    out = run(capsys, command, "--help")
    assert out.startswith(f"vix {command}")
    assert summary(command).split()[0] in out


def test_every_file_of_commands_is_a_command_or_shared() -> None:
    files = {path.stem for path in (Path(vixformer.__file__).parent / "commands").glob("*.py")}
    assert files == {*COMMANDS, "__init__", "comparison", "flags", "watch"}


def test_help_does_not_wait_for_torch() -> None:
    code = (
        "import sys; from vixformer.cli import main; main(['--help']); main(['predict', '--help']); assert 'torch' not"
        " in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_help_explains_the_options_of_a_recipe_with_its_values(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("train", "compare", "search", "convert"):
        assert "--train.lr X" in run(capsys, command, "--help")
    assert "(default: 0.003)" in run(capsys, "train", "quick/exact", "--help")
    assert "--model.kernel-sizes" not in run(capsys, "train", "quick/exact", "--help")
    assert "--depths" in run(capsys, "show", "levit-128s", "--help")
    assert "Options of the recipe: train" in run(capsys, "compare", "--seeds", "3", "--help")
    assert "--embed-dim" in run(capsys, "show", "--embed-dim", "64", "--help")


def test_a_mistake_is_said_before_torch_is_there() -> None:
    code = """
import sys
from vixformer.cli import main
for words in (["predict"], ["export"], ["report"], ["serve", "--port", "x"], ["predict", "a", "b", "--tpo", "3"]):
    try:
        main(words)
        raise AssertionError(words)
    except SystemExit as stop:
        assert stop.code == 2
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_importing_us_imports_little_but_torch() -> None:
    """Modules, not times, which depend on the machine and on what else it does."""

    def modules(code: str) -> set[str]:
        done = subprocess.run(
            [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"],
            check=True,
            capture_output=True,
            text=True,
        )
        return {name for name in done.stdout.split() if not name.startswith("_")}

    def others(names: set[str]) -> set[str]:
        return {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) - {"vixformer"}

    assert others(modules("import vixformer")) == set()
    more = modules("import vixformer; vixformer.create_model") - modules("import torch")
    assert others(more) <= {
        "annotated_types",
        "pydantic",
        "pydantic_core",
        "safetensors",
        "typing_inspection",
        "typing_extensions",
        "torch",
    }
    assert not [name for name in more if name.startswith(("torch._dynamo", "torch._inductor", "torch.onnx"))]


@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_models(few: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    if few:  # each is traced for its multiply-adds
        monkeypatch.setattr("vixformer.models.list_models", lambda: ["vit-tiny", "levit-128s"])
    out = run(capsys, "models")
    assert "levit-128s" in out
    assert "vit-tiny" in out
    assert "5,717,416" in out
    assert "multiply-adds" in out


def test_attentions(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "attentions")
    for word in ("performer", "nystrom", "landmarks=64", "mixture", "share=headwise", "alpha=1.0", "local_heads=0"):
        assert word in out


def test_descriptions_are_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """They were cut at the end of a line of the source: "half the variance for twice the"."""
    found = json.loads(run(capsys, "attentions", "--json"))
    for row in (*found["attention"], *found["kernel"]):
        assert re.search(r"[.)]$", row["what it is"]), row
        assert "\n" not in row["what it is"]
    assert all(summary(word).endswith((".", '"hybrid/mnist/*".')) for word in COMMANDS)


def test_an_unknown_column_of_a_list_is_said_before_the_list(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vixformer.models.list_models", lambda: ["vit-tiny"])
    for words in (["models"], ["recipes", "quick/*"], ["attentions"], ["data"]):
        assert "--columns: foo is no column; choose from" in fails(capsys, *words, "--columns", "foo")


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "show", "vit", "--attention", "first(performer)", "--depth", "4", "--img-size", "32", "64")
    assert "performer*2 + softmax*2" in out
    assert "129" in out
    assert "kept for backward" in out
    layers = [line for line in out.splitlines() if line.split() and line.split()[0].isdigit()]
    assert len(layers) == 4
    assert "12 x" not in run(capsys, "show", "vit-tiny", "--depth", "1")


def test_show_takes_a_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    exact = run(capsys, "show", "quick/exact")
    assert "72,074 parameters" in exact
    assert run(capsys, "show", "quick/nystrom", "--attention", "softmax") == exact.replace(
        "quick/exact", "quick/nystrom"
    )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["shw"], 'unknown command "shw"; did you mean "show"'),
        (["show"], "which model?"),
        (["show", "lens/cifar10/prsm"], 'unknown recipe "lens/cifar10/prsm"; did you mean "lens/cifar10/prism"?'),
        (["show", "vti"], 'unknown model "vti"; did you mean "vit"'),
        (["show", "vit", "--attention", "performr"], 'unknown attention "performr"; did you mean "performer"'),
        (
            ["show", "vit", "--attention", "performer(features=-3)"],
            "features must be greater than 0 or auto or none, not -3",
        ),
        (["show", "vit", "--num-heads", "5"], "num_heads must divide embed_dim: 5 does not divide 128"),
        (["show", "vit", "--num-heads", "0"], "--num-heads must be a whole number above 0, not 0"),
        (["show", "nothere.json"], "cannot read nothere.json"),
        (["show", "vit", "--depth", "0"], "--depth must be a whole number above 0, not 0"),
        (["show", "vit", "--depth", "many"], "vix: --depth must be a whole number above 0, not many"),
        (["show", "vit", "--mlp-ratio", "big"], "vix: --mlp-ratio must be a number above 0, not big"),
        (["show", "vit", "--atention", "softmax"], "did you mean --attention?"),
        (["show", "vit", "--patch-size", "64"], "smaller than one patch"),
        (["models", "extra"], "models takes no words, but got extra as well"),
        (
            ["show", "vit", "--img-size", "abc"],
            "vix: --img-size must be a whole number above 0 or two whole numbers above 0 or none",
        ),
        (["show", "vit", "--img-size", "1", "2", "3"], "or two whole numbers above 0 or none, not 1 2 3"),
        (["show", "vit", "--head-dim", "x"], "vix: --head-dim must be a whole number above 0 or none, not x"),
        (["show", "vit", "--img-size", "0"], "--img-size must be a whole number above 0 or"),
        (["show", "vit", "--mlp-ratio", "inf"], "--mlp-ratio must be a number above 0, not inf"),
        (["show", "vit", "--head", "x"], "vix: --head must be linear or mlp, not x"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(capsys: pytest.CaptureFixture[str], args: list[str], words: str) -> None:
    assert words in fails(capsys, *args)


def test_as_a_process() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "vixformer", "show", "vit", "--attention", "performr"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    line = f"set -o pipefail; {sys.executable} -m vixformer recipes | head -1"
    piped = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert (piped.returncode, piped.stderr) == (0, "")


def test_recipes_and_data(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    listed = run(capsys, "recipes", "hybrid/mnist/*")
    assert "hybrid/mnist/first-relu-64" in listed
    assert "positions" not in listed
    assert "1 recipe\n" in run(capsys, "recipes", "lens/record")
    listed = run(capsys, "recipes", "lens/record", "lens/parts/*")
    assert "lens/record" in listed
    assert "rope2d" in listed
    assert "lens/parents/exact" in listed
    out = run(capsys, "data", "list", "--root", str(tmp_path))
    assert "fashion-mini" in out
    assert "fashion-mini: 10,000 + 2,000 images, whole" in run(capsys, "data", "check", "fashion-mini")
