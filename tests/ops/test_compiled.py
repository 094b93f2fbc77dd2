"""Under torch.compile kernels stay, in one graph that serves every batch size; programs for elsewhere are made of
torch's operations."""

from __future__ import annotations

import copy
import pickle
import shutil
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend

from tests.support.attentions import distance
from vixformer import create_model, ops
from vixformer.ops import native

compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
WORDS = [
    "performer(kernel=relu, features=64)",
    "performer",
    "performer(kernel=elu, features=24)",
    "lens",
    "prism",
    "hedgehog",
    "softmax",
    "linformer(rank=8)",
    "nystrom(landmarks=16)",
    "fourier",
]


def vit(attention: str, **options: Any) -> nn.Module:
    sizes: dict[str, Any] = dict(img_size=16, patch_size=2, num_classes=3, embed_dim=32, depth=2, num_heads=2)
    return create_model("vit", attention=attention, **{**sizes, **options})


def step(module: nn.Module, forward: Callable[..., Tensor], x: Tensor) -> list[Tensor]:
    module.zero_grad()
    out = forward(x)
    out.square().sum().backward()
    return [out.detach(), *(p.grad.clone() for p in module.parameters() if p.grad is not None)]


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch.compiler.reset()


@compiler
@pytest.mark.parametrize(
    ("attention", "pos"), [*((word, "learned") for word in WORDS), ("softmax", "rope2d"), ("lens", "rope2d")]
)
def test_one_graph_with_its_kernels_for_every_batch_size(
    attention: str, pos: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Traced forward and backward as inductor gets it; the graphs are run by torch, which is quick."""
    counter = CompileCounterWithBackend("aot_eager")
    monkeypatch.setattr(torch, "compile", partial(torch.compile, fullgraph=True, backend=counter))
    model = vit(attention, pos=pos)
    forward = ops.compiled(model)
    for batch in (4, 3):
        x = torch.randn(batch, 3, 16, 16)
        right = step(model, model, x)
        before = native.calls()
        found = step(model, forward, x)
        assert native.calls() - before >= 2 * 2  # a layer forward and backward
        assert all(distance(a, b) <= 1e-5 for a, b in zip(found, right, strict=True))
    assert counter.frame_count == 1


@compiler
def test_a_dozen_models_do_not_reach_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is eight. Three models reached it when every layer was a graph of its own."""
    monkeypatch.setattr(torch._dynamo.config, "fail_on_recompile_limit_hit", True)
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    x = torch.randn(2, 3, 16, 16)
    for features in range(16, 28):
        model = vit(f"performer(kernel=relu, features={features})", depth=1).eval()
        forward = ops.compiled(model)
        with torch.inference_mode():
            before = native.calls()
            assert distance(forward(x), model(x)) <= 1e-5
            assert native.calls() >= before + 2  # linear layers have kernels too, on some processors


@compiler
def test_what_changes_in_place_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random features are drawn anew between two steps of the same graph."""
    counter = CompileCounterWithBackend("aot_eager")
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=counter))
    model, x = vit("performer(kernel=relu, features=16)"), torch.randn(2, 3, 16, 16)
    forward = ops.compiled(model)
    first = step(model, forward, x)[0]
    for module in model.modules():
        if hasattr(module, "redraw"):
            module.redraw()  # pyright: ignore
    again = step(model, forward, x)[0]
    assert distance(first, again) > 1e-3
    assert distance(again, model(x)) <= 1e-5
    assert counter.frame_count == 1


@compiler
@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # inductor's own
@pytest.mark.parametrize("attention", WORDS)
def test_inductor_keeps_kernels(attention: str) -> None:
    model = vit(attention)
    forward = ops.compiled(model)
    for batch in (4, 3):
        x = torch.randn(batch, 3, 16, 16)
        right = step(model, model, x)
        before = native.calls()
        found = step(model, forward, x)
        assert native.calls() > before
        assert all(distance(a, b) <= 1e-4 for a, b in zip(found, right, strict=True))


@pytest.mark.parametrize("attention", ["performer", "prism", "hedgehog", "nystrom(landmarks=16)", "fourier"])
def test_programs_for_elsewhere_know_nothing_of_us(attention: str) -> None:
    model, x = vit(attention).eval(), torch.randn(2, 3, 16, 16)
    with ops.portable(), torch.no_grad():
        program = torch.export.export(model, (x,))
    assert not [node for node in program.graph.nodes if "vixformer" in str(node.target)]
    assert distance(program.module()(x), model(x)) <= 1e-5


@compiler
def test_a_program_made_with_kernels_says_that_they_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = vit("softmax").eval(), torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        program = torch.export.export(model, (x,)).module()
        assert distance(program(x), model(x)) <= 1e-5
        monkeypatch.setattr(native, "library", lambda: None)
        with pytest.raises(
            RuntimeError,
            match=r"compiled for kernels that are off here: compile it inside `with vixformer.ops.portable\(\):`",
        ):
            program(x)


@compiler
def test_compiled_gradients_of_torch_func() -> None:
    model = vit("performer(kernel=relu, features=16)", depth=1).eval()
    weights = {name: p.detach() for name, p in model.named_parameters()}

    def loss(weights: dict[str, Tensor], image: Tensor) -> Tensor:
        return torch.func.functional_call(model, weights, (image[None],)).square().sum()

    images = torch.randn(3, 3, 16, 16)
    per_image = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))
    found, right = torch.compile(per_image, backend="aot_eager")(weights, images), per_image(weights, images)
    assert all(distance(found[name], right[name]) <= 1e-5 for name in weights)


@compiler
def test_copies_of_a_model_that_was_compiled() -> None:
    model, x = vit("performer(kernel=relu, features=16)").eval(), torch.randn(2, 3, 16, 16)
    with torch.inference_mode():
        out = torch.compile(model, backend="aot_eager")(x)
        for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert distance(copied(x), out) <= 1e-5
            assert distance(torch.compile(copied, backend="aot_eager")(x), out) <= 1e-5
