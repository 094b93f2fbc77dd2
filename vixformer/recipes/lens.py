"""lens/*: linear attention of our own, `lens` and `prism`, beside Performers, learned kernels and exact attention; and
the record.

`lens/SETTING/NAME`: one ViT of width 64, depth 4 and 4 heads with rotary positions, one learning rate and one budget a
setting. `RIVALS` are what others have; `PARTS` are `prism` and `lens` with one thing changed, and other features beside
the same convolution; `STARTED` is trained from another model, whose epochs count; all have the parameters of `prism`
within 2 %. `lens/record` is as accurate as linear attention alone and at most 2 million weights could be made on two
cores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

from vixformer.backbones.vit import ViT
from vixformer.config import Data, Recipe, Train
from vixformer.recipes.catalog import add

RIVALS = {
    "exact": "softmax",
    "performer-relu": "performer(kernel=relu, features=64)",
    "performer-exp": "performer(kernel=exp, features=64)",
    "performer-softmax": "performer(features=64)",
    "matrix": "performer(kernel=matrix, features=16)",
    "mixture": "performer(kernel=mixture, features=16)",
    "mlp": "performer(kernel=mlp)",
}
PARTS = {
    "prism": "prism",
    "prism-no-conv": "prism(conv=none)",
    "conv-5": "prism(conv=5)",
    "wider": "performer(kernel=mlp, conv=3)",
    "end-relu": "prism(end=relu)",
    "end-elu": "prism(end=elu)",
    "orthogonal": "prism(start=orthogonal)",
    "plain-start": "prism(start=plain)",
    "learned-positions": "prism",
    "no-positions": "prism",
    "lens": "lens",
    "no-conv": "lens(conv=none)",
    "exact-conv": "softmax(conv=3)",
    "power-2": "lens(power=2)",
    "random": "performer(kernel=relu, features=64, conv=3)",
    "learned-directions": "performer(kernel=relu, features=32, learned=true, conv=3)",
    "both-signs": "hedgehog(conv=3)",
    "focused": "focused",
    "cosine": "cosine(conv=3)",
    "softmax-features": "performer(features=64, conv=3)",
    "exp": "performer(kernel=exp, features=none, conv=3)",
    "temperature": "performer(kernel=exp, features=none, norm=true, conv=3)",
    "polynomial": "performer(kernel=taylor, conv=3)",
    "prototypes": "performer(kernel=prototypes, features=16, conv=3)",
    "norm": "lens(norm=true)",
    "learned-power": "lens(learn=power)",
    "gate": "lens(learn=gate)",
    "look-conv": "lens(look=conv)",
    "look-graph": "lens(look=graph)",
    "searched": (
        "performer(kernel=relu, features=32, conv=3) + lens + performer(kernel=relu, features=16, conv=3) + lens"
    ),
}
LEARNED = tuple(f"{name}-learned" for name in ("exact", "performer-relu", "performer-exp", "performer-softmax"))
"""Rivals with learned positions, in case rotary ones hold them back."""
NARROW = {
    **dict.fromkeys(
        (
            "prism",
            "prism-no-conv",
            "wider",
            "end-relu",
            "end-elu",
            "orthogonal",
            "plain-start",
            "no-positions",
            "searched",
            "warm-start",
        ),
        120,
    ),
    **dict.fromkeys(("mlp", "mixture", "learned-directions", "prototypes", "look-conv", *LEARNED), 120),
    **dict.fromkeys(("conv-5", "learned-positions", "both-signs"), 112),
}
"""Units of the MLP where 128 beside what else they learn would be more weights than the others have."""
POSITIONS = {"learned-positions": "learned", "no-positions": "none", **dict.fromkeys(LEARNED, "learned")}
PARENTS = {"exact": "softmax", "random-16": "performer(kernel=relu, features=16, conv=3)"}
STARTED = {
    "warm-start": ("exact", "prism", 1),
    "grown": ("random-16", "performer(kernel=relu, features=64, conv=3)", 0),
}
"""From a softmax twin, from which it is distilled for these epochs; or from a model with a quarter of the features,
which it keeps."""
PARENT = 2
"""Epochs that a model which starts from another leaves to that one."""
EPOCH = math.ceil(11_250 / 128)
"""Steps of one, where a quarter of CIFAR-10 less what validates is trained on."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    data: Data
    epochs: int
    patch: int = 4
    batch: int = 128
    names: tuple[str, ...] = ("prism", "plain-start", "lens", *RIVALS, "exact-conv")


