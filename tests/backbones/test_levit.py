"""LeViT: its parts, and the same scores as other implementations."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
import torch

from tests.support.attentions import WORDS, convolves, distance
from tests.support.models import images, small
from tests.support.peers import Weights, moved, needs_vit_pytorch, same_scores, stirred, transformers, vit_pytorch
from vixformer import create_model


@pytest.mark.parametrize("name", ["levit", "vit", "pit", "cct", "cvt", "convtoken-grid"])
def test_a_bias_for_every_distance(name: str) -> None:
    """Of LeViT's layers by one option, of any other model's by `softmax(bias=true)`."""
    torch.manual_seed(0)
    options: dict[str, Any] = dict(attention_bias=True) if name == "levit" else dict(attention="softmax(bias=true)")
    model = small(name, **options).eval()
    cores = [m for m in model.modules() if getattr(m, "distances", None) is not None]
    assert len(cores) == {"levit": 3, "convtoken-grid": 1}.get(name, 2)  # in LeViT the attention between stages too
    x = images(model)
    with torch.no_grad():
        before = model(x)
        for core in cores:
            torch.nn.init.normal_(core.distances)
        assert not torch.allclose(model(x), before, atol=1e-3)
        core, (height, width) = cores[0], cores[0].shape.grid
        q, k = torch.randn(2, 2, core.shape.num_heads, core.shape.num_tokens, core.shape.head_dim)
        v = torch.randn(*q.shape[:3], core.shape.value_dim or core.shape.head_dim)
        assert distance(core(q, k, v), core.reference(q, k, v)) <= 1e-5
        bias, front = core._bias(q, k), core.shape.num_tokens - height * width
        place = lambda row, column: front + row * width + column  # noqa: E731
        # one column apart
        assert bias[0, place(1, 1), place(1, 2)] == bias[0, place(1, 2), place(1, 1)] == core.distances[0, 1]
        assert bias[-1, place(0, 0), place(2, 1)] == core.distances[-1, 2 * width + 1]  # two rows and a column
        assert (bias[:, :front] == 0).all()
        assert (bias[:, :, :front] == 0).all()
    other = torch.randn(1, 3, 2 * model.img_size[0], model.img_size[1] // 2)  # as many places, otherwise
    with pytest.raises(
        ValueError, match=rf"built for a grid of {height} x {width} and got {2 * height} x {width // 2}"
    ):
        model(other)


@pytest.mark.parametrize("word", WORDS)
def test_fewer_keys_and_wider_values(word: str) -> None:
    """Mechanisms that cannot do with fewer keys than queries say so when the model is built; all of them take wider
    values."""
    square = convolves(word)
    mixes = word in ("fourier", "mlp")
    for name, options in (("cvt", dict(kv_stride=2)), ("levit", dict(shrink=word))):
        if square or (mixes and name == "levit"):
            with pytest.raises(ValueError, match=r"needs as many keys as queries|needs a mechanism with q and k"):
                small(name, word, **options)
        else:
            model = small(name, word if name == "cvt" else "softmax", **options)
            model(images(model)).sum().backward()
            assert all(
                p.grad is not None and (p.grad != 0).flatten(1).any(1).all()
                for n, p in model.named_parameters()
                if "core.E" in n
            )
    wide = small("levit", word, value_ratio=2)
    wide(images(wide)).sum().backward()
    assert all(p.grad is not None for p in wide.parameters())


@needs_vit_pytorch
def test_levit() -> None:
    """With the learned bias for every distance, which theirs divides by the scale of the scores; the convolutions in
    front are theirs."""
    theirs = stirred(
        vit_pytorch("levit").LeViT(
            image_size=112,
            num_classes=10,
            stages=2,
            dim=(64, 96),
            depth=2,
            heads=(2, 3),
            mlp_mult=2,
            dim_key=16,
            dim_value=32,
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
    parts = (
        {"core.distances": "pos_bias"}
        | {f"{w}.linear": f"to_{w}.0" for w in "qkv"}
        | {f"{w}.norm": f"to_{w}.1" for w in "qkv"}
    )
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
    ours = create_model(
        "levit", **{**values, "dims": dims, "depths": depths, "num_heads": heads, "head_dim": width, "num_classes": 10}
    )
    given = theirs.state_dict()
    weights: Weights = {}

    def renamed(our: str, their: str) -> None:
        for name, value in moved(given, {our: their}).items():
            weights[name.replace(".batch_norm.", ".norm.")] = value

    def split(our: str, their: str, letters: str, count: int, parts: list[int]) -> None:
        """Theirs holds the rows of q, k and v side by side, head by head."""
        for name, value in moved(given, {our: their}).items():
            kind, number = name.removeprefix(our + ".").replace("batch_norm", "norm"), value.dim() == 0
            pieces = (
                [value] * len(parts)
                if number
                else [p.flatten(0, 1) for p in value.unflatten(0, (count, -1)).split(parts, 1)]
            )
            weights.update({f"{our}.{letter}.{kind}": piece for letter, piece in zip(letters, pieces, strict=True)})

    for i in range(4):
        renamed(f"patch_embed.layers.{3 * i}", f"levit.patch_embeddings.embedding_layer_{i + 1}.convolution")
        renamed(f"patch_embed.layers.{3 * i + 1}", f"levit.patch_embeddings.embedding_layer_{i + 1}.batch_norm")
    for i, depth in enumerate(depths):
        stage = f"levit.encoder.stages.{i}.layers"
        places = [
            (f"stages.{i}.{j}", "attn", f"{stage}.{2 * j}.module", f"{stage}.{2 * j + 1}.module") for j in range(depth)
        ]
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
