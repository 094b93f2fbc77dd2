"""cifar-kernels/*: "Optimizing Image Classification on CIFAR-10 with Transformer Architectures" (2024): six models and
the way to them. cifar-kernels-grid/*: its six kernels and exact attention where they have something to attend to.

Convolutions in front of attention over one token (see the docs of `convtoken` for what that means), mixed precision,
random crops and flips, stratified folds of 10,000, early stopping after 10 epochs without a better validation loss;
Adam with a rate halved every 5 epochs, SGD with a cosine. What it leaves open or prints twice, and what is chosen here:
the folds of the text add up to 60,000 training images, so 40,000 + 10,000; no limit of epochs, so 100 (ViT: its 31);
ViT's and f-theta's batch, so 64 and 128; f-theta's rate, so ReLU's; its dropout of "5.0", so 0.5; ReLU's and EXP's
features, so 256 ("a common choice"); the mixture's settings, so those of ReLU's earlier run, which ELU and GELU start
from too; AdamW's weight decay, so torch's 0.01; f-theta's clipping, so 1.0 as for GELU. Where it prints a result twice
(GELU 88.64 and 88.46 %, 31.3 and 31.5 s; ViT 56 and 72 s; ReLU 31 and 38 s; ELU 13.11 and 31 s), the page has the
first. Its kernels divide by the square root of the head width and have an epsilon of 1e-6 in features and denominator;
features are drawn once, as in its Algorithm 2. Some of its authors chose settings on the test set (its section 3.3):
here validation chooses, and `track_test` records the largest and the last test accuracy in columns of their own.

Its ViT is the one of its formulas and Algorithm 1: ReLU between the layers of an MLP, a norm after each sum, and
another before the head. ReLU features are those of the text, ReLU(Wx + b); its pseudocode has no b. ELU has its alpha
in convolutions, embedding and kernel. ELU and GELU features are shifted above zero, where its formulas are not:
`raw=true` in the kernel is its reading, which may explain its NaNs (`python -m tools.stability`); `ftheta-raw` is
f-theta without the softplus, `ftheta-twin` has as many ReLU features, which are not learned: its price is the
difference in time. Its text lists weight decay for f-theta without a number, so 1e-4, on all weights, those of the
kernel too; AdamW's is on all weights, as torch's is. `relu-weighted` and `relu-focal` are its suggestion for cats and
dogs.

Over one token kernels do nothing, so `cifar-kernels-grid/*` has the 16 x 16 places of the convolutions' map as tokens,
averaged before the head. All seven have one network, optimizer and schedule, so that they differ in attention alone:
those of ReLU's earlier run, from which four of its kernels started (768 wide, 16 heads, one layer, 128 features, Adam
5e-4).

What they gave here: docs/results/cifar-kernels.md.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from vixformer.backbones.backbone import BackboneConfig
from vixformer.backbones.convtoken import ConvToken
from vixformer.backbones.vit import ViT
from vixformer.config import GIVEN, Data, Recipe, Train
from vixformer.data.cifar import CIFAR10
from vixformer.recipes.catalog import add, add_as_printed

CIFAR = Data(name="cifar10", crop=4, flip=True, folds=5)
ADAM = Train(
    epochs=100, batch_size=128, optimizer="adam", lr=5e-4, weight_decay=0.0, schedule="step", step_every=5,
    step_factor=0.5,
    precision="float16", patience=10, monitor="val_loss", redraw_every=None, track_test=True,
)  # fmt: skip
SGD = replace(ADAM, optimizer="sgd", lr=1.7e-3, schedule="cosine")


def kernel(name: str, features: int, more: str = "") -> str:
    return f"performer(kernel={name}, features={features}, scale=half, eps=1e-6, total_eps=1e-6{more})"


ONE = ConvToken.Config(attention=kernel("relu", 128, ", bias=true"), embed_dim=768, depth=1, num_heads=16)
"""ReLU's earlier run."""
VIT = ViT.Config(
    patch_size=4,
    embed_dim=256,
    depth=8,
    num_heads=8,
    mlp_dim=512,
    drop_rate=0.1,
    act="relu",
    norm_place="post",
    head_norm=True,
)


