"""Adding a mechanism or a kernel touches one file: here, this one."""

from __future__ import annotations

import pytest
import torch

from vixformer import create_attention, create_model, list_attentions
from vixformer.attention.base import Core


@pytest.mark.usefixtures("toy")
def test_a_new_mechanism_is_found_everywhere() -> None:
    assert "toy" in list_attentions()
    model = create_model("vit", attention="first(toy(gain=2), n=2) ", depth=3)
    assert model.attention_expression() == "toy(gain=2.0)*2 + softmax"
    assert model(torch.randn(1, 3, 32, 32)).shape == (1, 10)
    with pytest.raises(ValueError, match='did you mean "toy"'):
        create_attention("toi", dim=8, num_heads=2)


def test_a_clash_of_names_is_an_error() -> None:
    with pytest.raises(ValueError, match='two classes want the attention name "softmax"'):

        class Other(Core, name="softmax"):
            pass
