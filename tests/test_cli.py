"""The command, as a person meets it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import vixformer
from vixformer.cli import main
from vixformer.commands import COMMANDS, summary
from vixformer.version import __version__


def run(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    main(args)
    return capsys.readouterr().out


def fails(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main(args)
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("vix: ")
    assert err.count("\n") == 1
    return err


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    for args in ([], ["--help"], ["help"]):
        out = run(capsys, *args)
        assert all(f"vix {command}" in out for command in ("models", "attentions", "show", "overview", "runs"))
    assert run(capsys, "--version") == f"vix {__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], command: str) -> None:
    out = run(capsys, command, "--help")
    assert out.startswith(f"vix {command}")
    assert summary(command).split()[0] in out


def test_every_file_of_commands_is_a_command_or_shared() -> None:
    files = {path.stem for path in (Path(vixformer.__file__).parent / "commands").glob("*.py")}
    assert files == {*COMMANDS, "__init__", "flags", "watch"}


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys; from vixformer.cli import main; main(['--help']); main(['predict', '--help']); assert 'torch' not in sys.modules"
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
            [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"], check=True, capture_output=True, text=True
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
    assert run(capsys, "show", "quick/nystrom", "--attention", "softmax") == exact.replace("quick/exact", "quick/nystrom")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["shw"], 'unknown command "shw"; did you mean "show"'),
        (["show"], "which model?"),
        (["show", "lens/cifar10/prsm"], 'unknown recipe "lens/cifar10/prsm"; did you mean "lens/cifar10/prism"?'),
        (["show", "vti"], 'unknown model "vti"; did you mean "vit"'),
        (["show", "vit", "--attention", "performr"], 'unknown attention "performr"; did you mean "performer"'),
        (["show", "vit", "--attention", "performer(features=-3)"], "features must be greater than 0 or auto or none, not -3"),
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
    done = subprocess.run([sys.executable, "-m", "vixformer", "show", "vit", "--attention", "performr"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    line = f"set -o pipefail; {sys.executable} -m vixformer recipes | head -1"
    piped = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert (piped.returncode, piped.stderr) == (0, "")


TINY = ["--data.fraction", "0.02", "--model.embed-dim", "16", "--model.depth", "1", "--model.num-heads", "2", "--train.epochs", "1"]


def test_train_and_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = run(capsys, "train", "quick/exact", *TINY, "--out", str(tmp_path))
    assert "test top-1" in out
    (folder,) = tmp_path.iterdir()
    assert "is finished; the same content is not run twice" in run(capsys, "train", "quick/exact", *TINY, "--out", str(tmp_path))
    (folder / "summary.json").unlink()
    assert "test top-1" in run(capsys, "train", "--resume", str(folder))


def test_compare_prints_and_writes_a_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "has no runs" in fails(capsys, "runs", str(tmp_path))
    flags = [*TINY[:-2], "--train.no-measure", "--epochs", "1", "--folds", "2", "--out", str(tmp_path)]
    out = run(capsys, "compare", "quick/exact", "quick/fourier", *flags)
    assert "mean ± standard deviation over 2 folds, one seed" in out
    page = (tmp_path / "compare.md").read_text()
    assert "| quick/fourier | fourier |" in page
    assert "validation %" in page
    listed = run(capsys, "runs", str(tmp_path))
    assert listed.count("1 of 1") == 4
    assert "done" in listed


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


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["train"], "which recipe?"),
        (["train", "quick/exat"], 'did you mean "quick/exact"'),
        (["train", "quick/exact", "--train.epochs", "0"], "epochs = 0 leaves the model untrained"),
        (["train", "quick/exact", "--train.epoch", "3"], "did you mean --train.epochs?"),
        (["train", "quick/exact", "--seed", "3"], "train has no option --seed; did you mean --train.seed?"),
        (["compare", "quick/exact", "--seed", "3"], "compare has no option --seed; did you mean --seeds?"),
        (["train", "quick/exact", "--out", ""], "--out needs a value"),
        (["train", "quick/exact", "--out", "--train.epochs", "3"], "--out needs a value"),
        (["train", "quick/exact", "--out", "a", "--out=b"], "--out is given twice"),
        (["train", "quick/exact", "--data.mean", "a"], "--data.mean must be several numbers or none, not a"),
        (["train", "quick/exact", "--size", "3"], "did you mean --data.resize?"),
        (
            ["train", "quick/exact", "--train.seed", str(2**32)],
            "--train.seed must be a whole number of at least 0 and below",
        ),
        (["train", "quick/exact", "--model.embed-dim", "10000000000"], "give smaller"),
        (["train", "quick/exact", "--data.val-fraction", "0.0001"], "give --data.val-fraction from 0.01 to 0.99, or 0"),
        (["train", "quick/exact", "--train.batch-size", "99999"], "images to train on: give --train.batch-size 8192"),
        (["train", "quick/exact", "--train.device", "cuda:77"], "train.device cuda:77 cannot be used here: choose cpu"),
        (["train", "--resume", "/nowhere", "--train.epochs", "9"], "leave out --train.epochs"),
        (["train", "--resume", "/nowhere", "--train.batch-size", "9"], "leave out --train.batch-size"),
        (["train", "--resume", "/nowhere"], "/nowhere is no run folder"),
        (["train", "quick/exact", "--out"], "--out needs a value"),
        (["train", "quick/exact", "--out", "/proc/nope"], "/proc/nope"),
        (["compare", "nope/*"], 'unknown recipe "nope/*"'),
        (["compare", "quick/exact", "--seeds", "0"], "--seeds must be a whole number of at least 1, not 0"),
        (["compare", "quick/exact", "--against", "exact"], 'unknown model of this comparison "exact"; did you mean "quick/exact"?'),
        (["compare", "quick/exact", "--folds", "1"], "--folds must be a whole number of at least 2 or none, not 1"),
        (["compare", "quick/exact", "--epochs", "0"], "epochs = 0 leaves the model untrained"),
        (["compare", "quick/exact", "--train.lr", "fast"], "--train.lr must be a number above 0, not fast"),
        (["train", "quick/exact", "--train.loggers", "paper"], "paper"),
        (["runs", "/nowhere"], "/nowhere has no runs"),
        (
            ["search", "quick/exact", "--space", "train.lr=1e-4..1e-2", "--seed", str(2**32)],
            "--seed must be a whole number of at",
        ),
        (["search", "quick/exact", "--space", "train.lr=1..2", "--trials", "1", "--out", __file__], "test_cli.py is a file, and --out"),
        (["runs", "a", "b"], "runs takes FOLDER, but got b as well"),
        (["runs", "--out"], "runs has no option --out"),
        (["predict", "a", ""], "the name of a model or an image is empty"),
        (["recipes", "nope"], 'unknown recipe "nope"'),
        (["recipes", "lens/cifra10/*"], 'did you mean "lens/cifar10/'),
        (["data", "fetch"], "must be list, get or check, not fetch"),
        (["data", "check", "mnits"], 'did you mean "mnist"'),
        (["data", "list", "mnist"], "takes no name, but got mnist"),
        (["data", "check", "fashion-mini", "--rot", "x"], "data has no option --rot; did you mean --root?"),
        (["data", "check", "fashion-mini", "mnits"], 'did you mean "mnist"'),
        (["data", "get", "fashion-mini"], "has no files to get"),
        (["data", "check", "mnist", "--root", "/nowhere"], 'get it with "vix data get mnist"'),
    ],
)
def test_bad_training_input_is_one_sentence(capsys: pytest.CaptureFixture[str], args: list[str], words: str) -> None:
    assert words in fails(capsys, *args)


def test_half_precision_that_is_emulated_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("vixformer.measure.machine.computes_in", lambda precision, device: precision == "float32")
    short = ["--data.fraction", "0.01", "--train.epochs", "1", "--train.no-measure", "--out", str(tmp_path)]
    run(capsys, "train", "quick/exact", *short)
    main(["train", "quick/exact", *short, "--train.precision", "bfloat16"])
    assert "bfloat16 is emulated on this processor" in capsys.readouterr().err
