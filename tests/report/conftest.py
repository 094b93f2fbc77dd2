"""A report of the runs that tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from vixformer.cli import main


@pytest.fixture(scope="session")
def page(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report") / "report.html"
    main(
        [
            "report",
            str(runs),
            "-o",
            str(out),
            "--figures",
            str(out.parent / "figures"),
            "--format",
            "svg,png,pdf",
            "--tables",
            "md,latex,csv",
        ]
    )
    return out
