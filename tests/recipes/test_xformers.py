"""The recipes of "Vision Xformers" are what its public code and its logs say."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn

from vixformer import list_recipes, load_recipe
from vixformer.attention.softmax import Softmax
from vixformer.nn.block import DropPath
from vixformer.training.optim import make_optimizer


def recipe(name: str) -> Any:
    return load_recipe(f"xformers/{name}")


def built(name: str) -> Any:
    config = recipe(name).model
    return config.owner(config)  # for 32 x 32 images of 10 classes


@pytest.mark.parametrize(
    ("name", "epochs", "batch"),
    [
        ("cifar10/vit", 40, 64),
        ("cifar10/hybrid-vip", 40, 128),
        ("cifar10/vin-rope", 40, 192),
        ("cifar10/vil-rope", 40, 320),
        ("cifar10/hybrid-vil-rope", 40, 256),
        ("cifar10/fnet", 100, 512),
        ("tiny-imagenet/mixer", 40, 640),
        ("tiny-imagenet/cct", 40, 48),
        ("tiny-imagenet/ccn", 150, 160),
        ("tiny-imagenet/cvp", 150, 160),
        ("tiny-imagenet/levip", 150, 192),
    ],
)
def test_training_of_its_code(name: str, epochs: int, batch: int) -> None:
    train = recipe(name).train
    assert (train.epochs, train.batch_size, train.optimizer, train.lr, train.schedule) == (
        epochs,
        batch,
        "adamw",
        1e-3,
        "constant",
    )
    assert (train.redraw_every, train.precision) == (None, "float32")
    model = built(name)
    groups = make_optimizer(model, train).param_groups
    decayed = [p for group in groups if group["weight_decay"] == 0.01 for p in group["params"]]
    assert len(decayed) == len(list(model.parameters()))


def test_images_are_normalized_as_in_its_code() -> None:
    assert (recipe("cifar10/levin").data.mean, recipe("cifar10/levin").data.std) == ((0.5,) * 3, (0.5,) * 3)
    mean, std = (122.4786, 114.2755, 101.3963), (70.4924, 68.5679, 71.8127)  # of pixels from 0 to 255
    data = recipe("tiny-imagenet/ccn").data
    assert [*data.mean, *data.std] == pytest.approx([x / 255 for x in (*mean, *std)], abs=5e-5)


def test_levip_and_levin_have_gelu_in_their_mlps() -> None:
    for name, act in (("levit", nn.Hardswish), ("levip", nn.GELU), ("levil", nn.GELU), ("levin", nn.GELU)):
        model = built(f"cifar10/{name}")
        assert all(isinstance(block.mlp.act, act) for stage in model.stages for block in stage), name


def test_cct_drops_attention_weights_and_branches() -> None:
    for name, drop in (("cct", 0.1), ("ccp", None), ("ccn", None)):
        model = built(f"cifar10/{name}")
        rates = [module.rate for module in model.modules() if isinstance(module, DropPath)]
        assert rates == pytest.approx([0.0, 0.1 / 3, 0.2 / 3, 0.1])
        cores = {core.config.drop for core in (a.core for a in model.attentions()) if isinstance(core, Softmax)}
        assert cores == ({drop} if drop else set())
        assert not any(module.p for module in model.modules() if isinstance(module, nn.Dropout))


def test_layer_norms_and_positions_start_as_in_its_code() -> None:
    model = built("cifar10/vit")
    assert {module.eps for module in model.modules() if isinstance(module, nn.LayerNorm)} == {1e-5}
    assert model.pos.embed.std().item() == pytest.approx(1.0, abs=0.02)


def test_rotary_rows_of_every_transformer() -> None:
    found = [name.rpartition("/")[2].removesuffix("-rope") for name in list_recipes("xformers/cifar10/*-rope")]
    assert Counter(name.removeprefix("hybrid-")[:2] for name in found) == {"vi": 8, "le": 4, "cc": 4, "cv": 4, "pi": 6}
    assert all(recipe(f"cifar10/{name}-rope").model.pos == "rope" for name in found)


def test_keys_of_the_rotary_linformer_are_turned_and_its_values_are_not() -> None:
    model = built("cifar10/vil-rope")
    module = model.blocks[0].attn
    tokens = torch.randn(1, 1025, 128)
    _, k, v = module.heads(tokens, rotation=model.pos.rotation(tokens, (32, 32)))
    assert torch.equal(k[:, :, 0], v[:, :, 0])  # place 0 does not turn
    assert not torch.allclose(k[:, :, 1], v[:, :, 1])
    assert torch.allclose(k.norm(dim=-1), v.norm(dim=-1), rtol=1e-4)
    assert not torch.allclose(v[:, 0], v[:, 1])  # four heads, not one for all


def test_what_its_text_says() -> None:
    vip = recipe("cifar10/hybrid-vip-adam")
    assert vip.model.attention == "performer(kernel=relu, features=110, local_heads=2, window=256)"
    assert (vip.train.optimizer, vip.train.weight_decay, vip.train.batch_size, vip.train.precision) == (
        "adam",
        0.01,
        64,
        "float16",
    )
    cct = recipe("tiny-imagenet/cct-adam").model
    assert (cct.attention, cct.drop_path_rate) == ("softmax", 0.0)
    assert recipe("cifar10/vil-rope-adam").model.proj == "one-kv"
    for data, rows in (("cifar10", 30 + 26), ("tiny-imagenet", 24)):
        assert len(list_recipes(f"xformers/{data}/*-adam")) == rows
