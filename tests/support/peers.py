"""Models of vit-pytorch and transformers, and their weights under our names."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.support.attentions import distance

Weights = dict[str, Tensor]
found = importlib.util.find_spec("vit_pytorch")
needs_vit_pytorch = pytest.mark.skipif(found is None, reason="needs vit-pytorch: pip install --no-deps vit-pytorch")


def vit_pytorch(file: str) -> Any:
    assert found is not None
    assert found.submodule_search_locations is not None
    path = Path(found.submodule_search_locations[0]) / f"{file}.py"
    spec = importlib.util.spec_from_file_location(f"vit_pytorch_{file}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def transformers() -> Any:
    """By its name, because pyright takes half a minute for an import statement of it."""
    return importlib.import_module("transformers")


def stirred(model: nn.Module) -> nn.Module:
    """With other numbers than those it starts with, so that no weight is out of sight, and our epsilon."""
    torch.manual_seed(1)
    for name, value in model.state_dict().items():
        if value.is_floating_point():
            value += 0.1 * torch.rand_like(value) if name.endswith("running_var") else 0.1 * torch.randn_like(value)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm) or type(module).__name__ == "LayerNorm":
            module.__dict__["eps"] = 1e-6
    return model.eval()


def moved(theirs: Weights, names: dict[str, str]) -> Weights:
    """Their tensors under our names, by prefix: a module's weight, bias and, of batch norms, statistics."""
    out: Weights = {}
    for ours, prefix in names.items():
        for name, value in theirs.items():
            if name == prefix:
                out[ours] = value
            elif name.startswith(prefix + "."):
                out[ours + name[len(prefix) :]] = value
    return out


def same_scores(ours: Any, theirs: Any, weights: Weights) -> None:
    wanted = ours.state_dict()
    assert set(weights) == set(wanted)
    ours.load_state_dict({name: value.reshape(wanted[name].shape) for name, value in weights.items()})
    images = torch.randn(2, 3, *ours.img_size)
    with torch.no_grad():
        answer = theirs(images)
        answer = getattr(answer, "logits", answer)
        assert answer.std() > 0.05
        assert distance(ours.eval()(images), answer) <= 1e-4
