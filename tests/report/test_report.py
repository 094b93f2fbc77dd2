"""`vix report`: what it writes, and whether it says what the runs say."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from tests.support.recipes import tiny
from tests.support.runs import read_groups
from vixformer.cli import main
from vixformer.config import Data
from vixformer.report.collect import collect
from vixformer.report.figures import all_figures
from vixformer.report.table import columns
from vixformer.results.cells import in_csv
from vixformer.results.runs import spread
from vixformer.results.schema import AVERAGES
from vixformer.training.loop import train


def test_tables_have_what_the_runs_have(runs: Path, page: Path) -> None:
    rows = {row["model"]: row for row in csv.DictReader(page.with_suffix(".csv").read_text().splitlines())}
    for group in read_groups([runs]):
        top1 = spread(group.values("test_top1"))
        assert float(rows[group.name]["top-1 %"]) == pytest.approx(top1.mean)
        assert float(rows[group.name]["top-1 % sd"]) == pytest.approx(top1.sd)
    exact = rows["exact"]
    assert float(exact["x train"]) == 1
    assert float(rows["all"]["x train"]) == pytest.approx(float(rows["all"]["train s"]) / float(exact["train s"]))
    markdown = page.with_suffix(".md").read_text().splitlines()
    assert len(markdown) == 2 + 4
    assert f"{spread([float(exact['top-1 %'])]).mean:.2f} ±" in page.with_suffix(".md").read_text()
    latex = page.with_suffix(".tex").read_text()
    assert r"\toprule" in latex
    assert r" \pm " in latex
    assert "x train" not in latex  # of the main columns alone


def test_every_figure_is_written_in_every_form(page: Path) -> None:
    folder = page.parent / "figures"
    charts = sorted(path.stem for path in folder.glob("*.svg"))
    assert {"curves", "confusion", "classes", "layouts", "features", "pareto-training", "channels-fashion-mini"} <= set(
        charts
    )
    for name in charts:
        assert (folder / f"{name}.svg").read_text().startswith("<svg")
        assert (folder / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        with Image.open(folder / f"{name}.png") as image:
            assert min(image.size) > 100
    pictures = {path.stem for path in folder.glob("*.png")} - set(charts)
    assert {
        "examples-fashion-mini",
        "steps-fashion-mini",
        "augmentation-fashion-mini",
        "patches-fashion-mini",
        "confused-fashion-mini",
        "attention-fashion-mini-0",
    } <= pictures
    assert any(name.startswith("heads-fashion-mini-0-all") for name in pictures)


def test_a_figure_alone(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["report", str(runs), "--only", "curves", "--figures", str(tmp_path / "f"), "-o", str(tmp_path / "x.html")])
    assert [path.name for path in (tmp_path / "f").iterdir()] == ["curves.svg"]
    assert not (tmp_path / "x.html").exists()
    with pytest.raises(SystemExit):
        main(["report", str(runs), "--only", "curvs", "--figures", str(tmp_path / "g")])
    assert 'did you mean "curves"?' in capsys.readouterr().err
    assert not (tmp_path / "g").exists()


def test_the_margin_is_an_option(runs: Path, tmp_path: Path) -> None:
    main(["report", str(runs), "-o", str(tmp_path / "x.html"), "--margin", "99", "--maps", "0"])
    text = (tmp_path / "x.html").read_text()
    assert "Verdicts are against a margin of 99 points" in text
    assert "--margin 99" in text


def test_bad_input_is_a_sentence(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "not-a-bench.json").write_text("[]")
    (tmp_path / "half-a-bench.json").write_text('{"machine": {}, "sizes": []}')
    (tmp_path / "empty").mkdir()
    for args, says in (
        ([], "which runs?"),
        ([str(tmp_path / "nowhere")], "nowhere is no folder here"),
        ([str(tmp_path / "empty")], "there is no finished run"),
        ([str(runs), "-o", "report.pdf"], "a report ends in .html"),
        ([str(runs), "--format", "gif"], "--format must be one or more of svg, png"),
        ([str(runs), "--tables", "word"], "--tables must be one or more of md, latex, csv"),
        ([str(tmp_path / "not-a-bench.json")], "not-a-bench.json is not what"),
        ([str(tmp_path / "half-a-bench.json")], "half-a-bench.json is not what"),
        ([str(runs), "--only", "curves"], "add --figures DIR"),
        ([str(runs), "--maps", "-1"], "maps"),
    ):
        with pytest.raises(SystemExit):
            main(["report", *args])
        assert says in capsys.readouterr().err


SCORES = ("precision", "recall", "f1-score", "support")


def test_numbers_stay_numbers_in_csv() -> None:
    assert [in_csv(value) for value in (-3.2, 5, None, "-3.2", "@x", "softmax")] == [
        -3.2,
        5,
        "",
        "'-3.2",
        "'@x",
        "softmax",
    ]


def test_a_run_that_diverged_or_was_not_trained_has_its_place(runs: Path, tmp_path: Path) -> None:
    for name in ("all", "exact"):
        folder = next(runs.glob(f"{name}-seed0*"))
        shutil.copytree(folder, tmp_path / "runs" / folder.name)
    changed = next((tmp_path / "runs").glob("all-*"))
    (changed / "history.jsonl").write_text('{"epoch": 1, "train_loss": NaN, "val_top1": 10.0}\n')
    summary = json.loads((changed / "summary.json").read_text())
    (changed / "summary.json").write_text(json.dumps({**summary, "train_seconds": 0.0}))
    main(["report", str(tmp_path / "runs"), str(changed), "-o", str(tmp_path / "r.html"), "--maps", "0"])
    groups = {g.name: g for g in read_groups([tmp_path / "runs", changed])}
    assert len(groups["all"].runs) == 1  # it was named twice
    assert groups["all"].histories() == [[{"epoch": 1, "val_top1": 10.0}]]


def test_runs_that_read_the_test_set_after_every_epoch_have_its_columns_and_curves(tmp_path: Path, runs: Path) -> None:
    assert "last test %" not in [column.name for column in columns(read_groups([runs]))]
    recipe = tiny(attention="performer(kernel=mixture, features=none)", epochs=2, track_test=True)
    done = train(recipe, tmp_path / "mixture-seed0")
    (group,) = read_groups([tmp_path])
    cells = {column.name: column.value(group) for column in columns([group])}
    assert cells["best test %"] == max(epoch["test_top1"] for epoch in done.history)
    assert cells["last test %"] == done.history[-1]["test_top1"]
    assert cells["train %"] == pytest.approx(done.history[-1]["train_top1"])
    assert cells["epochs"] == 2
    drawn = {figure.name: json.dumps(figure.chart.to_dict()) for figure in all_figures([group])}
    assert "test loss" in drawn["curves"]
    learned = [value for epoch in done.history for key, value in epoch.items() if key.endswith(".mixture")]
    assert all(str(value) in drawn["learned"] for value in learned)


def test_nothing_is_shown_where_there_is_nothing_to_see(tmp_path: Path) -> None:
    recipe = replace(tiny(attention="softmax", epochs=1), data=Data(fraction=0.05))
    train(recipe, tmp_path / "runs" / "short-seed0")
    summary = tmp_path / "runs/short-seed0/summary.json"
    whole = json.loads(summary.read_text())
    classes = {name: scores for name, scores in whole["per_class"].items() if name not in AVERAGES}
    few = dict(list(classes.items())[:3])
    summary.write_text(
        json.dumps({**whole, "per_class": few, "confusion": [row[:3] for row in whole["confusion"][:3]]})
    )
    found = collect([tmp_path / "runs"], {}, maps=0)
    names = {item.name.partition("-")[0] for item in (*found.figures, *found.pictures)}
    # one epoch, one model, and images as they are stored
    assert not names & {"curves", "pareto", "augmentation", "steps"}
    assert "top-5 %" not in [column.name for column in columns(found.groups)]  # of three classes
