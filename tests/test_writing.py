"""A disk that is full: one sentence that names the file, what was there before is as it was, and nothing half-written
stays."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import vixformer as vix
from tests.support.datasets import picture
from tests.support.recipes import tiny
from vixformer.backbones.backbone import CONFIG_FILE, WEIGHTS_FILE
from vixformer.cli import main
from vixformer.data.folder import Folder
from vixformer.experiments.compare import compare
from vixformer.experiments.search.storage import close_storage, open_storage
from vixformer.notes import Note
from vixformer.results.files import read_tensors, write_tensors
from vixformer.training.loop import train
from vixformer.training.observer import Observer
from vixformer.writing import whole, write_bytes, write_text

ROOM = 512 * 1024


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "none", folder], capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file may have more than 4 KiB: as a full disk, for who is not root."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limit[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    signal.signal(signal.SIGXFSZ, ignored)


def small(**options: Any) -> Any:
    return vix.create_model(
        "vit", attention="softmax", img_size=28, in_chans=1, patch_size=7, num_classes=10, num_heads=4, **options
    )


WRITERS: dict[str, Callable[[Path], object]] = {
    "bytes": lambda path: write_bytes(path, b"x" * 2 * ROOM),
    "text": lambda path: write_text(path, "x" * 2 * ROOM),
    "tensors": lambda path: write_tensors(path, {"x": torch.ones(ROOM)}, None),
}


@pytest.mark.parametrize("name", WRITERS)
def test_what_was_there_is_kept(name: str, disk: Path) -> None:
    path = disk / "file"
    path.write_text("before")
    with pytest.raises(ValueError, match=rf"cannot write {path}: .*[Nn]o space left.*; the previous one is kept"):
        WRITERS[name](path)
    assert path.read_text() == "before"
    assert list(disk.iterdir()) == [path]


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.usefixtures("small_files")
def test_what_was_there_is_kept_for_who_is_not_root(name: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    with pytest.raises(ValueError, match=rf"cannot write {path}: .*File too large.*; the previous one is kept"):
        WRITERS[name](path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_the_previous_model_is_kept_with_its_configuration(disk: Path) -> None:
    small(embed_dim=16, depth=1).save_pretrained(disk)
    before = {path.name: path.read_bytes() for path in disk.iterdir()}
    with pytest.raises(ValueError, match=r"cannot write .*No space left"):
        small(embed_dim=128, depth=2).save_pretrained(disk)
    assert {path.name: path.read_bytes() for path in disk.iterdir()} == before
    assert set(before) == {CONFIG_FILE, WEIGHTS_FILE}


def test_the_previous_checkpoint_survives_when_the_second_does_not_fit(disk: Path) -> None:
    """The first epoch fits; then somebody else fills the disk."""
    recipe = tiny(epochs=3, fraction=0.1)

    class Filling(Observer):
        def epoch_begins(self, epoch: int, batches: int) -> None:
            if epoch == 1:
                (disk / "others").write_bytes(b"x" * (free(disk) - 8192))

    with pytest.raises(ValueError, match=r"cannot write .*(last|model).safetensors: .*[Nn]o space left.*kept"):
        train(recipe, disk / "run", observer=Filling())
    assert read_tensors(disk / "run" / "last.safetensors")[1]["epoch"] == 1
    assert not [path for path in disk.rglob("*") if ".part" in path.name]
    (disk / "others").unlink()
    assert len(train(recipe, disk / "run", resume=True).history) == 3


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_that_cannot_even_begin(jobs: int, disk: Path) -> None:
    """Its lock, which names its owner, does not fit: that was `[Errno 28] No space left on device`, and with --jobs a
    traceback."""
    (disk / "others").write_bytes(b"x" * free(disk))
    with pytest.raises(
        ValueError,
        match=rf"cannot write to {disk}/one-seed0-\w+: No space left on device; choose another folder with --out",
    ):
        compare({"one": tiny(epochs=1)}, disk, jobs=jobs)
    assert [path.name for path in disk.rglob("*") if path.is_file()] == ["others"]


SEARCH = ["--space", "train.seed=0|1|2", "--sampler", "grid", "--study", "s"]


def test_a_full_disk_is_not_the_fault_of_a_trial(
    disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It gave up one trial after the other, for good; now the search ends, and goes on when there is room."""
    (tmp_path / "recipe.json").write_text(tiny(epochs=1, fraction=0.02).to_json())
    (disk / "others").write_bytes(b"x" * (free(disk) - 65536))
    words = [
        "search",
        str(tmp_path / "recipe.json"),
        *SEARCH,
        "--out",
        str(disk),
        "--storage",
        f"sqlite:///{tmp_path / 'study.db'}",
    ]
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert re.search(rf"cannot write {disk}/.*[Nn]o space left", said)
    assert "pruned" not in said


