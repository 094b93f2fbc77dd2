"""An exported layer says what the layer says, and what cannot be exported or timed is refused in a sentence."""

from __future__ import annotations

import pytest
import torch

from vixformer.cli import main
from vixformer.measure.bench import Layers
from vixformer.measure.crossover import TorchAttention, compared
from vixformer.measure.layer import Layer
from vixformer.measure.runtimes import exported_call

LAYERS = ("softmax", "performer(kernel=relu, features=16)", "lens")


@pytest.mark.parametrize("attention", LAYERS)
@pytest.mark.parametrize(
    ("runtime", "dtype", "within"), [("onnxruntime", "float32", 1e-5), ("onnxruntime", "int8", 0.1)]
)
def test_an_exported_layer_agrees(attention: str, runtime: str, dtype: str, within: float) -> None:
    torch.manual_seed(0)
    layer, x = Layer(attention, 32, 4, 64).eval(), torch.randn(2, 64, 32)
    with torch.no_grad():
        wanted = layer(x)
    found = torch.as_tensor(exported_call(layer, x, runtime, dtype, 1)())
    assert float((found - wanted).abs().max()) <= within * float(wanted.abs().max())


def test_openvino_agrees() -> None:
    pytest.importorskip("openvino")
    layer, x = TorchAttention(32, 4).eval(), torch.randn(2, 64, 32)
    with torch.no_grad():
        wanted = layer(x)
    for dtype, within in (("float32", 1e-5), ("bfloat16", 2e-2)):
        found = torch.as_tensor(exported_call(layer, x, "openvino", dtype, 1)())
        assert float((found - wanted).abs().max()) <= within * float(wanted.abs().max())


def test_exported_layers_are_compared() -> None:
    sizes = Layers(runtime="onnxruntime", dim=32, heads=4, seconds=0.2, batch=1, threads=1)
    probe = compared("performer(kernel=relu, features=8)", "torch", 2048, sizes)
    assert 0 < probe.low <= probe.ratio <= probe.high
    assert probe.ratio < 1  # 8 features of 2,048 tokens against all pairs of them


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--dtype", "int8"], "--dtype int8 is for exported layers: add --runtime onnxruntime"),
        (["--runtime", "onnxruntime", "--train"], "leave out --train, --compile and --device"),
        (
            ["--runtime", "openvino", "--dtype", "int8"],
            "--runtime openvino takes --dtype float32 or bfloat16, not int8",
        ),
        (["--runtime", "onnx"], "--runtime"),
    ],
)
def test_what_a_runtime_cannot_do_is_a_sentence(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["bench", "crossover", "lens", *words])
    assert says in capsys.readouterr().err
