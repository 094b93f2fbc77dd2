"""Readers: the real formats, made small here; and every kind of damage."""

from __future__ import annotations

import gzip
import os
import pickle
import random
import resource
import struct
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from vixformer.config import Data
from vixformer.data.cifar import CIFAR10, CIFAR100
from vixformer.data.dataset import DataSet, Images, content_digest, data_root
from vixformer.data.folder import Folder, TinyImageNet
from vixformer.data.hub_images import Hub
from vixformer.data.mini import FashionMini
from vixformer.data.mnist import MNIST, FashionMNIST, read_idx
from vixformer.data.synthetic import Synthetic
from vixformer.progress import decoding


def idx(array: np.ndarray) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.astype(np.uint8).tobytes()


def write_mnist(root: Path, folder: str = "MNIST", count: int = 30, packed: bool = False) -> tuple[np.ndarray, np.ndarray]:
    raw = root / folder / "raw"
    raw.mkdir(parents=True)
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (count, 28, 28), np.uint8), np.arange(count) % 10
    for part in ("train", "t10k"):
        for name, data in (("images-idx3", idx(images)), ("labels-idx1", idx(labels))):
            path = raw / f"{part}-{name}-ubyte"
            if packed:
                path.with_name(path.name + ".gz").write_bytes(gzip.compress(data))
            else:
                path.write_bytes(data)
    return images, labels


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("dataset", "folder"), [(MNIST, "MNIST"), (FashionMNIST, "FashionMNIST")])
def test_idx_files(dataset: type[DataSet], folder: str, packed: bool, tmp_path: Path) -> None:
    images, labels = write_mnist(tmp_path, folder, packed=packed)
    source = dataset(tmp_path)
    assert source.here()
    for part in ("train", "test"):
        read = source.read(part)
        assert read.pixels.dtype == torch.uint8
        assert np.array_equal(read.pixels[:, 0].numpy(), images)
        assert read.labels.tolist() == labels.tolist()
        assert len(read.classes) == 10


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: d[:10], "cut short: 10 bytes"),
        (lambda d: d[:-5], "announces 23520 bytes of data and 23515 follow"),
        (lambda d: d + b"x", "announces 23520 bytes of data and 23521 follow"),
        (lambda d: b"\x00\x00\x0d\x03" + d[4:], "is no IDX file of 3 dimensions"),
        (lambda d: d[:4] + struct.pack(">I", 2**32 - 1) + d[8:], "is damaged"),
        (lambda d: b"", "cut short"),
        (lambda d: b"GIF89a" + d, "is no IDX file"),
        (lambda d: gzip.compress(d)[:50], "cut short|damaged"),
        (lambda d: b"\x1f\x8b" + d, "damaged"),
    ],
)
def test_damaged_idx_files(damage, message: str, tmp_path: Path) -> None:
    write_mnist(tmp_path)
    path = tmp_path / "MNIST" / "raw" / "train-images-idx3-ubyte"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=message) as caught:
        MNIST(tmp_path).read("train")
    assert str(path) in str(caught.value)


@pytest.mark.skipif("VIX_DATA" not in os.environ, reason="the real files are not here: set VIX_DATA")
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10"])
def test_real_content_is_as_published(name: str) -> None:
    source = DataSet.member(name)(data_root())
    parts: tuple[Any, ...] = ("train", "test")
    for part in parts:
        images = source.read(part)
        assert content_digest(images) == source.digests[part]
        images.labels[0] = (images.labels[0] + 1) % 10
        assert content_digest(images) != source.digests[part]


