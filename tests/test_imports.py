"""Every module can be imported where Unix is not, and whatever another package is like."""

from __future__ import annotations

import subprocess
import sys

IMPORT_ALL = """
import sys
for name in ("resource", "fcntl", "pwd", "grp", "termios", "tty"):
    sys.modules[name] = None
import importlib, pkgutil, vixformer
names = [module.name for module in pkgutil.walk_packages(vixformer.__path__, "vixformer.")]
names = [name for name in names if not name.endswith("__main__")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""

BROKEN_TIMM = """
import sys, types
timm, models = types.ModuleType("timm"), types.ModuleType("timm.models")
sys.modules["timm"] = timm
import vixformer
def says():
    try:
        vixformer.register_timm()
    except ValueError as error:
        print(error)
says()
def register_model(function):
    raise RuntimeError("it is broken")
timm.__path__, models.register_model = [], register_model
sys.modules["timm.models"] = models
import importlib
importlib.reload(vixformer)
says()
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error::UserWarning", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_without_what_only_unix_has() -> None:
    assert int(run(IMPORT_ALL)) > 100


def test_beside_a_broken_timm() -> None:
    first, second = run(BROKEN_TIMM).splitlines()
    assert first.startswith("timm cannot be imported here: No module named 'timm.models'")
    assert second == "timm cannot be imported here: it is broken"


OLD_TORCH = """
import torch
later = torch.Tag.needs_exact_strides
del torch.library.register_autocast, torch.Tag.needs_exact_strides
import vixformer as vix
from vixformer.ops import native
torch.Tag.needs_exact_strides = later  # its own compiler needs it
for word in ("softmax", "performer(kernel=relu, features=16)", "nystrom(landmarks=16)"):
    attention, x = vix.create_attention(word, dim=32, num_heads=2, num_tokens=20), torch.randn(2, 20, 32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        attention(x).float().sum().backward()
    eager, calls = attention(x), native.calls()
    compiled = torch.compile(attention, backend="aot_eager")(x)
    assert native.calls() == calls, "compiled without kernels"
    assert torch.allclose(compiled, eager, atol=1e-5), word
"""


def test_a_torch_that_lacks_later_additions_runs_everything() -> None:
    """torch 2.5 to 2.7 have no exact strides, and until 2.6 no autocast rules for operations."""
    found = subprocess.run([sys.executable, "-W", "ignore", "-c", OLD_TORCH], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
