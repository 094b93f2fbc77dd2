"""On what a figure was measured."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import torch

from vixformer.jsonfile import Values
from vixformer.ops import native


def processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def computes_in(precision: str, device: torch.device) -> bool:
    """Whether the device has instructions for it, as far as it says."""
    info = Path("/proc/cpuinfo")
    if precision == "float32" or device.type != "cpu" or not info.exists():
        return True
    wanted = {"bfloat16": r"avx512_bf16|amx_bf16|\bbf16\b", "float16": r"avx512_fp16|amx_fp16|\bfphp\b"}[precision]
    return re.search(wanted, info.read_text()) is not None


def machine(device: torch.device, since: int | None = None) -> Values:
    """`kernels`: whether compiled kernels are on, or, with `since`, whether any has run since `kernel_calls` was
    that."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else processor()
    kernels = native.status()
    used = kernels.on and device.type == "cpu" if since is None else kernel_calls() > since
    facts = {"device": device.type, "processor": name, "threads": torch.get_num_threads(), "torch": torch.__version__}
    return facts | {"kernels": used, "instructions": kernels.instructions if used else None}


def kernel_calls() -> int:
    """How often a compiled kernel has run in this process."""
    return native.calls()


def usable(name: str, what: str) -> torch.device:
    try:
        device = torch.empty(0, device=name).device
    except (RuntimeError, AssertionError):
        device = None
    if device is None or device.type == "meta":  # which computes nothing
        raise ValueError(f"{what} {name} cannot be used here: choose cpu, or leave it out")
    return device


def in_words(facts: Values) -> str:
    count = facts["threads"]
    return f"{facts['processor']}, {count} thread{'' if count == 1 else 's'}, torch {facts['torch']}"
