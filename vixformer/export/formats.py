"""A trained model with its preprocessing inside, and one function a format: it writes the file and returns what runs
it, pixels in and logits out."""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vixformer import ops
from vixformer.data.augment import resize
from vixformer.data.preprocess import Preprocessing
from vixformer.ops.graph import eight_bits, onnx_graph, quiet
from vixformer.results.predictor import Predictor
from vixformer.writing import write_bytes

Run = Callable[[Tensor], Tensor]


def to_torch(shipped: Shipped, example: Tensor, path: Path, dynamic_batch: bool, _: Preprocessing) -> Run:
    """`torch.export.load(path).module()(pixels)`; neither vixformer nor Python code of ours is needed."""
    made = io.BytesIO()  # torch ends the process where it meets a full disk while it writes a file
    with quiet():
        torch.export.save(program(shipped, example, dynamic_batch), made)
    _write(path, made.getvalue())
    return _no_grad(torch.export.load(path).module())


def to_aot(shipped: Shipped, example: Tensor, path: Path, dynamic_batch: bool, _: Preprocessing) -> Run:
    """Compiled for this machine: `torch._inductor.aoti_load_package(path)(pixels)`."""
    if shutil.which(os.environ.get("CXX", "c++")) is None:
        raise ValueError(
            "an AOTInductor package is compiled, and there is no C++ compiler here: install one, or set CXX"
        )
    from torch._inductor import aoti_compile_and_package, aoti_load_package

    with tempfile.TemporaryDirectory() as folder, quiet():
        made = aoti_compile_and_package(
            program(shipped, example, dynamic_batch), package_path=str(Path(folder) / path.name)
        )
        _write(path, Path(made).read_bytes())
    return _no_grad(aoti_load_package(str(path)))


def to_onnx(
    shipped: Shipped,
    example: Tensor,
    path: Path,
    dynamic_batch: bool,
    preprocessing: Preprocessing,
    fused: bool = False,
    small: bool = False,
) -> Run:
    """One file of standard operations; its metadata has the classes. `fused` is for onnxruntime alone, whose own exact
    attention is faster with many tokens and stores no scores; `small` has weights of eight bits."""
    proto = onnx_graph(program(shipped, example, dynamic_batch), fused=fused)
    if dynamic_batch:
        _name_batch(proto.graph)
    for key, value in {**asdict(preprocessing), "made_by": "vixformer"}.items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, value if isinstance(value, str) else json.dumps(value)
    _write(path, eight_bits(proto) if small else proto.SerializeToString())
    return onnx_session(path)


def _name_batch(graph: Any) -> None:
    """The exporter calls it s81 or so."""
    called = graph.input[0].type.tensor_type.shape.dim[0].dim_param
    for value in (*graph.input, *graph.output, *graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == called:
                dim.dim_param = "batch"


WRITERS: dict[str, tuple[str, Callable[[Shipped, Tensor, Path, bool, Preprocessing], Run]]] = {
    "onnx": ("model.onnx", to_onnx),
    "onnxruntime": ("model-onnxruntime.onnx", partial(to_onnx, fused=True)),
    "torch": ("model.pt2", to_torch),
    "aot": ("model-aot.pt2", to_aot),
    "int8": ("model-int8.onnx", partial(to_onnx, small=True)),
}
"""Of each format, the name of its file and what writes it."""


def onnx_session(path: Path) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda pixels: torch.from_numpy(session.run(None, {name: pixels.numpy()})[0])


def _no_grad(run: Run) -> Run:
    def call(pixels: Tensor) -> Tensor:
        with torch.no_grad():
            return run(pixels)

    return call


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, content)


class Shipped(nn.Module):
    """Pixels (B, channels, height, width) of 0 to 255, uint8, of the data set's size -> logits (B, classes),
    float32."""

    scale: Tensor
    shift: Tensor

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        prepare = predictor.preprocessing
        self.model, self.size = predictor.model.eval(), prepare.size
        std = torch.tensor(prepare.std).view(-1, 1, 1)
        self.register_buffer("scale", 1 / (255 * std), persistent=False)
        self.register_buffer("shift", -torch.tensor(prepare.mean).view(-1, 1, 1) / std, persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.model(resize(torch.addcmul(self.shift, pixels.float(), self.scale), self.size)).float()


def program(shipped: Shipped, example: Tensor, dynamic_batch: bool) -> torch.export.ExportedProgram:
    """What torch.export makes of it, of operations of torch alone, for any batch or for that of the example."""
    shapes = ({0: torch.export.Dim("batch", max=2**15)},) if dynamic_batch else None
    if dynamic_batch and len(example) < 2:
        example = example.expand(2, -1, -1, -1).contiguous()  # a batch of one would be taken for a constant
    with ops.portable(), torch.no_grad():
        return torch.export.export(shipped, (example,), dynamic_shapes=shapes)
