"""docs/results/photos.md."""

from __future__ import annotations

from tools.pages import tuned
from tools.pages.blocks import repetition
from tools.pages.tables import RUNS, Column, count, ours, ratio, settings, table
from vixformer.recipes.photos import ATTENTIONS, PATCHES
from vixformer.results.evidence import MARGIN, effect, judge


def page() -> str:
    parts = [
        "# Attention on photographs",
        (
            f"{_promise()} One small ViT is trained on 3,670 photographs of five flowers, 160 x 160 pixels (the recipes"
            " `photos/*`). Differences are paired by seed and split, with 95 % intervals; verdicts are against a"
            f" margin of {MARGIN} points, with Holm's correction for the rows of a table."
        ),
    ]
    for tokens, patch in PATCHES.items():
        parts += [f"## {tokens:,} tokens, patches of {patch}", *_section(tokens)]
    return "\n\n".join(parts)


def _promise() -> str:
    if any(f"photos/{tokens}/exact" in RUNS for tokens in PATCHES):
        return "If your images are photographs, this page tells you what each attention gains and costs at many tokens."
    return "These experiments on photographs are planned, and none of them has run yet: there are no results here."


def _section(tokens: int) -> list[str]:
    base = f"photos/{tokens}/"
    names = [base + name for name in ATTENTIONS if base + name in RUNS]
    if f"{base}exact" not in names:
        return [f"To run them: `python -m tools.lab run --only photos-{tokens}`."]
    columns: list[Column] = [
        ("top-1", ours("test_top1")),
        ("seeds", count),
        *_apart(names, f"{base}exact"),
        ("parameters", ours("parameters", 0)),
        ("step, to exact", ratio("step", "exact")),
        ("inference, to exact", ratio("inference", "exact")),
    ]
    found = [settings({name: RUNS[name] for name in names}), table(names, columns)]
    equal = tuned.table(names, f"{base}exact")
    return [*found, *(["### With equal tuning", tuned.PROTOCOL, equal] if equal else [])]


def _apart(names: list[str], base: str) -> list[Column]:
    tops = {name: {repetition(run): run.summary["test_top1"] for run in RUNS[name]} for name in names}
    apart = {name: effect(tops[name], tops[base]) for name in names if name != base}
    verdicts = dict(zip(apart, judge([(found, "different", MARGIN) for found in apart.values()]), strict=True))
    return [
        ("minus exact", lambda name: str(apart.get(name) or "")),
        ("verdict", lambda name: verdicts[name].verdict if name in verdicts else ""),
    ]
