"""`vix report`: what it writes, whether it says what the runs say, and how it looks in a real browser."""

from __future__ import annotations

import csv
import json
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.training.test_loop import tiny
from vixformer.cli import main
from vixformer.config import Data
from vixformer.measure.latency import paired_ratio
from vixformer.notes import Note
from vixformer.report.collect import collect
from vixformer.report.figures import all_figures
from vixformer.report.maps import looks, overlay
from vixformer.report.sentences import Answer, Question, answers, sentences
from vixformer.report.table import columns
from vixformer.results.cells import in_csv
from vixformer.results.evidence import Effect, effect, judge
from vixformer.results.groups import Group, find_runs, read_groups
from vixformer.results.runs import spread
from vixformer.results.schema import AVERAGES
from vixformer.results.timings import read_sessions
from vixformer.training.loop import train


@pytest.fixture(scope="module")
def page(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report") / "report.html"
    main(
        [
            "report",
            str(runs),
            "-o",
            str(out),
            "--figures",
            str(out.parent / "figures"),
            "--format",
            "svg,png,pdf",
            "--tables",
            "md,latex,csv",
        ]
    )
    return out


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
    assert {"curves", "confusion", "classes", "layouts", "features", "pareto-training", "channels-fashion-mini"} <= set(charts)
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


def said(groups: list[Group]) -> list[list[str]]:
    return list(sentences(answers(groups)).values())


def test_sentences_are_computed_from_the_runs(runs: Path) -> None:
    groups = read_groups([runs])
    (lines,) = said(groups)
    exact, mixed = (next(g for g in groups if g.name == name) for name in ("exact", "mixed"))
    gap = spread(mixed.values("test_top1")).mean - spread(exact.values("test_top1")).mean
    (answer,) = (a for some in answers(groups).values() for a in some if a.question.model == "mixed")
    assert answer.question.found == effect(mixed.repetitions(), exact.repetitions())
    assert answer.question.found.mean == pytest.approx(gap)
    line = str(answer)
    assert line in lines
    assert line.startswith(answer.judged.verdict.capitalize())
    assert f"{abs(gap):.2f}" in line
    assert "over 2 seeds, paired by seed and split" in line
    assert any("the choice of 32 features" in line for line in lines)


def test_an_answer_says_its_verdict() -> None:
    def told(mean: float, error: float) -> str:
        question = Question("lens", "exact", Effect(mean, error, 4, 5, "paired"))
        return str(Answer(question, judge([(question.found, "different", 0.5)])[0], 0.5))

    over = "over 5 seeds, paired by seed and split."
    assert told(2.0, 0.1) == f"Shown: lens beats exact by 2.00 ± 0.28 points {over}"
    assert told(-2.0, 0.1) == f"Shown: lens loses to exact by 2.00 ± 0.28 points {over}"
    assert told(0.05, 0.1) == f"Ruled out: that lens differs from exact by 0.5 points or more: +0.05 ± 0.28 points {over}"
    assert told(0.05, 1.0) == f"Open: whether lens differs from exact: +0.05 ± 2.78 points {over}"


def test_the_table_and_the_sentences_have_one_verdict(runs: Path, page: Path) -> None:
    found = {a.question.model: a for some in answers(read_groups([runs])).values() for a in some}
    for row in csv.DictReader(page.with_suffix(".csv").read_text().splitlines()):
        answer = found.get(row["model"])
        assert row["verdict"] == ("" if answer is None else answer.judged.verdict)
        if answer is not None:
            effects = [float(row[f"difference{end}"]) for end in ("", " low", " high")]
            assert effects == [answer.question.found.mean, answer.question.found.low, answer.question.found.high]


def test_the_margin_is_an_option(runs: Path, tmp_path: Path) -> None:
    main(["report", str(runs), "-o", str(tmp_path / "x.html"), "--margin", "99", "--maps", "0"])
    text = (tmp_path / "x.html").read_text()
    assert "Verdicts are against a margin of 99 points" in text
    assert "--margin 99" in text


def retimed(runs: Path, to: Path, seconds: dict[str, list[float]], **inference: dict[str, float]) -> Path:
    """Copies of runs, by the name of their model with other seconds an epoch and times of inference."""
    for folder in (path for path in runs.iterdir() if path.is_dir()):
        name = folder.name.partition("-")[0]
        if name in seconds:
            new = Path(shutil.copytree(folder, to / folder.name))
            epoch = json.loads((new / "history.jsonl").read_text().splitlines()[0])
            summary = json.loads((new / "summary.json").read_text())
            lines = [json.dumps({**epoch, "epoch": i + 1, "seconds": s}) + "\n" for i, s in enumerate(seconds[name])]
            (new / "history.jsonl").write_text("".join(lines))
            times = {"train_seconds": sum(seconds[name]), "train_others": 0.0, **inference.get(name, {})}
            (new / "summary.json").write_text(json.dumps({**summary, **times}))
    return to


CALM = {"inference_ms_min": 20.0, "inference_ms_mean": 21.0, "inference_ms_sd": 1.0}


def test_no_sentence_from_a_ratio_that_may_be_one(runs: Path, tmp_path: Path) -> None:
    noisy = {"inference_ms_min": 5.2, "inference_ms_mean": 107.1, "inference_ms_sd": 149.8}
    seconds = {"exact": [10.0, 10.2, 9.9], "all": [5.0, 5.1, 4.9], "mixed": [9.0, 31.0, 4.0]}
    half = {"inference_ms_min": 10.0, "inference_ms_mean": 10.5, "inference_ms_sd": 0.5}
    (lines,) = said(read_groups([retimed(runs, tmp_path, seconds, exact=CALM, all=half, mixed=noisy)]))
    clear, unclear = (next(line for line in lines if re.search(f": (whether |that )?{name} ", line)) for name in ("all", "mixed"))
    assert "it takes 0.50 (0.49 to 0.51) of its training time, 0.50 (0.45 to 0.55) of its inference time." in clear
    assert "it takes" not in unclear


def test_a_training_beside_other_work_gives_no_ratio(runs: Path, tmp_path: Path) -> None:
    folder = retimed(runs, tmp_path, {"exact": [10.0, 10.2], "all": [5.0, 5.1]}, all={"train_others": 64.0})

    def costs() -> str:
        (lines,) = said(read_groups([folder]))
        return next(line for line in lines if re.search(": (whether |that )?all ", line))

    assert "training time" not in costs()
    for path in folder.glob("all-*/summary.json"):  # of a machine that had room for both
        path.write_text(json.dumps({**json.loads(path.read_text()), "train_cores": 128}))
    assert "training time" in costs()


def test_one_source_of_x_inference(runs: Path, page: Path) -> None:
    """What compare timed in turn is what its table and every table of the report have."""
    (session,) = read_sessions(runs)
    exact, mixed = (next(times for run, times in session.ms.items() if run.startswith(name)) for name in ("exact", "mixed"))
    ratio = paired_ratio(mixed, exact)
    assert str(ratio) in next(line for line in page.with_suffix(".md").read_text().splitlines() if line.startswith("| mixed"))
    rows = {row["model"]: row for row in csv.DictReader(page.with_suffix(".csv").read_text().splitlines())}
    assert [float(rows["mixed"][f"x inference{end}"]) for end in ("", " low", " high")] == [ratio.ratio, ratio.low, ratio.high]
    assert float(rows["mixed"]["inference ms"]) == min(mixed)
    (runs / "timings.json").rename(runs / "aside")
    try:
        (runs / "timings.json").write_text('[{"ms": 3}]')
        with pytest.warns(Note, match=r"timings\.json is damaged, and vix compare writes it again"):
            assert read_sessions(runs) == []
    finally:
        (runs / "aside").rename(runs / "timings.json")


def test_a_converted_model_stands_beside_its_own_parent(runs: Path, tmp_path: Path) -> None:
    """Not beside the mean of all seeds of that model."""
    folders = sorted(runs.glob("exact-seed*"))
    for folder in folders:
        shutil.copytree(folder, tmp_path / folder.name)
    top1 = [json.loads((folder / "summary.json").read_text())["test_top1"] for folder in folders]
    best = max(range(2), key=top1.__getitem__)
    parent = tmp_path / folders[best].name
    other = next(path for path in tmp_path.iterdir() if path != parent)
    summary = json.loads((other / "summary.json").read_text())
    (other / "summary.json").write_text(json.dumps({**summary, "test_top1": 1.0}))  # the mean is far from the parent now
    child = tiny(attention="hedgehog", weights=str(parent), epochs=0, seed=best)
    found = train(child, tmp_path / f"exact-to-hedgehog-seed{best}-0123456789ab").test_top1
    (line,) = [line for lines in said(read_groups([tmp_path])) for line in lines if "made from" in line]
    assert "exact (which it was made from)" in line
    gap = found - top1[best]
    assert line.startswith(f"Open: whether exact-to-hedgehog differs from exact (which it was made from): {gap:+.2f} ± ")  # one seed


def test_converted_models_are_paired_with_their_parents(runs: Path, tmp_path: Path) -> None:
    folder = retimed(runs, tmp_path, {"all": [5.0]})
    for i, path in enumerate(sorted(folder.glob("all-*/summary.json"))):
        stages = [{"stage": "parent", "test_top1": 50.0 + 20 * i}]
        conversion = {
            "parent": f"/elsewhere/exact-seed{i}-0123456789ab",
            "stages": stages,
            "layers": [],
            "warnings": [],
            "notes": [],
        }
        path.write_text(json.dumps({**json.loads(path.read_text()), "test_top1": 48.0 + 20 * i + 0.1 * i, "conversion": conversion}))
    (lines,) = said(read_groups([folder]))
    told = "all loses to exact (which it was made from) by 1.95 ± 0.64 points over 2 seeds, paired by seed and split."
    assert lines == [f"Shown: {told}"]


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


def test_one_damaged_run_does_not_hide_the_others(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path / "runs")
    first = sorted((tmp_path / "runs").glob("*/summary.json"))[0]
    first.write_text(first.read_text()[:100])
    main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "r.html"), "--maps", "0"])
    assert "summary.json is not JSON" in (tmp_path / "r.html").read_text()
    assert len(find_runs([tmp_path / "runs"]).damaged) == 1


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("summary.json", "{}", "summary.json is damaged: it has no attention"),
        ("summary.json", "[]", "summary.json is damaged: it should be an object"),
        ("history.jsonl", '{"epoch": 1, "tra', "history.jsonl, line 1, is not JSON"),
        ("history.jsonl", "[1, 2]", "history.jsonl is damaged: 0 should be an object"),
        ("recipe.json", "[" * 100_000, "recipe.json is nested too deeply"),
        ("best/model.safetensors", "x", "pictures of all"),
        ("best/config.json", "{}", "pictures of all"),
    ],
)
def test_whatever_is_damaged_is_left_out_and_named(runs: Path, tmp_path: Path, file: str, text: str, says: str) -> None:
    for folder in (next(runs.glob("all-seed0*")), next(runs.glob("exact-seed0*"))):
        shutil.copytree(folder, tmp_path / "runs" / folder.name)
    (next((tmp_path / "runs").glob("all-*")) / file).write_text(text)
    main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "r.html")])
    assert says in (tmp_path / "r.html").read_text()


