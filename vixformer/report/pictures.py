"""Pictures from the data and the trained models: augmentation, patches, what is confused, where models look."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from vixformer.backbones.backbone import BEST, Backbone, BackboneConfig, from_pretrained
from vixformer.data.dataset import Images
from vixformer.data.loader import Loader
from vixformer.report.figures.figure import file_name
from vixformer.report.maps import MOST_TOKENS, looks, overlay, sheet
from vixformer.results.groups import Group, by_protocol
from vixformer.training.parts import Parts, load_parts

SIDE, LETTERS = 72, 12
MOST_LOOKED_AT = 600
"""Test images of a class that are classified to find confused ones."""


@dataclass(frozen=True)
class Picture:
    name: str
    title: str
    image: Image.Image
    says: str
    data: str = ""
    """The data set it is about."""

    def png(self) -> bytes:
        return png(self.image)


def png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def uri(image: Image.Image) -> str:
    return "data:image/png;base64," + base64.b64encode(png(image)).decode()


def image_of(pixels: Tensor) -> Image.Image:
    """uint8 (channels, height, width)."""
    values = pixels.numpy()
    return Image.fromarray(values[0] if len(values) == 1 else values.transpose(1, 2, 0)).convert("RGB")


def tiles(rows: Sequence[Sequence[Image.Image]], side: int = SIDE, gap: int = 4) -> Image.Image:
    width = max(len(row) for row in rows)
    canvas = Image.new("RGB", (width * (side + gap) - gap, len(rows) * (side + gap) - gap), "white")
    for y, row in enumerate(rows):
        for x, image in enumerate(row):
            canvas.paste(image.resize((side, side), Image.Resampling.NEAREST), (x * (side + gap), y * (side + gap)))
    return canvas


def side_by_side(
    rows: Sequence[tuple[str, Sequence[tuple[str, Image.Image]]]], side: int = 112, gap: int = 6
) -> Image.Image:
    """Rows of pictures, what each is above it, whose they are above them."""
    width = max(len(row) for _, row in rows) * (side + gap) - gap
    head, font = 2 * (LETTERS + 4), ImageFont.load_default(size=LETTERS)
    canvas = Image.new("RGB", (width, len(rows) * (side + head + gap) - gap), "white")
    draw = ImageDraw.Draw(canvas)
    for y, (name, row) in enumerate(rows):
        top = y * (side + head + gap)
        draw.text((0, top), name, fill="black", font=font)
        for x, (label, image) in enumerate(row):
            draw.text((x * (side + gap), top + LETTERS + 4), label, fill="#555", font=font)
            canvas.paste(image.resize((side, side), Image.Resampling.NEAREST), (x * (side + gap), top + head))
    return canvas


def all_pictures(
    groups: Sequence[Group], maps: int = 2, problem: Callable[[str], None] = lambda _: None
) -> list[Picture]:
    """Of each data set that is here; `maps` is on how many images attention is drawn. Models that cannot be read are
    told as problems."""
    found: list[Picture] = []
    for data in dict.fromkeys(group.data for group in groups):
        some = [group for group in groups if group.data == data]
        best = max(some, key=lambda group: max(group.values("test_top1"), default=0.0))
        try:
            parts = load_parts(best.runs[0].recipe, torch.device("cpu"))
        except (ValueError, OSError):
            continue  # the runs came without their data
        if parts.train.images.pixels.is_floating_point() or parts.train.images.labels.dim() > 1:
            continue  # noise, or images of several classes
        begun = len(found)
        found += pictures_of_data(data, parts, best.runs[0].recipe.model)
        trained = sorted((group for group in some if (group.runs[0].folder / BEST).exists()), key=_by_top1)
        able = ((group, model) for group in trained if (model := _model(group, problem)) is not None)
        if (best_model := next(able, None)) is not None:
            found += confused(data, parts, *best_model)
            sets = by_protocol(trained).values()  # those that have exact and efficient models first, then the largest
            found += attention(
                data, parts, max(sets, key=lambda s: (len({group.exact for group in s}), len(s))), problem, maps
            )
        found[begun:] = [replace(picture, data=data) for picture in found[begun:]]
    return found


def _by_top1(group: Group) -> float:
    return -max(group.values("test_top1"), default=0.0)


def _model(group: Group, problem: Callable[[str], None]) -> Backbone | None:
    try:
        return from_pretrained(group.runs[0].folder / BEST)
    except ValueError as error:
        problem(f"pictures of {group.name}, {error}")
        return None


def _stored(images: Images, i: int) -> Tensor:
    return images.pixels[images.rows[i]]


def pictures_of_data(data: str, parts: Parts, model: BackboneConfig) -> list[Picture]:
    """Those that need no trained model."""
    changed = parts.train.augmentation
    moved = ([steps(data, parts)] if changed.crop or changed.flip or changed.rotate or changed.cutout else []) + (
        [augmentation(data, parts)] if changed != type(changed)() else []
    )
    return [examples(data, parts), *moved, *patches(data, parts, model)]


def examples(data: str, parts: Parts, most: int = 20, shown: int = 6) -> Picture:
    """A sheet of classes, as "Optimizing Image Classification" and its kind show it."""
    labels = parts.train.images.labels
    rows = []
    for i, name in enumerate(parts.classes[:most]):
        index = torch.nonzero(labels == i).flatten()[:shown].tolist()
        rows.append((name, [image_of(_stored(parts.train.images, j)) for j in index]))
    left, side = 110, 36
    sheet_of_all = tiles([row for _, row in rows], side)
    canvas = Image.new("RGB", (left + sheet_of_all.width, sheet_of_all.height), "white")
    canvas.paste(sheet_of_all, (left, 0))
    draw, font = ImageDraw.Draw(canvas), ImageFont.load_default(size=LETTERS)
    for i, (name, _) in enumerate(rows):
        draw.text((0, i * (side + 4) + (side - LETTERS) // 2), name[:16], fill="black", font=font)
    more = f" The first {most} of {len(parts.classes)} classes." if len(parts.classes) > most else ""
    return Picture(
        f"examples-{data}", f"Classes, {data}", canvas, f"The first {shown} training images of each class.{more}"
    )


def steps(data: str, parts: Parts) -> Picture:
    """Crop, flip and normalization one after the other, on the first training images."""
    loader, generator = parts.train, torch.Generator().manual_seed(0)
    mean, std = _statistics(loader)
    whole, none = loader.augmentation, replace(loader.augmentation, crop=0, flip=False, rotate=0.0, cutout=0)
    moved = replace(none, crop=whole.crop, rotate=whole.rotate, cutout=whole.cutout)
    rows: list[tuple[str, list[tuple[str, Image.Image]]]] = []
    for i in range(min(3, len(loader.images))):
        stored = _stored(loader.images, i)
        (cropped,) = _as_trained(replace(loader, augmentation=moved), i, 1, generator)
        flipped = cropped.flip(-1) if whole.flip else cropped
        normal = (flipped - mean) / std
        shown = [("stored", image_of(stored))]
        if whole.crop or whole.rotate:
            shown.append(("cropped" if whole.crop else "rotated", image_of(_bytes(cropped))))
        shown += [("mirrored", image_of(_bytes(flipped)))] if whole.flip else []
        low, high = normal.min(), normal.max()
        shown += [(f"{low:.1f} to {high:.1f}", image_of(_bytes((normal - low) / (high - low).clamp(min=1e-6))))]
        rows.append((parts.classes[int(loader.images.labels[i])], shown))
    says = (
        "Step by step. The last picture is what the model gets, with its smallest number drawn black and its largest"
        " white."
    )
    return Picture(f"steps-{data}", f"From the stored image to the model, {data}", side_by_side(rows, side=96), says)


def _statistics(loader: Loader) -> tuple[Tensor, Tensor]:
    """The mean and the standard deviation of each channel."""
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (loader.mean, loader.std))
    return mean, std


def _as_trained(loader: Loader, i: int, times: int, generator: torch.Generator) -> Tensor:
    """An image as training sees it, before it is normalized, from 0 to 1."""
    images, _ = next(iter(loader.batches(torch.full((times,), i), generator)))
    mean, std = _statistics(loader)
    return images * std + mean


def _bytes(image: Tensor) -> Tensor:
    return (image * 255).round().clamp(0, 255).to(torch.uint8)


def augmentation(data: str, parts: Parts) -> Picture:
    loader, generator, rows = parts.train, torch.Generator().manual_seed(0), []
    for i in range(min(3, len(loader.images))):
        seen = _as_trained(loader, i, 7, generator)
        shown = (seen * 255).clamp(0, 255).to(torch.uint8)
        rows.append([image_of(_stored(loader.images, i)), *(image_of(pixels) for pixels in shown)])
    a = loader.augmentation
    ways = [
        *([f"shifted by up to {a.crop} pixels"] if a.crop else []),
        *(["mirrored"] if a.flip else []),
        *([f"rotated by up to {a.rotate:g} degrees"] if a.rotate else []),
        *([f"with a black square of {a.cutout} pixels"] if a.cutout else []),
    ]
    says = f"On the left as it is stored, then as training sees it: {', '.join(ways)}."
    return Picture(f"augmentation-{data}", f"Augmentation, {data}", tiles(rows), says)


def patches(data: str, parts: Parts, model: BackboneConfig) -> list[Picture]:
    """None where the model cuts no patches."""
    size = getattr(model, "patch_size", None)
    if size is None:
        return []
    down, across = size if isinstance(size, tuple) else (size, size)
    height, width = parts.train.size
    scale = 8 if max(height, width) <= 40 else 4
    shown = image_of(_stored(parts.train.images, 0)).resize((width * scale, height * scale), Image.Resampling.NEAREST)
    draw = ImageDraw.Draw(shown)
    for x in range(0, width, across):
        draw.line([(x * scale, 0), (x * scale, shown.height)], fill="#e33", width=1)
    for y in range(0, height, down):
        draw.line([(0, y * scale), (shown.width, y * scale)], fill="#e33", width=1)
    says = (
        f"The first training image, cut into {height // down} x {width // across} patches of {down} x {across} pixels."
    )
    return [Picture(f"patches-{data}", f"Patches, {data}", shown, says)]


def confused(data: str, parts: Parts, group: Group, model: Backbone, pairs: int = 4, shown: int = 8) -> list[Picture]:
    matrix = np.array(group.first.get("confusion") or [])
    if not matrix.size or len(matrix) != len(parts.classes):
        return []
    wrong = matrix * (1 - np.eye(len(matrix), dtype=int))
    order = np.argsort(wrong, axis=None)[::-1][:pairs]
    rows, words = [], []
    for true, taken in (np.unravel_index(place, matrix.shape) for place in order):
        if not wrong[true, taken]:
            break
        index = torch.nonzero(parts.test.images.labels == int(true)).flatten()[:MOST_LOOKED_AT]
        some = parts.test.images.take(index)
        found = (i for i, guess in enumerate(_guesses(parts, some, model)) if guess == int(taken))
        if hits := list(islice(found, shown)):
            rows.append([image_of(_stored(some, i)) for i in hits])
            words.append(
                f"{parts.classes[true]} predicted as {parts.classes[taken]} ({wrong[true, taken]} of"
                f" {matrix[true].sum()})"
            )
    if not rows:
        return []
    says = f"{group.name}, from the top: {'; '.join(words)}."
    return [Picture(f"confused-{data}", f"Most common mistakes, {data}", tiles(rows), says)]


def _guesses(parts: Parts, images: Images, model: Backbone) -> Iterator[int]:
    """A batch is classified when its first guess is asked for: most of them never are."""
    for some, _ in _plain(parts, images):
        yield from predict(model, some).tolist()


def _plain(parts: Parts, images: Images) -> Iterator[tuple[Tensor, Tensor]]:
    return replace(parts.test, images=images, batch_size=100).plain()


@torch.inference_mode()
def predict(model: Backbone, images: Tensor) -> Tensor:
    return model(images).argmax(-1)


def attention(
    data: str, parts: Parts, groups: Sequence[Group], problem: Callable[[str], None], count: int, most: int = 4
) -> list[Picture]:  # fmt: skip
    """The best exact model, and the best efficient ones, side by side."""
    chosen = [*[group for group in groups if group.exact][:1], *(group for group in groups if not group.exact)]
    resize = chosen[0].runs[0].recipe.data.resize
    alike = (group for group in chosen if group.runs[0].recipe.data.resize == resize)
    models = list(
        islice(
            ((g, model) for g in alike if (model := _model(g, problem)) is not None and _maps(model, parts)),
            most if count else 0,
        )
    )
    found: list[Picture] = []
    for i in range(min(count, len(parts.test.images)) if models else 0):
        image, picture = _ready(parts, i), image_of(_stored(parts.test.images, i))
        label = parts.classes[int(parts.test.images.labels[i])]
        rows: list[tuple[str, list[tuple[str, Image.Image]]]] = []
        for group, model in models:
            seen = looks(model, image)
            summed = {"last layer": seen.mean, "rollout": seen.rollout}
            drawn = [(what, overlay(picture, m, 112)) for what, m in summed.items() if m is not None]
            guess = parts.classes[int(predict(model, image[None])[0])]
            rows.append((f"{group.name}: {guess}", [("image", picture), *drawn]))
            says = f"One row per layer ({', '.join(seen.names)}): the mean over heads, then each head."
            title = f"{group.name}, {data} image {i + 1} ({label})"
            found.append(Picture(f"heads-{data}-{i}-{file_name(group.name)}", title, sheet(picture, seen), says))
        says = (
            "Bright places get the most attention; each map is stretched to its own range. Rollout multiplies the maps"
            " of all layers."
        )
        title = f"Where models look: {data} image {i + 1} ({label})"
        found.insert(len(found) - len(models), Picture(f"attention-{data}-{i}", title, side_by_side(rows), says))
    return found


def _maps(model: Backbone, parts: Parts) -> bool:
    """Whether there is a map to draw, and not too large a one."""
    image = _ready(parts, 0)[None]
    try:
        seen = model.attention_inputs(image)
    except (ValueError, RuntimeError):
        return False
    return max(tokens.shape[1] for _, tokens, _ in seen) <= MOST_TOKENS and looks(model, image[0]).mean is not None


def _ready(parts: Parts, i: int) -> Tensor:
    images, _ = next(_plain(parts, parts.test.images.take(torch.tensor([i]))))
    return images[0]