def test_labels_that_do_not_fit(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    path = tmp_path / "MNIST" / "raw" / "train-labels-idx1-ubyte"
    path.write_bytes(idx(np.full(30, 11)))
    with pytest.raises(ValueError, match="has the label 11, and labels go from 0 to 9"):
        MNIST(tmp_path).read("train")
    path.write_bytes(idx(np.zeros(29)))
    with pytest.raises(ValueError, match=r"has 30 images and .* 29 labels"):
        MNIST(tmp_path).read("train")


def test_missing_files_say_where_to_get_them(tmp_path: Path) -> None:
    for dataset in (MNIST, CIFAR10, CIFAR100, TinyImageNet):
        assert not dataset(tmp_path).here()
        with pytest.raises(ValueError, match=f"vix data get {dataset.name}"):
            dataset(tmp_path).read("train")


def write_cifar(root: Path, dataset: type[CIFAR10], python: bool, count: int = 7) -> tuple[np.ndarray, np.ndarray]:
    source = dataset(root)
    rng = np.random.default_rng(1)
    pixels, labels = rng.integers(0, 256, (count, 3072), np.uint8), np.arange(count) % 10
    folder = root / (dataset.python if python else dataset.binary)
    folder.mkdir(parents=True)
    for part in ("train", "test"):
        for name in source.files(part):
            if python:
                (folder / name).write_bytes(pickle.dumps({b"data": pixels, dataset.label_key: labels.tolist()}, protocol=2))
            else:
                lead = [labels[:, None].astype(np.uint8)] * dataset.label_bytes
                (folder / f"{name}.bin").write_bytes(np.concatenate([*lead, pixels], 1).tobytes())
    return pixels, labels


@pytest.mark.parametrize("python", [False, True])
@pytest.mark.parametrize("dataset", [CIFAR10, CIFAR100])
def test_cifar(dataset: type[CIFAR10], python: bool, tmp_path: Path) -> None:
    pixels, labels = write_cifar(tmp_path, dataset, python)
    source = dataset(tmp_path)
    assert source.here()
    test = source.read("test")
    assert test.shape == (3, 32, 32)
    assert np.array_equal(test.pixels.flatten(1).numpy(), pixels)
    assert test.labels.tolist() == labels.tolist()
    assert len(source.read("train")) == 7 * len(source.files("train"))


def test_damaged_cifar(tmp_path: Path) -> None:
    write_cifar(tmp_path, CIFAR10, python=False)
    path = tmp_path / CIFAR10.binary / "test_batch.bin"
    good = path.read_bytes()
    path.write_bytes(good[:-1])
    with pytest.raises(ValueError, match="no whole number of images of 3073 bytes"):
        CIFAR10(tmp_path).read("test")
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="0 bytes are no whole number"):
        CIFAR10(tmp_path).read("test")
    path.write_bytes(b"\xff" + good[1:])
    with pytest.raises(ValueError, match="has the label 255"):
        CIFAR10(tmp_path).read("test")


class Evil:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple:
        return os.system, (f"touch {self.target}",)


def test_a_pickle_that_wants_to_run_code_does_not(tmp_path: Path) -> None:
    write_cifar(tmp_path, CIFAR10, python=True)
    path, mark = tmp_path / CIFAR10.python / "test_batch", tmp_path / "ran"
    path.write_bytes(pickle.dumps({b"data": Evil(mark)}, protocol=2))
    with pytest.raises(ValueError, match=r"was not run: it asks for posix.system"):
        CIFAR10(tmp_path).read("test")
    assert not mark.exists()
    for content in (
        [],
        {b"data": 3},
        {b"data": np.zeros((2, 5), np.uint8), b"labels": [1, 2]},
        {b"data": np.zeros((1, 3072), np.uint8), b"labels": ["a"]},
    ):
        path.write_bytes(pickle.dumps(content, protocol=2))
        with pytest.raises(ValueError, match="should hold uint8 data"):
            CIFAR10(tmp_path).read("test")


