"""A mechanism from somebody's own file: measured, trained side by side, stored and found again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.recipes import tiny
from vixformer import from_pretrained
from vixformer.attention.base import Mechanism
from vixformer.experiments.lanes import Lanes
from vixformer.measure.advise import Question, advise
from vixformer.measure.memory import Job, _server, peak_memory
from vixformer.notes import Note
from vixformer.recipes import RECIPES
from vixformer.training.loop import train
from vixformer.training.observer import Observer

PAGE = Path(__file__).parents[1] / "docs" / "adding.md"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The class of docs/adding.md, with something printed when it is imported, as files of one's own do."""
    file = tmp_path / "mymean.py"
    file.write_text(PAGE.read_text().split("```python\n")[1].split("```")[0] + 'print("hello")\n')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, tmp_path])  # no text: Python ignores it
    __import__("mymean")
    yield file
    _forget()


def _forget() -> None:
    Mechanism.members.pop("mean", None)
    RECIPES.pop("mine/mean", None)
    sys.modules.pop("mymean", None)


def test_it_is_measured_and_found_again(own: Path, tmp_path: Path) -> None:
    summary = train(tiny(attention="mean(gain=2)", epochs=1, fraction=0.01, measure=True), tmp_path / "run").summary
    assert summary["peak_train_mb"] > 0
    assert from_pretrained(tmp_path / "run").attention_expression() == "mean(gain=2.0)"
    _forget()
    with pytest.raises(
        ValueError, match=r'unknown attention "mean".*; import mymean first, which the model was made with'
    ):
        from_pretrained(tmp_path / "run")


def test_advice_considers_it(own: Path) -> None:
    small = Question(image=8, patch=4, batch=1, dim=16, depth=1, heads=2, seconds=1)
    assert "mean" in [layer.attention for layer in advise(small).layers]


@pytest.mark.slow
def test_it_trains_in_a_process_of_its_own(own: Path, tmp_path: Path) -> None:
    with Lanes(2) as lanes:
        lanes.train(
            "mine", tiny(attention="mean", epochs=1, fraction=0.01), tmp_path / "run", resume=True, observer=Observer()
        )
        lanes.wait()
    assert (tmp_path / "run" / "summary.json").exists()


def test_a_measurement_that_fails_does_not_lose_the_training(own: Path, tmp_path: Path) -> None:
    own.unlink()
    with pytest.warns(Note, match="peak memory could not be measured and is left out of the summary: .*mymean.py"):
        summary = train(tiny(attention="mean", epochs=1, fraction=0.01, measure=True), tmp_path / "run").summary
    assert summary["inference_ms_min"] > 0
    assert "peak_train_mb" not in summary
    assert (tmp_path / "run" / "summary.json").exists()


def test_a_class_of_a_script_is_not_measured_and_the_sentence_says_why(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job({"attention": "mean", "dim": 8, "num_heads": 2, "num_tokens": 4}, 1)
    with monkeypatch.context() as script:
        script.setattr(Mechanism.members["mean"], "__module__", "__main__")
        with pytest.raises(
            ValueError, match="another process cannot import mean from a script or a notebook: move the class to a file"
        ):
            peak_memory([job])
    _server().process.kill()
    with pytest.raises(ValueError, match="the process that measures memory died"):
        peak_memory([job])
    assert peak_memory([job])  # by another one
