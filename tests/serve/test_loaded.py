"""Models of a server: images that wait for one go through it together."""

from __future__ import annotations

import threading
import time

import pytest
import torch
from PIL import Image

from tests.support.serving import Served
from vixformer.results.predictor import Predictor
from vixformer.serve.loaded import Models

PICTURES = [Image.new("L", (28, 28), 50 * i) for i in range(5)]


def together(models: Models, name: str) -> list[object]:
    """What each of them gets when all arrive while the model is busy."""
    found: list[object] = [None] * len(PICTURES)

    def ask(i: int) -> None:
        try:
            found[i] = models.ask(name, PICTURES[i], maps=False).top
        except Exception as error:
            found[i] = error

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(PICTURES))]
    with models.lock:
        for thread in threads:
            thread.start()
        while sum(map(len, models.waiting.values())) < len(PICTURES):
            time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert not models.waiting
    return found


def test_images_that_wait_are_one_batch(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    models, shapes, logits = Models([served.folder], 2**30), [], Predictor.logits
    name = served.models[0]
    alone = [models.ask(name, picture, maps=False).top for picture in PICTURES]

    def seen(self: Predictor, images: torch.Tensor) -> torch.Tensor:
        shapes.append(len(images))
        return logits(self, images)

    monkeypatch.setattr(Predictor, "logits", seen)
    for one, batched in zip(alone, together(models, name), strict=True):
        assert [guess.label for guess in batched] == [guess.label for guess in one]  # type: ignore[attr-defined]
        assert [guess.probability for guess in batched] == pytest.approx(  # type: ignore[attr-defined]
            [guess.probability for guess in one], abs=1e-5
        )
    assert shapes == [len(PICTURES)]


def test_each_of_a_batch_hears_what_went_wrong(served: Served) -> None:
    found = together(Models([served.folder], 1), served.models[0])
    assert all(isinstance(one, MemoryError) for one in found), found
