"""linear-tests/*: "Testing linear-attention Transformers" (2023): Transformer, Linformer and Performers on MNIST,
CIFAR-10 and CIFAR-100.

Two networks, as it wrote them. In torch, exact attention and Linformer: width 256, 8 heads, MLP 768, 6 blocks on MNIST
and 8 on CIFAR, layer norms with 1e-5, dropout 0.2 in the MLP and after positions and none after attention (its
printout), Adam, batch 32, 20 or 100 epochs. In Keras, the Performers: width 64, 4 heads of width 128, MLP 128, all
tokens side by side into 2048 and 1024 hidden units, 1e-3, weight decay 1e-4; softmax and ReLU features, 16 to 128 of
them, and ReLU and exp without random features. Its printout has dropout twice in the MLP, on the flattened tokens and
after both hidden layers of the head, and none after attention; the rates are not printed, so 0.1, and 0.5 in the head
and in front of it, as in the Keras example it follows.

What it leaves open or prints twice, and what is chosen here: torch's rate, so 3e-4, and Linformer's rank, so a quarter
of the places, up; MNIST's "7 x 7 patches", so patches of 7; CIFAR images at 72 x 72 with patches of 6 in torch, but 25
patches of 6 in the table of the Keras model, and so here; Keras batches of 128 (MNIST) and 32 (CIFAR) with 20 epochs,
not 32 and 256 with 30; 6 and 8 layers, not 4 and 8; 4 heads on MNIST too, not 8. Its "Determine-Softmax" takes the
exponential of q and k themselves, `deterministic-exp`. It evaluates these "with deterministic casual masks": if its
tables are of causal attention, they are of `deterministic-relu-causal` and `deterministic-exp-causal`, in which a patch
sees itself and those before it. Patches of 6 cut four rows and columns of pixels off an MNIST image. Rows "from
checkpoint" start from the same network trained with exact attention, `transformer` and `keras-transformer`: `vix
compare` and `vix train` train that first. They have then seen twice the epochs of rows from scratch, so `-equal-epochs`
trains from scratch for twice as long. `performer-softmax-16-independent` draws each random feature by itself, because
the document says that orthogonal ones estimate better. It does not say which images and which epoch its "valid
accuracy" is of, so `track_test` records the largest and the last test accuracy. `linear-tests-as-printed/*` train on
all training images and report the last epoch.

`keras-linformer` is Linformer in the Keras network, which the document does not have, so that all of them stand in one
network too; its rank is a quarter of the places, up.

Its section 6 tells of a ResNet in front of a Performer, better than the ResNet alone, without a figure:
`cifar10/resnet-performer` is the Keras network with 64 ReLU features behind a small ResNet whose strides multiply to 4,
`cifar10/resnet` that ResNet; both average what they end with, so that the encoder is all they differ in.

What they gave here: docs/results/linear-tests.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from vixformer.backbones.cnn import CNN
from vixformer.backbones.vit import ViT
from vixformer.config import Data, Recipe, Train
from vixformer.recipes.catalog import add, add_as_printed

TORCH = ViT.Config(
    embed_dim=256,
    depth=8,
    num_heads=8,
    mlp_dim=768,
    drop_rate=0.2,
    proj_drop_rate=0.0,
    pos_drop_rate=0.2,
    norm_eps=1e-5,
)
KERAS = ViT.Config(
    patch_size=6,
    embed_dim=64,
    depth=8,
    num_heads=4,
    head_dim=128,
    mlp_dim=128,
    pool="flatten",
    head="mlp",
    drop_rate=0.1,
    proj_drop_rate=0.0,
    pool_drop_rate=0.5,
    head_drop_rate=0.5,
)
RESNET = replace(KERAS, stem="resnet", patch_size=4, pool="mean", head="linear", pool_drop_rate=0.0, head_drop_rate=0.0)
PERFORMERS = {
    f"performer-{kernel}-{m}": f"performer(kernel={kernel}, features={m})"
    for kernel in ("softmax", "relu")
    for m in (16, 32, 64, 128)
}
PERFORMERS |= {f"deterministic-{kernel}": f"performer(kernel={kernel}, features=none)" for kernel in ("relu", "exp")}
PERFORMERS["performer-softmax-16-independent"] = "performer(kernel=softmax, features=16, scaling=iid)"
PERFORMERS |= {
    f"deterministic-{kernel}-causal": f"performer(kernel={kernel}, features=none, causal=true)"
    for kernel in ("relu", "exp")
}


def torch_model(data: str, attention: str, weights: str | None = None) -> Recipe:
    """Command: `vix train linear-tests/mnist/transformer` (and the others)."""
    small = data == "mnist"
    model = replace(TORCH, attention=attention, patch_size=7 if small else 6, depth=6 if small else 8)
    epochs = 20 if small else 100
    train = Train(
        epochs=epochs, batch_size=32, optimizer="adam", lr=3e-4, weight_decay=0.0, schedule="constant", track_test=True
    )
    images = Data(name=data, mean=(0.5,), std=(0.5,), resize=None if small else 72)
    return Recipe(data=images, model=model, train=replace(train, weights=weights))


def longer(make: Callable[[], Recipe]) -> Recipe:
    """Command: `vix train linear-tests/mnist/linformer-equal-epochs` (and the others)."""
    recipe = make()
    return replace(recipe, train=replace(recipe.train, epochs=2 * recipe.train.epochs))


def keras_model(data: str, attention: str, weights: str | None = None) -> Recipe:
    """Command: `vix train linear-tests/mnist/performer-relu-64` (and the others)."""
    return in_keras(data, replace(KERAS, attention=attention, depth=6 if data == "mnist" else 8), weights)


def in_keras(data: str, model: ViT.Config | CNN.Config, weights: str | None = None) -> Recipe:
    """Command: `vix train linear-tests/cifar10/resnet-performer` (and `resnet`)."""
    batch = 128 if data == "mnist" else 32
    train = Train(
        epochs=20, batch_size=batch, optimizer="adamw", lr=1e-3, weight_decay=1e-4, schedule="constant", track_test=True
    )
    return Recipe(data=Data(name=data), model=model, train=replace(train, weights=weights))


for _data, _rank, _few in (("mnist", 4, 4), ("cifar10", 36, 7), ("cifar100", 36, 7)):
    _base, _linformer = f"linear-tests/{_data}/", f"linformer(rank={_rank})"
    add(_base + "transformer", partial(torch_model, _data, "softmax"))
    add(_base + "linformer", partial(torch_model, _data, _linformer))
    add(_base + "linformer-from-checkpoint", partial(torch_model, _data, _linformer, _base + "transformer"))
    add(_base + "linformer-equal-epochs", partial(longer, partial(torch_model, _data, _linformer)))
    add(_base + "keras-transformer", partial(keras_model, _data, "softmax"))
    add(_base + "keras-linformer", partial(keras_model, _data, f"linformer(rank={_few})"))
    for _name, _attention in PERFORMERS.items():
        add(_base + _name, partial(keras_model, _data, _attention))
    for _kernel in ("softmax", "relu"):
        _name = f"performer-{_kernel}-16"
        add(
            f"{_base}{_name}-from-checkpoint",
            partial(keras_model, _data, PERFORMERS[_name], _base + "keras-transformer"),
        )
        add(f"{_base}{_name}-equal-epochs", partial(longer, partial(keras_model, _data, PERFORMERS[_name])))
add(
    "linear-tests/cifar10/resnet-performer",
    partial(in_keras, "cifar10", replace(RESNET, attention=PERFORMERS["performer-relu-64"])),
)
add("linear-tests/cifar10/resnet", partial(in_keras, "cifar10", CNN.Config(stem="resnet", embed_dim=64, patch_size=4)))
add_as_printed("linear-tests/mnist/*")
add_as_printed("linear-tests/cifar10/*")
