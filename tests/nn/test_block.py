"""Transformer blocks."""

from __future__ import annotations

import pytest
import torch

from vixformer import create_model
from vixformer.nn.block import Block, DropPath


def test_stochastic_depth_drops_whole_images_and_keeps_the_mean() -> None:
    drop = DropPath(0.25)
    x = torch.ones(4000, 2, 3)
    out = drop.train()(x)
    assert set(out.flatten(1).std(1).tolist()) == {0.0}
    assert out.mean().item() == pytest.approx(1.0, abs=0.05)
    assert torch.equal(drop.eval()(x), x)


@pytest.mark.parametrize("name", ["vit", "cct", "cvt", "levit", "pit"])
def test_checkpointing_changes_what_is_kept_and_nothing_else(name: str) -> None:
    options = {"img_size": 64 if name == "levit" else 32, "attention": "performer(kernel=relu, features=8) + softmax"}
    models = [create_model(name, **options).train() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    models[1].set_grad_checkpointing()
    x = torch.randn(2, 3, models[0].img_size[0], models[0].img_size[1])
    kept = []
    for model in models:
        bytes_kept = 0

        def pack(t: torch.Tensor) -> torch.Tensor:
            nonlocal bytes_kept
            bytes_kept += t.numel() * t.element_size()
            return t

        torch.manual_seed(1)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            loss = model(x).square().mean()
        kept.append(bytes_kept)
        loss.backward()
    assert kept[1] < kept[0]
    for one, two in zip(*(model.parameters() for model in models), strict=True):
        assert (one.grad is None) == (two.grad is None)
        if one.grad is not None and two.grad is not None:
            assert torch.allclose(one.grad, two.grad, atol=1e-6)
    models[1].set_grad_checkpointing(False)
    assert not any(block.checkpointed for block in models[1].modules() if isinstance(block, Block))


def test_a_model_without_blocks_refuses_checkpointing() -> None:
    with pytest.raises(ValueError, match="cnn has no transformer blocks"):
        create_model("cnn").set_grad_checkpointing()
