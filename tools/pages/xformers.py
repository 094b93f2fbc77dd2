"""docs/results/xformers.md."""

from __future__ import annotations

from tools.pages.tables import REPORTED, Column, best_of, bullet, claim, count, ours, reported, said, settings, table
from vixformer.results.statistics import Claim, in_short

BASE = "xformers/cifar10/"
CLAIMS = (
    ("vin", "vit", "Nystrom beats exact attention"),
    ("vip", "vit", "Performer beats exact attention"),
    ("vil", "vit", "Linformer beats exact attention"),
    ("vit", "fnet", "ViT beats FNet"),
    ("mixer", "vit", "MLP-Mixer beats ViT"),
    ("hybrid-vit", "vit", "convolutions in front help ViT"),
    ("hybrid-vip", "vip", "convolutions in front help the Performer"),
    ("hybrid-vin", "vin", "convolutions in front help Nystrom"),
    ("hybrid-vip", "hybrid-vit", "behind convolutions the Performer beats exact attention"),
    ("hybrid-vin", "hybrid-vit", "behind convolutions Nystrom beats exact attention"),
    ("hybrid-fnet", "fnet", "convolutions in front help FNet"),
    ("hybrid-mixer", "mixer", "convolutions in front help MLP-Mixer"),
    ("vit-rope", "vit", "rotary positions help ViT"),
)


def page() -> str:
    parts = [
        '# "Vision Xformers: Efficient Attention for Image Classification"',
        "X-former attention in ViT, LeViT, CCT, CvT and PiT, one token a pixel. Its figures are the best of three runs on a P100 or "
        "T4; its size is torchsummary's estimate with activations, which counts what modules give out: the scores of exact attention, "
        "128 MB for four layers of four heads and 1,025 tokens, are in its figure for ViT and not in ours, where no module gives them "
        "out. Memory and time "
        "of the CIFAR-10 rows are in [speed.md](../speed.md).",
        in_short([c for better, worse, text in CLAIMS for c in _claim(better, worse, text)]),
    ]
    columns: list[Column] = [
        ("reported parameters", said("parameters")),
        ("here", ours("parameters_in_modules", 0)),
        ("reported size, MB", said("size_mb")),
        ("here", ours("torchsummary_mb")),
        ("reported top-1", said("top1")),
        ("here", ours("test_top1")),
        ("reported top-5", said("top5")),
        ("here", ours("test_top5")),
        ("best of our runs, top-1", best_of),
        ("runs", count),
    ]
    for data, title in (("cifar10", "CIFAR-10 (tables 1, 3, 5, 6)"), ("tiny-imagenet", "Tiny ImageNet (tables 2, 4)")):
        names = reported(f"xformers/{data}/")
        parts += [f"## {title}", settings(names), table(names, columns)]
    return "\n\n".join([*parts, _beside_reported()])


def _claim(better: str, worse: str, text: str) -> list[Claim]:
    return claim(text, [BASE + better], [BASE + worse])


def _beside_reported() -> str:
    """How much the work itself found, beside what was found here."""
    lines: list[str] = []
    for better, worse, text in CLAIMS:
        theirs = float(REPORTED[BASE + better]["top1"]) - float(REPORTED[BASE + worse]["top1"])
        lines += [bullet(f"**{text}:**", f"reported {theirs:+.2f}, here {c.found}.") for c in _claim(better, worse, text)]
    return "\n".join(lines)