SCORES = ("precision", "recall", "f1-score", "support")


@pytest.mark.parametrize(
    ("file", "key", "value", "says"),
    [
        ("summary.json", ("confusion",), [["a"] * 5] * 5, "confusion.0.0 should be a valid integer, not 'a'"),
        ("summary.json", ("confusion",), [[1, 2], [3]], "confusion should be 10 x 10"),
        (
            "summary.json",
            ("per_class", "one more"),
            dict.fromkeys(("precision", "recall", "f1-score", "support"), 0.5),
            "should be 11 x 11",
        ),
        ("summary.json", ("per_class", "Trouser"), {"recall": "high"}, "per_class.Trouser"),
        ("summary.json", ("attention",), "mymean", 'unknown attention "mymean"'),
        ("recipe.json", ("model", "attention"), "mymean", 'unknown attention "mymean"'),
        ("recipe.json", ("model", "depth"), 10**12, "at most 1000 layers"),
        ("summary.json", ("machine", "threads"), "many", "machine.threads"),
        ("summary.json", ("parameters",), 10**400, "is too large"),
        ("summary.json", ("train_seconds",), 1e300, "train_seconds"),
        ("summary.json", ("train_others",), "some", "train_others"),
        ("summary.json", ("best_epoch",), None, "best_epoch"),
        ("summary.json", ("conversion",), {"layers": [{"layer": 1}], "stages": []}, "conversion"),
    ],
)
def test_one_odd_run_is_left_out_and_named_everywhere(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, key: tuple[str, ...], value: Any, says: str
) -> None:
    for folder in (next(runs.glob("all-seed0*")), next(runs.glob("exact-seed0*"))):
        shutil.copytree(folder, tmp_path / "runs" / folder.name)
    path = next((tmp_path / "runs").glob("all-*")) / file
    changed = inner = json.loads(path.read_text())
    for part in key[:-1]:
        inner = inner[part]
    inner[key[-1]] = value
    path.write_text(json.dumps(changed))
    found = collect([tmp_path / "runs"], {}, live=True)
    assert [group.name for group in found.groups] == ["exact"]
    assert any(says in note and path.parent.name in note for note in found.to_dict()["warnings"])
    main(["runs", str(tmp_path / "runs")])
    told = " ".join(capsys.readouterr().out.split())
    assert "left out: " in told
    assert says in told


