"""Trained models, loaded when they are first asked for and unloaded when they need too much memory."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image, ImageOps

from vixformer.backbones.backbone import BEST, CONFIG_FILE, WEIGHTS_FILE, Backbone
from vixformer.data.preprocess import PREPROCESSING_FILE, Preprocessing
from vixformer.report.maps import looks, overlay
from vixformer.results.groups import find_runs
from vixformer.results.predictor import Guess, Predictor

MAP_SIDE = 168
MOST = 64
"""Images that go through a model at a time."""


@dataclass(frozen=True)
class Known:
    """A model that can be asked."""

    name: str
    folder: Path
    data: str
    attention: str
    top1: float
    preprocessing: Preprocessing
    bytes: int
    written: int
    """When its weights were, in nanoseconds: a run that was trained again is another model."""


@dataclass(frozen=True)
class Answer:
    model: str
    top: tuple[Guess, ...]
    milliseconds: float
    """The model alone, for one image; of images that went through it together, the share of one."""
    inverted: bool
    """Whether the picture was turned from dark on light into light on dark, or back, because the model knows only
    that."""
    maps: dict[str, Image.Image]
    """Of the last layer, and rolled out over all; none where the model has no map."""


Found = tuple[Predictor, torch.Tensor, float]
"""The model, its logits for an image, and milliseconds."""


class Models:
    """By the name that the table has for them: what a request says is looked up here, and never becomes a path."""

    def __init__(self, folders: list[Path], most_bytes: int) -> None:
        self.folders, self.most_bytes = folders, most_bytes
        self.loaded: OrderedDict[str, tuple[Known, Predictor]] = OrderedDict()
        self.lock, self.queue = threading.Lock(), threading.Lock()
        """One batch at a time goes through a model: torch uses all cores for it. Images that arrive meanwhile wait, and
        are the next batch."""
        self.waiting: dict[Known, list[tuple[torch.Tensor, Future[Found]]]] = {}
        self._known: dict[str, Known] = {}

    def known(self) -> dict[str, Known]:
        """The first seed of every finished run that has its weights, best first."""
        found: list[Known] = []
        for group in find_runs(self.folders).groups:
            folder = group.runs[0].folder / BEST
            if not all((folder / name).exists() for name in (CONFIG_FILE, WEIGHTS_FILE, PREPROCESSING_FILE)):
                continue
            weights = (folder / WEIGHTS_FILE).stat()
            known = self._known.get(group.name)
            if known is None or (known.folder, known.written) != (folder, weights.st_mtime_ns):
                try:
                    preprocessing = Preprocessing.load(folder)
                except ValueError:
                    continue
                top1 = group.values("test_top1")[0]
                known = Known(
                    group.name,
                    folder,
                    group.data,
                    group.attention,
                    top1,
                    preprocessing,
                    weights.st_size,
                    weights.st_mtime_ns,
                )
            found.append(known)
        self._known = {known.name: known for known in sorted(found, key=lambda known: (known.data, -known.top1))}
        return self._known

    def get(self, name: str) -> Known:
        found = self._known.get(name) or self.known().get(name)
        if found is None:
            raise KeyError(f'there is no model "{name[:80]}" here; /api/models lists them')
        return found

    def ask(self, name: str, picture: Image.Image, top: int = 5, maps: bool = True, as_is: bool = False) -> Answer:
        """With `as_is`, the picture is not inverted, whatever the model knows."""
        known = self.get(name)
        prepare = known.preprocessing
        inverted = not as_is and prepare.reversed(picture)
        shown = (ImageOps.invert(picture) if inverted else picture).convert("L" if prepare.channels == 1 else "RGB")
        image, answer = prepare([shown])[0], Future[Found]()
        with self.queue:
            self.waiting.setdefault(known, []).append((image, answer))
        with self.lock:
            while not answer.done():
                self._answer(known)
            predictor, logits, milliseconds = answer.result()
            drawn = self._maps(predictor.model, image, shown) if maps else {}
        return Answer(name, predictor.guesses(logits[None], top)[0], milliseconds, inverted, drawn)

    def _answer(self, known: Known) -> None:
        """The images that wait for a model, together."""
        with self.queue:
            waiting = self.waiting.pop(known)
            batch, left = waiting[:MOST], waiting[MOST:]
            if left:
                self.waiting[known] = left
        try:
            predictor, images = self._predictor(known), torch.stack([image for image, _ in batch])
            began = time.perf_counter()
            logits = predictor.logits(images)
            milliseconds = 1e3 * (time.perf_counter() - began) / len(batch)
            for (_, answer), found in zip(batch, logits, strict=True):
                answer.set_result((predictor, found, milliseconds))
        except Exception as error:  # each of them tells its own client
            for _, answer in batch:
                answer.set_exception(error)

    def _predictor(self, known: Known) -> Predictor:
        if known.name in self.loaded and self.loaded[known.name][0] != known:
            del self.loaded[known.name]
        if known.name not in self.loaded:
            if known.bytes > self.most_bytes:
                raise MemoryError(
                    f"{known.name} has {known.bytes / 2**20:.0f} MiB of weights; {self.most_bytes / 2**20:.0f} are"
                    " allowed"
                )
            while self.loaded and sum(other.bytes for other, _ in self.loaded.values()) + known.bytes > self.most_bytes:
                self.loaded.popitem(last=False)
            predictor = Predictor.load(known.folder)
            channels, (height, width) = known.preprocessing.channels, known.preprocessing.size
            predictor.logits(torch.zeros(1, channels, height, width))  # the first call is not like the others
            self.loaded[known.name] = known, predictor
        self.loaded.move_to_end(known.name)
        return self.loaded[known.name][1]

    @staticmethod
    def _maps(model: Backbone, image: torch.Tensor, picture: Image.Image) -> dict[str, Image.Image]:
        try:
            seen = looks(model, image)
        except ValueError:  # too many tokens to draw
            return {}
        found = {"last layer": seen.mean, "rollout": seen.rollout}
        return {name: overlay(picture, weights, MAP_SIDE) for name, weights in found.items() if weights is not None}
