"""CCT, CvT, LeViT and PiT against vit-pytorch's, CvT and LeViT as published against transformers': the same weights, the same scores.

vit-pytorch's files are loaded one by one, because importing the package asks for torchvision.
"""

from __future__ import annotations

import importlib.util
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.attention.cases import distance
from vixformer import create_model

Weights = dict[str, Tensor]
found = importlib.util.find_spec("vit_pytorch")
needs_vit_pytorch = pytest.mark.skipif(found is None, reason="needs vit-pytorch: pip install --no-deps vit-pytorch")


def vit_pytorch(file: str) -> Any:
    assert found is not None
    assert found.submodule_search_locations is not None
    path = Path(found.submodule_search_locations[0]) / f"{file}.py"
    spec = importlib.util.spec_from_file_location(f"vit_pytorch_{file}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def transformers() -> Any:
    """By its name, because pyright takes half a minute for an import statement of it."""
    return importlib.import_module("transformers")


def stirred(model: nn.Module) -> nn.Module:
    """With other numbers than those it starts with, so that no weight is out of sight, and our epsilon."""
    torch.manual_seed(1)
    for name, value in model.state_dict().items():
        if value.is_floating_point():
            value += 0.1 * torch.rand_like(value) if name.endswith("running_var") else 0.1 * torch.randn_like(value)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm) or type(module).__name__ == "LayerNorm":
            module.__dict__["eps"] = 1e-6
    return model.eval()


def moved(theirs: Weights, names: dict[str, str]) -> Weights:
    """Their tensors under our names, by prefix: a module's weight, bias and, of batch norms, statistics."""
    out: Weights = {}
    for ours, prefix in names.items():
        for name, value in theirs.items():
            if name == prefix:
                out[ours] = value
            elif name.startswith(prefix + "."):
                out[ours + name[len(prefix) :]] = value
    return out


def same_scores(ours: Any, theirs: Any, weights: Weights) -> None:
    wanted = ours.state_dict()
    assert set(weights) == set(wanted)
    ours.load_state_dict({name: value.reshape(wanted[name].shape) for name, value in weights.items()})
    images = torch.randn(2, 3, *ours.img_size)
    with torch.no_grad():
        answer = theirs(images)
        answer = getattr(answer, "logits", answer)
        assert answer.std() > 0.05
        assert distance(ours.eval()(images), answer) <= 1e-4


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
    names = {"pos.embed": "classifier.positional_emb", "norm": "classifier.norm", "pool.score": "classifier.attention_pool"}
    names |= {"head": "classifier.fc"} | {f"patch_embed.layers.{3 * i}": f"tokenizer.conv_layers.{i}.0" for i in range(2)}
    parts = {"norm1": "pre_norm", "attn": "self_attn", "norm2": "norm1", "mlp.fc1": "linear1", "mlp.fc2": "linear2"}
    names |= {f"blocks.{i}.{a}": f"classifier.blocks.{i}.{b}" for i in range(2) for a, b in parts.items()}
    same_scores(ours, theirs, moved(theirs.state_dict(), names))


