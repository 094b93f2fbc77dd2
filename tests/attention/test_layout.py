"""The little language."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vixformer.attention.base import Mechanism
from vixformer.attention.kernels.kernel import Kernel
from vixformer.attention.layout import is_exact, parse, print_layer, print_layers


def names(expression: str, *depths: int) -> list[str]:
    return [print_layer(layer) for layer in parse(expression).expand(*depths)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("softmax", ["softmax"] * 6),
        ("performer(kernel=relu, features=64)", ["performer(kernel=relu, features=64)"] * 6),
        ("performer + softmax", ["performer", "softmax"] * 3),
        ("first(performer)", ["performer"] * 3 + ["softmax"] * 3),
        ("last(performer)", ["softmax"] * 3 + ["performer"] * 3),
        ("first(performer, n=2, rest=nystrom)", ["performer"] * 2 + ["nystrom"] * 4),
        ("last(performer, n=1)", ["softmax"] * 5 + ["performer"]),
        (
            "performer(features=16)*2 + performer(features=64)*2 + softmax*2",
            ["performer(features=16)"] * 2 + ["performer(features=64)"] * 2 + ["softmax"] * 2,
        ),
        ("softmax + nystrom*2", ["softmax", "nystrom", "nystrom"] * 2),
        ("first(performer, n=0)", ["softmax"] * 6),
        ("performer(features=auto)", ["performer"] * 6),
        ("performer(kernel=relu, features=none)", ["performer(kernel=relu, features=none)"] * 6),
        ("linformer(share=none, rank=8)", ["linformer(rank=8, share=none)"] * 6),
        ("performer(kernel=exp, clamp=10, clamp_min=-5)", ["performer(kernel=exp, clamp=10.0, clamp_min=-5.0)"] * 6),
        ("performer(kernel=elu, alpha=0.25, bias=true)", ["performer(kernel=elu, alpha=0.25, bias=true)"] * 6),
    ],
)
def test_expansion_over_six_layers(expression: str, expected: list[str]) -> None:
    assert names(expression, 6) == expected


def test_odd_depths_split_at_the_floor() -> None:
    assert names("first(performer)", 5) == ["performer"] * 2 + ["softmax"] * 3
    assert names("last(performer)", 5) == ["softmax"] * 2 + ["performer"] * 3


def test_stages() -> None:
    expression = "performer | performer + softmax | softmax"
    assert names(expression, 1, 2, 1) == ["performer", "performer", "softmax", "softmax"]
    assert names("performer + softmax", 1, 1, 2) == ["performer", "softmax"] * 2
    assert names("first(performer) | last(nystrom)", 2, 2) == ["performer", "softmax", "softmax", "nystrom"]
    with pytest.raises(ValueError, match="3 stages and the model 1 stage"):
        names(expression, 4)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("performr", 'unknown attention "performr"; did you mean "performer"\\? choices: .*softmax'),
        ("performer(featurs=3)", 'unknown option of performer.* "featurs"; did you mean "features"'),
        ("performer(kernel=rlu)", 'unknown kernel "rlu"; did you mean "relu"'),
        ("performer(kernel=relu, alpha=1)", 'unknown option of performer\\(kernel=relu\\) "alpha"'),
        ("performer(features=-3)", "features must be greater than 0 or auto or none, not -3"),
        ("performer(features=2.5)", "features must be a whole number or auto or none, not 2.5"),
        ("performer(features=many)", "features must be a whole number or auto or none, not 'many'"),
        ("performer(features=none)", "kernel=softmax is made of random features: give features a number"),
        ("performer(kernel=mlp, bias=true)", "bias=true goes with random features"),
        ("performer(kernel=relu, features=none, learned=true)", "learned=true goes with random features"),
        ("performer(scaling=log)", "scaling must be chi, sqrt or iid, not 'log'"),
        ("performer(kernel=exp, clamp=dynamic, causal=true)", "does not go with causal=true"),
        ("performer(kernel=exp, clamp=100)", "clamp must be at most 40"),
        ("performer(kernel=exp, clamp_min=3)", "clamp_min goes with a clamp"),
        ("linformer(rank=0)", "rank must be greater than 0, not 0"),
        ("linformer(share=all)", "share must be headwise, kv or layerwise or none, not 'all'"),
        ("nystrom(conv=4)", "must be an odd number or none, not 4"),
        ("nystrom(causal=true)", 'unknown option of nystrom "causal"'),
        ("softmax*0", "number from 1 to 1000, not 0"),
        ("softmax*x", "number from 1 to 1000, not x"),
        ("softmax*100000", "number from 1 to 1000"),
        ("first(first(performer))", "cannot be nested"),
        ("first(performer) + softmax", "cannot be nested, added or repeated"),
        ("first(performer)*2", "cannot be nested, added or repeated"),
        ("first(performer, m=2)", 'unknown option of first\\(...\\) "m"'),
        ("lens(conv=false)", "conv must be a whole number or none, not 'false'"),
        ("prism(end=true)", "end must be softplus, relu or elu, not 'true'"),
        ("lens(norm=3)", "norm must be true or false, not 3"),
        ("lens(power=inf)", "power must be a finite number, not inf"),
        ("lens(power=nan)", "power must be"),
        ("first(performer, n=-1)", "n must be a number of layers, not -1"),
        ("first(performer, n=two)", "n must be a number of layers, not two"),
        ("first()", "takes one attention"),
        ("first(performer, n=9)", "n must be at most 6"),
        ("softmax*7", "names 7 layers and the depth is 6"),
        ("softmax*1000*1000*5", "number from 1 to 1000, not 1000"),
        ("performer(features=3, features=9)", "features is given twice"),
        ("performer(features=true)", "features must be a whole number or auto or none, not 'true'"),
        ("performer(eps=1e999)", "eps must be a finite number, not inf"),
        ("performer(causal=true, eps=0.5)", "under causal=true this kernel has no eps"),
        ("+".join(["softmax"] * 1500), "names 1500 layers and the depth is 6"),
        ("performer(64)", "written key=value"),
        ("performer(**x)", "written key=value"),
        ("performer(features=[1])", "must be a number, a word, none, true or false"),
        ("performer(features='64')", "must be a number, a word"),
        ("performer.x", "expected an attention"),
        ("__import__('os').system('true')", "expected an attention"),
        ("(lambda: 1)()", "expected an attention"),
        ("softmax - softmax", "expected an attention"),
        ("3", "expected an attention"),
        ("softmax +", "cannot read the layout"),
        ("softmax softmax", "cannot read the layout"),
        ("", "must be text"),
        ("(" * 5000, "cannot read the layout"),
        ("softmax\x00", "cannot read the layout"),
    ],
)
def test_errors_say_what_would_be_right(expression: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(expression).expand(6)


WORDS = sorted(Mechanism.members)
OPTIONS = st.sampled_from(
    [
        *WORDS,
        *[f"performer(kernel={k}, features=7)" for k in sorted(Kernel.members) if k != "taylor"],
        "performer(scaling=sqrt, eps=0.5)",
        "performer(kernel=exp, clamp=dynamic, eps=1e-7)",
        "linformer(share=none, rank=3)",
        "nystrom(conv=none, landmarks=5)",
        "softmax(causal=true)",
    ]
)
TERMS = st.builds(lambda word, n: word if n == 1 else f"{word}*{n}", OPTIONS, st.integers(1, 3))
PATTERNS = st.lists(TERMS, min_size=1, max_size=4).map(" + ".join)
HALVES = st.builds(
    lambda which, word, n, rest: f"{which}({word}{n}{rest})",
    st.sampled_from(["first", "last"]),
    OPTIONS,
    st.sampled_from(["", ", n=1", ", n=4"]),
    st.one_of(st.just(""), OPTIONS.map(lambda w: f", rest={w}")),
)
LAYOUTS = st.lists(st.one_of(PATTERNS, HALVES), min_size=1, max_size=3).map(" | ".join)


@given(LAYOUTS)
def test_layouts_round_trip_to_text(expression: str) -> None:
    layout = parse(expression)
    assert parse(str(layout)) == layout
    assert str(parse(str(layout))) == str(layout)


@given(LAYOUTS, st.integers(12, 24))
def test_expanded_layers_print_back_to_an_expression(expression: str, depth: int) -> None:
    layout = parse(expression)
    layers = layout.expand(*[depth] * len(layout.stages))
    assert parse(print_layers(layers)).expand(len(layers)) == layers


@given(st.text(alphabet="performsax(,)=+*|0123.- \n'\"_:[]{}", max_size=40))
def test_nonsense_is_a_value_error_and_nothing_else(text: str) -> None:
    with contextlib.suppress(ValueError):
        parse(text).expand(6)


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("softmax", True),
        ("softmax(drop=0.1)", True),
        ("softmax(conv=3)", False),
        ("softmax(drop=0.1, bias=true)", False),
        ("softmax(drop=0.1) + performer(kernel=relu)", False),
        ("none", False),
    ],
)
def test_exact_attention_that_drops_weights_is_what_others_are_compared_with(text: str, exact: bool) -> None:
    assert is_exact(text) == exact
