"""cifar-kernels/*: "Optimizing Image Classification on CIFAR-10 with Transformer Architectures" (2024): six models and the way to them.

Convolutions in front of attention over one token (see the docs of `convtoken` for what that means), mixed precision, random crops and
flips, stratified folds of 10,000, early stopping after 10 epochs without a better validation loss; Adam with a rate halved every 5
epochs, SGD with a cosine. What it leaves open or prints twice, and what is chosen here: the folds of the text add up to 60,000 training
images, so 40,000 + 10,000; no limit of epochs, so 100 (ViT: its 31); ViT's and f-theta's batch, so 64 and 128; f-theta's rate, so ReLU's;
its dropout of "5.0", so 0.5; ReLU's and EXP's features, so 256 ("a common choice"); the mixture's settings, so those of ReLU's earlier
run, which ELU and GELU start from too; AdamW's weight decay, so torch's 0.01; f-theta's clipping, so 1.0 as for GELU. Where it prints a
result twice (GELU 88.64 and 88.46 %, 31.3 and 31.5 s; ViT 56 and 72 s; ReLU 31 and 38 s; ELU 13.11 and 31 s), the page has the first. Its
kernels divide by the square root of the head width and have an epsilon of 1e-6 in features and denominator.

What they gave here: docs/results/cifar-kernels.md.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from vixformer.backbones.convtoken import ConvToken
from vixformer.backbones.vit import ViT
from vixformer.config import GIVEN, Data, Recipe, Train
from vixformer.recipes.registry import add

CIFAR = Data(name="cifar10", crop=4, flip=True, folds=5)
ADAM = Train(
    epochs=100, batch_size=128, optimizer="adam", lr=5e-4, weight_decay=0.0, schedule="step", step_every=5, step_factor=0.5,
    precision="float16", patience=10, monitor="val_loss",
)  # fmt: skip
SGD = replace(ADAM, optimizer="sgd", lr=1.7e-3, schedule="cosine")


def kernel(name: str, features: int, more: str = "") -> str:
    return f"performer(kernel={name}, features={features}, scale=half, eps=1e-6, total_eps=1e-6{more})"


ONE = ConvToken.Config(attention=kernel("relu", 128), embed_dim=768, depth=1, num_heads=16)
"""ReLU's earlier run."""
VIT = ViT.Config(patch_size=4, embed_dim=256, depth=8, num_heads=8, mlp_dim=512, drop_rate=0.1)


def elu(alpha: float, features: int, **more: Any) -> Any:
    return replace(ONE, attention=kernel("elu", features, f", alpha={alpha}"), act="elu", **more)


RELU = replace(ONE, attention=kernel("relu", 256), embed_dim=960, depth=4, drop_rate=0.1)
GELU = replace(ONE, attention=kernel("gelu", 128), act="gelu")
CALM = replace(ADAM, clip=1.0, warmup=5.0, schedule="onecycle")
"""GELU's second stage and those after it."""

RECIPES: dict[str, tuple[Any, Train]] = {
    "vit": (VIT, replace(ADAM, epochs=31, batch_size=64, lr=5e-4)),
    "vit-pretrained": (VIT, replace(ADAM, epochs=31, batch_size=64, lr=5e-4, weights=GIVEN)),
    "relu": (RELU, SGD),
    "elu-1": (elu(1.0, 128), ADAM),
    "elu-2": (elu(0.5, 128, depth=2, drop_rate=0.1), replace(ADAM, lr=1e-4)),
    "elu-3": (elu(0.3, 256, depth=3, drop_rate=0.2), replace(ADAM, lr=5e-5, batch_size=64)),
    "elu-4": (elu(0.25, 256, num_heads=8), replace(ADAM, optimizer="adamw", weight_decay=0.01)),
    "gelu-1": (GELU, ADAM),
    "gelu-2": (GELU, replace(CALM, lr=5e-5)),
    "gelu-3": (GELU, replace(CALM, lr=1e-4)),
    "gelu-4": (GELU, replace(CALM, lr=6.25e-5)),
    "exp": (
        replace(ONE, attention=kernel("exp", 256, ", clamp=10"), embed_dim=576, depth=3, drop_rate=0.1, residual="after"),
        replace(ADAM, batch_size=64, lr=1e-3),
    ),
    "ftheta-mixture": (replace(ONE, attention="performer(kernel=mixture, features=none, scale=half, total_eps=1e-6)"), ADAM),
    "ftheta": (replace(ONE, attention=kernel("mlp", 512), depth=5, drop_rate=0.5), replace(SGD, clip=1.0)),
}


def cifar_kernels(name: str, data: Data = CIFAR) -> Recipe:
    """Command: `vix train cifar-kernels/relu` (and the others); all folds: `vix compare cifar-kernels/relu --folds 5`."""
    model, train = RECIPES[name]
    return Recipe(data=data, model=model, train=train)


for _name in RECIPES:
    add(f"cifar-kernels/{_name}", partial(cifar_kernels, _name))
add("cifar-kernels/relu-cifar100", partial(cifar_kernels, "relu", replace(CIFAR, name="cifar100")))