NAMES = (
    *("<!--<script>", "</script><script>hit = 1</script>", "<img src=x onerror=hit=1>", "=1+1", "a | b\n| c"),
    *("x\u2028y", "&<>\"'", "`", "\\|", "%$"),
)


def test_names_of_classes_and_runs_are_never_code(runs: Path, tmp_path: Path, browser: Any) -> None:
    for kind, name in (("all", "<!--<script>hit=1"), ("exact", "=cmd|x <img src=x onerror=hit=1>"), ("mixed", "-\n| 1 | 2 |")):
        folder = tmp_path / "runs" / name
        shutil.copytree(next(runs.glob(f"{kind}-seed0*")), folder)
        summary = json.loads((folder / "summary.json").read_text())
        scores = [value for key, value in summary["per_class"].items() if key not in AVERAGES]
        summary["per_class"] = dict(zip(NAMES, scores, strict=True))
        (folder / "summary.json").write_text(json.dumps(summary))
        recipe = json.loads((folder / "recipe.json").read_text())
        (folder / "recipe.json").write_text(json.dumps({**recipe, "name": name}))
    main(
        [
            "report",
            str(tmp_path / "runs"),
            "-o",
            str(tmp_path / "r.html"),
            "--maps",
            "0",
            "--tables",
            "md,latex,csv",
            "--title",
            "<!--<script>",
        ]
    )
    window = browser.new_page()
    said: list[str] = []
    window.on("console", lambda message: said.append(message.text))
    window.on("pageerror", lambda error: said.append(str(error)))
    window.goto((tmp_path / "r.html").as_uri())
    window.locator("#section-classes summary").click()
    window.locator("#chart-confusion svg").wait_for()
    assert window.locator("#table tbody tr").count() == 3
    assert window.locator("h1").inner_text() == "<!--<script>"
    assert window.locator("#class-model option").count() == 3
    assert "<!--<script>" in window.locator("#chart-classes").inner_text()
    assert window.evaluate("window.hit") is None
    assert said == []
    window.close()

    rows = list(csv.reader((tmp_path / "r.csv").read_text().splitlines(keepends=True)))
    assert sorted(row[0][:2] for row in rows[1:]) == ["'-", "'=", "<!"]
    assert all(len(row) == len(rows[0]) for row in rows)
    lines = (tmp_path / "r.md").read_text().splitlines()
    assert len(lines) == 2 + 3
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {lines[0].count("|")}
    assert "<" not in "".join(lines)
    assert len((tmp_path / "r.tex").read_text().splitlines()) == 4 + 3 + 2