def test_a_study_whose_file_is_full_is_not_waited_for(
    disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was taken for a database that is away, for a quarter of an hour."""
    (tmp_path / "recipe.json").write_text(tiny(epochs=1, fraction=0.02).to_json())
    place = f"sqlite:///{disk / 'study.db'}"
    close_storage(open_storage(place, tmp_path / "runs"))
    (disk / "others").write_bytes(b"x" * free(disk))
    with pytest.raises(SystemExit) as stopped:
        main(["search", str(tmp_path / "recipe.json"), *SEARCH, "--out", str(tmp_path / "runs"), "--storage", place])
    assert stopped.value.code == 2
    assert (
        "the file of the study cannot be used: database or disk is full; trained runs are in their folders"
        in capsys.readouterr().err
    )


def free(disk: Path) -> int:
    return shutil.disk_usage(disk).free


def test_decoded_images(disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("train/cat", "train/dog", "test/cat"):
        picture(tmp_path / "set" / place / "a.png", (500, 500))
    monkeypatch.setenv("XDG_CACHE_HOME", str(disk))
    with (
        pytest.warns(Note, match="500 x 500"),
        pytest.raises(
            ValueError, match=r"2 decoded images of 500 x 500 need 1 MiB and .* has 0 MiB left: .*--data.resize"
        ),
    ):
        Folder(tmp_path / "set").read("train")
    assert not [path for path in disk.rglob("*") if path.is_file()]


@pytest.mark.usefixtures("small_files")
def test_decoded_images_that_meet_the_end_on_their_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cat/0.png", "cat/1.png", "dog/2.png"):
        picture(tmp_path / "set" / "train" / name, (30, 30))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ValueError, match=r"cannot write .*\.u8: File too large"):
        Folder(tmp_path / "set").read("train")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "command",
    [
        "export {run} --format torch --out {disk}",
        "report {run} --out {tmp}/r.html --figures {disk} --format png --only curves",
    ],
    ids=lambda command: command.split()[0],
)
def test_commands(command: str, disk: Path, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`export` was ended by SIGABRT, and `report` left half a PNG."""
    (disk / "others").write_bytes(b"x" * (free(disk) - 4096))
    words = command.format(run=next(runs.glob("exact-seed0*")), disk=disk, tmp=tmp_path).split()
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    assert re.search(rf"cannot write {disk}/[\w-]+\.(pt2|png): No space left on device", capsys.readouterr().err)
    assert [path.name for path in disk.iterdir()] == ["others"]


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    """Names of parts are new each time; what is beside the target under the old, known name is not touched."""
    (tmp_path / "victim").write_text("mine")
    for name in ("file.part", "file"):
        (tmp_path / name).symlink_to(tmp_path / "victim")
    write_text(tmp_path / "file", "new")
    assert (tmp_path / "victim").read_text() == "mine"
    assert not (tmp_path / "file").is_symlink()
    names: set[str] = set()
    for _ in range(2):
        with whole(tmp_path / "file") as part:
            names.add(part.name)
    assert len(names) == 2


OTHERS = {
    "vixformer/writing.py": "the writer",
    "vixformer/results/files.py": "safetensors, through the writer",
    "vixformer/backbones/backbone.py": "safetensors, through the writer",
    "vixformer/data/cache.py": "image by image, through the writer",
    "vixformer/bridges/source.py": "safetensors, through the writer",
    "vixformer/data/shards.py": "opens to read",
    "vixformer/data/download.py": "goes on with what is there",
    "vixformer/training/lock.py": "the lock",
    "vixformer/export/push.py": "a temporary folder",
    "vixformer/export/formats.py": "a temporary folder",
    "vixformer/cli.py": "/dev/null",
    "vixformer/ops/native/build.py": "a temporary folder",
}


def test_nobody_else_writes_files() -> None:
    writes = re.compile(
        r"\.write_(text|bytes)\(|save_(file|model)\(|os\.open\(|\.save\((str\()?(path|\w+ /)"
        r"|open\([^)\n]*[\"'][wxa]b?\+?[\"']"
    )
    here = Path(vix.__file__).parent.parent
    found = {
        str(path.relative_to(here)) for path in (here / "vixformer").rglob("*.py") if writes.search(path.read_text())
    }
    assert found <= set(OTHERS), f"{found - set(OTHERS)}: write through vixformer.writing"


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    ours = os.open(pipe, os.O_RDWR)
    write_text(pipe, "told")
    assert os.read(ours, 9) == b"told"
    os.close(ours)
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]
