"""Tables that live in a page of the docs, between two markers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from tools.quiet import quiet
from vixformer.measure.load import Load, Sample, waited
from vixformer.measure.machine import processor
from vixformer.options import first_paragraph


def put(page: Path, marker: str, table: str) -> None:
    """Replace what stands between `<!-- marker -->` and the `<!-- end -->` after it."""
    before, found, rest = page.read_text().partition(f"<!-- {marker} -->")
    _, ended, after = rest.partition("<!-- end -->")
    if not found or not ended:
        raise ValueError(f"{page} has no <!-- {marker} --> ... <!-- end --> to put the table in")
    page.write_text(f"{before}{found}\n{table}\n{ended}{after}")


@contextmanager
def alone(publishes: bool = True, meanwhile: bool = True) -> Iterator[None]:
    """Times that are published are measured inside, while the lab pauses: exits with 2 where other work is running,
    before it or meanwhile."""
    threads = torch.get_num_threads()
    with quiet():
        if publishes:
            _refuse(waited(threads), threads)
        sample = Sample()
        yield
        load = sample.since()
    if publishes and meanwhile:
        _refuse(load, threads)
    elif meanwhile and (complaint := load.complaint(threads)):
        print(complaint, file=sys.stderr)


def _refuse(load: Load, threads: int) -> None:
    if load.disturbs(threads):
        print(f"{load.running}: nothing was published; run it again when it is over", file=sys.stderr)
        raise SystemExit(2)


def table_command(
    about: str | None,
    marker: str,
    seconds: float,
    conditions: str,
    measure: Callable[[float], Sequence[str]],
    meanwhile: bool = True,
) -> None:
    """A benchmark that prints the lines of one table, under the machine, and puts them into a page with `--write`.
    `meanwhile` is False where what is measured starts processes that leave this one, such as a database."""
    parser = argparse.ArgumentParser(description=first_paragraph(about))
    parser.add_argument("--seconds", type=float, default=seconds, help="for each row or number of tokens")
    parser.add_argument("--write", type=Path, help="put the table between the markers of this page")
    options = parser.parse_args()
    head = f"{processor()}, {torch.get_num_threads()} threads, torch {torch.__version__}; {conditions}."
    with alone(options.write is not None, meanwhile):
        lines = "\n".join([head, "", *measure(options.seconds)])
        print(lines)
    if options.write:
        put(options.write, marker, lines)
