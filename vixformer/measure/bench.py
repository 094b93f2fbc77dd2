"""How long attention layers and whole models take here, and what they need: any expressions, many sizes, one
interleaved run a size."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor, nn

from vixformer import ops
from vixformer.jsonfile import Values
from vixformer.measure.cost import bytes_saved, most_tokens, multiply_adds
from vixformer.measure.latency import Ratio, Timing, paired_ratio, rounds, summarized
from vixformer.measure.layer import Layer
from vixformer.measure.machine import usable
from vixformer.measure.memory import Job, peak_memory
from vixformer.measure.runtimes import exported_call
from vixformer.models import create_model

SIDE = 1024
"""Of the square matrices whose product is the peak that others are held against."""
FULL_BATCH = 4096
"""Tokens in a batch of a layer, where no batch is asked for."""
MODEL_BATCH = 16
LEAST = 6
"""Rounds: fewer have no 95 % interval."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """Conditions of the measurement"""

    batch: PositiveInt | None = None
    """Number of images in a batch. Left out: about 4,096 tokens for layers, 16 images for models."""
    dtype: Literal["float32", "bfloat16", "float16", "int8"] = "float32"
    """Number format. int8 is for layers in --runtime onnxruntime: weights of eight bits."""
    train: bool = False
    """Time training instead of inference: forward and backward and, for models, a step of AdamW."""
    compile: bool = False
    """Compile with torch.compile."""
    threads: PositiveInt | None = None
    """Number of CPU threads. Left out: torch's own number."""
    device: str = "cpu"
    """Device, such as cpu or cuda:0."""
    seconds: PositiveFloat = 5.0
    """Seconds of timing for each number of tokens, all attentions together."""


@dataclass(frozen=True, kw_only=True)
class Layers(Conditions):
    """Attention layers"""

    dim: PositiveInt = 128
    """Width of the tokens."""
    heads: PositiveInt = 4
    """Number of attention heads."""
    runtime: Literal["torch", "onnxruntime", "openvino"] = "torch"
    """Program that runs the layers: torch, or what takes an exported model."""

    def __post_init__(self) -> None:
        if self.runtime == "torch" and self.dtype == "int8":
            raise ValueError("--dtype int8 is for exported layers: add --runtime onnxruntime")
        if self.runtime != "torch" and (self.train or self.compile or self.device != "cpu"):
            raise ValueError(
                f"--runtime {self.runtime} infers on the CPU, and as it was exported: leave out --train, --compile and"
                " --device"
            )
        formats = {"onnxruntime": ("float32", "int8"), "openvino": ("float32", "bfloat16")}
        if self.dtype not in formats.get(self.runtime, (self.dtype,)):
            known = " or ".join(formats[self.runtime])
            raise ValueError(f"--runtime {self.runtime} takes --dtype {known}, not {self.dtype}")


@dataclass(frozen=True, kw_only=True)
class Sizes(Layers):
    """Sizes to measure"""

    tokens: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = (65, 257, 1025, 4097)
    """Numbers of tokens to measure."""
    memory: bool = True
    """Also measure peak memory, in a separate process, which takes about a second for each."""


@dataclass(frozen=True, kw_only=True)
class Models(Conditions):
    """Backbones, and options that differ from their defaults"""

    models: tuple[str, ...] = ("vit",)
    """Backbones or published sizes, such as vit levit-128s; timm:NAME or hf:FOLDER for models of timm or
    transformers."""
    img_size: PositiveInt | None = None
    """Side of the images, in pixels. Left out: that of the model."""
    patch_size: PositiveInt | None = None
    """Side of a patch, in pixels. Left out: that of the model."""
    embed_dim: PositiveInt | None = None
    """Width of the tokens. Left out: that of the model."""
    depth: PositiveInt | None = None
    """Number of blocks. Left out: that of the model."""
    num_heads: PositiveInt | None = None
    """Number of attention heads. Left out: that of the model."""
    memory: bool = True
    """Also measure peak memory, in a separate process, which takes about a second for each."""

    @property
    def options(self) -> Values:
        names = ("img_size", "patch_size", "embed_dim", "depth", "num_heads")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


@dataclass(frozen=True)
class Measured:
    what: str
    """A backbone, or `layer`."""
    attention: str
    tokens: int
    batch: int
    time: Timing
    images_a_second: float
    multiply_adds: int
    """Of the batch, forward."""
    of_gemm: float
    """Share of the speed of a large matrix product in the same run; a training step is taken as three times the forward
    pass."""
    kept: int
    """Bytes for backward, of the batch, on the way that is timed."""
    peak: int | None
    """Bytes, where it was asked for and can be measured."""
    ratio: Ratio | None = None
    """Of its time to that of exact attention with as many tokens in the same run; None where there is none, and for
    exact attention."""


@dataclass(frozen=True)
class _Case:
    what: str
    attention: str
    module: nn.Module
    x: Tensor
    tokens: int
    job: Job