def test_numbers_stay_numbers_in_csv() -> None:
    assert [in_csv(value) for value in (-3.2, 5, None, "-3.2", "@x", "softmax")] == [-3.2, 5, "", "'-3.2", "'@x", "softmax"]


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


def test_two_hundred_runs_make_a_page_that_is_not_too_large(runs: Path, tmp_path: Path) -> None:
    folders = sorted(path for path in runs.iterdir() if path.is_dir())
    for i in range(25):
        for folder in folders:
            shutil.copytree(folder, tmp_path / "runs" / f"m{i}{folder.name}", copy_function=shutil.copy)
    began = time.process_time()  # which other work does not lengthen
    main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "r.html")])
    assert time.process_time() - began < 120
    assert (tmp_path / "r.html").stat().st_size < 6e6


def test_maps_are_where_the_model_looks(runs: Path) -> None:
    import torch

    from vixformer.backbones.backbone import from_pretrained

    model: Any = from_pretrained(next(runs.glob("mixed-seed0*")) / "best")
    image = torch.randn(1, 28, 28)
    seen = looks(model, image)
    assert seen.names == ("performer", "softmax")
    whole = model.attention_maps(image[None])
    for layer, weights in zip(seen.layers, whole, strict=True):
        assert layer is not None
        torch.testing.assert_close(layer.flatten(1), weights[0, :, 0, 1:])
    half = [0.5 * w[0].mean(0) / w[0].mean(0).sum(-1, keepdim=True) + 0.5 * torch.eye(17) for w in whole]
    assert seen.rollout is not None
    torch.testing.assert_close(seen.rollout.flatten(), (half[1] @ half[0])[0, 1:])
    spot = torch.zeros(4, 4)
    spot[0, 0] = 1
    drawn = overlay(Image.new("L", (28, 28)), spot, 64)
    assert sum(drawn.getpixel((4, 4))) > sum(drawn.getpixel((60, 60)))  # pyright: ignore


