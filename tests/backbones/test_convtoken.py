"""ConvToken is what its document says."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.support.attentions import distance
from tests.support.models import images, small
from vixformer import load_recipe


@pytest.mark.parametrize("after", [False, True])
def test_convtoken_is_what_the_document_says(after: bool) -> None:
    """LN2(x + attention(LN1 x)), in EXP LN2(LN1 x + attention(LN1 x)), where attention over one token is two linear
    maps."""
    model = small("convtoken", residual="after" if after else "before", drop_rate=0.1).eval()
    x = images(model)
    block = model.blocks[0]
    with torch.no_grad():
        token = F.relu(model.embed[0](F.max_pool2d(model.convs[:-1](x), 2).flatten(1)))
        normed = block.norm1(token)
        attended = block.attn.proj(block.attn.qkv(normed).chunk(3, -1)[2])
        wanted = model.head(model.norm(block.norm2((normed if after else token) + attended)))
        assert distance(model(x), wanted) <= 1e-5
        dropped = model.train().embed(torch.ones(4, model.embed[0].in_features))
    assert (dropped == 0).any()
    best: Any = load_recipe("cifar-kernels/relu").model
    with torch.device("meta"):
        assert best.owner(best).embed[0].weight.shape == (960, 65_536)
