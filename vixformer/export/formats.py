"""One function a format: it writes the file and returns what runs it, pixels in and logits out."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vixformer.data.preprocess import Preprocessing
from vixformer.export.shipped import Shipped, program
from vixformer.writing import write_bytes

Run = Callable[[Tensor], Tensor]
OPSET = 20


def to_torch(shipped: Shipped, example: Tensor, path: Path, dynamic_batch: bool, _: Preprocessing) -> Run:
    """`torch.export.load(path).module()(pixels)`; neither vixformer nor Python code of ours is needed."""
    made = io.BytesIO()  # torch ends the process where it meets a full disk while it writes a file
    with _quiet():
        torch.export.save(program(shipped, example, dynamic_batch), made)
    _write(path, made.getvalue())
    return _no_grad(torch.export.load(path).module())


def to_aot(shipped: Shipped, example: Tensor, path: Path, dynamic_batch: bool, _: Preprocessing) -> Run:
    """Compiled for this machine: `torch._inductor.aoti_load_package(path)(pixels)`."""
    if shutil.which(os.environ.get("CXX", "c++")) is None:
        raise ValueError("an AOTInductor package is compiled, and there is no C++ compiler here: install one, or set CXX")
    from torch._inductor import aoti_compile_and_package, aoti_load_package

    with tempfile.TemporaryDirectory() as folder, _quiet():
        made = aoti_compile_and_package(program(shipped, example, dynamic_batch), package_path=str(Path(folder) / path.name))
        _write(path, Path(made).read_bytes())
    loaded: Any = aoti_load_package(str(path))
    return _no_grad(loaded)


def to_onnx(shipped: Shipped, example: Tensor, path: Path, dynamic_batch: bool, preprocessing: Preprocessing) -> Run:
    """One file; its metadata has the classes."""
    _need("onnxscript", "onnxruntime")
    with _quiet():
        made: Any = torch.onnx.export(
            program(shipped, example, dynamic_batch), dynamo=True, opset_version=OPSET, input_names=["pixels"], output_names=["logits"]
        )
    proto = made.model_proto
    if dynamic_batch:
        _name_batch(proto.graph)
    for key, value in {**asdict(preprocessing), "made_by": "vixformer"}.items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, value if isinstance(value, str) else json.dumps(value)
    _write(path, proto.SerializeToString())
    return onnx_session(path)


def _name_batch(graph: Any) -> None:
    """The exporter calls it s81 or so."""
    called = graph.input[0].type.tensor_type.shape.dim[0].dim_param
    for value in (*graph.input, *graph.output, *graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == called:
                dim.dim_param = "batch"


def to_int8(shipped: Shipped, example: Tensor, path: Path, dynamic_batch: bool, preprocessing: Preprocessing) -> Run:
    """Weights of eight bits, unsigned: signed ones overflow where the processor has no VNNI. Activations are quantized as they come."""
    _need("onnxscript", "onnxruntime")
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole.onnx"
        to_onnx(shipped, example, whole, dynamic_batch, preprocessing)
        proto = onnx.load(whole)
        del proto.graph.value_info[:]  # shapes that the quantizer would hold against weights it has turned
        onnx.save(proto, whole)
        small = Path(folder) / "small.onnx"
        with _quiet():
            quantize_dynamic(whole, small, weight_type=QuantType.QUInt8, op_types_to_quantize=["MatMul", "Gemm"], per_channel=True)
        _write(path, small.read_bytes())
    return onnx_session(path)


WRITERS: dict[str, Callable[[Shipped, Tensor, Path, bool, Preprocessing], Run]] = {
    "onnx": to_onnx,
    "torch": to_torch,
    "aot": to_aot,
    "int8": to_int8,
}
FILES = {"onnx": "model.onnx", "torch": "model.pt2", "aot": "model-aot.pt2", "int8": "model-int8.onnx"}


def onnx_session(path: Path) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda pixels: torch.from_numpy(session.run(None, {name: pixels.numpy()})[0])


def _need(*modules: str) -> None:
    for module in modules:
        try:
            __import__(module)
        except ImportError:
            raise ValueError(f'this format needs {module}: pip install "vixformer[export]"') from None


def _no_grad(run: Run) -> Run:
    def call(pixels: Tensor) -> Tensor:
        with torch.no_grad():
            return run(pixels)

    return call


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, content)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Exporters print how they are getting on, and warn of what they deprecate in themselves."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
