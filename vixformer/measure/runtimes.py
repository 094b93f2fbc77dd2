"""An attention layer as the programs run it that people deploy with: exported once, then called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from vixformer import ops
from vixformer.ops.graph import eight_bits, onnx_graph, quiet


def exported_call(module: nn.Module, x: Tensor, runtime: str, dtype: str, threads: int) -> Callable[[], object]:
    """For onnxruntime with its own exact attention, the best that it has; openvino finds exact attention by itself."""
    with ops.portable(), torch.no_grad(), quiet():
        program = torch.export.export(module.eval(), (x,))
    graph = onnx_graph(program, fused=runtime == "onnxruntime")
    run = _in_openvino if runtime == "openvino" else _in_onnxruntime
    return run(eight_bits(graph) if dtype == "int8" else graph.SerializeToString(), x, dtype, threads)


def _in_onnxruntime(graph: bytes, x: Tensor, _: str, threads: int) -> Callable[[], object]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # beside others, threads that spin disturb
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    given = {session.get_inputs()[0].name: x.numpy()}
    return lambda: session.run(None, given)[0]


def _in_openvino(graph: bytes, x: Tensor, dtype: str, threads: int) -> Callable[[], object]:
    try:
        import openvino
    except ImportError:
        raise ValueError("--runtime openvino needs openvino: pip install openvino") from None
    precision = {"float32": "f32", "bfloat16": "bf16"}[dtype]
    options = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY"}
    core: Any = openvino.Core()
    model = core.compile_model(core.read_model(graph), "CPU", options)
    pixels = x.numpy()
    return lambda: model(pixels)[0]
