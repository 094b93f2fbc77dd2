"""Adding a mechanism or a kernel touches one file: here, this one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from tests.attention import test_contract as contract
from vixformer import create_attention, create_model, list_attentions
from vixformer.attention.base import Core, Mechanism
from vixformer.attention.kernels.kernel import Kernel
from vixformer.attention.kernels.relu import ReLU
from vixformer.ops import Grid


@pytest.fixture
def toy() -> Iterator[None]:
    class Toy(Core, name="toy"):
        """Every token takes the mean of all values, times a gain."""

        @dataclass(frozen=True, kw_only=True)
        class Config:
            gain: float = 1.0

        config: Config

        def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None) -> Tensor:
            weight = torch.ones_like(v[..., :1]) if mask is None else mask[:, None, :, None].to(v.dtype)
            total = weight.sum(-2, keepdim=True).clamp(min=1)
            return (self.config.gain * (v.masked_fill(weight == 0, 0) / total).sum(-2, keepdim=True)).expand_as(v)

        def reference(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None) -> Tensor:
            return self.config.gain * self.attention_map(q, k, mask) @ v

        def attention_map(self, q: Tensor, k: Tensor, mask: Tensor | None = None) -> Tensor:
            weight = torch.ones_like(q[..., 0]) if mask is None else mask[:, None].to(q.dtype).expand_as(q[..., 0])
            return (weight / weight.sum(-1, keepdim=True)).unsqueeze(-2).expand(*q.shape[:3], q.shape[2])

        def macs(self, n: int) -> int:
            return 0

    class Square(ReLU, name="square"):
        def forward(self, u: Tensor, square: Tensor | None, keys: bool, mask: Tensor | None) -> Tensor:
            return u.square() + self.config.eps

    yield
    del Mechanism.members["toy"], Kernel.members["square"]


@pytest.mark.usefixtures("toy")
def test_a_new_mechanism_is_found_everywhere() -> None:
    assert "toy" in list_attentions()
    model = create_model("vit", attention="first(toy(gain=2), n=2) ", depth=3)
    assert model.attention_expression() == "toy(gain=2.0)*2 + softmax"
    assert model(torch.randn(1, 3, 32, 32)).shape == (1, 10)
    with pytest.raises(ValueError, match='did you mean "toy"'):
        create_attention("toi", dim=8, num_heads=2)


@pytest.mark.usefixtures("toy")
def test_a_new_mechanism_is_under_the_contract() -> None:
    contract.test_equals_its_slow_twin_with_gradients("toy", 17)
    contract.test_equals_its_slow_twin_under_a_mask("toy")
    contract.test_an_image_does_not_depend_on_its_batch("toy", 17)
    contract.test_masked_content_changes_nothing("toy", 17)
    contract.test_half_precision_is_finite_and_close("toy", 17, torch.float16)
    contract.test_costs_what_it_declares("toy", 64)
    contract.test_exports_with_a_dynamic_batch("toy")


@pytest.mark.usefixtures("toy")
def test_a_new_kernel_is_a_word_of_the_performer() -> None:
    module = create_attention("performer(kernel=square, features=8, eps=0.5)", dim=8, num_heads=2)
    assert module(torch.randn(1, 5, 8)).shape == (1, 5, 8)
    contract.test_masked_tail_equals_the_shorter_input("performer(kernel=square, features=8)")


def test_a_clash_of_names_is_an_error() -> None:
    with pytest.raises(ValueError, match='two classes want the attention name "softmax"'):

        class Other(Core, name="softmax"):
            pass
