"""What is written for onnxruntime alone: exact attention as one node, and the plain graph where that cannot be."""

from __future__ import annotations

from collections import Counter

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vixformer import ops
from vixformer.measure.layer import Layer
from vixformer.ops.graph import onnx_graph


class Biased(nn.Module):
    def forward(self, x_BND: Tensor) -> Tensor:
        x = x_BND[:, None]
        return F.scaled_dot_product_attention(x, x, x, attn_mask=torch.ones(16, 16).tril())


def nodes(attention: str | nn.Module, fused: bool) -> Counter[str]:
    layer = Layer(attention, 32, 4, 16) if isinstance(attention, str) else attention
    with ops.portable(), torch.no_grad():
        program = torch.export.export(layer.eval(), (torch.randn(2, 16, 32),))
    return Counter(node.op_type for node in onnx_graph(program, fused).graph.node)


def test_exact_attention_is_one_node_and_heads_are_not_moved() -> None:
    plain, fused = nodes("softmax", fused=False), nodes("softmax", fused=True)
    assert plain["Softmax"] == 1
    assert not plain["MultiHeadAttention"]
    assert fused["MultiHeadAttention"] == 1
    assert not fused["Softmax"] + fused["Transpose"]


def test_what_has_no_such_node_stays_plain() -> None:
    for attention in (Biased(), "performer(kernel=relu, features=8)"):
        assert nodes(attention, fused=True) == nodes(attention, fused=False)


def test_linear_attention_is_a_few_large_nodes() -> None:
    found = nodes("performer(kernel=relu, features=8)", fused=False)
    assert found["MatMul"] == 6  # q, k and v at once, features of each, k'v, q(k'v), the projection
    assert sum(found.values()) <= 30
