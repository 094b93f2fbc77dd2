"""CvT against vit-pytorch's and transformers': the same weights, the same scores."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tests.support.peers import Weights, moved, needs_vit_pytorch, same_scores, stirred, transformers, vit_pytorch
from vixformer import create_model


@needs_vit_pytorch
def test_cvt() -> None:
    sizes = dict(
        zip(
            ("emb_dim", "heads", "depth", "emb_stride"),
            zip((16, 1, 1, 2), (32, 2, 1, 2), (48, 3, 2, 1), strict=True),
            strict=True,
        )
    )
    options = {f"s{i + 1}_{name}": values[i] for i in range(3) for name, values in sizes.items()}
    theirs = stirred(
        vit_pytorch("cvt").CvT(num_classes=10, **options, s1_emb_kernel=3, s1_mlp_mult=2, s2_mlp_mult=2, s3_mlp_mult=2)
    )
    ours = create_model(
        "cvt",
        dims=(16, 32, 48),
        num_heads=(1, 2, 3),
        depths=(1, 1, 2),
        strides=(2, 2, 1),
        head_dim=64,
        kv_stride=2,
        shared_kv=True,
        qkv_bias=False,
        norm="channel",
        head_norm=False,
    )
    weights: Weights = {}
    for name, value in theirs.state_dict().items():
        if name.endswith("to_kv.net.2.weight"):  # k and v side by side
            weights[name.replace("to_kv.net.2", "k")], weights[name.replace("to_kv.net.2", "v")] = value.chunk(2)
        else:
            module, _, last = name.rpartition(".")
            weights[f"{module}.{dict(g='scale', b='shift').get(last, last)}"] = value
    names = {"head": "to_logits.2"}
    parts = {
        "norm1": "0.norm",
        "attn.q_conv.0": "0.to_q.net.0",
        "attn.q_conv.1": "0.to_q.net.1",
        "attn.q": "0.to_q.net.2",
        "attn.proj": "0.to_out.0",
    }
    parts |= {"attn.k_conv.0": "0.to_kv.net.0", "attn.k_conv.1": "0.to_kv.net.1", "attn.k": "0.k", "attn.v": "0.v"}
    parts |= {"norm2": "1.net.0", "mlp.fc1": "1.net.1", "mlp.fc2": "1.net.4"}
    for i, depth in enumerate((1, 1, 2)):
        names |= {f"embeds.{i}": f"layers.{i}.0", f"norms.{i}": f"layers.{i}.1"}
        names |= {f"stages.{i}.{j}.{a}": f"layers.{i}.2.layers.{j}.{b}" for j in range(depth) for a, b in parts.items()}
    same_scores(ours, theirs, moved(weights, names))


def test_published_cvt() -> None:
    depths, heads, dims = (1, 2, 3), (1, 3, 6), (16, 48, 96)
    config: Any = transformers().CvtConfig(embed_dim=list(dims), num_heads=list(heads), depth=list(depths))
    config.num_labels = 10
    theirs = stirred(transformers().CvtForImageClassification(config))
    sizes = create_model("cvt-13").config
    values = {f.name: getattr(sizes, f.name) for f in fields(sizes)}
    ours = create_model(
        "cvt", **{**values, "dims": dims, "depths": depths, "num_heads": heads, "num_classes": 10, "img_size": 64}
    )
    names = {"norm": "layernorm", "head": "classifier", "cls_token": "cvt.encoder.stages.2.cls_token"}
    for i, depth in enumerate(depths):
        stage = f"cvt.encoder.stages.{i}"
        names[f"embeds.{i}"] = f"{stage}.embedding.convolution_embeddings.projection"
        names[f"norms.{i}"] = f"{stage}.embedding.convolution_embeddings.normalization"
        for j in range(depth):
            block, layer = f"stages.{i}.{j}", f"{stage}.layers.{j}"
            inner = f"{layer}.attention.attention"
            for word in ("query", "key", "value"):
                letter, conv = word[0], f"{inner}.convolution_projection_{word}.convolution_projection"
                names[f"{block}.attn.{letter}_conv.0"] = f"{conv}.convolution"
                names[f"{block}.attn.{letter}_conv.1"] = f"{conv}.normalization"
                names[f"{block}.attn.{letter}"] = f"{inner}.projection_{word}"
            names |= {
                f"{block}.attn.proj": f"{layer}.attention.output.dense",
                f"{block}.norm1": f"{layer}.layernorm_before",
            }
            names |= {f"{block}.norm2": f"{layer}.layernorm_after", f"{block}.mlp.fc1": f"{layer}.intermediate.dense"}
            names[f"{block}.mlp.fc2"] = f"{layer}.output.dense"
    same_scores(ours, theirs, moved(theirs.state_dict(), names))