def picture(path: Path, size: tuple[int, int] = (64, 64), mode: str = "RGB", colour: int = 90) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour if mode == "L" else (colour, 10, 200)).save(path)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write_tiny(root: Path) -> Path:
    home = root / "tiny-imagenet-200"
    for wnid in ("n02", "n01"):
        for i in range(3):
            picture(home / "train" / wnid / "images" / f"{wnid}_{i}.JPEG", mode="L" if i == 0 else "RGB")
    for i in range(2):
        picture(home / "val" / "images" / f"val_{i}.JPEG", colour=30 * i)
    (home / "wnids.txt").write_text("n02\nn01\n")
    (home / "words.txt").write_text("n01\tgoldfish, Carassius\nn02\ttench\n")
    (home / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn01\t0\t0\t1\t1\nval_1.JPEG\tn02\t0\t0\t1\t1\n")
    return home


def mutated(original: bytes, rng: random.Random) -> bytes:
    data = bytearray(original)
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(data))
        change = rng.randrange(3)
        if change == 0:
            data[at] = rng.randrange(256)
        elif change == 1:
            del data[at : at + rng.randint(1, 40)]
        else:
            data[at:at] = rng.randbytes(rng.randint(1, 8))
        data = data or bytearray(b"x")
    return bytes(data)


@pytest.mark.parametrize("kind", ["pickle", "binary", "idx", "gz", "jpeg", "annotations"])
@pytest.mark.usefixtures("cache")
def test_500_mutations_are_refused_or_read(kind: str, tmp_path: Path) -> None:
    """Images or one sentence; never a traceback, a hang or a lot of memory."""
    rng = random.Random(kind)
    home = write_tiny(tmp_path)
    write_cifar(tmp_path, CIFAR10, python=kind == "pickle", count=2)
    path, read = {
        "pickle": (tmp_path / CIFAR10.python / "test_batch", lambda: CIFAR10(tmp_path).read("test")),
        "binary": (tmp_path / CIFAR10.binary / "test_batch.bin", lambda: CIFAR10(tmp_path).read("test")),
        "idx": (tmp_path / "idx", lambda: read_idx(path, path.read_bytes(), 3)),
        "gz": (tmp_path / "idx.gz", lambda: read_idx(path, path.read_bytes(), 3)),
        "jpeg": (home / "val" / "images" / "val_1.JPEG", lambda: TinyImageNet(tmp_path).read("test")),
        "annotations": (home / "val" / "val_annotations.txt", lambda: TinyImageNet(tmp_path).read("test")),
    }[kind]
    if kind in ("idx", "gz"):
        path.write_bytes(idx(np.zeros((3, 28, 28))) if kind == "idx" else gzip.compress(idx(np.zeros((3, 28, 28)))))
    original = path.read_bytes()
    memory, began, refused = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time(), 0
    for _ in range(500):
        path.write_bytes(mutated(original, rng))
        try:
            read()
        except ValueError as error:
            refused += 1
            assert str(path.parent) in str(error)  # noqa: PT017
            assert "\n" not in str(error)[:80]  # noqa: PT017
    assert refused > 20
    assert time.process_time() - began < 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 300 * 1024


