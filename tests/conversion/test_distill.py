"""Converted layers learn what they replace."""

from __future__ import annotations

from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.attentions import slow_unless
from tests.support.models import images, small
from vixformer import convert
from vixformer.conversion.distill import distill, part_of_lesson, seconds_of
from vixformer.conversion.swap import expanded, swap


@pytest.mark.parametrize(
    ("maps", "name"),
    [
        slow_unless(name == "vit" or not maps, maps, name)
        for maps in (0.0, 0.1)
        for name in ("vit", "cvt", "pit", "cct")
    ],
)
def test_the_layers_come_closer_and_nothing_else_moves(maps: float, name: str) -> None:
    torch.manual_seed(0)
    teacher = small(name).eval()
    x = images(teacher, 8)
    student, _ = convert(teacher, "performer(features=16)")
    before = {key: value.clone() for key, value in student.state_dict().items()}
    teachers = {key: value.clone() for key, value in teacher.state_dict().items()}
    errors = distill(student, teacher, repeat(x), steps=40, lr=3e-3, maps=maps)
    assert len(errors) == 40
    assert errors[-1] < 0.8 * errors[0]
    for key, value in student.state_dict().items():
        if ".attn." not in key:
            assert torch.equal(value, before[key]), key
    assert all(torch.equal(value, teachers[key]) for key, value in teacher.state_dict().items())


def test_what_stays_exact_is_not_touched() -> None:
    teacher = small("vit").eval()
    student, _ = convert(teacher, "hedgehog + softmax")
    before = {key: value.clone() for key, value in student.state_dict().items()}
    seen: list[int] = []
    distill(student, teacher, repeat(images(teacher)), steps=3, watch=lambda step, error: seen.append(step))
    changed = {key for key, value in student.state_dict().items() if not torch.equal(value, before[key])}
    assert changed
    assert all(key.startswith("blocks.0.attn.") for key in changed)
    assert seen == [0, 1, 2]
    same, _ = convert(teacher, "softmax")
    assert distill(same, teacher, repeat(images(teacher)), steps=3) == []


@pytest.mark.parametrize("training", [True, False])
def test_a_teacher_is_left_as_it_was(training: bool) -> None:
    teacher = small("vit").train(training)
    student, _ = convert(teacher, "hedgehog")
    distill(student, teacher, repeat(images(teacher)), steps=2)
    assert {module.training for module in teacher.modules()} == {training}


def test_some_layers_of_a_lesson_are_as_if_taught_alone(tmp_path: Path) -> None:
    teacher = small("vit", depth=3).eval()
    all_of_them, two = "performer(features=8)", "performer(features=8) + softmax + performer(features=8)"

    def lessons(step: int) -> torch.Tensor:
        torch.manual_seed(step)
        return images(teacher, 4)

    def never(step: int) -> torch.Tensor:
        pytest.fail(f"step {step} was taught again")

    def student(attention: str) -> Any:
        return swap(teacher, expanded(teacher, attention), seed=1)[0]

    distill(student(all_of_them), teacher, lessons, steps=4, keep=tmp_path / "all")
    alone, taken = student(two), student(two)
    wanted = distill(alone, teacher, lessons, steps=4)
    part_of_lesson(tmp_path / "all", [2, 0], tmp_path / "part")
    assert distill(taken, teacher, never, steps=4, keep=tmp_path / "part") == pytest.approx(wanted)
    for (name, a), b in zip(alone.state_dict().items(), taken.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    assert seconds_of(tmp_path / "part")[1] == seconds_of(tmp_path / "all")[1] > 0


def test_a_lesson_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    teacher = small("vit").eval()

    def lessons(step: int) -> torch.Tensor:
        torch.manual_seed(step)
        return images(teacher, 4)

    whole, cut = (swap(teacher, expanded(teacher, "performer(features=8)"), seed=1)[0] for _ in range(2))
    wanted = distill(whole, teacher, lessons, steps=6)

    def stop(step: int, error: float) -> None:
        if step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        distill(cut, teacher, lessons, steps=6, watch=stop, keep=tmp_path / "lesson.safetensors")
    again = swap(teacher, expanded(teacher, "performer(features=8)"), seed=1)[0]
    seen: list[int] = []
    errors = distill(
        again, teacher, lessons, steps=6, watch=lambda step, _: seen.append(step), keep=tmp_path / "lesson.safetensors"
    )
    assert seen == [3, 4, 5]
    assert errors == wanted
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), whole.parameters(), strict=True))


def test_lessons_that_go_wrong() -> None:
    teacher = small("vit").eval()
    student, _ = convert(teacher, "hedgehog")
    with pytest.raises(ValueError, match="there were images for 2 of 5 steps"):
        distill(student, teacher, [images(teacher)] * 2, steps=5)
    with pytest.raises(ValueError, match=r"distillation diverged in step \d+ of 50, at the learning rate 1e\+08"):
        distill(student, teacher, repeat(images(teacher)), steps=50, lr=1e8)
