"""Test-time augmentation is a number of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.support.recipes import tiny
from vixformer.data.dataset import Images, is_right
from vixformer.data.loader import Loader
from vixformer.measure.accuracy import VIEWS, evaluate
from vixformer.training.loop import train
from vixformer.training.parts import load_parts


def test_views() -> None:
    image = torch.arange(32 * 32.0).view(1, 1, 32, 32)
    own, mirror = VIEWS["flip"](image)
    assert torch.equal(own, image)
    assert torch.equal(mirror.flip(-1), image)
    views = VIEWS["shift"](image)
    assert len(views) == 10
    assert torch.equal(views[0], image)
    assert torch.equal(views[2][..., 2:, :], image[..., :-2, :])
    assert torch.equal(views[2][..., 0, :], image[..., 0, :])


def test_the_mean_of_probabilities() -> None:
    loader = load_parts(tiny(), torch.device("cpu")).test
    model = nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 10))
    views = VIEWS["flip"](next(loader.plain())[0])
    both = torch.stack([model(view).detach().softmax(1) for view in views])
    first = evaluate(model, replace(loader, images=loader.images.take(torch.arange(len(both[0])))), views=VIEWS["flip"])
    labels = loader.images.labels[: len(both[0])]
    expected = -both.mean(0).gather(1, labels.unsqueeze(1)).log().mean()
    assert first.loss == pytest.approx(float(expected), rel=1e-4)
    assert torch.equal(first.predictions, both.mean(0).argmax(1))


def test_a_run_says_it_beside_the_number_that_counts() -> None:
    result = train(tiny(epochs=2, fraction=0.1, tta="shift"))
    assert result.summary["tta"] == "shift"
    parts = load_parts(result.recipe, torch.device("cpu"))
    assert result.summary["tta_test_top1"] == pytest.approx(
        evaluate(result.model, parts.test, views=VIEWS["shift"]).top1
    )
    assert result.summary["test_top1"] == pytest.approx(evaluate(result.model, parts.test).top1)
    assert "tta_test_top1" not in train(tiny(epochs=1)).summary


def test_several_labels_against_scikit_learn_and_by_hand() -> None:
    labels = torch.tensor([[1.0, 0, 1], [0, 1, 0], [0, 0, 1], [1, 1, 0]])
    logits = torch.tensor([[2.0, -1, 1], [3, -2, -1], [-1, 1, 2], [1, 0.5, -3]])

    class Fixed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return logits

    images = Images.all(torch.zeros(4, 1, 4, 4, dtype=torch.uint8), labels, ("a", "b", "c"))
    loader = Loader(images, 4, (0.5,), (0.5,), (4, 4), torch.device("cpu"))
    scores = evaluate(Fixed(), loader)
    assert scores.top1 == 75.0  # the second is wrong
    assert scores.top5 == 100.0
    chosen = logits > 0
    right = float((chosen & labels.bool()).sum())
    precision, recall = right / float(chosen.sum()), right / float(labels.sum())
    assert scores.several["f1"] == pytest.approx(100 * 2 * precision * recall / (precision + recall))
    # ranked by a: 2nd, 1st, 4th, 3rd; by b: 3rd, 4th, 1st, 2nd; by c: 3rd, 1st, 2nd, 4th
    by_label = [(1 / 2 + 2 / 3) / 2, (1 / 2 + 2 / 4) / 2, 1.0]
    assert scores.several["map"] == pytest.approx(100 * sum(by_label) / 3)
    assert scores.loss == pytest.approx(float(F.binary_cross_entropy_with_logits(logits, labels)))
    assert set(scores.per_class(("a", "b", "c"))) == {"a", "b", "c", "macro avg", "weighted avg"}
    ranks = is_right(logits.argmax(1), labels)
    assert ranks.tolist() == [True, False, True, True]


def test_numbers_against_scikit_learn() -> None:
    from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

    labels, answers = torch.tensor([10.0, 20, 40, 50]), torch.tensor([[-1.0], [0.1], [0.2], [2]])

    class Fixed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return answers

    images = Images.all(torch.zeros(4, 1, 4, 4, dtype=torch.uint8), labels, ("age",))
    loader = Loader(images, 4, (0.5,), (0.5,), (4, 4), torch.device("cpu"), target=(30.0, 10.0))
    found = evaluate(Fixed(), loader).measures
    guessed = (30 + 10 * answers[:, 0]).tolist()
    expected = {
        "mae": mean_absolute_error(labels, guessed),
        "rmse": root_mean_squared_error(labels, guessed),
        "r2": r2_score(labels, guessed),
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert found["loss"] == pytest.approx(expected["rmse"] ** 2 / 100)
    assert evaluate(Fixed(), loader, views=VIEWS["flip"]).measures == pytest.approx(found)
