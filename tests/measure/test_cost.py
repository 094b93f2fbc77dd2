"""Counts that do not depend on the machine."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.support.attentions import ALL, WORDS, slow_unless, word
from vixformer import create_attention, create_model
from vixformer.attention.base import Mechanism
from vixformer.measure.cost import bytes_kept, layer_costs, model_cost, multiply_adds, parameters
from vixformer.measure.latency import interleaved
from vixformer.measure.overview import every_attention, overview


def test_parameters_counts_shared_ones_once_and_bare_ones_apart() -> None:
    layer = nn.Linear(3, 4)
    model = nn.ModuleList([layer, layer])
    model.token = nn.Parameter(torch.zeros(5))  # pyright: ignore
    assert parameters(model) == type(parameters(model))(all=21, modules=16)


def test_multiply_adds_of_a_linear_layer() -> None:
    assert multiply_adds(nn.Linear(30, 7), torch.randn(2, 5, 30)) == 2 * 5 * 30 * 7


def test_multiply_adds_that_torch_cannot_count_are_those_of_the_formula() -> None:
    """A transform of 64 tokens of 128 channels is 5 n log2 n operations, half of them, two a multiply-add."""
    transform = 5 * 64 * 128 * 13 // 4
    module = create_attention("fourier", dim=128, num_heads=4, num_tokens=64)
    assert multiply_adds(module, torch.randn(3, 64, 128)) == 3 * transform
    model = create_model("vit", attention="fourier", depth=2, stem="linear", pool="mean")
    layers = layer_costs(model)
    assert (
        [layer.core_multiply_adds for layer in layers] == [layer.multiply_adds for layer in layers] == [transform] * 2
    )
    exact = create_model("vit", attention="softmax", depth=2, stem="linear", pool="mean")
    apart = 4 * 64 * 128 * 128 + 2 * 64 * 64 * 128 - transform
    assert model_cost(exact).multiply_adds - model_cost(model).multiply_adds == 2 * apart


def test_bytes_kept_counts_what_backward_needs() -> None:
    x = torch.randn(1000, requires_grad=True)
    assert bytes_kept(lambda x: x * 2, x) == 0
    assert bytes_kept(lambda x: x.exp(), x) == 4000
    assert bytes_kept(lambda x: x.exp().exp(), x) == 8000
    assert bytes_kept(lambda x: x.detach().exp(), x) == 0


@pytest.mark.parametrize(
    ("attention", "limit"),
    [
        ("performer", 4),
        ("performer(kernel=relu)", 4),
        ("hedgehog", 4),
        ("cosine", 4),
        ("softmax", 5.1),  # torch's kernel keeps its output in another order of heads, too
        ("nystrom(landmarks=8)", 5.3),
    ],
)
def test_nothing_is_kept_but_q_k_v_and_the_output(attention: str, limit: float) -> None:
    """Features, however many, are made again in backward."""
    n = 400
    module = create_attention(attention, dim=64, num_heads=2, num_tokens=n)
    unit = 2 * n * 64 * 4
    kept = bytes_kept(module, torch.randn(2, n, 64, requires_grad=True))
    assert kept <= limit * unit


@pytest.mark.parametrize(
    "attention", ["performer(features=64)", "performer(kernel=relu, features=64)", "nystrom(landmarks=64)"]
)
@pytest.mark.parametrize(("batch", "n"), [(4, 65), (1, 785)])
def test_at_most_half_of_what_the_peers_keep(attention: str, batch: int, n: int) -> None:
    peers = pytest.importorskip("benchmarks.peers")
    x = torch.randn(batch, n, 128, requires_grad=True)
    ours = create_attention(attention, dim=128, num_heads=4)
    assert bytes_kept(ours, x) <= 0.5 * bytes_kept(peers.peer_of(attention, n), x)


def test_layers_and_model() -> None:
    model = create_model("vit", attention="first(performer(kernel=relu)) ", depth=2, num_classes=5)
    first, second = layer_costs(model)
    assert (first.attention, second.attention) == ("performer(kernel=relu)", "softmax")
    assert first.tokens == second.tokens == 65
    assert second.multiply_adds == 65 * 4 * 128 * 128 + 2 * 65 * 65 * 128
    cost = model_cost(model)
    assert cost.multiply_adds > first.multiply_adds + second.multiply_adds
    assert cost.bytes_kept > first.bytes_kept + second.bytes_kept
    assert model.training  # as it was


@pytest.mark.parametrize(
    "attention", [slow_unless(a in WORDS, a) for a in ALL if not Mechanism.members[word(a)].by_formula]
)
def test_what_a_mechanism_declares_agrees_with_the_counter(attention: str) -> None:
    model = create_model("vit", attention=attention, depth=1, stem="linear", pool="mean")
    (layer,) = layer_costs(model)
    (module,) = model.attentions()
    projections = 4 * 64 * 128 * 128 if hasattr(module, "core") else 0
    declared = next(m for m in module.modules() if isinstance(m, Mechanism)).macs(64)
    assert declared == pytest.approx(layer.core_multiply_adds, rel=0.01)
    assert declared + projections == pytest.approx(layer.multiply_adds, rel=0.01)


def test_layers_with_fewer_keys_or_wider_values() -> None:
    layer = layer_costs(
        create_model("cvt", dims=(16,), depths=(1,), num_heads=(1,), kernels=(3,), strides=(2,), kv_stride=2)
    )[0]
    assert layer.core_multiply_adds == 2 * 256 * 64 * 16
    wide = layer_costs(create_model("levit", value_ratio=2))[0]
    assert wide.core_multiply_adds == (1 + 2) * 64 * 64 * 128


def test_measuring_changes_nothing() -> None:
    model = create_model("vit", stem="conv", stem_norm=True, depth=1)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model_cost(model)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert model_cost(model.bfloat16()).tokens == 65


def test_timings_are_of_all_calls_in_turn() -> None:
    order: list[str] = []
    timings = interleaved({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, seconds=0.0, least=20)
    assert order[:4] == ["a", "a", "b", "b"]
    rounds = ["".join(order[i : i + 2]) for i in range(4, len(order), 2)]
    assert len(rounds) == 20
    assert set(rounds) == {"ab", "ba"}
    assert timings["a"].count == 20
    assert 0 <= timings["a"].min <= timings["a"].median


def test_overview_has_a_row_for_every_attention() -> None:
    rows = overview(every_attention(), patch_sizes=(8,), batch=1, seconds=0.0)
    assert [r.attention for r in rows] == every_attention()
    assert all(r.tokens == 16 and r.ms > 0 and r.multiply_adds > 0 for r in rows)
