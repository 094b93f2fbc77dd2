"""A process in which timm can be imported: it asks for torchvision, which torch's build here cannot load.

An empty stand-in has that name there: timm's model code never calls it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PREPARE = """
import sys, types
from importlib.machinery import ModuleSpec

class Anything(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name, (), {})

class StandIn(types.ModuleType):
    __path__ = []
    __getattr__ = Anything.__getattr__

for name in ("torchvision", "torchvision.ops", "torchvision.ops.misc", "torchvision.transforms",
             "torchvision.transforms.functional",
             "torchvision.datasets", "torchvision.models", "torchvision.models.feature_extraction"):
    sys.modules[name] = StandIn(name)
    sys.modules[name].__spec__ = ModuleSpec(name, None, is_package=True)
    if "." in name:
        setattr(sys.modules[name.rpartition(".")[0]], name.rpartition(".")[2], sys.modules[name])

import timm, torch
import vixformer as vix
from timm.models import create_model
torch.manual_seed(0)
x = torch.randn(2, 3, 32, 32)
vit = lambda **o: create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=4, num_classes=7, **o).eval()
"""
ANSWER = """
import contextlib, io, json, traceback
for line in sys.stdin:
    torch.manual_seed(0)
    said = ""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            exec(json.loads(line), dict(globals()))
        except BaseException:
            said = traceback.format_exc()
    print(json.dumps(said), flush=True)
"""


@contextmanager
def process_with_timm() -> Iterator[Callable[[str], None]]:
    """What runs code there, all of it in one process: importing torch and timm takes seconds."""
    command = [sys.executable, "-W", "ignore", "-c", PREPARE + ANSWER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        asked, answered = process.stdin, process.stdout
        assert asked is not None
        assert answered is not None

        def run(code: str) -> None:
            print(json.dumps(code), file=asked, flush=True)
            complaint = json.loads(answered.readline())
            assert not complaint, complaint[-2000:]

        yield run
        asked.close()
