"""lens/*: linear attention of our own, `lens`, beside Performers, learned kernels and exact attention in one ViT; and the record.

`lens/DATA/NAME` are the candidates of docs/lens.md, one backbone, one budget: a ViT of width 128, depth 4 and 4 heads on patches of 4.
`lens/cifar10/record` is the most accurate model that linear attention alone, at most 2 million weights and this machine gave.

What they gave here: docs/results/lens.md.
"""

from __future__ import annotations

from vixformer.backbones.vit import ViT
from vixformer.config import Data, Recipe, Train
from vixformer.recipes.registry import add


def record() -> Recipe:
    """Command: `torchrun --nproc-per-node 2 -m vixformer train lens/cifar10/record`, on two cores with OMP_NUM_THREADS=1."""
    return Recipe(
        data=Data(name="cifar10", crop=4, flip=True),
        model=ViT.Config(attention="lens", stem="vgg", patch_size=4, embed_dim=192, depth=4, num_heads=6, mlp_ratio=2.0, pool="mean"),
        train=Train(
            epochs=24, batch_size=128, optimizer="adamw", lr=2e-3, weight_decay=0.05, schedule="onecycle", label_smoothing=0.1, clip=1.0
        ),
    )


add("lens/cifar10/record", record)
