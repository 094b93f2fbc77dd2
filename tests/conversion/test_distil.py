"""Converted layers learn what they replace."""

from __future__ import annotations

from itertools import repeat

import pytest
import torch

from tests.backbones.test_backbones import images, small
from vixformer import convert
from vixformer.conversion.distil import distil


@pytest.mark.parametrize("name", ["vit", "cvt", "pit", "cct"])
@pytest.mark.parametrize("maps", [0.0, 0.1])
def test_the_layers_come_closer_and_nothing_else_moves(name: str, maps: float) -> None:
    torch.manual_seed(0)
    teacher = small(name).eval()
    x = images(teacher, 8)
    student, _ = convert(teacher, "performer(features=16)")
    before = {key: value.clone() for key, value in student.state_dict().items()}
    teachers = {key: value.clone() for key, value in teacher.state_dict().items()}
    errors = distil(student, teacher, repeat(x), steps=40, lr=3e-3, maps=maps)
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
    distil(student, teacher, repeat(images(teacher)), steps=3, watch=lambda step, error: seen.append(step))
    changed = {key for key, value in student.state_dict().items() if not torch.equal(value, before[key])}
    assert changed
    assert all(key.startswith("blocks.0.attn.") for key in changed)
    assert seen == [0, 1, 2]
    same, _ = convert(teacher, "softmax")
    assert distil(same, teacher, repeat(images(teacher)), steps=3) == []
