"""Spaces by name: those that "Optimizing Image Classification on CIFAR-10 with Transformer Architectures" searched, the
grid of "Hybrid Transformer Models with Performer and Regular Attention", one mechanism a layer, and how many features a
layer."""

from __future__ import annotations

from functools import partial

from vixformer.experiments.search.space import add_space, space_from_dict
from vixformer.jsonfile import Values
from vixformer.recipes.cifar_kernels import kernel
from vixformer.recipes.hybrid import LAYOUTS

ADAM = {"adam": {"train.optimizer": "adam", "train.schedule": "step"}}
SGD = {"sgd": {"train.optimizer": "sgd", "train.schedule": "cosine"}}
ADAMW = {
    "adamw": {"train.optimizer": "adamw", "train.schedule": "step", "train.weight_decay": 0.01, "train.decays": "all"}
}
"""Its schedule goes with the optimizer, and the decay is that of torch, on all weights."""

ELU = {
    "model.attention": kernel("elu", 0, ", alpha={alpha}").replace("features=0", "features={features}"),
    "model.act": "elu({alpha})",
}
"""Its alpha is that of convolutions and embedding, too."""
RELU = kernel("relu", 0, ", bias=true").replace("features=0", "features={features}")
EXP = kernel("exp", 0, ", clamp=10").replace("features=0", "features={features}")

CIFAR_KERNELS: dict[str, Values] = {
    "vit": {
        "train.lr": [1e-3, 5e-4], "optimizer": ADAM | SGD, "model.drop_rate": [0.1, 0.3], "model.depth": [6, 8],
        "model.num_heads": [4, 8],
        "model.patch_size": [4, 8], "model.embed_dim": [128, 256], "model.mlp_dim": [512, 1024],
    },
    "relu": {
        "train.lr": {"log": [1e-5, 1e-2]}, "train.batch_size": [64, 128, 256], "optimizer": ADAM | SGD,
        "model.drop_rate": {"range": [0.0, 0.5]}, "model.depth": {"range": [1, 4]},
        "model.embed_dim": [256, 512, 576, 768, 960],
        "model.num_heads": [8, 12, 16], "model.attention": RELU, "features": {"range": [128, 512]},
    },
    "elu-first": {
        "train.lr": [5e-4, 1e-4, 5e-5], "train.batch_size": [64, 128, 256], "model.embed_dim": [256],
        "model.num_heads": [8],
        "model.depth": [1], "model.drop_rate": [0.0, 0.1], **ELU, "features": [64], "alpha": [0.5, 1.0],
        "optimizer": ADAM,
    },
    "elu-wider": {
        "train.lr": [5e-4, 1e-4, 5e-5], "train.batch_size": [64, 128, 256], "model.embed_dim": [512, 768],
        "model.num_heads": [8, 12, 16],
        "model.depth": [1, 2, 3, 4], "model.drop_rate": [0.0, 0.1, 0.2], **ELU, "features": [128, 256],
        "alpha": [0.25, 0.5, 1.0], "optimizer": ADAM | ADAMW,
    },
    "exp-grid": {
        "train.lr": [2e-3, 1e-3, 5e-4, 1e-4], "train.batch_size": [16, 32, 64, 128, 256], "optimizer": ADAM | SGD,
        "model.drop_rate": [0.0, 0.1, 0.2], "model.depth": [1, 2, 3, 4, 5], "model.embed_dim": [576, 768, 960],
        "model.num_heads": [8, 12, 16],
    },
    "exp": {
        "train.lr": {"log": [1e-5, 1e-2]}, "train.batch_size": [64, 128, 256], "model.embed_dim": [576, 768, 960, 1024],
        "model.num_heads": [12, 16], "model.attention": EXP, "features": [128, 256, 512, 764],
        "model.depth": {"range": [1, 5]},
        "model.drop_rate": [0.1, 0.2, 0.3], "optimizer": SGD | ADAM,
    },
}  # fmt: skip
"""`relu` has the widths, heads and features of the text, which are more than those of its table. `elu-first` and
`elu-wider` are its rounds of ELU, `exp-grid` its grid for EXP and `exp` what it gave Optuna. A width that the heads do
not divide cannot be, and such a trial is pruned."""


def layouts(features: tuple[int, ...] = (16, 64, 128)) -> list[str]:
    """Exact attention, and four layouts x two kernels x features."""
    performers = [f"performer(kernel={k}, features={m})" for k in ("relu", "softmax") for m in features]
    return ["softmax", *(pattern.format(p) for pattern in LAYOUTS.values() for p in performers)]


for _name, _values in CIFAR_KERNELS.items():
    add_space(f"cifar-kernels/{_name}", partial(space_from_dict, _values))
add_space("hybrid/layouts", lambda: space_from_dict({"model.attention": layouts()}))
add_space(
    "lens/features",
    lambda: space_from_dict(
        {"layers": ["prism", "lens", *(f"performer(kernel=relu, features={m}, conv=3)" for m in (8, 16, 32, 64, 128))]}
    ),
)
add_space(
    "layers",
    lambda: space_from_dict(
        {"layers": ["softmax", *(f"performer(kernel=relu, features={m})" for m in (16, 64)), "nystrom(landmarks=16)"]}
    ),
)