def test_the_page_in_a_browser(page: Path, browser: Any, tmp_path: Path) -> None:
    window = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    said: list[str] = []
    window.on("console", lambda message: said.append(message.text))
    window.on("pageerror", lambda error: said.append(str(error)))
    window.on("request", lambda request: said.append(request.url) if not request.url.startswith(("file:", "data:")) else None)
    window.goto(page.as_uri())
    window.locator("#pareto .chart svg").wait_for()
    assert window.locator(".chart").count() == 1  # the rest is folded, and drawn when it is opened
    assert window.locator(".headline").inner_text().endswith("exact attention.")
    choices = window.locator("#pareto [type=radio]").all()
    assert len(choices) >= 2
    for choice in choices:
        choice.check()
        window.locator("#pareto .chart svg").wait_for()
    for summary in window.locator("summary").all():
        summary.click()
    charts = window.locator(".chart")
    assert charts.count() >= 6
    for i in range(charts.count()):
        chart = charts.nth(i)
        chart.locator("svg").wait_for()
        marks = chart.locator(".mark-symbol path, .mark-line path, .mark-rect path, .mark-rule line, .mark-area path, .mark-tick path")
        assert marks.count() > 0, chart.get_attribute("id")
    assert said == []

    rows = window.locator("#table tbody tr")
    assert rows.count() == 4
    window.fill("#filter", "mixed")
    assert rows.count() == 1
    window.fill("#filter", "")
    window.get_by_role("button", name="top-1 %").click()
    assert window.locator("th[aria-sort=descending]").inner_text().startswith("top-1")
    values = [float(rows.nth(i).locator("td").nth(3).inner_text().split()[0]) for i in range(4)]
    assert values == sorted(values, reverse=True)
    window.keyboard.press("Enter")
    values = [float(rows.nth(i).locator("td").nth(3).inner_text().split()[0]) for i in range(4)]
    assert values == sorted(values)
    for picture in window.locator("img").all():
        assert picture.evaluate("image => image.naturalWidth") > 0
        assert picture.get_attribute("alt")

    for name, options in (
        ("phone", {"viewport": {"width": 390, "height": 844}, "is_mobile": True}),
        ("dark", {"color_scheme": "dark"}),
    ):
        other = browser.new_context(**options).new_page()
        other.goto(page.as_uri())
        other.locator(".chart svg").first.wait_for()
        other.screenshot(path=tmp_path / f"{name}.png")
        assert other.evaluate("document.documentElement.scrollWidth <= innerWidth")
    ground = other.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(int(part) for part in ground.strip("rgb()").split(",")) < 150


