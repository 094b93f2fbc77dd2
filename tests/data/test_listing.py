"""A CSV or Parquet file of images, and everything that may be wrong with it."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from PIL import Image

from tests.support.command import TINY, run
from tests.support.datasets import CLASSES, PER_CLASS, TEST_PER_CLASS, write_photos
from vixformer.commands.flags import data_options
from vixformer.data.dataset import open_data
from vixformer.data.listing import kind_of
from vixformer.notes import Note
from vixformer.results.runs import read_run

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    write_photos(tmp_path / "photos")
    return tmp_path / "photos"


def write(photos: Path, titles: Sequence[str] = ("path", "label", "split"), ending: str = ".csv") -> Path:
    files = sorted(photos.glob("*/*/*.png"))
    rows = [(str(f.relative_to(photos)), f.parent.name, f.parent.parent.name)[: len(titles)] for f in files]
    table = photos / f"images{ending}"
    if ending == ".csv":
        with table.open("w", newline="") as file:
            csv.writer(file).writerows([titles, *rows])
    else:
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.table(dict(zip(titles, map(list, zip(*rows, strict=True)), strict=True))), table)
    return table


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_it_is_the_folder_that_it_lists(photos: Path, ending: str) -> None:
    table, folder = (open_data(name, path, (28, 28)).whole() for name, path in (
        ("table", write(photos, ("Image", "class", "subset"), ending)), ("folder", photos)
    ))  # fmt: skip
    assert table.digest == folder.digest
    assert len(table.train) == CLASSES * PER_CLASS
    assert table.split_off == ""


def test_without_a_column_of_parts_some_of_each_class_are_set_apart(photos: Path) -> None:
    whole = open_data("table", write(photos, ("path", "label")), (28, 28)).whole()
    total = CLASSES * (PER_CLASS + TEST_PER_CLASS)
    assert len(whole.train) + len(whole.test) == total
    assert abs(len(whole.test) - 0.2 * total) <= CLASSES
    assert "names no test images" in whole.split_off


def test_numbers_are_classes_in_their_order(photos: Path) -> None:
    files = sorted(photos.glob("train/*/*.png"))[:24]
    table = photos / "numbers.csv"
    table.write_text("file,target\n" + "".join(f"{f.relative_to(photos)},{i % 12}\n" for i, f in enumerate(files)))
    assert open_data("table", table, (8, 8)).read("train").classes == tuple(map(str, range(12)))


def test_a_label_that_only_looks_like_a_number(photos: Path) -> None:
    table = photos / "LABELS.CSV"
    files = sorted(photos.glob("train/*/*.png"))[:6]
    table.write_text("path,label\n" + "".join(f"{f.relative_to(photos)},{i % 3 or '²'}\n" for i, f in enumerate(files)))
    assert kind_of(table) == "table"
    assert open_data("table", table, (8, 8)).read("train").classes == ("1", "2", "²")


def test_images_that_validate_elsewhere_train_here(photos: Path) -> None:
    table = write(photos)
    table.write_text(table.read_text().replace("0.png,class-0,train", "0.png,class-0,val"))
    with pytest.warns(Note, match="whose part is val train too"):
        assert len(open_data("table", table, (8, 8)).read("train")) == CLASSES * PER_CLASS


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name,label\na.png,x\n", "has no column path: it has name, label; call one of them path"),
        ("path,kind\na.png,x\n", "has no column label: it has path, kind"),
        ("path,label\n", "lists no images: it needs a line of titles"),
        ("", "lists no images"),
        ("path,label\nnothere.png,x\n", "line 2: there is no image .*nothere.png"),
        ("path,label\ntrain/class-0/0.png,\n", "line 2, has no label"),
        ("path,label\ntrain/class-0/0.png,;\n", "line 2, has no label"),
        ("path,label\ntrain/class-0/0.png,a,b\n", "line 2, has more columns than the first line has titles"),
        ("path,label\n0.png,a\n1.png,cat, tabby\n", "line 3, has more columns .* put values with commas in quotation"),
        ("path,label\n" + "x" * 200_000, "cannot read .*bad.csv: field larger than field limit"),
        ("path,label,split\ntrain/class-0/0.png,x,trian\n", "line 2: split must be train, test or val, not trian"),
    ],
)
def test_what_is_wrong_is_one_sentence(photos: Path, text: str, says: str) -> None:
    table = photos / "bad.csv"
    table.write_text(text)
    with pytest.raises(ValueError, match=says):
        open_data("table", table, (8, 8)).whole()


def test_parquet_without_pyarrow_and_damaged(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = photos / "images.parquet"
    table.write_bytes(b"PAR1 and nothing else")
    pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match=r"cannot read .*images.parquet"):
        open_data("table", table).whole()
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ValueError, match="Parquet files need pyarrow: pip install pyarrow, or write CSV"):
        open_data("table", table).whole()


def test_a_command_takes_it(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write(photos)
    small = ("--model.embed-dim", "16", "--model.num-heads", "2", "--train.epochs", "1", "--train.no-measure")
    out = run(capsys, "train", "quick/exact", "--data", str(table), *small, "--out", str(tmp_path / "runs"))
    assert "test top-1" in out
    assert TINY
    with pytest.raises(ValueError, match=r"there is no file nothere.csv: --data takes a folder"):
        data_options("nothere.csv")
    assert torch.is_tensor(open_data("table", table, (8, 8)).read("test").pixels)


def test_images_with_several_labels(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Clothes have their class, and shirts are also tops, as pullovers are."""
    table = write(photos)
    lines = table.read_text().replace("class-0", "shirt;top").replace("class-2", "pullover;top")
    table.write_text(lines.replace("shirt;top/", "class-0/").replace("pullover;top/", "class-2/"))
    whole = open_data("table", table, (28, 28)).whole()
    assert whole.train.classes == ("class-1", "pullover", "shirt", "top")
    assert whole.train.labels.sum(0).tolist() == [PER_CLASS, PER_CLASS, PER_CLASS, 2 * PER_CLASS]
    table.write_text(table.read_text().replace(",train", "").replace(",test", "").replace(",split", ""))
    assert len(open_data("table", table, (28, 28)).whole().test) == round(0.2 * 3 * (PER_CLASS + TEST_PER_CLASS))
    small = ("--model.embed-dim", "32", "--model.num-heads", "2", "--train.epochs", "12", "--train.no-measure")
    options = ("--data.resize", "28", "--data.mixup", "0.2", "--train.class-weights", "--train.batch-size", "16")
    out = run(capsys, "train", "quick/exact", "--data", str(table), *small, *options, "--out", str(tmp_path / "runs"))
    assert "test top-1" in out
    (folder,) = (tmp_path / "runs").iterdir()
    summary = read_run(folder).summary
    assert summary is not None
    assert summary["test_map"] > 70
    assert summary["test_f1"] > 60
    assert "confusion" not in summary
    assert set(summary["per_class"]) == {"class-1", "pullover", "shirt", "top", "macro avg", "weighted avg"}
    (line,) = run(capsys, "predict", str(folder), str(photos / "test/class-2/0.png"), "--json").splitlines()
    assert sum(one["probability"] for one in json.loads(line)["top"]) > 1.2  # each has a probability of its own


