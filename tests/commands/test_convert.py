"""`vix convert`, as a person meets it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.command import fails, run
from tests.support.counting import counted
from tests.support.recipes import tiny
from vixformer.cli import main
from vixformer.commands.convert import _won
from vixformer.conversion.choose import Point
from vixformer.measure.latency import Ratio
from vixformer.training.loop import train


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "exact-seed0-0123456789ab"
    train(tiny(attention="softmax", epochs=2, fraction=0.1), folder)
    return folder


@pytest.fixture(autouse=True)
def _timed_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vixformer.conversion.choose.SECONDS_A_LAYER", 0.05)


def test_a_new_run_that_remembers_its_parent(parent: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    args = [
        "convert",
        str(parent),
        "--attention",
        "performer(features=16)",
        "--distill",
        "5",
        "--finetune",
        "1",
        "--out",
        str(tmp_path),
    ]
    out = run(capsys, *args)
    assert all(word in out for word in ("as it was", "converted", "distilled from the old layers", "fine-tun"))
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith("exact-to-performer-features-16-scaling-sqrt-seed0-")
    recipe = json.loads((folder / "recipe.json").read_text())
    assert recipe["model"]["attention"] == "performer(features=16, scaling=sqrt)"
    assert (recipe["train"]["weights"], recipe["train"]["distill"], recipe["train"]["epochs"]) == (str(parent), 5, 1)
    assert recipe["train"]["lr"] == pytest.approx(0.3 * 3e-3)
    before, after = (json.loads((f / "summary.json").read_text())["test_top1"] for f in (parent, folder))
    verdict = f"{abs(after - before):.2f} ± "  # of the very models, on the same test images
    assert verdict in out
    assert (
        "points over 2,000 test images, paired by test image. Models of other seeds may differ otherwise."
        in " ".join(out.split())
    )
    wide = run(capsys, *args, "--margin", "99")
    assert "the same content is not run twice" in wide
    assert verdict in wide
    slower = run(capsys, *args, "--train.lr", "1e-5")
    assert "fine-tun" in slower
    assert {json.loads((f / "recipe.json").read_text())["train"]["lr"] for f in tmp_path.iterdir()} == {
        0.3 * 3e-3,
        1e-5,
    }


def test_choosing_layers(parent: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    args = ("convert", str(parent), "--attention", "hedgehog", "--choose", "1", "--out", str(tmp_path))
    out = run(capsys, *args)
    assert "(chosen)" in out
    (folder,) = (path.parent for path in tmp_path.glob("*/recipe.json"))
    assert "is finished; the same content is not run twice" in run(capsys, *args)  # what was chosen stays
    choice = json.loads((folder / "choice.json").read_text())
    assert [len(p["layers"]) for p in choice["curve"]] == [0, 1, 2]
    assert [choice["curve"][i]["attention"] for i in (0, -1)] == ["softmax", "hedgehog"]
    assert json.loads((folder / "recipe.json").read_text())["model"]["attention"] == choice["curve"][1]["attention"]
    assert all(p["attention"] in out for p in choice["curve"])


def test_layers_are_chosen_without_an_attention_and_taught_once(
    parent: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    main(
        [
            "convert",
            str(parent),
            "--choose",
            "1",
            "--distill",
            "4",
            "--finetune",
            "1",
            "--train.lr",
            "1e-30",
            "--out",
            str(tmp_path),
        ]
    )
    out, err = capsys.readouterr()
    assert "No --attention given: converting to hedgehog, which comes nearest to its parent" in out
    assert "taught 4 steps" not in err  # of the run: all layers were, before they were chosen
    (folder,) = (path.parent for path in tmp_path.glob("*/recipe.json"))
    choice, summary = (json.loads((folder / f"{name}.json").read_text()) for name in ("choice", "summary"))
    taught = next(stage for stage in summary["conversion"]["stages"] if stage["stage"] == "distilled")
    assert taught["val_top1"] == pytest.approx(choice["curve"][1]["top1"])  # the very model that was judged
    assert taught["seconds"] > 0
    assert not (folder / "teaching.safetensors").exists()
    assert summary["best_epoch"] == 0
    assert "Fine-tuning was discarded: the epoch did not validate better than the model before it, which is kept" in out
    assert "epoch 0 of 1" not in out


def test_what_choosing_among_six_layers_costs(tmp_path: Path) -> None:
    """Models built, layers fitted and parts of the data read."""
    recipe = tiny(attention="softmax", epochs=1)
    six = replace(recipe, model=replace(recipe.model, depth=6))  # pyright: ignore[reportCallIssue]
    train(six, tmp_path / "exact-seed0-0123456789ab")
    with counted() as found:
        main(
            [
                "convert",
                str(tmp_path / "exact-seed0-0123456789ab"),
                "--choose",
                "3",
                "--distill",
                "2",
                "--out",
                str(tmp_path / "out"),
            ]
        )
    assert dict(found) == {"models": 3, "layers": 6, "train": 1, "test": 1}


def test_what_is_said_of_the_time_of_the_chosen_layers() -> None:
    def point(ms: float, low: float, high: float) -> Point:
        return Point((0, 1), "hedgehog*2", 0.5, 80.0, ms, Ratio(ms / 0.55, low, high))

    assert _won(point(0.40, 0.70, 0.75), 0.55, 2) == ""
    slow = point(0.60, 1.05, 1.12)
    slower = _won(slow, 0.55, 2)
    assert (
        "the chosen 2 layers converted the model is slower here: 0.55 -> 0.60 ms, 1.09 (1.05 to 1.12) times as long."
        in slower
    )
    assert "takes as long as before, within the measurement error: 1.02 (0.97 to 1.05) times" in _won(
        point(0.56, 0.97, 1.05), 0.55, 1
    )
    earlier = replace(slow, ratio=None)  # as an earlier version kept it
    assert "slower here: 0.55 -> 0.60 ms, 1.09 times" in _won(earlier, 0.55, 1)


def test_a_model_without_a_run(parent: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "say which images it is for, as in --data cifar10" in fails(
        capsys, "convert", str(parent / "best"), "--attention", "hedgehog"
    )
    model = tmp_path / "model"
    shutil.copytree(parent / "best", model)
    kept = json.loads((model / "preprocessing.json").read_text())
    (model / "preprocessing.json").write_text(json.dumps({**kept, "mean": [0.5], "std": [0.1]}))
    args = ("convert", str(model), "--attention", "hedgehog", "--data", "fashion-mini", "--out", str(tmp_path / "out"))
    assert "as it was" in run(capsys, *args)
    (recipe,) = (json.loads(path.read_text()) for path in tmp_path.glob("out/*/recipe.json"))
    assert (recipe["data"]["mean"], recipe["data"]["std"]) == ([0.5], [0.1])  # as the model was trained
    (model / "preprocessing.json").unlink()
    assert "does not say how its images are normalized" in run(capsys, *args)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "which run?"),
        (("RUN",), "to which attention? give --attention"),
        (("RUN", "--attention", "performr"), 'unknown attention "performr"'),
        (("RUN", "--attention", "fourier"), "layer 0 cannot go from softmax to fourier: fourier has no q and k"),
        (
            ("RUN", "--attention", "hedgehog", "--distill", "many"),
            "--distill must be a whole number of at least 0, not many",
        ),
        (("RUN", "--attention", "hedgehog", "--train.lrr", "1"), "--train.lrr"),
        (
            ("RUN", "--attention", "hedgehog", "--choose", "0"),
            "--choose must be a whole number of at least 1 or none, not 0",
        ),
        (
            ("RUN", "--attention", "first(hedgehog, n=1)", "--choose", "2"),
            "--choose 2: only 1 layer differs from what the model has",
        ),
        (("RUN", "--attention", "softmax", "--choose", "1"), "no layer differs from what the model has"),
        (("RUN", "--attention", "hedgehog", "--model.drop-rate", "0.1"), "a conversion changes the attention alone"),
        (("nowhere", "--attention", "hedgehog"), "there is no folder nowhere: give a run or a model's folder"),
        (("quick/exact", "--attention", "hedgehog"), "quick/exact is a recipe: train it first"),
        (("RUNS", "--attention", "hedgehog"), "is a folder of runs: give one of them"),
        (
            ("RUN", "--attention", "hedgehog", "--data.val-fraction", "0"),
            "leave out --data.val-fraction: the images must stay split as in the parent's run",
        ),
        (
            ("RUN", "--attention", "hedgehog", "--data", "fashion-mini", "--data.fraction", "0.5"),
            "leave out --data.fraction: the images must stay split",
        ),
        (("RUN", "--attention", "hedgehog", "--train.epochs=3"), "--finetune says that here: leave out --train.epochs"),
        (
            ("RUN", "--attention", "hedgehog", "--distil", "5"),
            "convert has no option --distil; did you mean --distill?",
        ),
    ],
)
def test_sentences(parent: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...], message: str) -> None:
    before = sorted(parent.parent.iterdir())
    assert message in fails(
        capsys, "convert", *({"RUN": str(parent), "RUNS": str(parent.parent)}.get(a, a) for a in args)
    )
    assert sorted(parent.parent.iterdir()) == before


def test_there_and_back(parent: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run(capsys, "convert", str(parent), "--attention=hedgehog", "--out", str(tmp_path / "there"))
    (there,) = (tmp_path / "there").iterdir()
    out = run(
        capsys, "convert", str(there), "--attention", "softmax", "--finetune", "1", "--out", str(tmp_path / "back")
    )
    assert "fine-tun" in out  # or discarded, if it did not validate better
    (back,) = (tmp_path / "back").iterdir()
    stages = json.loads((back / "summary.json").read_text())["conversion"]["stages"]
    assert stages[1]["test_top1"] == json.loads((parent / "summary.json").read_text())["test_top1"]
    rates = [json.loads((folder / "recipe.json").read_text())["train"]["lr"] for folder in (there, back)]
    assert rates == pytest.approx([0.3 * 3e-3] * 2)


def test_choosing_by_less_data(parent: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    args = ("convert", str(parent / "best"), "--attention", "hedgehog", "--choose", "1", "--out", str(tmp_path))
    args = (*args, "--data", "fashion-mini", "--data.val-fraction", "0")
    assert "layers are chosen on validation images, and this recipe has none" in fails(capsys, *args)
    assert list(tmp_path.iterdir()) == []
