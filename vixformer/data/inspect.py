"""Find faults in a folder of images: files that cannot be read, copies, tiny images, and labels that look wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from vixformer.data.folder import Folder
from vixformer.data.picture import open_picture

TINY = 16
"""A shorter side, in pixels."""
SMALL = 4
"""An image is also tiny if its shorter side is this number of times smaller than the median."""
SEEN = 16
"""Side of the pictures that labels are judged by."""
FEWEST = 5
"""Images of each class that judging labels needs."""
SURE, UNLIKELY = 0.9, 0.05
TELLS_APART = 0.7
"""Lowest cross-validated accuracy at which the classifier judges labels."""


@dataclass(frozen=True)
class Finding:
    problem: str
    """broken, copy, train and test, two classes, tiny or label."""
    file: Path
    what: str


@dataclass(frozen=True)
class Inspection:
    images: int
    findings: list[Finding]
    judged: str
    """Whether labels were judged, in a sentence."""


@dataclass(frozen=True)
class _Seen:
    file: Path
    label: int
    part: str
    digest: str
    side: int
    small: np.ndarray


def inspect(source: Folder, tell: Callable[[int, int], None] = lambda *_: None) -> Inspection:
    """Reads every image. `tell` gets the number of images that are done, and of all."""
    classes, findings, seen = source.classes(), [], []
    files = [(file, label, part) for part in ("train", "test") for file, label in source.files(part)]
    for done, (file, label, part) in enumerate(files, 1):
        try:
            image = open_picture(file, 3)
        except (ValueError, OSError) as error:
            findings.append(Finding("broken", file, str(error).partition(": ")[2] or str(error)))
            continue
        finally:
            tell(done, len(files))
        digest = hashlib.sha256(repr(image.size).encode() + image.tobytes()).hexdigest()
        small = np.asarray(image.resize((SEEN, SEEN), Image.Resampling.BILINEAR), np.float32) / 255
        seen.append(_Seen(file, label, part, digest, min(image.size), small))
    findings += [*_copies(seen, classes), *_tiny(seen)]
    strange, judged = _strange(seen, classes)
    return Inspection(len(files), findings + strange, judged)


def _copies(seen: Sequence[_Seen], classes: Sequence[str]) -> list[Finding]:
    """Files with the same picture, pixel by pixel, under any names."""
    first: dict[str, _Seen] = {}
    found = []
    for one in seen:
        other = first.setdefault(one.digest, one)
        if other is one:
            continue
        if other.label != one.label:
            found.append(
                Finding("two classes", one.file, f"{classes[one.label]} here; the same picture is {other.file}")
            )
        elif other.part != one.part:
            found.append(Finding("train and test", one.file, f"{one.part} here; the same picture is {other.file}"))
        else:
            found.append(Finding("copy", one.file, f"the same picture as {other.file}"))
    return found


def _tiny(seen: Sequence[_Seen]) -> list[Finding]:
    usual = float(np.median([one.side for one in seen])) if seen else 0.0
    least = max(TINY, usual / SMALL)
    return [
        Finding("tiny", one.file, f"the shorter side has {one.side} pixels; the median is {usual:.0f}")
        for one in seen
        if one.side < least
    ]


def _strange(seen: Sequence[_Seen], classes: Sequence[str]) -> tuple[list[Finding], str]:
    """Images whose class is another one with high probability, by a classifier of small pictures that was not trained
    on them."""
    unique = list({one.digest: one for one in seen}.values())
    labels = np.array([one.label for one in unique])
    counts = np.bincount(labels, minlength=len(classes))
    if len(classes) < 2:
        return [], "There are no labels to judge."
    if counts.min() < FEWEST:
        return [], f"Labels were not judged: that needs {FEWEST} images of every class."
    from sklearn.decomposition import PCA  # here, because it takes a second to load
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pixels = np.stack([one.small for one in unique]).reshape(len(unique), -1)
    judge = make_pipeline(
        PCA(min(50, int(0.6 * len(unique)), pixels.shape[1]), random_state=0),
        StandardScaler(),
        LogisticRegression(C=0.1, max_iter=1000),
    )
    shares = np.asarray(cross_val_predict(judge, pixels, labels, cv=FEWEST, method="predict_proba"))
    accuracy = float((shares.argmax(1) == labels).mean())
    if accuracy < TELLS_APART:
        return [], (
            f"Labels were not judged: a simple classifier tells the classes apart in {accuracy:.0%} of the images only."
        )
    found = []
    for one, share in zip(unique, shares, strict=True):
        best = int(share.argmax())
        if share[best] > SURE and share[one.label] < UNLIKELY:
            found.append(Finding("label", one.file, f"{classes[one.label]} here; looks like {classes[best]}"))
    told = f"Labels were judged by a simple classifier, which is right in {accuracy:.0%} of the images."
    return found, told + (" Look at the files that it names." if found else "")
