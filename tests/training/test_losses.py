"""Losses against their formulas."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from vixformer import load_recipe
from vixformer.commands.flags import changed
from vixformer.commands.train import Options
from vixformer.config import Train
from vixformer.options import parse
from vixformer.training.losses import loss_of

CLASSES = ("a", "b", "c")
SCORES = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)) * 3
LABELS = torch.randint(3, (40,), generator=torch.Generator().manual_seed(1))


def loss(**options: object) -> torch.Tensor:
    train = Train(**options)  # pyright: ignore[reportArgumentType]
    return loss_of(train, LABELS, CLASSES, torch.device("cpu"))(SCORES, LABELS)


def test_focal_loss() -> None:
    chance = SCORES.softmax(1)[torch.arange(40), LABELS]
    assert torch.allclose(loss(loss="focal"), ((1 - chance) ** 2 * -chance.log()).mean())
    assert torch.allclose(loss(loss="focal", focal_gamma=0.0), F.cross_entropy(SCORES, LABELS))
    weights = torch.tensor([1.0, 4.0, 1.0])
    weighted = (weights[LABELS] * (1 - chance) ** 2 * -chance.log()).sum() / weights[LABELS].sum()
    assert torch.allclose(loss(loss="focal", class_weights=(1.0, 4.0, 1.0)), weighted)
    sure = torch.tensor([[200.0, 0.0, 0.0]], requires_grad=True)
    loss_of(Train(loss="focal", focal_gamma=0.5), LABELS, CLASSES, torch.device("cpu"))(
        sure, torch.tensor([0])
    ).backward()
    assert sure.grad is not None
    assert sure.grad.isfinite().all()


def test_weights_a_class() -> None:
    assert torch.allclose(
        loss(class_weights=(1.0, 4.0, 1.0)), F.cross_entropy(SCORES, LABELS, weight=torch.tensor([1.0, 4.0, 1.0]))
    )
    seldom = 40 / (3 * torch.bincount(LABELS))
    assert torch.allclose(loss(class_weights=True), F.cross_entropy(SCORES, LABELS, weight=seldom))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--train.class-weights"], True),
        (["--train.class-weights", "--train.epochs", "3"], True),
        (["--train.no-class-weights"], False),
        (["--train.class-weights", "1", "2.5"], (1.0, 2.5)),
    ],
)
def test_weights_a_class_on_the_command_line(words: list[str], expected: object) -> None:
    changes = parse(Options, ["quick/exact", *words], "train").changes
    assert changed(load_recipe("quick/exact"), changes, "train quick/exact").train.class_weights == expected


def test_focal_loss_takes_labels_as_they_are() -> None:
    with pytest.raises(
        ValueError, match=r"loss=focal does not support label_smoothing = 0.1: leave label_smoothing at 0"
    ):
        Train(loss="focal", label_smoothing=0.1)


def test_several_labels() -> None:
    labels = torch.nn.functional.one_hot(LABELS, 3).float()
    labels[:, 0] = 1
    cpu = torch.device("cpu")
    expected = F.binary_cross_entropy_with_logits(SCORES, labels)
    assert torch.allclose(loss_of(Train(), labels, CLASSES, cpu)(SCORES, labels), expected)
    smooth = F.binary_cross_entropy_with_logits(SCORES, 0.8 * labels + 0.1)
    assert torch.allclose(loss_of(Train(label_smoothing=0.2), labels, CLASSES, cpu)(SCORES, labels), smooth)
    seldom = (40 - labels.sum(0)).clamp(min=1) / labels.sum(0)
    weighted = F.binary_cross_entropy_with_logits(SCORES, labels, pos_weight=seldom)
    assert torch.allclose(loss_of(Train(class_weights=True), labels, CLASSES, cpu)(SCORES, labels), weighted)
    for options in ({"loss": "focal"}, {"class_weights": (1.0, 2.0, 3.0)}, {"tta": "flip"}):
        with pytest.raises(ValueError, match="images have several labels: leave out"):
            loss_of(Train(**options), labels, CLASSES, cpu)  # pyright: ignore[reportArgumentType]


def test_numbers() -> None:
    numbers, cpu = torch.linspace(-2, 2, 40), torch.device("cpu")
    scores = SCORES[:, :1]
    off = (scores[:, 0] - numbers).abs()
    squared = loss_of(Train(label_smoothing=0.1), numbers, ("age",), cpu)(scores, numbers)
    assert torch.allclose(squared, off.square().mean())
    huber = torch.where(off < 1, off.square() / 2, off - 0.5).mean()
    assert torch.allclose(loss_of(Train(loss="huber"), numbers, ("age",), cpu)(scores, numbers), huber)
    for options in ({"loss": "focal"}, {"class_weights": True}):
        with pytest.raises(ValueError, match="has numbers, not classes: leave out"):
            loss_of(Train(**options), numbers, ("age",), cpu)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="loss=huber is for numbers"):
        loss_of(Train(loss="huber"), LABELS, CLASSES, cpu)
