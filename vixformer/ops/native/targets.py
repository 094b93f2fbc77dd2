"""The kernels that a wheel brings, best first: what compiles each of them, and which processors run it."""

from __future__ import annotations

import functools
import platform
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Target:
    machine: str
    flags: tuple[str, ...]
    needs: frozenset[str]
    """Words of /proc/cpuinfo."""


_AVX2 = frozenset(["avx2", "fma", "bmi1", "bmi2", "f16c", "abm", "movbe"])
_AVX512 = _AVX2 | frozenset(["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"])
TARGETS = {
    "avx512-bf16": Target("x86_64", ("-march=x86-64-v4", "-mavx512bf16"), _AVX512 | frozenset(["avx512_bf16"])),
    "avx512": Target("x86_64", ("-march=x86-64-v4",), _AVX512),
    "avx2": Target("x86_64", ("-march=x86-64-v3",), _AVX2),
    "neon": Target("aarch64", ("-march=armv8-a",), frozenset()),  # all of them have it
}


def processor() -> str:
    """What tells processors apart: their flags, where they are known."""
    info = Path("/proc/cpuinfo")
    flags = (
        [line for line in info.read_text().splitlines() if line.startswith(("flags", "Features"))]
        if info.exists()
        else []
    )
    return flags[0] if flags else platform.processor()


@functools.cache
def vendor() -> str:
    """Who made the processor, as it says itself; nothing where that is not known."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("vendor_id")), "")


def possible() -> list[str]:
    """Names of targets that this processor runs, best first."""
    flags = set(processor().split())
    return [name for name, target in TARGETS.items() if target.machine == platform.machine() and target.needs <= flags]
