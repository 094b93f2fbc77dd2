"""CCT against vit-pytorch's: the same weights, the same scores."""

from __future__ import annotations

from tests.support.peers import moved, needs_vit_pytorch, same_scores, stirred, vit_pytorch
from vixformer import create_model


@needs_vit_pytorch
def test_cct() -> None:
    theirs = stirred(
        vit_pytorch("cct").CCT(
            img_size=32,
            embedding_dim=64,
            n_conv_layers=2,
            kernel_size=3,
            stride=1,
            padding=1,
            num_layers=2,
            num_heads=4,
            mlp_ratio=2.0,
            num_classes=10,
            positional_embedding="learnable",
        )
    )
    ours = create_model("cct", embed_dim=64, depth=2, num_heads=4, conv_layers=2)
    names = {
        "pos.embed": "classifier.positional_emb",
        "norm": "classifier.norm",
        "pool.score": "classifier.attention_pool",
    }
    names |= {"head": "classifier.fc"} | {
        f"patch_embed.layers.{3 * i}": f"tokenizer.conv_layers.{i}.0" for i in range(2)
    }
    parts = {"norm1": "pre_norm", "attn": "self_attn", "norm2": "norm1", "mlp.fc1": "linear1", "mlp.fc2": "linear2"}
    names |= {f"blocks.{i}.{a}": f"classifier.blocks.{i}.{b}" for i in range(2) for a, b in parts.items()}
    same_scores(ours, theirs, moved(theirs.state_dict(), names))
