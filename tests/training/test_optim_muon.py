"""Muon against that of torch, and AdamW beside it."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.support.recipes import tiny
from vixformer.config import Train
from vixformer.training.loop import train
from vixformer.training.optim import Muon, make_optimizer, orthogonalized


@pytest.mark.parametrize("shape", [(16, 16), (12, 40), (40, 12)])
def test_singular_values_come_close_to_one(shape: tuple[int, int]) -> None:
    matrix = torch.randn(*shape)
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    found = torch.linalg.svdvals(orthogonalized(matrix))
    assert found.min() > 0.6
    assert found.max() < 1.3
    assert torch.nn.functional.cosine_similarity(orthogonalized(matrix).flatten(), (u @ v).flatten(), dim=0) > 0.97


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this torch has no Muon")
def test_it_is_that_of_torch_and_adamw() -> None:
    ours = nn.Sequential(nn.Linear(8, 24), nn.Linear(24, 3))
    theirs, start = copy.deepcopy(ours), [p.detach().clone() for p in ours.parameters()]
    groups = [
        {"params": [p for p in ours.parameters() if p.dim() == 1], "weight_decay": 0.0, "muon": False},
        {"params": [p for p in ours.parameters() if p.dim() == 2], "weight_decay": 0.1, "muon": True},
    ]
    one = Muon(groups, lr=0.01)
    two = torch.optim.Muon(
        [p for p in theirs.parameters() if p.dim() == 2], lr=0.01, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"
    )
    three = torch.optim.AdamW([p for p in theirs.parameters() if p.dim() == 1], lr=0.01, weight_decay=0.0)
    for _ in range(5):
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            mine.grad = torch.randn_like(mine)
            other.grad = mine.grad.clone()
        for optimizer in (one, two, three):
            optimizer.step()
    for before, mine, other in zip(start, ours.parameters(), theirs.parameters(), strict=True):
        moved, expected = (mine - before).detach().flatten(), (other - before).detach().flatten()
        assert torch.nn.functional.cosine_similarity(moved, expected, dim=0) > 0.99  # torch computes in bfloat16
        assert 0.98 < moved.norm() / expected.norm() < 1.02


def test_matrices_of_blocks_are_its_and_nothing_else(tmp_path: Path) -> None:
    model = tiny(attention="performer(features=8)").build()
    optimizer = make_optimizer(model, Train(optimizer="muon"))
    names = {id(p): name for name, p in model.named_parameters()}
    mine = {names[id(p)] for group in optimizer.param_groups if group["muon"] for p in group["params"]}
    assert mine
    assert all(name.startswith("blocks.") and name.endswith("weight") for name in mine)
    assert all(dict(model.named_parameters())[name].dim() == 2 for name in mine)
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(names)
    result = train(tiny(epochs=3, fraction=0.1, optimizer="muon"), tmp_path)
    assert result.history[-1]["train_loss"] < result.history[0]["train_loss"]
    with pytest.raises(ValueError, match="optimizer=muon needs all weights in one place"):
        Train(optimizer="muon", shard=True)