def elu(alpha: float, features: int, **more: float) -> ConvToken.Config:
    act = "elu" if alpha == 1 else f"elu({alpha})"
    return replace(ONE, attention=kernel("elu", features, f", alpha={alpha}"), act=act, **more)


RELU = replace(ONE, attention=kernel("relu", 256, ", bias=true"), embed_dim=960, depth=4, drop_rate=0.1)
GELU = replace(ONE, attention=kernel("gelu", 128), act="gelu")
CALM = replace(ADAM, clip=1.0, warmup=5.0, schedule="onecycle")
"""GELU's second stage and those after it."""
MIXTURE = "performer(kernel=mixture, features=none, scale=half, total_eps=1e-6)"
FTHETA = replace(SGD, clip=1.0, weight_decay=1e-4, decays="all")
CATS_AND_DOGS = tuple(2.0 if name in ("cat", "dog") else 1.0 for name in CIFAR10.classes)

RECIPES: dict[str, tuple[BackboneConfig, Train]] = {
    "vit": (VIT, replace(ADAM, epochs=31, batch_size=64, lr=5e-4)),
    "vit-pretrained": (VIT, replace(ADAM, epochs=31, batch_size=64, lr=5e-4, weights=GIVEN)),
    "relu": (RELU, SGD),
    "elu-1": (elu(1.0, 128), ADAM),
    "elu-2": (elu(0.5, 128, depth=2, drop_rate=0.1), replace(ADAM, lr=1e-4)),
    "elu-3": (elu(0.3, 256, depth=3, drop_rate=0.2), replace(ADAM, lr=5e-5, batch_size=64)),
    "elu-4": (elu(0.25, 256, num_heads=8), replace(ADAM, optimizer="adamw", weight_decay=0.01, decays="all")),
    "gelu-1": (GELU, ADAM),
    "gelu-2": (GELU, replace(CALM, lr=5e-5)),
    "gelu-3": (GELU, replace(CALM, lr=1e-4)),
    "gelu-4": (GELU, replace(CALM, lr=6.25e-5)),
    "exp": (
        replace(
            ONE, attention=kernel("exp", 256, ", clamp=10"), embed_dim=576, depth=3, drop_rate=0.1, residual="after"
        ),
        replace(ADAM, batch_size=64, lr=1e-3),
    ),
    "ftheta-mixture": (replace(ONE, attention=MIXTURE), ADAM),
    "ftheta": (replace(ONE, attention=kernel("mlp", 512), depth=5, drop_rate=0.5), FTHETA),
    "ftheta-raw": (replace(ONE, attention=kernel("mlp", 512, ", raw=true"), depth=5, drop_rate=0.5), FTHETA),
    "ftheta-twin": (replace(ONE, attention=kernel("relu", 512), depth=5, drop_rate=0.5), FTHETA),
    "relu-weighted": (RELU, replace(SGD, class_weights=CATS_AND_DOGS)),
    "relu-focal": (RELU, replace(SGD, loss="focal")),
}
KERNELS = {
    "exact": "softmax",
    "relu": ONE.attention,
    "elu": kernel("elu", 128),
    "gelu": kernel("gelu", 128),
    "exp": kernel("exp", 128, ", clamp=10"),
    "mixture": MIXTURE,
    "mlp": kernel("mlp", 128),
}


def cifar_kernels(name: str, data: Data = CIFAR) -> Recipe:
    """Command: `vix train cifar-kernels/relu` (and the others); all folds: `vix compare cifar-kernels/relu --folds
    5`."""
    model, train = RECIPES[name]
    return Recipe(data=data, model=model, train=train)


def grid(attention: str) -> Recipe:
    """Command: `vix train cifar-kernels-grid/relu` (and the others); all of them: `vix compare
    'cifar-kernels-grid/*'`."""
    return Recipe(data=CIFAR, model=replace(ONE, attention=attention, tokens="grid"), train=ADAM)


for _name in RECIPES:
    add(f"cifar-kernels/{_name}", partial(cifar_kernels, _name))
for _name, _attention in KERNELS.items():
    add(f"cifar-kernels-grid/{_name}", partial(grid, _attention))
add("cifar-kernels/relu-cifar100", partial(cifar_kernels, "relu", replace(CIFAR, name="cifar100")))
add_as_printed("cifar-kernels/vit")
add_as_printed("cifar-kernels/exp", epochs=41)
