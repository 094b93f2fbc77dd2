"""Every backbone with every mechanism as ONNX and as a torch program, batch left open: how far outputs are off torch's.

python -m benchmarks.export --write docs/shipping.md     about half an hour
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.progress import track

import vixformer as vix
from benchmarks.page import put
from vixformer.data.preprocess import Preprocessing
from vixformer.export.check import export
from vixformer.measure.overview import every_attention
from vixformer.options import first_paragraph
from vixformer.results.predictor import Predictor

BACKBONES: dict[str, dict[str, Any]] = {
    "vit": {"img_size": 32},
    "cct": {},
    "cvt": {},
    "levit": {},
    "pit": {},
    "convtoken": {"tokens": "grid", "conv_dims": (8, 16, 32), "embed_dim": 64, "num_heads": 4, "img_size": 16},
}
"""With what makes them small."""
FORMS = ("onnx", "torch")


def differences(model: Any, forms: Sequence[str], out: Path) -> dict[str, float]:
    """By format: the largest of all logits of 64 images of noise, in batches of 1, 3 and 63; as a part of the largest
    logit where that is above one (Fourier transforms without norms, as in LeViT, give millions)."""
    prepare = Preprocessing(
        classes=tuple(map(str, range(model.num_classes))), channels=model.in_chans,
        stored=model.img_size, size=model.img_size, mean=(0.5,), std=(0.25,),
    )  # fmt: skip
    found = export(Predictor(model.eval(), prepare), forms, out, None, dynamic_batch=True, batch=3, tested=0)
    return {e.form: e.difference / max(1.0, e.largest) for e in found if e.form in forms}


def small(backbone: str, attention: str) -> Any:
    return vix.create_model(backbone, attention=attention, num_classes=10, **BACKBONES[backbone])


def _cell(backbone: str, attention: str) -> str:
    try:
        model = small(backbone, attention)
    except ValueError:
        return "not a model"
    with tempfile.TemporaryDirectory() as out:
        try:
            found = differences(model, FORMS, Path(out))
        except ValueError as error:
            return str(error)
    return " / ".join(f"{found[form]:.0e}" if found[form] else "0" for form in FORMS)


def main() -> None:
    parser = argparse.ArgumentParser(description=first_paragraph(__doc__))
    parser.add_argument("--write", type=Path, help="put the table between the markers of this page")
    options = parser.parse_args()
    lines = [f"| attention | {' | '.join(BACKBONES)} |", "| --- " * (len(BACKBONES) + 1) + "|"]
    for attention in track(every_attention(), "exporting"):
        lines.append(f"| `{attention}` | {' | '.join(_cell(backbone, attention) for backbone in BACKBONES)} |")
        print(lines[-1], flush=True)
    if options.write:
        put(options.write, "exports", "\n".join(lines))


if __name__ == "__main__":
    main()
