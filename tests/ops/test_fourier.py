"""The Fourier transform by a kernel."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.support.attentions import distance
from tests.support.kernels import compiler
from vixformer import ops
from vixformer.attention.base import Mechanism, Shape


@compiler
@pytest.mark.parametrize(("batch", "n", "d"), [(1, 1, 2), (2, 5, 6), (3, 8, 7), (2, 65, 1), (1, 12, 16)])
def test_the_transform_and_its_gradient(batch: int, n: int, d: int) -> None:
    fourier: Any = Mechanism.members["fourier"]
    mixer = fourier(fourier.Config(), Shape(d, 1, d, n))
    x = torch.randn(batch, n, d, requires_grad=True)
    out = mixer(x)
    assert distance(out, ops.fourier_mix_slow(x)) <= 1e-5
    (found,) = torch.autograd.grad(out.square().sum(), x)
    (expected,) = torch.autograd.grad(ops.fourier_mix_slow(x.double()).square().sum(), x)
    assert distance(found, expected) <= 1e-5
    assert torch.autograd.gradgradcheck(mixer, x.detach().double().requires_grad_())
