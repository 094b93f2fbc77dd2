"""A program of torch as an ONNX graph, of standard operations or with the fused attention of onnxruntime."""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Generator
from pathlib import Path
from typing import Any

import torch

OPSET = 20
SDPA = torch.ops.aten.scaled_dot_product_attention.default


def onnx_graph(program: torch.export.ExportedProgram, fused: bool = False) -> Any:
    """A ModelProto. `fused`: exact attention without a bias is one node, which only onnxruntime knows."""
    need("onnxscript", "onnxruntime")
    exact = [node for node in program.graph.nodes if node.target is SDPA]
    plain = all(len(node.args) == 3 and set(node.kwargs) <= {"scale"} for node in exact)
    with quiet():
        made: Any = torch.onnx.export(
            program,
            dynamo=True,
            opset_version=OPSET,
            input_names=["pixels"],
            output_names=["logits"],
            custom_translation_table={SDPA: _attention()} if fused and exact and plain else None,
        )
    return made.model_proto


def eight_bits(graph: Any) -> bytes:
    """Weights of eight bits, unsigned: signed ones overflow where the processor has no VNNI. Activations are quantized
    as they come."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    del graph.graph.value_info[:]  # shapes that the quantizer would hold against weights it has turned
    with tempfile.TemporaryDirectory() as folder, quiet():
        whole, small = Path(folder) / "whole.onnx", Path(folder) / "small.onnx"
        onnx.save(graph, whole)
        quantize_dynamic(
            whole,
            small,
            weight_type=QuantType.QUInt8,
            op_types_to_quantize=["MatMul", "Gemm"],
            per_channel=True,
            extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},  # of what onnxruntime's own nodes return
        )
        return small.read_bytes()


def _attention() -> Any:
    """What the exporter writes in place of `scaled_dot_product_attention(q_BNSH, k_BNSH, v_BNSH)`. Its own transposes
    of heads cancel with these, and scores are never stored."""
    from onnx.defs import OpSchema
    from onnxscript import opset20
    from onnxscript.values import Op, Opset

    op: Any = opset20
    value, attribute = OpSchema.FormalParameter, OpSchema.Attribute
    schema = OpSchema(
        "MultiHeadAttention",
        "com.microsoft",
        1,
        inputs=[value(name, "T") for name in ("query", "key", "value")],
        outputs=[value("output", "T")],
        type_constraints=[("T", ["tensor(float)"], "")],
        attributes=[
            attribute("num_heads", OpSchema.AttrType.INT),
            attribute("scale", OpSchema.AttrType.FLOAT, required=False),
        ],
    )
    fused: Any = Op(Opset("com.microsoft", 1), "MultiHeadAttention", schema)

    def attention(query: Any, key: Any, value: Any, scale: float | None = None) -> Any:
        heads = query.shape[1]

        def flat(x_BNSH: Any) -> Any:
            return op.Reshape(op.Transpose(x_BNSH, perm=[0, 2, 1, 3]), op.Constant(value_ints=[0, 0, -1]))

        given = {} if scale is None else {"scale": scale}
        out = fused(flat(query), flat(key), flat(value), num_heads=heads, **given)
        return op.Transpose(op.Reshape(out, op.Constant(value_ints=[0, 0, heads, -1])), perm=[0, 2, 1, 3])

    return attention


def need(*modules: str) -> None:
    for module in modules:
        try:
            __import__(module)
        except ImportError:
            raise ValueError(f'this format needs {module}: pip install "vixformer[export]"') from None


@contextlib.contextmanager
def quiet() -> Generator[None, None, None]:
    """Exporters print how they are getting on, and warn of what they deprecate in themselves."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
