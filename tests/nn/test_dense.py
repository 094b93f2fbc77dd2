"""The linear layer of every model."""

from __future__ import annotations

import torch
from torch import nn

from vixformer.nn.dense import Linear


def test_it_is_torchs_by_another_way() -> None:
    ours, theirs, x = Linear(64, 96), nn.Linear(64, 96), torch.randn(2, 200, 64)
    theirs.load_state_dict(ours.state_dict())
    assert isinstance(ours, nn.Linear)
    torch.testing.assert_close(ours(x), theirs(x))
