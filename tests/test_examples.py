"""Programs of examples/ run, on few images."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from vixformer import from_pretrained

EXAMPLES = Path(__file__).parent.parent / "examples"
RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import {name}
from tests.support.recipes import tiny
print("top-1", {name}.main(tiny(epochs=2, fraction=0.05, attention="performer(features=8)"), sys.argv[2], **{options}))
"""


@pytest.mark.parametrize(
    ("name", "needs", "options"),
    [
        ("lightning_module", ("lightning",), {"accelerator": "cpu", "enable_progress_bar": False}),
        ("transformers_trainer", ("transformers", "accelerate"), {"disable_tqdm": True}),
    ],
)
def test_an_example_trains_and_saves(
    name: str, needs: tuple[str, ...], options: dict[str, object], tmp_path: Path
) -> None:
    for package in needs:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    code = RUN.format(name=name, options=options)
    done = subprocess.run(
        [sys.executable, "-c", code, str(EXAMPLES), str(tmp_path)], cwd=EXAMPLES.parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    top1 = float(done.stdout.split("top-1")[1].split()[0])
    assert top1 > 12  # of ten classes
    assert from_pretrained(tmp_path).attention_expression() == "performer(features=8)"
