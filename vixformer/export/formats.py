"""One function a format: it writes the file and returns what runs it, pixels in and logits out."""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vixformer.data.preprocess import Preprocessing
from vixformer.export.shipped import Shipped, program
from vixformer.ops.graph import eight_bits, onnx_graph, quiet
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


def to_onnx(shipped: Shipped, example: Tensor, path: Path, dynamic_batch: bool, preprocessing: Preprocessing) -> Run:
    """One file of standard operations; its metadata has the classes."""
    return _onnx(onnx_graph(program(shipped, example, dynamic_batch)), path, dynamic_batch, preprocessing)


def to_fused(shipped: Shipped, example: Tensor, path: Path, dynamic_batch: bool, preprocessing: Preprocessing) -> Run:
    """The same for onnxruntime alone, whose own exact attention is faster with many tokens and stores no scores."""
    graph = onnx_graph(program(shipped, example, dynamic_batch), fused=True)
    return _onnx(graph, path, dynamic_batch, preprocessing)


def _onnx(proto: Any, path: Path, dynamic_batch: bool, preprocessing: Preprocessing) -> Run:
    if dynamic_batch:
        _name_batch(proto.graph)
    _describe(proto, preprocessing)
    _write(path, proto.SerializeToString())
    return onnx_session(path)


def _describe(proto: Any, preprocessing: Preprocessing) -> None:
    for key, value in {**asdict(preprocessing), "made_by": "vixformer"}.items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, value if isinstance(value, str) else json.dumps(value)


def _name_batch(graph: Any) -> None:
    """The exporter calls it s81 or so."""
    called = graph.input[0].type.tensor_type.shape.dim[0].dim_param
    for value in (*graph.input, *graph.output, *graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == called:
                dim.dim_param = "batch"


def to_int8(shipped: Shipped, example: Tensor, path: Path, dynamic_batch: bool, preprocessing: Preprocessing) -> Run:
    proto = onnx_graph(program(shipped, example, dynamic_batch))
    if dynamic_batch:
        _name_batch(proto.graph)
    _describe(proto, preprocessing)
    _write(path, eight_bits(proto))
    return onnx_session(path)


WRITERS: dict[str, Callable[[Shipped, Tensor, Path, bool, Preprocessing], Run]] = {
    "onnx": to_onnx,
    "onnxruntime": to_fused,
    "torch": to_torch,
    "aot": to_aot,
    "int8": to_int8,
}
FILES = {
    "onnx": "model.onnx",
    "onnxruntime": "model-onnxruntime.onnx",
    "torch": "model.pt2",
    "aot": "model-aot.pt2",
    "int8": "model-int8.onnx",
}


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