CIFAR10 = Data(name="cifar10", crop=4, flip=True)
SETTINGS = {
    "cifar10": Setting(data=CIFAR10, epochs=5, names=(*Setting.names, "no-conv", *LEARNED)),
    "tiny-imagenet": Setting(data=Data(name="tiny-imagenet", crop=8, flip=True), epochs=5, batch=32),
    "fashion-mnist": Setting(data=Data(name="fashion-mnist", fraction=0.25, crop=2, flip=True), epochs=4),
    "pixels": Setting(data=replace(CIFAR10, fraction=0.04, test_fraction=0.2), epochs=6, patch=1, batch=32),
    "parts": Setting(data=replace(CIFAR10, fraction=0.25), epochs=5, names=("exact", *PARTS, *STARTED)),
}


def rival(setting: Setting, name: str, attention: str) -> Recipe:
    """Command: `vix compare 'lens/cifar10/*' --seeds 5` (and the others); `vix train lens/cifar10/lens` for one."""
    return Recipe(
        data=setting.data,
        model=ViT.Config(
            attention=attention,
            patch_size=setting.patch,
            embed_dim=64,
            depth=4,
            num_heads=4,
            mlp_ratio=2.0,
            mlp_dim=NARROW.get(name),
            pool="mean",
            pos=POSITIONS.get(name, "rope2d"),
        ),
        train=Train(
            epochs=setting.epochs, batch_size=setting.batch, optimizer="adamw", lr=2e-3, weight_decay=0.05,
            schedule="cosine", warmup=1.0, clip=1.0,
        ),
    )  # fmt: skip


def parent(name: str, of: str) -> Recipe:
    """Trained before what starts from it, and as wide."""
    recipe = rival(SETTINGS["parts"], of, PARENTS[name])
    return replace(recipe, train=replace(recipe.train, epochs=PARENT))


def started(setting: Setting, name: str) -> Recipe:
    """Command: `vix compare lens/parts/prism lens/parts/warm-start --seeds 3`, which trains the parent of every seed
    first."""
    given, attention, taught = STARTED[name]
    recipe = rival(setting, name, attention)
    epochs = setting.epochs - PARENT - taught
    return replace(
        recipe, train=replace(recipe.train, epochs=epochs, weights=f"lens/parents/{given}", distill=taught * EPOCH)
    )


def record() -> Recipe:
    """Command: `OMP_NUM_THREADS=1 torchrun --standalone --nproc-per-node 2 -m vixformer train lens/record`.

    92.90 % of the test images after two hours on two cores; 93.04 % of the 2,500 that chose the epoch. 1,869,258
    weights. With stem="vgg", depth 4, 30 epochs, cutout 8 and weight decay 0.05 (1,654,730 weights, 110 minutes): 91.33
    %.
    """
    return Recipe(
        data=Data(name="cifar10", val_fraction=0.05, crop=4, flip=True, cutout=12),
        model=ViT.Config(attention="lens", stem="resnet9", patch_size=4, embed_dim=192, depth=2, num_heads=6,
        mlp_ratio=2.0, pool="mean"),
        train=Train(
            epochs=36, batch_size=128, optimizer="adamw", lr=2e-3, weight_decay=0.2, schedule="onecycle",
            label_smoothing=0.1, clip=1.0,
            precision="bfloat16",
        ),
    )  # fmt: skip


for _where, _setting in SETTINGS.items():
    for _name in _setting.names:
        if _name in STARTED:
            add(f"lens/{_where}/{_name}", partial(started, _setting, _name))
        else:
            add(
                f"lens/{_where}/{_name}",
                partial(rival, _setting, _name, (RIVALS | PARTS)[_name.removesuffix("-learned")]),
            )
for _name, (_parent, _, _) in STARTED.items():
    add(f"lens/parents/{_parent}", partial(parent, _parent, _name))
add("lens/record", record)
