"""`vix train`, as a person meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import TINY, fails, run
from vixformer.cli import main
from vixformer.commands.flags import left_out


def test_train_and_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = run(capsys, "train", "quick/exact", *TINY, "--out", str(tmp_path))
    assert "test top-1" in out
    (folder,) = tmp_path.iterdir()
    assert "is finished; the same content is not run twice" in run(
        capsys, "train", "quick/exact", *TINY, "--out", str(tmp_path)
    )
    assert "all runs in" in fails(capsys, "train", "--resume", "latest", "--out", str(tmp_path))
    (folder / "summary.json").unlink()
    run(capsys, "train", "quick/exact", *TINY[:-2], "--epochs", "1", "--train.seed", "1", "--out", str(tmp_path))
    # the other run is newer, and finished
    resumed = run(capsys, "train", "--resume", "latest", "--out", str(tmp_path))
    assert f"{folder}: test top-1" in resumed
    (folder / "summary.json").unlink()
    assert "test top-1" in run(capsys, "train", "--resume", folder.name[:-3], "--out", str(tmp_path))


def test_patches_that_do_not_divide_the_image_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    main(["train", "quick/exact", *TINY, "--model.patch-size", "5", "--train.no-measure", "--out", str(tmp_path)])
    told = "patches of 5 pixels do not divide 28, so the last 3 rows or columns are not seen; patches of 4 do divide it"
    assert f"vix: {told}\n" in capsys.readouterr().err
    assert left_out(28, 4) == ""
    assert left_out(29, 5).endswith("are not seen")  # a prime


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
        (["train", "quick/exact", "--data.mean", "a"], "--data.mean must be one or more numbers or none, not a"),
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
        (["train", "--resume", "/nowhere", "--epochs", "9"], "leave out --epochs"),
        (["train", "--resume", "/nowhere", "--data", "mnist"], "leave out --data"),
        (["train", "--resume", "/nowhere"], "/nowhere is no run folder"),
        (["train", "quick/exact", "--nonsense"], "--resume, and options of the recipe, such as --data.name"),
        (["train", "quick/exact", "--out"], "--out needs a value"),
        (["train", "quick/exact", "--out", "/proc/nope"], "/proc/nope"),
        (["compare", "nope/*"], 'unknown recipe "nope/*"'),
        (["compare", "quick/exact", "--seeds", "0"], "--seeds must be a whole number of at least 1, not 0"),
        (
            ["compare", "quick/exact", "--against", "exact"],
            'unknown model of this comparison "exact"; did you mean "quick/exact"?',
        ),
        (["compare", "quick/exact", "--folds", "1"], "--folds must be a whole number of at least 2 or none, not 1"),
        (["compare", "quick/exact", "--epochs", "0"], "epochs = 0 leaves the model untrained"),
        (["compare", "quick/exact", "--train.lr", "fast"], "--train.lr must be a number above 0, not fast"),
        (["train", "quick/exact", "--train.loggers", "paper"], "paper"),
        (["runs", "/nowhere"], "/nowhere has no runs"),
        (
            ["search", "quick/exact", "--space", "train.lr=1e-4..1e-2", "--seed", str(2**32)],
            "--seed must be a whole number of at",
        ),
        (
            ["search", "quick/exact", "--space", "train.lr=1..2", "--trials", "1", "--out", __file__],
            "test_train.py is a file, and --out",
        ),
        (["search", "quick/exact"], "which space? add --space"),
        (["runs", "a", "b"], "runs takes FOLDER, but got b as well"),
        (["runs", "--out"], "runs has no option --out"),
        (["predict", "a", ""], "the name of a model or an image is empty"),
        (["recipes", "nope"], 'unknown recipe "nope"'),
        (["recipes", "lens/cifra10/*"], 'did you mean "lens/cifar10/'),
        (["data", "fetch"], "vix: action must be list, get or check, not fetch"),
        (["data", "check", "mnits"], 'did you mean "mnist"'),
        (["data", "list", "mnist"], "takes no name, but got mnist"),
        (["data", "check"], 'write "vix data check FOLDER"'),
        (["predict", "a"], 'which images? write "vix predict runs/RUN picture.jpg"'),
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
