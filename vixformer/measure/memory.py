"""Peak memory of training and of inference: on the CPU of a fresh process above its baseline, on a GPU what its
allocator says."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import json
import mmap
import os
import platform
import select
import signal
import subprocess
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

from vixformer import ops
from vixformer.backbones.backbone import Backbone
from vixformer.jsonfile import Values
from vixformer.measure.layer import Layer
from vixformer.models import create_model
from vixformer.notes import Note
from vixformer.plugins import complaint, foreign, import_foreign


@dataclass(frozen=True)
class Peak:
    """Bytes above a process that has everything loaded and no model: weights, gradients, Adam's moments, activations, a
    batch."""

    train: int
    inference: int


@dataclass(frozen=True)
class Job:
    model: Values
    """Its name and options, all of them; without a name, those of one attention layer."""
    batch: int
    precision: str = "float32"
    checkpoint: bool = False
    """Whether training keeps only the tokens between blocks."""


def peak_memory(jobs: Sequence[Job], device: str = "cpu") -> list[Peak] | None:
    """The peak of each, or None where it cannot be measured: it needs /proc, or a CUDA device. Raises `ValueError` for
    a model that cannot be measured."""
    if device == "cuda":
        return [_measured(job, device) for job in jobs]
    if device != "cpu" or not Path("/proc/self/status").exists():
        return None
    return [_server().ask(job) for job in jobs]


class _Server:
    """A process that has everything loaded and has computed nothing; it forks a child for every job."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )  # Ctrl-C is for us; it ends when its input does
        atexit.register(self.close)

    def ask(self, job: Job) -> Peak:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None and stdout is not None
        try:
            stdin.write(json.dumps({"job": vars(job), "foreign": foreign()}) + "\n")
            stdin.flush()
            answer = stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            _server.cache_clear()
            atexit.unregister(self.close)
            self.close()
            raise ValueError("the process that measures memory died")
        found = json.loads(answer)
        if "error" in found:
            raise ValueError(found["error"])
        return Peak(**found)

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self.process.wait()


@functools.cache
def _server() -> _Server:
    return _Server()


def _measured(job: Job, device: str) -> Peak:
    _step(job, 1, device, training=True)  # so that what is loaded on first use is there, and counts for nobody
    gc.collect()
    before = _baseline(device)
    _step(job, job.batch, device, training=False)
    inference = _most(device) - before
    _step(job, job.batch, device, training=True)
    return Peak(train=_most(device) - before, inference=inference)


def _step(job: Job, batch: int, device: str, training: bool) -> None:
    model, images = _built(job.model, batch)
    if job.checkpoint and isinstance(model, Backbone):
        model.set_grad_checkpointing()
    model, images = model.to(device).train(training), images.to(device)
    labels = torch.zeros(batch, dtype=torch.long, device=device)
    lower = torch.autocast(device, dtype=getattr(torch, job.precision), enabled=job.precision != "float32")
    if not training:
        with torch.inference_mode(), lower:
            model(images)
        return
    images.requires_grad_(images.dim() == 3)  # as inside a model: and a layer may have no weights
    weights = list(model.parameters())
    optimizer = torch.optim.AdamW(weights) if weights else None
    for _ in range(2):  # the second step has the moments of the first
        with lower:
            scores = model(images)
        (F.cross_entropy(scores.float(), labels) if images.dim() == 4 else scores.float().square().mean()).backward()
        images.grad = None
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)


def _built(options: Values, batch: int) -> tuple[torch.nn.Module, torch.Tensor]:
    if "name" not in options:
        return Layer(**options), torch.randn(batch, options["num_tokens"], options["dim"])
    model: Backbone = create_model(**options)
    return model, torch.randn(batch, model.in_chans, *model.img_size)


def _baseline(device: str) -> int:
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def _most(device: str) -> int:
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def main() -> None:
    """A job a line on standard input, its peak on standard output."""
    # what an optimizer imports at its first step, so that not every child has to
    importlib.import_module("torch._dynamo")

    warnings.simplefilter("ignore", Note)  # the process that asks has said the same
    ops.prepare()
    with os.fdopen(os.dup(1), "w") as told:
        os.dup2(2, 1)  # what a model prints is no answer
        for line in sys.stdin:
            reader, writer = os.pipe()
            child = os.fork()
            if not child:
                os.write(writer, json.dumps(_answer(json.loads(line))).encode())
                os._exit(0)
            os.close(writer)
            # it closed, as nobody asks twice at once: who asked is gone
            if sys.stdin in select.select([reader, sys.stdin], [], [])[0]:
                os.kill(child, signal.SIGKILL)
                os._exit(1)
            with os.fdopen(reader) as answers:
                answer = answers.read()
            os.waitpid(child, 0)
            print(
                answer or '{"error": "the process that measures it was killed, perhaps because memory ran out"}',
                file=told,
                flush=True,
            )


def _answer(asked: Values) -> Values:
    """In the child, which is forked for one job: importing belongs to the baseline, so it comes first."""
    job = Job(**asked["job"])
    try:
        import_foreign(asked["foreign"])
        return vars(_measured(job, "cpu"))
    except (Exception, SystemExit) as error:
        return {"error": complaint(error, asked["foreign"])}


if __name__ == "__main__":
    main()
