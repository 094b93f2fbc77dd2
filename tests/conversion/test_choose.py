"""Which layers to convert."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tests.support.models import images, small
from vixformer import convert
from vixformer.conversion.choose import LayerCost, Mixture, _cheapest, _greedy, choose
from vixformer.measure.latency import Ratio


@pytest.fixture(autouse=True)
def _timed_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vixformer.conversion.choose.SECONDS_A_LAYER", 0.05)


def _damaged(layer: int) -> tuple[Any, Any, torch.Tensor]:
    torch.manual_seed(0)
    old = small("vit", depth=4).eval()
    x = images(old, 16)
    new, _ = convert(old, "hedgehog", x)
    with torch.no_grad():
        new.blocks[layer].attn.proj.weight.mul_(-50)
    return old, new, x


@pytest.mark.parametrize("bad", [0, 2])
def test_the_layer_that_costs_most_goes_last(bad: int) -> None:
    old, new, x = _damaged(bad)
    wanted = old(x).detach()
    seen: list[tuple[int, int]] = []

    def judge(model: Any) -> tuple[float, float]:
        loss = float((model(x) - wanted).square().mean().detach())
        return loss, 100 - loss

    found = choose(old, new, judge, x, lambda done, total: seen.append((done, total)))
    assert seen == [(i, 11) for i in range(1, 12)]  # the model as it was, then 4 + 3 + 2 + 1
    assert found.curve[-1].layers[-1] == bad
    assert max(found.costs, key=lambda c: c.loss).layer == bad
    assert max(found.costs, key=lambda c: c.error).layer == bad
    assert [len(p.layers) for p in found.curve] == [0, 1, 2, 3, 4]
    assert [found.curve[i].attention for i in (0, -1)] == ["softmax", "hedgehog"]
    assert found.curve[0].ratio == Ratio(1.0, 1.0, 1.0)
    for point in found.curve:
        assert point.ms > 0
        assert point.ratio is not None
        assert point.ratio.low <= point.ratio.ratio <= point.ratio.high < math.inf
        assert (point.loss, point.top1) == pytest.approx(judge(Mixture(old, new)(point.layers)))


@torch.no_grad()
def test_a_mixture_has_the_layers_of_both() -> None:
    old, new, x = _damaged(1)
    mixture = Mixture(old, new)
    before, after = old(x), new(x)
    assert torch.equal(mixture(range(4))(x), after)
    some = mixture([1])
    assert some.attention_expression() == "softmax + hedgehog + softmax"
    assert some.attentions()[1] is new.attentions()[1]
    assert some.attentions()[2] is not new.attentions()[2]
    assert torch.equal(mixture(())(x), before)
    assert old.attention_expression() == "softmax"


def test_time_counts_where_it_is_won() -> None:
    def cost(layer: int, ms: float, new_ms: float) -> LayerCost:
        return LayerCost(layer, 0.1, 0.0, 0.0, ms, new_ms)

    costs = {0: cost(0, 10.0, 1.0), 1: cost(1, 1.0, 0.5), 2: cost(2, 1.0, 1.01)}
    assert _cheapest({0: 0.09, 1: 0.04, 2: 0.04}, costs) == 0  # twice the loss, eighteen times the time
    assert _cheapest({1: 0.04, 2: 0.001}, costs) == 2  # no time won, but next to no loss
    assert _cheapest({0: -0.01, 1: -0.01}, costs) == 0


def test_each_choice_is_by_what_it_adds_to_the_loss() -> None:
    costs = {i: LayerCost(i, 0.1, 0.0, 0.0, ms, 1.0) for i, ms in enumerate((10.0, 2.0, 2.0))}
    together = {(1, 0): (1.9, 70.0), (1, 2): (1.2, 75.0), (1, 0, 2): (3.0, 60.0)}
    alone = {0: (9.5, 10.0), 1: (1.0, 80.0), 2: (1.1, 90.0)}
    order, scores = _greedy((0, 1, 2), (0.0, 91.0), alone, costs, lambda layers: together[tuple(layers)])
    assert order == [1, 0, 2]  # 0.9 more for 9 ms rather than 0.2 more for 1 ms
    assert scores == [(0.0, 91.0), (1.0, 80.0), (1.9, 70.0), (3.0, 60.0)]


def test_nothing_to_choose_from() -> None:
    old = small("vit")
    with pytest.raises(ValueError, match="no layer differs from what the model has"):
        choose(old, convert(old, "softmax")[0], lambda _: (0.0, 0.0), images(old))