@pytest.fixture
def bright(tmp_path: Path) -> Path:
    """Images whose number is their brightness."""
    (tmp_path / "bright").mkdir()
    rows = []
    for i in range(72):
        value = 3 * i + 20
        name, part = f"{i}.png", "test" if i % 6 == 0 else "train"
        Image.new("RGB", (8, 8), (value, value, value)).save(tmp_path / "bright" / name)
        rows.append(f"{name},{value / 10},{part}")
    table = tmp_path / "bright" / "images.csv"
    table.write_text("\n".join(["path,light,split", *rows]))
    return table


def test_a_column_of_numbers(bright: Path) -> None:
    whole = open_data("table", bright, (8, 8), target="light").whole()
    assert whole.train.classes == ("light",)
    assert whole.test.labels.tolist() == pytest.approx([(3 * i + 20) / 10 for i in range(0, 72, 6)])
    lines = [line.rpartition(",")[0] for line in bright.read_text().splitlines()]
    bright.write_text("\n".join(lines))
    whole = open_data("table", bright, (8, 8), target="light").whole()
    assert len(whole.test) == round(0.2 * 72)
    assert "(20% of" not in whole.split_off
    assert "(20%)" in whole.split_off


def test_numbers_that_are_none(bright: Path) -> None:
    for word in ("bright", "nan", "inf", "1e31"):
        bright.write_text(bright.read_text().rpartition("\n")[0] + f"\n71.png,{word},train")
        with pytest.raises(ValueError, match=f"line 73: light must be a number up to .*, not {word}"):
            open_data("table", bright, (8, 8), target="light").whole()
    with pytest.raises(ValueError, match=r'unknown column .*"ligth"; did you mean "light"'):
        open_data("table", bright, (8, 8), target="ligth").whole()
    with pytest.raises(
        ValueError, match=r"data.target is a column of a CSV or Parquet file, and fashion-mini has none"
    ):
        open_data("fashion-mini", target="light")


