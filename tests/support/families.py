"""What `vix.patch` does with the models of timm and transformers, tried one by one.

python -m tests.support.families timm | transformers      prints the tables of docs/your-models.md
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import torch

import vixformer as vix
from tests.support.timm import process_with_timm
from tests.support.transformers import families, images, made, scores

MECHANISMS = ("softmax", "performer(kernel=relu)", "lens", "linformer(rank=4)")
TIMM = """
import warnings
warnings.simplefilter("ignore")
from vixformer.bridges.find import find
from vixformer.bridges.patch import layers_to_patch
import json, sys, timm
facts = []
for name in NAMES:
    try:
        with torch.device("meta"):
            model = create_model(name).eval()
            size = model.default_cfg["input_size"]
            image = torch.zeros(1, *size)
            try:
                places = layers_to_patch(model, image)
                said, kinds = "", sorted({type(place.module).__name__ for place in places})
                others = sum(not place.is_self for place in find(model, image))
            except ValueError as error:
                said, kinds, others = str(error), [], 0
    except Exception as error:
        said, kinds, others = f"not built or run on the meta device: {type(error).__name__}", [], 0
    facts.append([name, timm.models._registry._model_to_module[name], said, kinds, others])
open(PATH, "w").write(json.dumps(facts))
"""
REASONS = {
    "adds a bias to the scores": "adds a bias (relative positions) to its scores",
    "hides different tokens": "hides tokens from each other with a mask (windows)",
    "others than their keys, or fewer": "has fewer keys than queries",
    "has no self-attention": "has no attention that goes through torch's function",
    "runs with several numbers": "runs a layer with several numbers of tokens",
    "axes, not": "attends over more or fewer than four axes",
    "is causal": "is causal",
    "convolves over the image": "a convolution needs a grid, and most tokens are left out",
    "attends to channels": "attends to channels, not to tokens",
    "drops attention": "drops attention weights",
    "on the meta device": "cannot be built or run without weights, so it was not tried",
}


def of_timm(names: Sequence[str]) -> list[tuple[str, str, str, list[str], int]]:
    """Name, module of timm, why it is refused, classes of attention, and layers left as they are."""
    with tempfile.NamedTemporaryFile("r") as file, process_with_timm() as run:
        run(f"NAMES = {list(names)!r}\nPATH = {file.name!r}\n{TIMM}")
        return [tuple(fact) for fact in json.load(file)]


def names_of_timm(most: int | None = None) -> list[str]:
    """All models, or the `most` with the shortest names of every module."""
    with tempfile.NamedTemporaryFile("r") as file, process_with_timm() as run:
        run(
            "import json, timm\n"
            f"open({file.name!r}, 'w').write(json.dumps([[m, timm.list_models(module=m)] for m in "
            "timm.list_modules()]))"
        )
        modules: list[tuple[str, list[str]]] = json.load(file)
    theirs = [[name for name in names if not name.startswith("vixformer_")] for _, names in modules]
    return [name for names in theirs for name in sorted(names, key=len)[:most]]


def reason(said: str) -> str:
    return next((short for text, short in REASONS.items() if text in said), said)


def timm_table(facts: Sequence[tuple[str, str, str, list[str], int]]) -> list[str]:
    """Of one model of each module."""
    rows = ["| module of timm | model tried | attention | result |", "|---|---|---|---|"]
    without = []
    for name, module, said, kinds, _ in sorted(facts, key=lambda fact: fact[1]):
        if "has no self-attention to replace: vix can" in said:
            without.append(f"`{module}`")
        else:
            result = f"refused: {reason(said)}" if said else "patched"
            rows.append(f"| `{module}` | `{name}` | {', '.join(kinds)} | {result} |")
    groups = [", ".join(without[i : i + 10]) for i in range(0, len(without), 10)]
    return rows + [f"| {names} | | | no attention that goes through torch's function |" for names in groups]


def of_transformers(family: str, attention: str) -> dict[str, bool | str]:
    """What holds for a family with one mechanism in all layers."""
    x, model = images(), made(family)
    with torch.no_grad():
        exact = scores(model, x)
    try:
        vix.patch(model, attention)
    except ValueError as error:
        return {"patched": re.sub(r"^\w+ cannot be patched: ", "", str(error))}
    with torch.no_grad():
        got = scores(model, x)
    found: dict[str, bool | str] = {"patched": True}
    if attention == "softmax":
        found["equal"] = bool((got - exact).norm() <= 1e-6 * exact.norm())
    scores(model, x).square().sum().backward()
    inside = [p for name, p in model.named_parameters() if ".core." in name]
    found["gradients"] = all(p.grad is not None and bool(p.grad.isfinite().all()) for p in inside)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        model.save_pretrained(folder)
        found["saved and loaded"] = torch.equal(scores(vix.load_patched(folder), x), got)
    found["exported"] = _exported(model, x)
    return found


def _exported(model: Any, x: torch.Tensor) -> bool:
    class Scores(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            from vixformer.bridges.theirs import answer_to, scores_of

            return scores_of(answer_to(self.model, pixels))

    with torch.no_grad():
        wrapped = Scores().eval()
        program = torch.export.export(wrapped, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))
        wanted = scores(model, x[:1])
        torch.manual_seed(2)
        return bool((program.module()(x[:1]) - wanted).norm() <= 1e-4 * wanted.norm())


def transformers_table(chosen: Sequence[str] = (), attentions: Sequence[str] = MECHANISMS) -> list[str]:
    rows = [
        "| model | mechanism | equal to SDPA | gradients | saved and loaded | exported |",
        "|---|---|---|---|---|---|",
    ]
    for family in chosen or families():
        for attention in attentions:
            found = of_transformers(family, attention)
            if found["patched"] is not True:
                rows.append(f"| {family} | `{attention}` | refused: {reason(str(found['patched']))} | | | |")
                continue
            cells = [_word(found.get(name)) for name in ("equal", "gradients", "saved and loaded", "exported")]
            rows.append(f"| {family} | `{attention}` | {' | '.join(cells)} |")
    return rows


def _word(value: bool | str | None) -> str:
    return "" if value is None else "yes" if value is True else "no" if value is False else value


if __name__ == "__main__":
    if sys.argv[1] == "transformers":
        print("\n".join(transformers_table(sys.argv[2:])))
    else:
        print("\n".join(timm_table(of_timm(names_of_timm(1)))))
