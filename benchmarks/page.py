"""Tables that live in a page of the docs, between two markers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from vixformer.measure.machine import processor


def put(page: Path, marker: str, table: str) -> None:
    """Replace what stands between `<!-- marker -->` and the `<!-- end -->` after it."""
    before, found, rest = page.read_text().partition(f"<!-- {marker} -->")
    _, ended, after = rest.partition("<!-- end -->")
    if not found or not ended:
        raise ValueError(f"{page} has no <!-- {marker} --> ... <!-- end --> to put the table in")
    page.write_text(f"{before}{found}\n{table}\n{ended}{after}")


def table_command(about: str | None, marker: str, seconds: float, conditions: str, measure: Callable[[float], Sequence[str]]) -> None:
    """A benchmark that prints the lines of one table, under the machine, and puts them into a page with `--write`."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=seconds, help="for each row or number of tokens")
    parser.add_argument("--write", type=Path, help="put the table between the markers of this page")
    options = parser.parse_args()
    head = f"{processor()}, {torch.get_num_threads()} threads, torch {torch.__version__}; {conditions}."
    lines = "\n".join([head, "", *measure(options.seconds)])
    print(lines)
    if options.write:
        put(options.write, marker, lines)
