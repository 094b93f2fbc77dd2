"""Whole ViTs, a training step each, ours beside the same ViT on the attention that others published, and beside others'
ViTs.

`python -m benchmarks.whole`. Width 128, depth 6, 4 heads, MLP 256: 1,024 tokens in batches of 4 for Performer and
Nystrom, 65 tokens in batches of 64 for exact attention.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.attention import NYSTROM, RELU, SOFTMAX
from benchmarks.page import table_command
from benchmarks.peers import DIM, HEADS, peer_of
from vixformer import create_model
from vixformer.measure.bench import Conditions, call
from vixformer.measure.latency import interleaved

LONG, SHORT = dict(img_size=32, patch_size=1, pool="mean"), dict(img_size=32, patch_size=4, pool="mean")
SIZES: dict[str, Any] = dict(embed_dim=DIM, depth=6, num_heads=HEADS, mlp_dim=2 * DIM)


class Theirs(nn.Module):
    """A published module where ours was."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor, **_: Any) -> Tensor:
        return self.module(x)


def on_peers(attention: str) -> nn.Module:
    model: Any = create_model("vit", attention="softmax", **LONG, **SIZES)
    for block in model.blocks:
        block.attn = Theirs(peer_of(attention, 1024))
    return model


def others() -> dict[str, nn.Module]:
    """ViTs of 64 tokens and a class token, as others build them."""
    from tests.support.peers import transformers, vit_pytorch

    config = transformers().ViTConfig(
        hidden_size=DIM,
        num_hidden_layers=6,
        num_attention_heads=HEADS,
        intermediate_size=2 * DIM,
        image_size=32,
        patch_size=4,
    )
    config.num_labels = 10

    class Scores(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = transformers().ViTForImageClassification(config)

        def forward(self, x: Tensor) -> Tensor:
            return self.model(x).logits

    published = vit_pytorch("vit").ViT(
        image_size=32,
        patch_size=4,
        num_classes=10,
        dim=DIM,
        depth=6,
        heads=HEADS,
        dim_head=DIM // HEADS,
        mlp_dim=2 * DIM,
    )
    return {"transformers": Scores(), "vit-pytorch": published}


def measure(seconds: float) -> list[tuple[str, str, float, float]]:
    """What, beside what, and the least milliseconds of both."""
    training = Conditions(train=True)
    rows = []
    images = torch.randn(4, 3, 32, 32)
    for attention in (RELU, SOFTMAX, NYSTROM):
        ours = create_model("vit", attention=attention, **LONG, **SIZES)
        timed = interleaved(
            {"ours": call(ours, images, training), "theirs": call(on_peers(attention), images, training)}, seconds
        )
        rows.append(
            (
                f"`{attention}`, 1,024 tokens",
                "the published module in the same ViT",
                timed["ours"].min,
                timed["theirs"].min,
            )
        )
    images = torch.randn(64, 3, 32, 32)
    calls = {"ours": call(create_model("vit", img_size=32, patch_size=4, **SIZES), images, training)}
    calls |= {name: call(model, images, training) for name, model in others().items()}
    timed = interleaved(calls, seconds)
    rows += [
        ("`softmax`, 65 tokens", f"{name}'s ViT", timed["ours"].min, timed[name].min)
        for name in calls
        if name != "ours"
    ]
    return rows


def table(seconds: float) -> list[str]:
    rows = [f"| {what} | {beside} | {a:.0f} | {b:.0f} | {b / a:.2f} |" for what, beside, a, b in measure(seconds)]
    return ["| ours | beside | ours, ms | theirs, ms | faster by |", "|---|---|--:|--:|--:|", *rows]


if __name__ == "__main__":
    table_command(__doc__, "whole", 30.0, "a training step with AdamW, the least of all", table)