def check_attention(attentions: Sequence[str], tokens: Sequence[int], sizes: Layers) -> None:
    """What cannot be measured is said at once: `watched` may wait for other work to end."""
    usable(sizes.device, "device")
    with torch.device("meta"):
        for n, attention in itertools.product(tokens, attentions):
            Layer(attention, sizes.dim, sizes.heads, n)


def check_models(models: Sequence[str], attentions: Sequence[str], options: Values, device: str) -> None:
    """The same of whole models."""
    usable(device, "device")
    with torch.device("meta"):
        for name, attention in itertools.product(models, attentions):
            create_model(name, attention=attention, **options)


def bench_attention(attentions: Sequence[str], sizes: Sizes) -> list[Measured]:
    rows: list[Measured] = []
    for tokens in sizes.tokens:
        batch = sizes.batch or batch_of(tokens)
        x = torch.randn(batch, tokens, sizes.dim)
        cases = []
        for a in attentions:
            options: Values = {"attention": a, "dim": sizes.dim, "num_heads": sizes.heads, "num_tokens": tokens}
            cases.append(_Case("layer", a, Layer(**options), x, tokens, Job(options, batch, sizes.dtype)))
        rows += _measured(cases, sizes)
    return rows


def bench_models(
    models: Sequence[str], attentions: Sequence[str], options: Values, sizes: Sizes | Models
) -> list[Measured]:
    """Every backbone with every attention, on noise of the size of its images."""
    batch = sizes.batch or MODEL_BATCH
    cases = []
    for name in models:
        for a in attentions:
            given = {"name": name, "attention": a, **options}
            model = create_model(**given)
            images = torch.randn(batch, model.in_chans, *model.img_size)
            cases.append(_Case(name, a, model, images, most_tokens(model), Job(given, batch, sizes.dtype)))
    return _measured(cases, sizes)


def batch_of(tokens: int) -> int:
    return max(1, FULL_BATCH // tokens)


def _measured(cases: Sequence[_Case], sizes: Sizes | Models) -> list[Measured]:
    device = usable(sizes.device, "device")
    counts = [multiply_adds(case.module, case.x) for case in cases]
    with _lower(device, sizes):
        kept = [bytes_saved(case.module.to(device), case.x.to(device).requires_grad_()) for case in cases]
    square = torch.randn(SIDE, SIDE, device=device)
    calls: dict[int, Callable[[], object]] = {
        i: call(case.module, case.x.to(device), sizes) for i, case in enumerate(cases)
    }
    calls[-1] = lambda: square @ square
    with on_threads(sizes.threads):
        taken = rounds(calls, sizes.seconds, LEAST, device)
    timed = {i: summarized(times) for i, times in taken.items()}
    exact = {case.what: i for i, case in enumerate(cases) if case.attention == "softmax"}
    gemm = SIDE**3 / timed[-1].min
    rows = []
    for i, case in enumerate(cases):
        peaks = peak_memory([case.job], device.type) if sizes.memory else None
        peak = None if peaks is None else peaks[0].train if sizes.train else peaks[0].inference
        batch, work = len(case.x), (3 if sizes.train else 1) * counts[i]
        facts = (1e3 * batch / timed[i].min, counts[i], work / timed[i].min / gemm, kept[i], peak)
        base = exact.get(case.what, i)
        ratio = None if base == i else paired_ratio(taken[i], taken[base])
        rows.append(Measured(case.what, case.attention, case.tokens, batch, timed[i], *facts, ratio))
    return rows


def call(module: nn.Module, x: Tensor, sizes: Conditions) -> Callable[[], object]:
    """One inference, or one training step."""
    if isinstance(sizes, Layers) and sizes.runtime != "torch":
        return exported_call(module, x, sizes.runtime, sizes.dtype, sizes.threads or torch.get_num_threads())
    module = module.train(sizes.train)
    forward = ops.compiled(module) if sizes.compile else module

    def lower() -> torch.autocast:
        return _lower(x.device, sizes)

    if not sizes.train:

        def infer() -> None:
            with torch.inference_mode(), lower():
                forward(x)

        return infer
    if x.dim() == 3:  # a layer
        given, grad = x.clone().requires_grad_(), torch.randn_like(x)

        def step() -> None:
            with lower():
                out = forward(given)
            out.backward(grad.to(out.dtype))
            module.zero_grad(set_to_none=True)
            given.grad = None

        return step
    labels = torch.zeros(len(x), dtype=torch.long, device=x.device)
    optimizer = torch.optim.AdamW(module.parameters(), fused=True)

    def train() -> None:
        with lower():
            scores = forward(x)
        F.cross_entropy(scores.float(), labels).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return train


def _lower(device: torch.device, sizes: Conditions) -> torch.autocast:
    return torch.autocast(device.type, dtype=getattr(torch, sizes.dtype), enabled=sizes.dtype != "float32")


@contextlib.contextmanager
def on_threads(count: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
