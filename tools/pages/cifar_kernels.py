"""docs/results/cifar-kernels.md."""

from __future__ import annotations

from tools.pages.tables import TIMES, Column, claim, count, ours, reported, said, settings, slower, table, timed
from tools.stability import section, stored
from vixformer.results.statistics import in_short


def page() -> str:
    names = reported("cifar-kernels/")
    columns: list[Column] = [
        ("reported top-1", said("test_top1")),
        ("top-1 here", ours("test_top1")),
        ("runs", count),
        ("reported s / epoch", said("seconds_an_epoch")),
        ("s / epoch here, extrapolated", timed("seconds_an_epoch")),
        ("parameters", ours("parameters", 0)),
        ("reported overhead of the learned kernel, %", said("overhead_percent")),
        ("here, %", _overhead),
    ]
    claims = [
        *claim("ReLU beats ViT", ["cifar-kernels/relu"], ["cifar-kernels/vit"]),
        *claim("GELU beats ReLU", ["cifar-kernels/gelu-4"], ["cifar-kernels/relu"]),
        *claim("ELU is far below ReLU", ["cifar-kernels/relu"], ["cifar-kernels/elu-4"]),
        *claim("EXP beats ViT", ["cifar-kernels/exp"], ["cifar-kernels/vit"]),
        *claim("f-theta beats ViT", ["cifar-kernels/ftheta"], ["cifar-kernels/vit"]),
    ]
    parts = [
        '# "Optimizing Image Classification on CIFAR-10 with Transformer Architectures"',
        "ViT, and Performers with six kernels behind three convolutions. All Performers see one token, so their attention returns v "
        "and the kernel changes nothing but the random numbers; what differs is width, depth, activation and the optimiser. Its "
        "times are of an NVIDIA A100; ours come from 20 steps in turn, as if on all 40,000 images of a fold.",
        settings(names),
        in_short(claims),
        table(names, columns),
        section(stored()),
    ]
    return "\n\n".join(filter(None, parts))


def _overhead(name: str, _: dict[str, str]) -> str:
    """Of a training step, over the same model with a fixed kernel and as many features."""
    twin = f"{name}/twin"
    return f"{100 * (slower(name, twin) - 1):+.1f}" if twin in TIMES else ""
