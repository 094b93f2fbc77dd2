"""fast-attention/*: "Exploring Fast Attention Mechanisms: Performer vs Vision Transformers" (2024), experiments I to
IX.

I to IV are CIFAR-10 with patches of 4; V to IX Tiny ImageNet with patches of 4 and 8 (tables 1, 3, 7, 9, 13, 15). Adam,
weight decay 3e-5, batch 256, cosine with warm restarts, random crops and flips.

It calls for 70 epochs "to match" T_0 = 10 and 84 to match T_0 = 12: 70 = 10 + 20 + 40 and 84 = 12 + 24 + 48, so every
period is twice as long as the one before (T_mult = 2) and training ends where the rate is zero. Equal periods (7 x 10,
7 x 12) would fit too, but so would any other number of them. Experiments VIII and IX have 80 epochs, which no T_0 fits;
with 12, as for the same images in V to VII, they end when the rate is almost down (2 %), with 10 they would end just
after a restart.

Names of its options are those of vit-pytorch, which starts positions at 1, adds 1e-5 in layer norms, drops attention
weights too, and gets all weights into the optimizer; so here. `epoch_step`, 5 in every table, has no known meaning and
no effect: it is recorded here alone. Its times are of "an A10" and of "a single A100"; the tables say A10. Its
`performer-exp` has generalized_attention FALSE everywhere, so it is the softmax kernel. It reports the largest and the
last test accuracy, so `track_test` records them; the table's accuracy here is that of the epoch chosen on validation.
`fast-attention-as-printed/*` train on all training images and report the last epoch.

What they gave here: docs/results/fast-attention.md.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from vixformer.backbones.vit import ViT
from vixformer.config import Data, Recipe, Train
from vixformer.recipes.catalog import add, add_as_printed

CIFAR = ViT.Config(
    patch_size=4, embed_dim=128, depth=6, num_heads=8, head_dim=32, mlp_dim=200, drop_rate=0.15, pos_drop_rate=0.15
)
WIDE = replace(CIFAR, embed_dim=200, head_dim=64, mlp_dim=256)
TINY = replace(CIFAR, embed_dim=256, mlp_dim=256, drop_rate=0.18, pos_drop_rate=0.18)
TINY_8 = replace(TINY, patch_size=8)
TINY_8_LESS = replace(TINY_8, drop_rate=0.15, pos_drop_rate=0.15)

EXPERIMENTS: dict[str, tuple[str, ViT.Config, int, int, int, float]] = {
    "exp1": ("cifar10", CIFAR, 16, 70, 10, 1.5e-3),
    "exp2": ("cifar10", CIFAR, 64, 70, 10, 1.5e-3),
    "exp3": ("cifar10", CIFAR, 32, 70, 10, 1.5e-3),
    "exp4": ("cifar10", WIDE, 32, 70, 10, 1.5e-3),
    "exp5": ("tiny-imagenet", TINY, 16, 84, 12, 1.5e-3),
    "exp6": ("tiny-imagenet", TINY, 32, 84, 12, 1.5e-3),
    "exp7": ("tiny-imagenet", TINY, 64, 84, 12, 1.5e-3),
    "exp8": ("tiny-imagenet", TINY_8, 32, 80, 12, 1.5e-3),
    "exp9": ("tiny-imagenet", TINY_8_LESS, 64, 80, 12, 1.6e-3),
}
"""Data, model, features, epochs, epochs of the first period, rate."""
ATTENTIONS = {
    "vit": "softmax(drop={1})",
    "performer-relu": "performer(kernel=relu, features={0})",
    "performer-exp": "performer(features={0})",
    "performer-ftheta": "performer(kernel=matrix, features={0})",
}


def fast_attention(experiment: str, model: str) -> Recipe:
    """Command: `vix train fast-attention/exp1/performer-relu` (and the others)."""
    data, vit, features, epochs, restart, rate = EXPERIMENTS[experiment]
    attention = ATTENTIONS[model].format(features, vit.drop_rate)
    # its ViT is vit-pytorch's, without biases; its Performers have them
    model_config = replace(vit, attention=attention, qkv_bias=model != "vit", pos_std=1.0, norm_eps=1e-5)
    train = Train(
        epochs=epochs,
        batch_size=256,
        optimizer="adam",
        lr=rate,
        weight_decay=3e-5,
        schedule="restarts",
        restart_every=restart,
        restart_growth=2,
        decays="all",
        track_test=True,
    )
    return Recipe(data=Data(name=data, crop=4, flip=True), model=model_config, train=train)


for _experiment in EXPERIMENTS:
    for _model in ATTENTIONS:
        add(f"fast-attention/{_experiment}/{_model}", partial(fast_attention, _experiment, _model))
add_as_printed("fast-attention/*")
