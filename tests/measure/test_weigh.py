"""Accuracy against time, by one preference."""

from __future__ import annotations

import pytest

from vixformer.measure.latency import Ratio
from vixformer.measure.nearest import Known
from vixformer.measure.weigh import Option, Weighed, same_accuracy, weigh

EXACT = Option("softmax", None, None)


def option(attention: str, points: float, ratio: float, noise: float = 0.01, half: float = 1.0) -> Option:
    found = Known(points, points - half, points + half, (), True)
    return Option(attention, found, Ratio(ratio, ratio * (1 - noise), ratio * (1 + noise)))


def weighed(*options: Option, worth: float = 1.0) -> Weighed:
    return weigh([EXACT, *options], worth)


def test_half_the_time_is_worth_a_point() -> None:
    assert weighed(option("lens", -0.5, 0.5)).best.attention == "lens"
    assert weighed(option("lens", -1.5, 0.5)).best.attention == "softmax"
    assert weighed(option("lens", -1.5, 0.5), worth=3.0).best.attention == "lens"
    slower = weighed(option("softmax(conv=3)", 2.0, 1.2), option("lens", 0.5, 0.9))
    assert [slower.best.attention, *(one.attention for one in slower.others)] == ["softmax(conv=3)", "lens", "softmax"]


def test_a_gain_counts_less_a_standard_error_and_a_loss_as_it_is() -> None:
    assert weighed(option("lens", 0.9, 1.0, half=2.0)).best.attention == "softmax"
    assert weighed(option("lens", 0.9, 1.0, half=0.5)).best.attention == "lens"
    assert weighed(option("lens", -1.1, 0.5, half=3.0)).best.attention == "softmax"


def test_a_tenth_of_the_time_alone_is_not_worth_another_attention() -> None:
    assert weighed(option("lens", 0.0, 0.95)).best.attention == "softmax"
    assert weighed().best.attention == "softmax"


def test_a_tie_is_called_one_and_goes_to_the_more_accurate() -> None:
    found = weighed(option("fast", 0.0, 0.4), option("exacter", 0.65, 0.566, half=0.3))
    assert (found.best.attention, [one.attention for one in found.ties]) == ("exacter", ["fast"])
    clear = weighed(option("fast", 0.0, 0.4), option("exacter", -1.0, 0.566))
    assert (clear.best.attention, clear.ties) == ("fast", ())


@pytest.mark.parametrize(("noise", "best", "clear"), [(0.01, "lens", True), (0.8, "softmax", False)])
def test_times_that_decide_nothing_are_said_to(noise: float, best: str, clear: bool) -> None:
    found = weighed(option("lens", 0.0, 0.6, noise))
    assert (found.best.attention, found.clear) == (best, clear)


def test_what_would_change_it() -> None:
    found = weighed(option("lens", 1.0, 0.5), option("fast", -1.0, 0.25))
    assert found.best.attention == "lens"
    assert [(turn, one.attention) for turn, one in found.changes] == [(1.5, "fast")]
    assert weigh([EXACT, option("lens", 1.0, 0.5), option("fast", -1.0, 0.25)], 2.5).best.attention == "fast"
    slow = weighed(option("lens", -0.5, 0.5))
    assert [(turn, one.attention) for turn, one in slow.changes] == [(0.5, "softmax")]


def test_whether_records_tell_two_accuracies_apart() -> None:
    one = option("lens", 1.0, 0.5, half=0.3)
    assert same_accuracy(one, option("prism", 1.4, 0.5, half=0.3))
    assert not same_accuracy(one, option("prism", 2.0, 0.5, half=0.3))