def test_charts_in_the_page_have_the_numbers_of_the_runs(runs: Path, page: Path) -> None:
    text = page.read_text()
    start = text.index('id="report">') + len('id="report">')
    report = json.loads(text[start : text.index("</script>", start)])
    curves = next(f for f in report["figures"] if f["name"] == "curves")["spec"]["data"]["values"]
    for group in read_groups([runs]):
        for key, what in (("train_loss", "training loss"), ("val_top1", "validation top-1, %")):
            drawn = next(row for row in curves if (row["model"], row["epoch"], row["of"]) == (group.name, 1, what))
            values = [history[0][key] for history in group.histories()]
            assert drawn["value"] == pytest.approx(sum(values) / len(values))
            assert (drawn["low"], drawn["high"]) == (min(values), max(values))
    confusion = next(f for f in report["figures"] if f["name"] == "confusion")["spec"]["data"]["values"]
    for group in read_groups([runs]):
        mine = [row["count"] for row in confusion if row["model"] == group.name]
        assert mine == [count for line in group.first["confusion"] for count in line]


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
    summary.write_text(json.dumps({**whole, "per_class": few, "confusion": [row[:3] for row in whole["confusion"][:3]]}))
    found = collect([tmp_path / "runs"], {}, maps=0)
    names = {item.name.partition("-")[0] for item in (*found.figures, *found.pictures)}
    assert not names & {"curves", "pareto", "augmentation", "steps"}  # one epoch, one model, and images as they are stored
    assert "top-5 %" not in [column.name for column in columns(found.groups)]  # of three classes


def test_sets_that_cannot_be_compared_have_an_answer_each(runs: Path, tmp_path: Path, browser: Any) -> None:
    for folder in runs.iterdir():
        if folder.is_dir():
            shutil.copytree(folder, tmp_path / "runs" / folder.name)
            if folder.name.startswith(("exact", "mixed")):  # the same models, as if they were trained for longer
                longer = Path(shutil.copytree(folder, tmp_path / "runs" / f"long{folder.name}"))
                recipe = json.loads((longer / "recipe.json").read_text())
                recipe["train"]["epochs"] = 7
                (longer / "recipe.json").write_text(json.dumps(recipe))
    main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "r.html"), "--maps", "0"])
    window = browser.new_context(color_scheme="dark").new_page()
    window.goto((tmp_path / "r.html").as_uri())
    rows = window.locator("#answers-table tbody tr")
    rows.first.wait_for()
    assert rows.count() == 2
    assert window.locator("#table tbody tr").count() == 4
    window.get_by_role("button", name="7 epochs").click()
    assert window.locator("#table tbody tr").count() == 2
    assert "7 epochs" in window.locator("#section-answer").inner_text()
    window.emulate_media(media="print")
    ground = window.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ground')")
    assert ground.strip() == "#fbfbf9"  # paper is light
    assert not window.locator("details").first.is_visible()  # what is folded is not printed
    assert not window.locator("nav").is_visible()
    assert window.pdf().startswith(b"%PDF")
    window.close()
