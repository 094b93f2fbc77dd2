"""Make one HTML page, figures and tables from runs, records and JSON files of `vix bench`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import NonNegativeInt
from rich.console import Console

from vixformer.commands.flags import Points, RunsOrBench
from vixformer.jsonfile import Values
from vixformer.options import File, Folder, Separated, short, words
from vixformer.results.evidence import MARGIN
from vixformer.tables import say

if TYPE_CHECKING:
    from vixformer.report.figures.figure import Figure
    from vixformer.report.figures.style import Look
    from vixformer.report.pictures import Picture


@dataclass(frozen=True, kw_only=True)
class Options:
    runs: tuple[RunsOrBench, ...] = words(())
    """Folders of runs, files of records, and JSON files of `vix bench`."""
    atlas: bool = False
    """Write the page of the atlas instead: accuracy and cost of every attention, beside exact attention."""
    out: File = short("-o", Path("report.html"))
    """File for the page."""
    figures: Folder | None = None
    """Folder for the figures, each in its own file."""
    format: Separated[Literal["svg", "png", "pdf", "json"]] = ("svg",)
    """Formats of the figure files."""
    tables: Separated[Literal["md", "latex", "csv"]] = ()
    """Formats of the table files, which are written next to the page."""
    only: str = ""
    """Write only this figure, and no page. Its name is under the figure on the page."""
    maps: NonNegativeInt = 2
    """Number of images to draw attention maps on."""
    title: str = "vixformer report"
    """Title of the page; "none" leaves out the titles of figure files."""
    size: str = ""
    """Size of the figure files: column or page (of a two-column paper), or width and height in inches, such as
    3.35x2.2."""
    font: str = "sans-serif"
    """Font of the figure files: one that is installed here, or a .ttf or .otf file."""
    margin: Points = MARGIN
    """Difference of top-1, in points, that matters to you: verdicts are against this margin."""


def run(options: Options) -> None:
    words, formats, tables = options.runs, options.format, options.tables
    if not words and not options.atlas:
        raise ValueError('which runs? write "vix report runs"; "vix compare" and "vix train" leave them there')
    if options.atlas and replace(options, atlas=False, out=Options.out) != Options():
        raise ValueError("--atlas shows what is in the package: it takes -o FILE, and neither runs nor other options")
    if options.only and options.figures is None:
        raise ValueError(f"--only {options.only} needs a folder to write to: add --figures DIR")
    if options.out.suffix not in (".html", ".htm"):
        raise ValueError(f"a report ends in .html, not {options.out.name}; for image files give --figures DIR")
    if options.atlas:
        return _write_atlas(options.out)
    from vixformer.report.figures.style import Look, font_of, size_of

    look = Look(size_of(options.size), font_of(options.font), options.title != "none")
    title = options.title if look.title else Options.title
    folders = (options.out.parent, *([options.figures] if options.figures else []))
    for folder in folders:
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder} is a file, and pages and figures go to a folder")

    from vixformer.report.collect import collect, report_command
    from vixformer.report.table import ENDINGS, FORMS
    from vixformer.report.whole import write
    from vixformer.results.groups import counted
    from vixformer.writing import write_text

    command = report_command(words, options.margin, options.maps)
    with Console(stderr=True).status("reading runs") as status:
        found = collect(
            [Path(w) for w in words],
            benches_in(words),
            options.maps,
            command,
            title,
            status.update,
            options.only,
            margin=options.margin,
        )
        for problem in found.damaged:
            say(f"left out: {problem}")
        status.update("writing")
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        if not options.only:
            write(found, options.out)
        written = (
            [_write(item, options.figures, formats, look) for item in (*found.figures, *found.pictures)]
            if options.figures
            else []
        )
        for name in tables:
            write_text(options.out.with_suffix(f".{ENDINGS[name]}"), FORMS[name](found.groups, found.answers))
    if not options.only:
        parts = ((found.groups, "model"), (found.figures, "figure"), (found.pictures, "picture"))
        say(f"{options.out}: {', '.join(counted(len(some), what) for some, what in parts)}.")
    for name in tables:
        say(f"{options.out.with_suffix(f'.{ENDINGS[name]}')}")
    if written:
        say(f"{options.figures}: {', '.join(name for names in written for name in names)}")


def _write_atlas(path: Path) -> None:
    from vixformer.report.front import page
    from vixformer.writing import write_text

    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, page())
    say(f"{path}: accuracy and cost of every attention in the atlas.")


def benches_in(words: Sequence[str]) -> Values:
    """What `vix bench --json` wrote, by the name of the file."""
    from vixformer.results.schema import read_bench

    return {Path(word).stem: read_bench(word) for word in words if word.endswith(".json")}


def _write(item: Figure | Picture, folder: Path, formats: Sequence[str], look: Look) -> list[str]:
    """A picture is a PNG whatever is asked for."""
    from vixformer.report.figures.figure import Figure
    from vixformer.report.figures.style import write_figure
    from vixformer.writing import write_bytes

    if not isinstance(item, Figure):
        write_bytes(folder / f"{item.name}.png", item.png())
        return [f"{item.name}.png"]
    for form in formats:
        write_figure(item, folder / f"{item.name}.{form}", look)
    return [f"{item.name}.{form}" for form in formats]