@needs_vit_pytorch
def test_pit() -> None:
    theirs = stirred(
        vit_pytorch("pit").PiT(image_size=32, patch_size=8, num_classes=10, dim=32, depth=(1, 2), heads=(2, 4), mlp_dim=48, dim_head=16)
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
    names |= {f"stages.{i}.{j}.{a}": f"layers.{place}.{b}" for (i, j), place in places.items() for a, b in parts.items()}
    same_scores(ours, theirs, moved(theirs.state_dict(), names))


@needs_vit_pytorch
def test_levit() -> None:
    """With the learned bias for every distance, which theirs divides by the scale of the scores; the convolutions in front are theirs."""
    theirs = stirred(
        vit_pytorch("levit").LeViT(
            image_size=112, num_classes=10, stages=2, dim=(64, 96), depth=2, heads=(2, 3), mlp_mult=2, dim_key=16, dim_value=32
        )
    )
    ours = create_model(
        "levit",
        img_size=112,
        patch_size=16,
        stem="levit",
        dims=(64, 96),
        depths=(2, 2),
        num_heads=(2, 3),
        head_dim=16,
        value_ratio=2,
        shrink_ratio=2,
        attention_bias=True,
    )
    ours.patch_embed.layers = theirs.conv_embedding
    weights = theirs.state_dict()
    for name in [name for name in weights if name.endswith("pos_bias.weight")]:
        weights[name.removesuffix(".weight")] = weights.pop(name).T * 16**0.5
    parts = {"core.distances": "pos_bias"} | {f"{w}.linear": f"to_{w}.0" for w in "qkv"} | {f"{w}.norm": f"to_{w}.1" for w in "qkv"}
    attention = {**parts, "proj.1.linear": "to_out.1", "proj.1.norm": "to_out.2"}
    blocks = {
        "stages.0.0": "0.layers.0",
        "stages.0.1": "0.layers.1",
        "stages.1.0": "2.layers.0",
        "stages.1.1": "2.layers.1",
        "shrinks.0": "1.layers.0",
    }
    names = {"patch_embed.layers": "conv_embedding", "head": "mlp_head"}
    for block, place in blocks.items():
        attn = "shrinking" if block == "shrinks.0" else "attn"
        names |= {f"{block}.{attn}.{a}": f"backbone.{place}.0.{b}" for a, b in attention.items()}
        names |= {f"{block}.mlp.fc1": f"backbone.{place}.1.net.0", f"{block}.mlp.fc2": f"backbone.{place}.1.net.3"}
    same_scores(ours, theirs, moved(weights, names))


@needs_vit_pytorch
def test_cvt() -> None:
    sizes = dict(
        zip(("emb_dim", "heads", "depth", "emb_stride"), zip((16, 1, 1, 2), (32, 2, 1, 2), (48, 3, 2, 1), strict=True), strict=True)
    )
    options = {f"s{i + 1}_{name}": values[i] for i in range(3) for name, values in sizes.items()}
    theirs = stirred(vit_pytorch("cvt").CvT(num_classes=10, **options, s1_emb_kernel=3, s1_mlp_mult=2, s2_mlp_mult=2, s3_mlp_mult=2))
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
    ours = create_model("cvt", **{**values, "dims": dims, "depths": depths, "num_heads": heads, "num_classes": 10, "img_size": 64})
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
            names |= {f"{block}.attn.proj": f"{layer}.attention.output.dense", f"{block}.norm1": f"{layer}.layernorm_before"}
            names |= {f"{block}.norm2": f"{layer}.layernorm_after", f"{block}.mlp.fc1": f"{layer}.intermediate.dense"}
            names[f"{block}.mlp.fc2"] = f"{layer}.output.dense"
    same_scores(ours, theirs, moved(theirs.state_dict(), names))


def test_published_levit() -> None:
    """With both heads, the norms before them, and attention between stages."""
    width, heads, depths, dims = 8, (2, 3), (1, 2), (32, 48)
    config: Any = transformers().LevitConfig(
        hidden_sizes=list(dims),
        num_attention_heads=list(heads),
        depths=list(depths),
        key_dim=[width] * 2,
        attention_ratio=[2, 2],
        mlp_ratio=[2, 2],
        drop_path_rate=0,
    )
    config.num_labels = 10
    config.down_ops = [["Subsample", width, dims[0] // width, 4, 2, 2], [""]]
    theirs = stirred(transformers().LevitForImageClassificationWithTeacher(config))
    sizes = create_model("levit-128s").config
    values = {f.name: getattr(sizes, f.name) for f in fields(sizes)}
    ours = create_model("levit", **{**values, "dims": dims, "depths": depths, "num_heads": heads, "head_dim": width, "num_classes": 10})
    given = theirs.state_dict()
    weights: Weights = {}

    def renamed(our: str, their: str) -> None:
        for name, value in moved(given, {our: their}).items():
            weights[name.replace(".batch_norm.", ".norm.")] = value

    def split(our: str, their: str, letters: str, count: int, parts: list[int]) -> None:
        """Theirs holds the rows of q, k and v side by side, head by head."""
        for name, value in moved(given, {our: their}).items():
            kind, number = name.removeprefix(our + ".").replace("batch_norm", "norm"), value.dim() == 0
            pieces = [value] * len(parts) if number else [p.flatten(0, 1) for p in value.unflatten(0, (count, -1)).split(parts, 1)]
            weights.update({f"{our}.{letter}.{kind}": piece for letter, piece in zip(letters, pieces, strict=True)})

    for i in range(4):
        renamed(f"patch_embed.layers.{3 * i}", f"levit.patch_embeddings.embedding_layer_{i + 1}.convolution")
        renamed(f"patch_embed.layers.{3 * i + 1}", f"levit.patch_embeddings.embedding_layer_{i + 1}.batch_norm")
    for i, depth in enumerate(depths):
        stage = f"levit.encoder.stages.{i}.layers"
        places = [(f"stages.{i}.{j}", "attn", f"{stage}.{2 * j}.module", f"{stage}.{2 * j + 1}.module") for j in range(depth)]
        if i == 0:
            places.append(("shrinks.0", "shrinking", f"{stage}.{2 * depth}", f"{stage}.{2 * depth + 1}.module"))
        for block, attn, attention, mlp in places:
            target = f"{block}.{attn}"
            if attn == "attn":
                split(target, f"{attention}.queries_keys_values", "qkv", heads[i], [width, width, 2 * width])
            else:
                split(target, f"{attention}.keys_values", "kv", dims[0] // width, [width, 4 * width])
                renamed(f"{target}.q", f"{attention}.queries")
            weights[f"{target}.core.distances"] = given[f"{attention}.attention_biases"]
            renamed(f"{target}.proj.1", f"{attention}.projection")
            renamed(f"{block}.mlp.fc1", f"{mlp}.linear_up")
            renamed(f"{block}.mlp.fc2", f"{mlp}.linear_down")
    for i, head in enumerate(("classifier", "classifier_distill")):
        renamed(f"head.{i}.0", f"{head}.batch_norm")
        renamed(f"head.{i}.1", f"{head}.linear")
    same_scores(ours, theirs, weights)
