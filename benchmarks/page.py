"""Tables that live in a page of the docs, between two markers."""

from __future__ import annotations

from pathlib import Path


def put(page: Path, marker: str, table: str) -> None:
    """Replace what stands between `<!-- marker -->` and the `<!-- end -->` after it."""
    before, found, rest = page.read_text().partition(f"<!-- {marker} -->")
    _, ended, after = rest.partition("<!-- end -->")
    if not found or not ended:
        raise ValueError(f"{page} has no <!-- {marker} --> ... <!-- end --> to put the table in")
    page.write_text(f"{before}{found}\n{table}\n{ended}{after}")
