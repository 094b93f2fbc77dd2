"""Every module can be imported where Unix is not, and whatever another package is like."""

from __future__ import annotations

import subprocess
import sys

IMPORT_ALL = """
import sys
for name in ("resource", "fcntl", "pwd", "grp", "termios", "tty"):
    sys.modules[name] = None
import importlib, pkgutil, vixformer
names = [module.name for module in pkgutil.walk_packages(vixformer.__path__, "vixformer.") if not module.name.endswith("__main__")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""

BROKEN_TIMM = """
import sys, types
class Broken(types.ModuleType):
    __path__ = []
    def __getattr__(self, name):
        raise RuntimeError("timm is broken")
for name in ("timm", "timm.models"):
    sys.modules[name] = Broken(name)
import vixformer
try:
    vixformer.register_timm()
except ValueError as error:
    print(error)
sys.modules["timm"] = None
importlib = __import__("importlib")
importlib.reload(vixformer)
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error::UserWarning", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_without_what_only_unix_has() -> None:
    assert int(run(IMPORT_ALL)) > 100


def test_beside_a_broken_timm() -> None:
    assert run(BROKEN_TIMM) == "timm cannot be imported here: timm is broken\n"
