"""Tables that live in a page of the docs, between two markers."""

from __future__ import annotations

import platform
from pathlib import Path


def put(page: Path, marker: str, table: str) -> None:
    """Replace what stands between `<!-- marker -->` and the `<!-- end -->` after it."""
    before, found, rest = page.read_text().partition(f"<!-- {marker} -->")
    _, ended, after = rest.partition("<!-- end -->")
    if not found or not ended:
        raise ValueError(f"{page} has no <!-- {marker} --> ... <!-- end --> to put the table in")
    page.write_text(f"{before}{found}\n{table}\n{ended}{after}")


def processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
