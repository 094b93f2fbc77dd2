"""docs/results/fast-attention.md."""

from __future__ import annotations

from tools.pages.tables import (
    TIMES,
    Column,
    apart,
    bullet,
    claim,
    count,
    have,
    kept_to,
    ours,
    ratio,
    reported,
    said,
    said_ratio,
    settings,
    slower,
    table,
    tops,
)
from vixformer.results.runs import spread
from vixformer.results.statistics import Claim, in_short

PERFORMERS = ("performer-relu", "performer-exp", "performer-ftheta")
MODELS = ("vit", *PERFORMERS)


def page() -> str:
    parts = [
        '# "Exploring Fast Attention Mechanisms: Performer vs Vision Transformers for Image Classification"',
        "ViT beside Performers with ReLU, softmax (its exp) and a learned matrix (f-theta), experiments I to IX. Its figures are the "
        "largest test accuracy of one run of 70 to 84 epochs and seconds an epoch on an NVIDIA A10; memory is relative to its ViT.",
        "What a forward pass keeps for backward is counted, in per cent of ViT, and the same on every machine.",
        in_short(_claims()),
    ]
    for data, experiments, title in (("CIFAR-10", range(1, 5), "I to IV"), ("Tiny ImageNet", range(5, 10), "V to IX")):
        names = [name for i in experiments for name in reported(f"fast-attention/exp{i}/")]
        columns: list[Column] = [
            ("reported max top-1", said("max_top1")),
            ("top-1 here", ours("test_top1")),
            ("runs", count),
            ("reported train s, to ViT", said_ratio("train_seconds", "vit")),
            ("step here, to ViT", ratio("step_ms", "vit")),
            ("reported inference, to ViT", said_ratio("inference_seconds", "vit")),
            ("inference here, to ViT", ratio("inference_ms", "vit")),
            ("reported memory", said("resource")),
            ("kept for backward here, to ViT", kept_to("vit")),
        ]
        parts += [f"## {data}, experiments {title}", settings(names), table(names, columns)]
    return "\n\n".join([*parts, "\n".join([*_against_vit(), *_features(), *_patches()])])


def _claims() -> list[Claim]:
    claims: list[Claim] = []
    for experiment, where in (("exp1", "on CIFAR-10"), ("exp5", "on Tiny ImageNet with patches of 4")):
        base = f"fast-attention/{experiment}/"
        for model in PERFORMERS:
            claims += claim(f"{where} ViT beats {model}", [base + "vit"], [base + model])
        better, worse = ("ftheta", "relu") if experiment == "exp1" else ("exp", "ftheta")
        claims += claim(f"{where} performer-{better} beats performer-{worse}", [f"{base}performer-{better}"], [f"{base}performer-{worse}"])
    claims += claim(
        "on Tiny ImageNet with patches of 8 performer-exp beats ViT", ["fast-attention/exp8/performer-exp"], ["fast-attention/exp8/vit"]
    )
    for model in ("relu", "exp"):
        many, few = f"fast-attention/exp2/performer-{model}", f"fast-attention/exp1/performer-{model}"
        claims += claim(f"64 {model} features are no better than 16", [many], [few], says="not above")
    return claims


def _against_vit() -> list[str]:
    lines: list[str] = []
    for experiment, what in (("exp1", "CIFAR-10, 65 tokens"), ("exp5", "Tiny ImageNet, 257 tokens"), ("exp8", "Tiny ImageNet, 65 tokens")):
        base = f"fast-attention/{experiment}/"
        vit, names = base + "vit", [base + model for model in MODELS]
        if have(names):
            each = "; ".join(f"{m} {apart([base + m], [vit])}" for m in PERFORMERS)
            lines.append(bullet(f"**Accuracy against ViT, {what}:**", each + "."))
        if all(name in TIMES for name in names):
            each = "; ".join(f"{m} {slower(base + m, vit):.2f}" for m in PERFORMERS)
            lines.append(bullet(f"**Step against ViT, {what}:**", each + "."))
    return lines


def _features() -> list[str]:
    lines: list[str] = []
    for model in ("performer-relu", "performer-exp"):
        names = [f"fast-attention/{experiment}/{model}" for experiment in ("exp1", "exp3", "exp2")]
        if have(names):
            each = " / ".join(str(spread(tops([name]))) for name in names)
            gain = apart(names[-1:], names[:1])
            lines.append(bullet(f"**Do more features help?** {model} with 16, 32, 64:", f"{each}; 64 minus 16: {gain}."))
    return lines


def _patches() -> list[str]:
    """The document changes the features along with the patches, so the page says so."""
    pairs = {model: (f"fast-attention/exp5/{model}", f"fast-attention/exp8/{model}") for model in MODELS}
    if not have(name for pair in pairs.values() for name in pair):
        return []
    each = "; ".join(f"{model} {apart([a], [b])}{_longer(a, b)}" for model, (a, b) in pairs.items())
    question = (
        "**Patches of 4 or of 8?** Top-1 of exp5 (patches of 4, 257 tokens, Performers with 16 features) minus exp8 (patches of 8, "
        "65 tokens, 32 features):"
    )
    return [bullet(question, each + ".")]


def _longer(small: str, large: str) -> str:
    """Steps compare only if timed with as many images."""
    if small not in TIMES or large not in TIMES or TIMES[small]["batch"] != TIMES[large]["batch"]:
        return ""
    return f", {slower(small, large):.2f} times the step"
