"""What `vix.patch` does with the models of timm and transformers, tried one by one.

python -m tests.support.families transformers      prints the table of docs/your-models.md
python -m tests.support.families timm FILE      tries all models of timm, which takes a quarter of an hour, and writes
the table; FILE keeps what was tried
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import vixformer as vix
from benchmarks.page import put
from tests.support.timm import process_with_timm
from tests.support.transformers import families, images, made, scores

PAGE = Path(__file__).parents[2] / "docs" / "your-models.md"
MECHANISMS = ("softmax", "performer(kernel=relu)", "lens", "linformer(rank=4)")
TIMM = """
import warnings
warnings.simplefilter("ignore")
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
            except ValueError as error:
                said, kinds = str(error), []
    except Exception as error:
        said, kinds = f"not built or run on the meta device: {type(error).__name__}", []
    facts.append([name, timm.models._registry._model_to_module[name], said, kinds])
open(PATH, "w").write(json.dumps(facts))
"""
NO_ATTENTION = "has no attention that goes through torch's function"
REASONS = {
    "adds a bias to the scores": "adds a bias (relative positions) to its scores",
    "hides different tokens": "hides tokens from each other with a mask (windows)",
    "others than their keys, or fewer": "has fewer keys than queries",
    "has no self-attention": NO_ATTENTION,
    "runs with several numbers": "runs a layer with several numbers of tokens",
    "axes, not": "attends over more or fewer than four axes",
    "is causal": "is causal",
    "convolves over the image": "a convolution needs a grid, and most tokens are left out",
    "attends to channels": "attends to channels, not to tokens",
    "drops attention": "drops attention weights",
    "on the meta device": "cannot be built or run without weights, so it was not tried",
}


Fact = tuple[str, str, str, list[str]]
"""Name, module of timm, why it is refused, and classes of attention."""
AT_ONCE = 50


def of_timm(names: Sequence[str]) -> list[Fact]:
    with tempfile.NamedTemporaryFile("r") as file, process_with_timm() as run:
        run(f"NAMES = {list(names)!r}\nPATH = {file.name!r}\n{TIMM}")
        return [tuple(fact) for fact in json.load(file)]


def all_of_timm(kept: Path | None = None) -> list[Fact]:
    """Of every model, which takes a quarter of an hour. In `kept`, what was tried before an interruption is found
    again."""
    facts: list[Fact] = [] if kept is None or not kept.exists() else [tuple(f) for f in json.loads(kept.read_text())]
    done = {fact[0] for fact in facts}
    names = [name for name in names_of_timm() if name not in done]
    for start in range(0, len(names), AT_ONCE):
        facts += of_timm(names[start : start + AT_ONCE])
        if kept is not None:
            kept.write_text(json.dumps(facts))
            print(f"{len(facts):,} models tried", file=sys.stderr)
    return facts


def names_of_timm() -> list[str]:
    with tempfile.NamedTemporaryFile("r") as file, process_with_timm() as run:
        run(f"import json, timm\nopen({file.name!r}, 'w').write(json.dumps(timm.list_models()))")
        return [name for name in json.load(file) if not name.startswith("vixformer_")]


def reason(said: str) -> str:
    return next((short for text, short in REASONS.items() if text in said), said)


def timm_table(facts: Sequence[Fact]) -> list[str]:
    """A row for each module: how many of its models were patched, and why others were refused."""
    modules: dict[str, list[Fact]] = {}
    for fact in sorted(facts, key=lambda fact: fact[1]):
        modules.setdefault(fact[1], []).append(fact)
    patched = sum(not said for _, _, said, _ in facts)
    rows = [
        f"{len(facts):,} models: {patched:,} are patched, {len(facts) - patched:,} are refused.",
        "",
        "| module of timm | models | patched | attention | refused |",
        "|---|--:|--:|---|---|",
    ]
    without: list[str] = []
    for module, some in modules.items():
        why = Counter(reason(said) for _, _, said, _ in some if said)
        if why[NO_ATTENTION] == len(some):
            without.append(f"`{module}` {len(some)}")
            continue
        kinds = sorted({kind for *_, kinds in some for kind in kinds})
        told = "; ".join(f"{count} {text}" for text, count in why.most_common())
        rows.append(f"| `{module}` | {len(some)} | {len(some) - why.total()} | {', '.join(kinds)} | {told} |")
    return [*rows, "", f"The models of these modules have {NO_ATTENTION[4:]}: {', '.join(without)}."]


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
        put(PAGE, "timm", "\n".join(timm_table(all_of_timm(Path(sys.argv[2])))))
