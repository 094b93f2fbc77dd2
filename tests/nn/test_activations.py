"""Activations by their names."""

from __future__ import annotations

import pytest
import torch

from vixformer import create_model
from vixformer.nn.activations import Activation, activation


@pytest.mark.parametrize("name", sorted(Activation.members))
def test_every_activation_is_one_by_its_name(name: str) -> None:
    assert activation(name)(torch.ones(3)).shape == (3,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("elv", 'unknown activation "elv"; did you mean "elu"?'),
        ("elu(0)", "elu: alpha must be greater than 0, not 0"),
        ("elu(1, 2)", r"options of elu are written key=value, not elu\(1, 2\)"),
        ("elu(beta=1)", 'unknown option of elu "beta"; choices: alpha'),
        ("relu(0.5)", r"options of relu are written key=value, not relu\(0.5\)"),
        ("elu(0.5, alpha=1)", "elu: alpha is given twice"),
    ],
)
def test_activations_that_cannot_be_are_a_sentence(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create_model("vit", act=text)
