"""List the known data sets and which of them you have; download or verify some, or check your own images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vixformer.commands.flags import DataOrFolder, data_options
from vixformer.options import Folder, words
from vixformer.tables import Listed, for_programs, say, say_next, table
from vixformer.terminal import count

if TYPE_CHECKING:
    from vixformer.data.dataset import DataSet


@dataclass(frozen=True, kw_only=True)
class Options(Listed):
    action: Literal["list", "get", "check"] = words("list")
    """List all data sets, download some (get), or verify the files of some (check)."""
    names: tuple[DataOrFolder, ...] = words(())
    """Data sets to download or to verify; or a folder of images, or a CSV file, to check for broken and tiny images,
    copies and labels that look wrong."""
    target: str = ""
    """Column of a CSV or Parquet file with the number that a model will predict, instead of classes."""
    root: Folder | None = None
    """Folder of the data sets. Left out: $VIX_DATA, or else ~/.cache/vix/data."""


def run(options: Options) -> None:
    from vixformer.data.dataset import DataSet, data_root
    from vixformer.terminal import download_bar

    root = data_root(None if options.root is None else str(options.root))
    word = options.action
    if word == "list" and options.names:
        raise ValueError(
            f'"vix data list" takes no name, but got {options.names[0]}: write "vix data check {options.names[0]}"'
        )
    if word != "list" and not options.names:
        example = "FOLDER" if word == "check" else "mnist"
        raise ValueError(f'which data set? write "vix data {word} {example}"; "vix data list" lists them')
    own = [name for name in options.names if word == "check" and name not in DataSet.members]
    for name in own:
        _inspect(name, options.target)
    chosen = [DataSet.member(name)(root) for name in options.names if name not in own]
    if word == "list":
        rows = []
        for name, cls in sorted(DataSet.members.items()):
            rows.append(
                (
                    name,
                    "yes" if cls(root).here() else "no",
                    cls.about,
                    " + ".join(count(n) for n in cls.counts.values()),
                )
            )
        table(("data set", "here", "what it is", "train + test"), rows)
        say(f"Files under {root}.")
    for source in chosen:
        if word == "get":
            with download_bar() as progress:
                from vixformer.data.download import get

                get(source, progress)
        say(_checked(source))
    if word == "get":
        say_next(f"vix compare quick/exact quick/lens --data {options.names[-1]}")


PROBLEMS = {
    "broken": "broken",
    "two classes": "in two classes",
    "train and test": "in train and test",
    "copy": "copied",
    "tiny": "tiny",
    "label": "with a label that looks wrong",
}


def _inspect(name: str, target: str) -> None:
    """Of a folder of one's own."""
    from vixformer.data.dataset import open_data
    from vixformer.data.folder import Folder
    from vixformer.data.inspect import inspect
    from vixformer.notes import decoded

    given = data_options(name)
    source = open_data(given["data.name"], given["data.root"], target=target)
    if not isinstance(source, Folder):
        raise ValueError(f"{name} has shards: data check takes a folder of images or a CSV file")
    found = inspect(source, decoded)
    rows = [(finding.problem, str(finding.file), finding.what) for finding in found.findings]
    if rows or for_programs():
        table(("problem", "file", "what it shows"), rows)
    counts = {says: sum(finding.problem == problem for finding in found.findings) for problem, says in PROBLEMS.items()}
    told = ", ".join(f"{count(number)} {says}" for says, number in counts.items() if number)
    kinds = f"with the number {target}" if target else f"of {len(source.classes())} classes"
    say(f"{name}: {count(found.images)} images {kinds}; {told or 'nothing is wrong'}.")
    say(found.judged)
    say_next(f"vix compare quick/exact quick/lens --data {name}" + (f" --data.target {target}" if target else ""))


def _checked(source: DataSet) -> str:
    """What reading the whole set shows."""
    from vixformer.data.dataset import content_digest

    found = {}
    whole = True
    for part in ("train", "test"):
        images = source.read(part)
        found[part] = len(images)
        complete = len(images) == source.counts.get(part, len(images))
        whole &= complete
        if complete and part in source.digests and content_digest(images) != source.digests[part]:
            raise ValueError(
                f"{source.name}: the {part} part has the right number of images but not the right ones: get it again"
            )
    says = "whole" if whole else f"a subset of {' + '.join(count(n) for n in source.counts.values())}"
    compared = " and every pixel and label as published" if whole and source.digests else ""
    return f"{source.name}: {count(found['train'])} + {count(found['test'])} images, {says}{compared}"