def test_a_model_of_numbers(bright: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ("--data", str(bright), "--data.target", "light", "--data.resize", "8", "--train.batch-size", "8")
    small = ("--model.patch-size", "4", "--model.embed-dim", "16", "--model.num-heads", "2", "--model.depth", "2")
    out = str(tmp_path / "runs")
    loggers = ("--train.loggers", "csv", "--train.ema", "0.9", "--train.tta", "flip", "--data.mixup", "0.2")
    said = run(capsys, "train", "quick/exact", *data, *small, *loggers, "--train.epochs", "20", "--out", out)
    assert "test RMSE" in said
    (folder,) = (tmp_path / "runs").iterdir()
    found = read_run(folder)
    assert found.summary is not None
    assert found.summary["test_r2"] > 0.9
    assert found.summary["test_mae"] <= found.summary["test_rmse"] < 2
    assert {"ema_test_rmse", "tta_test_rmse"} <= set(found.summary)
    assert not {"test_top1", "confusion", "per_class", "tta_test_top1"} & set(found.summary)
    losses = [record["val_loss"] for record in found.history()]
    assert found.summary["best_epoch"] == losses.index(min(losses)) + 1
    assert "val_rmse" in (folder / "history.csv").read_text()
    (line,) = run(capsys, "predict", str(folder), str(bright.parent / "30.png"), "--json").splitlines()
    (top,) = json.loads(line)["top"]
    assert top["label"] == "light"
    assert top["number"] == pytest.approx(11, abs=2)
    assert f"light {top['number']:.4g}" in run(capsys, "predict", str(folder), str(bright.parent / "30.png"))
    assert f"RMSE {found.summary['test_rmse']:.4g}" in run(capsys, "runs", out)
    with pytest.raises(SystemExit):
        run(capsys, "report", out)
    assert "predicts numbers" in capsys.readouterr().err


def test_models_of_numbers_are_compared_by_r2(bright: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ("--data", str(bright), "--data.target", "light", "--data.resize", "8", "--train.batch-size", "8")
    small = ("--model.embed-dim", "16", "--model.num-heads", "2", "--model.depth", "2", "--train.no-measure")
    options = ("--folds", "2", "--epochs", "3", "--train.loss", "huber", "--out", str(tmp_path / "runs"))
    table = run(capsys, "compare", "quick/exact", "quick/performer-relu", *data, *small, *options)
    assert "R2 %" in table
    assert "Test R2 at the epoch chosen on validation, mean ± standard deviation over 2 folds" in table
    assert "top-1" not in table