@pytest.mark.usefixtures("cache")
def test_tiny_imagenet(tmp_path: Path) -> None:
    home = write_tiny(tmp_path)
    source = TinyImageNet(tmp_path)
    train, test = source.read("train"), source.read("test")
    assert train.classes == ("tench", "goldfish")
    assert train.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert test.labels.tolist() == [1, 0]
    assert train.shape == (3, 64, 64)
    assert torch.equal(train.pixels[0, 0], train.pixels[0, 1])  # a grey one
    (home / "train" / "n01" / "images" / "n01_1.JPEG").write_text("not a picture")
    with pytest.raises(ValueError, match=r"n01_1.JPEG is no image that can be read"):
        source.read("train")
    (home / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn99\n")
    with pytest.raises(ValueError, match="does not name an image and a class"):
        source.read("test")
    for path in (home / "train" / "n01" / "images").iterdir():
        path.unlink()
    with pytest.raises(ValueError, match=r"has no images, and wnids.txt lists it"):
        source.read("train")


def test_a_folder_of_ones_own_is_decoded_once(tmp_path: Path, cache: Path) -> None:
    for part in ("train", "val"):
        for name, size in (("cat", (20, 30)), ("dog", (40, 40))):
            picture(tmp_path / part / name / "a.png", size)
    source = Folder(tmp_path)
    source.size = (24, 24)
    seen: list[int] = []
    with decoding(lambda done, _: seen.append(done)):
        train = source.read("train")
        assert source.read("test").labels.tolist() == [0, 1]
        source.read("train")
    assert train.shape == (3, 24, 24)
    assert train.classes == ("cat", "dog")
    assert seen == [1, 2, 1, 2]
    assert not list(cache.rglob("*.part"))
    (tmp_path / "train" / "empty").mkdir()
    with pytest.raises(ValueError, match="is a class folder without images"):
        source.read("train")
    picture(tmp_path / "val" / "wolf" / "a.png")
    (tmp_path / "train" / "empty").rmdir()
    with pytest.raises(ValueError, match="has the class wolf, which"):
        source.read("test")
    (tmp_path / "train" / "cat" / "a.jpg").write_text("text")
    with pytest.raises(ValueError, match="is no image that can be read"):
        source.read("train")
    assert not list(cache.rglob("*.part"))
    with pytest.raises(ValueError, match=r"there is no folder .*nowhere: give --data FOLDER"):
        Folder(tmp_path / "nowhere").read("train")


def test_the_embedded_set() -> None:
    parts: tuple[Any, ...] = (("train", 1000), ("test", 200))
    for part, each in parts:
        images = FashionMini(Path("nowhere")).read(part)
        assert images.shape == (1, 28, 28)
        assert torch.bincount(images.labels).tolist() == [each] * 10
        assert images.pixels.float().std() > 50


def test_synthetic_images_are_noise() -> None:
    images = Synthetic(Path("nowhere")).read("test")
    assert images.shape == (3, 224, 224)
    assert len(images) == 1000
    assert images.pixels.dtype == torch.float32
    assert abs(images.pixels[:20].mean().item()) < 0.01
    assert images.pixels[:20].std().item() == pytest.approx(1, abs=0.01)


def test_the_hub_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="write hub:owner/name"):
        Hub(Path("nowhere")).read("train")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ValueError, match="pip install datasets"):
        Hub(Path("nowhere")).read("train")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_data_set_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package `datasets` reads a folder as it reads the hub."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    features = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])})
    for part, count in (("train", 5), ("validation", 2)):
        pictures = [Image.new("L" if i == 0 else "RGB", (8, 6), 40 * i if i == 0 else (40 * i, 0, 9)) for i in range(count)]
        rows = {"img": pictures, "label": [i % 2 for i in range(count)]}
        datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "set" / f"{part}.parquet")
    hub = Data(name=f"hub:{tmp_path / 'set'}").source()
    images = hub.read("train")
    assert images.shape == (3, 6, 8)
    assert images.labels.tolist() == [0, 1, 0, 1, 0]
    assert images.classes == ("cat", "dog")
    assert images.pixels[3, :, 0, 0].tolist() == [120, 0, 9]
    assert len(hub.read("test")) == 2
    assert Data(name=f"hub:{tmp_path / 'set'}", resize=4).source().read("test").shape == (3, 4, 4)


def test_parts_share_their_pixels() -> None:
    images = Images.all(torch.zeros(10, 1, 2, 2, dtype=torch.uint8), torch.arange(10), ("a",) * 10)
    part = images.take(torch.tensor([7, 3])).take(torch.tensor([1]))
    assert part.labels.tolist() == part.rows.tolist() == [3]
    assert part.pixels.data_ptr() == images.pixels.data_ptr()


def test_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIX_DATA", "/somewhere")
    assert data_root() == Path("/somewhere")
    assert data_root("/else") == Path("/else")
    monkeypatch.delenv("VIX_DATA")
    assert data_root() == Path.home() / ".cache" / "vix" / "data"


@pytest.mark.skipif("VIX_DATA" not in os.environ, reason="the real files are not here: set VIX_DATA")
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10", "cifar100", "tiny-imagenet"])
def test_real_files(name: str) -> None:
    source = DataSet.member(name)(data_root())
    if not source.here():
        pytest.skip(f"{name} is not under VIX_DATA")
    parts: tuple[Any, ...] = ("train", "test")
    for part in parts:
        images = source.read(part)
        assert images.shape == source.shape
        assert 0 < len(images) <= source.counts[part]
        assert torch.bincount(images.labels).float().std() < torch.bincount(images.labels).float().mean()
