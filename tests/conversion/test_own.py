"""Conversion, distillation and the choice of layers, of models that are not ours and with any loader."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import vixformer as vix
from tests.support.plain import Own
from tests.support.transformers import images, made, scores

pytest.importorskip("transformers")


def loader(count: int = 3) -> list[tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(3)
    return [(torch.randn(8, 3, 32, 32), torch.randint(0, 2, (8,))) for _ in range(count)]


def test_a_dinov2_is_converted_distilled_and_chosen_from() -> None:
    model, x = made("DINOv2"), images(8)
    wanted = scores(model, x)
    new, report = vix.convert(model, "hedgehog", data=x)
    assert type(new) is type(model)
    assert [layer.after for layer in report.layers] == ["hedgehog"] * 2
    assert all(layer.error is not None and 0 < layer.error < 0.5 for layer in report.layers)
    assert {"k_proj.weight", "o_proj.bias"} <= set(report.layers[0].kept)
    assert report.layers[0].new == ("weight_k", "weight_q")
    assert torch.equal(scores(model, x), wanted)  # the old model is as it was
    assert not any(hasattr(module, "core") for module in model.modules())
    rough = vix.patch(made("DINOv2"), "performer(kernel=relu)")
    errors = vix.distill(rough, model, [x] * 12, steps=12, lr=3e-3)
    assert len(errors) == 12
    assert errors[-1] < errors[0]
    chosen = vix.choose_layers(model, "performer(kernel=relu)", loader(), steps=2)
    assert [len(point.layers) for point in chosen.curve] == [0, 1, 2]
    assert chosen.curve[0].attention == "softmax"
    half, _ = vix.convert(model, chosen.curve[1].attention, x)
    assert sum(type(m.core).__name__ == "Performer" for m in half.modules() if hasattr(m, "core")) == 1


def test_your_own_network_and_dictionaries() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patch, self.attn, self.head = nn.Conv2d(3, 32, 8, 8), Own(), nn.Linear(32, 2)

        def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
            tokens = self.patch(pixel_values).flatten(2).transpose(1, 2)
            return self.head((tokens + self.attn(tokens)).mean(1))

    torch.manual_seed(0)
    model = Net().eval()
    batches = [{"pixel_values": x, "labels": y} for x, y in loader()]
    chosen = vix.choose_layers(model, "lens", batches)
    assert [point.attention for point in chosen.curve] == ["softmax", "lens"]
    new, _ = vix.convert(model, "lens", batches[0]["pixel_values"])
    attn: Any = new.attn
    assert attn.core.shape.grid == (4, 4)
    for bad, message in (([], "the loader gives no batches"), ([torch.randn(2, 3, 32, 32)], "have no labels")):
        with pytest.raises(ValueError, match=message):
            vix.choose_layers(model, "lens", bad)
    with pytest.raises(ValueError, match="convert takes a model"):
        vix.convert("vit", "lens")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="fourier"):
        vix.convert(model, "fourier", batches[0]["pixel_values"])


def test_batches_that_there_are_once() -> None:
    model = made("DINOv2")
    with pytest.raises(ValueError, match=r"an iterator gives its batches once, .* give a DataLoader or a list"):
        vix.choose_layers(model, "lens", iter(loader()))
    with pytest.raises(ValueError, match="the loader gives no batches"):
        vix.choose_layers(model, "lens", loader(1), train=[], steps=1)
