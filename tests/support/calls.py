"""Random calls of the compiled kernels, forward and backward: odd sizes and strides, NaN and infinities, nothing at
all.

`python -m tests.support.calls FROM TO` makes the calls with these numbers; the slow tests do so with kernels
compiled for the address and undefined-behavior sanitizers of gcc.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vixformer import create_attention
from vixformer.attention.project.projection import Attention
from vixformer.ops import native
from vixformer.ops.affine import Affine
from vixformer.ops.native import build
from vixformer.ops.tokenwise import Gelu, LayerNorm

CALLS, AT_ONCE = 2000, 40
WORDS = [
    "softmax",
    "softmax(conv=3)",
    "linformer(rank=8)",
    "linformer(rank=16, share=none)",
    "linformer(rank=24, share=kv)",
    "nystrom(landmarks=16)",
    "nystrom(landmarks=16, conv=none, iterations=1)",
    "nystrom(landmarks=32, conv=5, iterations=3)",
    "performer(kernel=relu, features=24)",
    "performer(kernel=relu, features=none, total_eps=0.01)",
    "performer(kernel=softmax, features=17)",
    "performer(kernel=softmax, features=64, eps=0)",
    "performer(kernel=gaussian, features=16)",
    "performer(kernel=exp, features=40, eps=0)",
    "lens",
    "lens(conv=5)",
    "lens(look=conv)",
    "prism",
    "prism(end=relu, conv=none)",
    "fourier",
    "hedgehog",
    "focused",
    "focused(power=2)",
    "cosine",
    "performer(kernel=gelu, features=13)",
    "performer(kernel=elu, features=13)",
    "performer(kernel=matrix, features=13)",
    "performer(kernel=mlp)",
    "performer(kernel=mlp, features=48)",
    "performer(kernel=taylor)",
    "performer(kernel=matrix, features=none)",
    "performer(kernel=prototypes, features=13)",
    "performer(kernel=cosh, features=13)",
    "performer(kernel=exp, features=13, learned=true)",
]
POISON = (torch.nan, torch.inf, -torch.inf, 3e38, 1e-42)


class Call:
    """One call, all of it drawn from its number."""

    def __init__(self, number: int) -> None:
        self.draw = random.Random(number)
        torch.manual_seed(number)
        draw = self.draw
        self.word = draw.choice(WORDS)
        self.heads, self.width = draw.randint(1, 4), draw.choice([16, 16, 16, 32, 48, 8, 5])
        self.n = draw.choice([0, 1, 2, 15, 16, 17, 31, 33, 47, 64, 95, 96, 97, 193, draw.randint(1, 400)])
        self.batch = draw.choice([0, 1, 1, 2, 3, 5])
        self.wild = draw.random() < 0.4
        self.dtype = draw.choice([torch.float32] * 4 + [torch.bfloat16] * 4 + [torch.float16])
        rows = draw.randint(1, max(1, self.n))
        self.grid = draw.choice(
            [None] * 4 + [(rows, max(1, self.n // rows))] * 5 + [(1, max(1, self.n))] * 2 + [(rows + 1, self.n + 1)]
        )
        self.module: Any = create_attention(
            self.word, dim=self.heads * self.width, num_heads=self.heads, num_tokens=draw.choice([max(1, self.n), 401])
        )

    def tensor(self, *shape: int) -> Tensor:
        """Of this shape, with some strides and some values."""
        draw, last = self.draw, len(shape) - 1
        kind = draw.choice(["plain", "plain", "swapped", "turned", "expanded", "sliced", "strided"])
        if kind == "swapped":
            x = torch.randn((*shape[:-3], shape[-2], shape[-3], shape[-1])).transpose(-2, -3)
        elif kind == "turned":
            x = torch.randn(*shape[:-2], shape[-1], shape[-2]).transpose(-1, -2)
        elif kind == "expanded":
            alone = draw.randrange(last + 1)
            x = torch.randn([1 if i == alone else size for i, size in enumerate(shape)]).expand(shape)
        elif kind == "sliced":
            before = [draw.randint(0, 3) for _ in shape]
            x = torch.randn([size + a + 2 for size, a in zip(shape, before, strict=True)])
            x = x[tuple(slice(a, a + size) for size, a in zip(shape, before, strict=True))]
        elif kind == "strided":
            x = torch.randn(*shape[:-1], 3 * shape[-1])[..., ::3]
        else:
            x = torch.randn(shape)
        if self.wild:
            size = draw.choice([1.0, 1.0, 1e3, 1e19, 0.0])
            x = x if size == 1 else x * size
            for _ in range(draw.randint(0, 3)):
                if x.numel():
                    x[tuple(draw.randrange(size) for size in shape)] = draw.choice(POISON)
        return x.to(self.dtype).detach()

    def inputs(self) -> list[Tensor]:
        draw, b, n = self.draw, self.batch, self.n
        if not isinstance(self.module, Attention) or draw.random() < 0.2:
            return [self.tensor(b, n, self.heads * self.width)]
        odd = draw.choice([None] * 20 + ["heads", "width", "keys", "values", "batch", "rank"])
        keys = n if self.module.core.square or draw.random() < 0.6 else draw.choice([0, 1, 7, 16, 50, 130])
        h, k = self.heads, self.width
        q = self.tensor(b, h + (odd == "heads"), n, k + (odd == "width"))
        q = q[..., 0] if odd == "rank" else q
        return [q, self.tensor(b + (odd == "batch"), h, keys, k), self.tensor(b, h, keys + (odd == "values"), k)]

    def target(self, inputs: list[Tensor]) -> Any:
        return self.module if len(inputs) == 1 else self.module.core

    def run(self) -> bool:
        """Whether the kernels, or torch, took it; bad sizes get a sentence."""
        inputs = [t.requires_grad_(self.draw.random() < 0.8) for t in self.inputs()]
        self.module.to(self.dtype if self.draw.random() < 0.5 or len(inputs) == 1 else torch.float32)
        options: dict[str, Any] = {} if self.grid is None else {"grid": self.grid}
        if len(inputs) == 1 and isinstance(self.module, Attention) and self.width % 2 == 0 and self.draw.random() < 0.5:
            size = self.draw.choice(
                [(self.n, self.width // 2)] * 3 + [(self.n + 1, self.width // 2), (1, self.width // 2), (self.n, 4)]
            )
            options["rotation"] = torch.randn(size), torch.randn(size)
        if isinstance(self.module, Attention) and self.draw.random() < 0.2:
            options["mask"] = torch.rand(inputs[0].shape[0], inputs[-1].shape[-2]) < self.draw.choice([0.0, 0.5, 1.0])
        try:
            out = self.target(inputs)(*inputs, **options)
        except ValueError:
            return False
        assert out.shape == (inputs[0].shape if len(inputs) == 1 else inputs[0].shape[:3] + inputs[2].shape[3:])
        learned = [t for t in (*inputs, *self.module.parameters()) if t.requires_grad]
        grads: tuple[Tensor | None, ...] = ()
        if out.requires_grad:
            grads = torch.autograd.grad(out, learned, self.tensor(*out.shape), allow_unused=True)
        if not self.wild:  # what nobody wrote is NaN here
            assert out.isfinite().all()
            assert all(g is None or g.isfinite().all() for g in grads)
        return True


def linear(number: int) -> None:
    """A linear layer of any size, forward and backward."""
    draw = random.Random(number)
    m, (k, n) = draw.choice([0, 1, 2, 13, 95, 96, 97, 255, 257, 513]), (16 * draw.randint(1, 5) for _ in range(2))
    k, n = draw.choice([(k, n)] * 8 + [(528, n), (k, 528)])
    wild = draw.random() < 0.3
    dtype = draw.choice([torch.float32, torch.bfloat16])
    size = draw.choice(POISON) if wild else 1.0
    x, weight, grad = (torch.randn(s).mul_(size).to(dtype) for s in ((m, k), (n, k), (m, n)))
    made = [Affine.op(x, weight, torch.randn(n) if draw.random() < 0.5 else None)]
    made += Affine.backward_op(*(t if draw.random() < 0.8 else None for t in (x, weight)), grad)
    assert wild or all(t.isfinite().all() for t in made)


def tokenwise(number: int) -> None:
    """GELU and layer norm of any size, forward and backward."""
    draw = random.Random(number)
    rows, width = draw.choice([0, 1, 2, 13, 96, 129]), 16 * draw.randint(1, 5)
    wild = draw.random() < 0.3
    size, dtype = draw.choice(POISON) if wild else 1.0, draw.choice([torch.float32, torch.bfloat16])
    x, grad = (torch.randn(rows, width).mul_(size).to(dtype) for _ in range(2))
    scale, shift = torch.randn(2, width)
    out, stats = LayerNorm.op(x, scale, shift, 1e-5)
    made = [out, stats, *LayerNorm.backward_op(x, scale, shift, stats, 1e-5, grad)]
    odd = x.flatten()[draw.randint(0, 3) :]
    made += [Gelu.op(odd), Gelu.backward_op(odd, torch.randn(odd.shape).to(dtype))]
    assert wild or all(t.isfinite().all() for t in made)


def run(numbers: range) -> int:
    """How many of the calls were taken."""
    deterministic = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)  # fills fresh memory with NaN
    try:
        taken = 0
        for number in numbers:
            try:
                taken += Call(number).run()
                linear(number)
                tokenwise(number)
            except Exception as error:
                raise AssertionError(f"call {number}: {type(error).__name__}: {error}") from error
        return taken
    finally:
        torch.use_deterministic_algorithms(deterministic)


SANITIZERS = (
    "-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all"
    " -ftrivial-auto-var-init=pattern"
)


def sanitized(numbers: range, cache: Path, sources: Path = build.HERE) -> subprocess.CompletedProcess[str]:
    """These calls in a process of their own, of kernels with sanitizers."""
    found = {
        name: subprocess.check_output(["gcc", f"-print-file-name={name}"], text=True).strip()
        for name in ("libasan.so", "libstdc++.so")
    }
    environment = {
        **os.environ,
        "CC": "gcc",
        "VIX_NATIVE": "1",
        "VIX_NATIVE_FLAGS": SANITIZERS,
        "XDG_CACHE_HOME": str(cache),
        "LD_PRELOAD": " ".join(found.values()),
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", __name__, str(numbers.start), str(numbers.stop), str(sources)]
    return subprocess.run(command, env=environment, cwd=Path(__file__).parents[2], capture_output=True, text=True)


def main() -> None:
    first, end, sources = sys.argv[1:]
    build.SOURCES[:] = [Path(sources) / path.name for path in build.SOURCES]
    build.HERE = Path(sources)
    assert native.library() is not None, "no kernels"
    print(run(range(int(first), int(end))), "taken")


if __name__ == "__main__":
    main()
