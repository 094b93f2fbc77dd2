"""The recipes of "Testing linear-attention Transformers" are what its printouts say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from vixformer import list_recipes, load_recipe


def built(name: str) -> Any:
    recipe = load_recipe(f"linear-tests/{name}")
    side, channels = (28, 1) if name.startswith("mnist") else (recipe.data.resize or 32, 3)
    config: Any = recipe.model.filled(side, channels)
    return config.owner(config)


def dropouts(model: nn.Module) -> dict[str, float]:
    found = {name: module.p for name, module in model.named_modules() if isinstance(module, nn.Dropout) and module.p}
    return {name: p for name, p in found.items() if not name.startswith("blocks.") or name.startswith("blocks.0.")}


def test_dropout_of_the_printouts() -> None:
    assert dropouts(built("cifar10/transformer")) == {"pos_drop": 0.2, "blocks.0.mlp.drop": 0.2}
    keras = {"blocks.0.mlp.drop": 0.1, "pool_drop": 0.5, "head.2": 0.5, "head.5": 0.5}
    assert dropouts(built("cifar10/performer-relu-64")) == keras


def test_layer_norms_of_the_printouts() -> None:
    for name, eps in (("transformer", 1e-5), ("linformer", 1e-5), ("keras-transformer", 1e-6)):
        assert {module.eps for module in built(f"mnist/{name}").modules() if isinstance(module, nn.LayerNorm)} == {
            eps
        }, name


@pytest.mark.parametrize("kernel", ["relu", "exp"])
def test_deterministic_variants_are_causal_too(kernel: str) -> None:
    """As its text says, "with deterministic casual masks"."""
    assert len(list_recipes("linear-tests/*/deterministic-*-causal")) == 6
    model, plain = (built(f"mnist/deterministic-{kernel}{causal}").eval() for causal in ("-causal", ""))
    images = torch.randn(1, 1, 28, 28)
    other = images.clone()
    other[..., 12:, :] = 0.0  # the last two rows of patches
    before, after = (list(model.run(x))[-1][0][:, :8] for x in (images, other))
    assert torch.allclose(before, after, atol=1e-5)
    assert not torch.allclose(list(plain.run(images))[-1][0][:, :8], list(plain.run(other))[-1][0][:, :8], atol=1e-3)


@pytest.mark.parametrize("data", ["mnist", "cifar10"])
def test_rows_from_a_checkpoint_have_a_control_with_equal_epochs_in_all(data: str) -> None:
    for name in ("linformer", "performer-softmax-16", "performer-relu-16"):
        scratch, child, control = (
            load_recipe(f"linear-tests/{data}/{name}{end}") for end in ("", "-from-checkpoint", "-equal-epochs")
        )
        parent = load_recipe(child.train.weights or "")
        assert control.train.epochs == child.train.epochs + parent.train.epochs
        assert control.model == scratch.model == child.model
        assert replace(control.train, epochs=scratch.train.epochs) == scratch.train


def test_independent_features_differ_in_their_directions_alone() -> None:
    for data in ("mnist", "cifar10"):
        alone, orthogonal = (
            load_recipe(f"linear-tests/{data}/performer-softmax-16{end}") for end in ("-independent", "")
        )
        assert replace(alone, model=orthogonal.model) == orthogonal
    rows = [built(f"mnist/performer-softmax-16{end}").blocks[0].attn.core.projection for end in ("", "-independent")]
    off = [(m @ m.t() - torch.diag((m @ m.t()).diagonal())).abs().max().item() for m in rows]
    assert off[0] < 1e-3 < 1 < off[1]


def test_a_resnet_alone_and_in_front_of_a_performer() -> None:
    alone, performer = built("cifar10/resnet"), built("cifar10/resnet-performer")
    assert [p.shape for p in alone.stem.parameters()] == [p.shape for p in performer.patch_embed.parameters()]
    assert (alone.pool.out_dim, performer.pool.out_dim, performer.num_tokens) == (64, 64, 64)
    both = [load_recipe(f"linear-tests/cifar10/{name}") for name in ("resnet", "resnet-performer")]
    assert both[0].train == both[1].train
    assert both[0].data == both[1].data
