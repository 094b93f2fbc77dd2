"""docs/results/linear-tests.md."""

from __future__ import annotations

from tools.pages.tables import Column, claim, count, ours, reported, said, settings, table, timed
from vixformer import list_recipes
from vixformer.results.statistics import in_short


def page() -> str:
    parts = [
        '# "Testing linear-attention Transformers"',
        "A Transformer and a Linformer in torch, Performers in Keras: two networks, so rows of one compare with each other and not "
        "across. Its accuracy is on validation. Rows from a checkpoint start from `transformer` and `keras-transformer`, converted.",
    ]
    columns: list[Column] = [
        ("reported validation top-1", said("val_top1")),
        ("test top-1 here", ours("test_top1")),
        ("validation here", ours("val_top1")),
        ("runs", count),
        ("reported step ms", said("step_ms")),
        ("step ms here, 32 images", timed("step_ms")),
        ("parameters", ours("parameters", 0)),
    ]
    for data, title in (("mnist", "MNIST"), ("cifar10", "CIFAR-10"), ("cifar100", "CIFAR-100")):
        base = f"linear-tests/{data}/"
        names = reported(base)
        names += [n for n in list_recipes(f"{base}*") if n not in names]
        claims = [
            *claim("the Transformer beats the Linformer", [base + "transformer"], [base + "linformer"]),
            *claim("more softmax features help", [base + "performer-softmax-128"], [base + "performer-softmax-16"]),
            *claim("16 ReLU features beat 128", [base + "performer-relu-16"], [base + "performer-relu-128"]),
            *claim(
                "without random features ReLU is as good", [base + "deterministic-relu"], [base + "performer-relu-64"], says="not below"
            ),
            *claim("from a checkpoint Linformer is as good", [base + "linformer-from-checkpoint"], [base + "linformer"], says="not below"),
            *(
                c
                for kernel in ("softmax", "relu")
                for name in [f"{base}performer-{kernel}-16"]
                for c in claim(
                    f"from a checkpoint the {kernel} Performer is as good", [f"{name}-from-checkpoint"], [name], says="not below"
                )
            ),
        ]
        parts += [f"## {title}", settings(names), in_short(claims), table(names, columns)]
    return "\n\n".join(parts)
