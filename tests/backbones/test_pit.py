"""PiT against vit-pytorch's: the same weights, the same scores."""

from __future__ import annotations

from tests.support.peers import moved, needs_vit_pytorch, same_scores, stirred, vit_pytorch
from vixformer import create_model


@needs_vit_pytorch
def test_pit() -> None:
    theirs = stirred(
        vit_pytorch("pit").PiT(
            image_size=32, patch_size=8, num_classes=10, dim=32, depth=(1, 2), heads=(2, 4), mlp_dim=48, dim_head=16
        )
    )
    ours = create_model(
        "pit",
        patch_size=8,
        patch_stride=4,
        embed_dim=32,
        depths=(1, 2),
        num_heads=(2, 4),
        head_dim=16,
        mlp_dim=48,
        pointwise=True,
        qkv_bias=False,
    )
    names = {"patch_embed.proj": "to_patch_embedding.2", "pos.embed": "pos_embedding", "cls_token": "cls_token"}
    names |= {"norm": "mlp_head.0", "head": "mlp_head.1", "pools.0.fc": "layers.1.cls_ff"}
    names |= {"pools.0.conv": "layers.1.downsample.net.0", "pools.0.pointwise": "layers.1.downsample.net.1"}
    parts = {
        "norm1": "0.norm",
        "attn.qkv": "0.to_qkv",
        "attn.proj": "0.to_out.0",
        "norm2": "1.net.0",
        "mlp.fc1": "1.net.1",
        "mlp.fc2": "1.net.4",
    }
    places = {(0, 0): "0.layers.0", (1, 0): "2.layers.0", (1, 1): "2.layers.1"}
    names |= {
        f"stages.{i}.{j}.{a}": f"layers.{place}.{b}" for (i, j), place in places.items() for a, b in parts.items()
    }
    same_scores(ours, theirs, moved(theirs.state_dict(), names))
