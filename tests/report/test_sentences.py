"""Sentences say what the runs say."""

from __future__ import annotations

import csv
import json
import re
import shutil
import statistics
from pathlib import Path
from typing import Any

import pytest

from tests.support.recipes import tiny
from tests.support.runs import read_groups
from vixformer.cli import main
from vixformer.measure.latency import paired_ratio
from vixformer.notes import Note
from vixformer.report.sentences import Answer, Question, answers, sentences
from vixformer.results.evidence import Effect, effect, judge
from vixformer.results.groups import Group
from vixformer.results.runs import spread
from vixformer.results.timings import read_sessions
from vixformer.training.loop import train


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
    assert (
        told(0.05, 0.1) == f"Ruled out: that lens differs from exact by 0.5 points or more: +0.05 ± 0.28 points {over}"
    )
    assert told(0.05, 1.0) == f"Open: whether lens differs from exact: +0.05 ± 2.78 points {over}"


def test_the_table_and_the_sentences_have_one_verdict(runs: Path, page: Path) -> None:
    found = {a.question.model: a for some in answers(read_groups([runs])).values() for a in some}
    rows = list(csv.DictReader(page.with_suffix(".csv").read_text().splitlines()))
    assert sum(row["model"] in found for row in rows) == 3
    for row in rows:
        answer = found.get(row["model"])
        assert row["verdict"] == ("" if answer is None else answer.judged.verdict)
        if answer is not None:
            effects = [float(row[f"difference{end}"]) for end in ("", " low", " high")]
            assert effects == [answer.question.found.mean, answer.question.found.low, answer.question.found.high]


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
    clear, unclear = (
        next(line for line in lines if re.search(f": (whether |that )?{name} ", line)) for name in ("all", "mixed")
    )
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
    exact, mixed = (
        next(times for run, times in session.ms.items() if run.startswith(name)) for name in ("exact", "mixed")
    )
    ratio = paired_ratio(mixed, exact)
    assert str(ratio) in next(
        line for line in page.with_suffix(".md").read_text().splitlines() if line.startswith("| mixed")
    )
    rows = {row["model"]: row for row in csv.DictReader(page.with_suffix(".csv").read_text().splitlines())}
    assert [float(rows["mixed"][f"x inference{end}"]) for end in ("", " low", " high")] == [
        ratio.ratio,
        ratio.low,
        ratio.high,
    ]
    assert float(rows["mixed"]["inference ms"]) == statistics.median(mixed)
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
    # the mean is far from the parent now
    (other / "summary.json").write_text(json.dumps({**summary, "test_top1": 1.0}))
    child = tiny(attention="hedgehog", weights=str(parent), epochs=0, seed=best)
    found = train(child, tmp_path / f"exact-to-hedgehog-seed{best}-0123456789ab").test_top1
    (line,) = [line for lines in said(read_groups([tmp_path])) for line in lines if "made from" in line]
    assert "exact (which it was made from)" in line
    gap = found - top1[best]
    # one seed
    assert line.startswith(
        f"Open: whether exact-to-hedgehog differs from exact (which it was made from): {gap:+.2f} ± "
    )


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
        path.write_text(
            json.dumps({**json.loads(path.read_text()), "test_top1": 48.0 + 20 * i + 0.1 * i, "conversion": conversion})
        )
    (lines,) = said(read_groups([folder]))
    told = "all loses to exact (which it was made from) by 1.95 ± 0.64 points over 2 seeds, paired by seed and split."
    assert lines == [f"Shown: {told}"]


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
