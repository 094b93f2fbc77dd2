"""Costs that are counted, and so the same on every machine: parameters, multiply-adds, bytes kept for backward."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import FlopCounterMode

from vixformer import ops
from vixformer.attention.base import Mechanism, Mixer
from vixformer.attention.layout import print_layer
from vixformer.attention.project.projection import Attention
from vixformer.backbones.backbone import Backbone
from vixformer.jsonfile import Values


@dataclass(frozen=True)
class Parameters:
    """`modules` leaves out bare parameters (class token, positions, Linformer's matrices), as "Vision Xformers"
    counts."""

    all: int
    modules: int


def parameters(model: nn.Module) -> Parameters:
    named = dict(model.named_parameters())  # a shared parameter once
    counted = [p.numel() for name, p in named.items() if name.rpartition(".")[2] in ("weight", "bias")]
    return Parameters(sum(p.numel() for p in named.values()), sum(counted))


def weight_bytes(model: nn.Module) -> int:
    """Of parameters and stored buffers, each once: what the weights take on disk but for a header."""
    return sum({t.data_ptr(): t.numel() * t.element_size() for t in model.state_dict().values()}.values())


def torchsummary_bytes(model: Backbone) -> int:
    """What torchsummary calls the estimated total size, "Vision Xformers"' column: input, twice the output of every
    module, weights.

    It takes everything for float32 and leaves out bare parameters, as its count of parameters does.
    """
    outputs = 0

    def add(_: nn.Module, __: object, out: object) -> None:
        nonlocal outputs
        outputs += out.numel() if isinstance(out, Tensor) else 0

    model = copy.deepcopy(model).eval()
    for module in model.modules():
        if module is not model and not isinstance(module, nn.Sequential | nn.ModuleList):
            module.register_forward_hook(add)
    image = one_image(model)
    with torch.no_grad():
        model(image)
    return 4 * (image.numel() + 2 * outputs + parameters(model).modules)


def multiply_adds(module: nn.Module, *inputs: object, **options: object) -> int:
    """Of one forward pass, by torch's counter, on the meta device, where it also sees fused attention; what it cannot
    see, as declared."""
    module = copy.deepcopy(module).to("meta").eval()
    inputs, options = tree_map(lambda x: x.to("meta") if isinstance(x, Tensor) else x, (inputs, options))
    unseen = 0

    def add(mixer: Mixer, args: tuple[Tensor, ...], _: Tensor) -> None:
        nonlocal unseen
        unseen += args[0].shape[0] * mixer.macs(args[0].shape[-2])

    for mixer in module.modules():
        if isinstance(mixer, Mechanism) and mixer.by_formula:
            mixer.register_forward_hook(add)
    with ops.portable(), torch.no_grad(), FlopCounterMode(display=False) as counter:
        module(*inputs, **options)
    return counter.get_total_flops() // 2 + unseen


class _Storages(TorchDispatchMode):
    """Notes the storage of every tensor made, without keeping any alive. Views of what was there before are not
    made."""

    def __init__(self) -> None:
        super().__init__()
        self.given: set[int] = set()
        self.made: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(
        self, func: Callable[..., object], types: object, args: tuple[object, ...] = (), kwargs: Values | None = None
    ) -> object:
        self.given |= {storage._cdata for storage in _storages((args, kwargs))} - self.made.keys()
        out = func(*args, **(kwargs or {}))
        for storage in _storages(out):
            if storage._cdata not in self.given:
                self.made[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        return out


def _storages(tree: object) -> list[torch.UntypedStorage]:
    return [leaf.untyped_storage() for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def bytes_kept(forward: Callable[..., Tensor], *inputs: Tensor) -> int:
    """What is still in memory after a forward pass, only because backward will need it. Inputs and parameters do not
    count.

    By operations of torch, so that every machine counts the same.
    """
    with ops.portable(), torch.enable_grad(), _Storages() as storages:
        loss = forward(*inputs).sum()
    kept = sum(size for ref, size in storages.made.values() if not ref.expired())
    return kept - loss.untyped_storage().nbytes()


def bytes_saved(module: nn.Module, x: Tensor) -> int:
    """The same, as it runs on this machine: compiled kernels may keep less than operations of torch."""
    held: dict[int, int] = {}

    def pack(t: Tensor) -> Tensor:
        held[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = module(x)
    own = {t.untyped_storage().data_ptr() for t in (x, *module.parameters(), *module.buffers())}
    del out
    return sum(size for at, size in held.items() if at not in own)


@dataclass(frozen=True)
class LayerCost:
    layer: int
    attention: str
    tokens: int
    parameters: int
    multiply_adds: int
    """Of the attention with its projections, an image."""
    core_multiply_adds: int
    """Of the mechanism alone."""
    bytes_kept: int


def layer_costs(model: Backbone) -> list[LayerCost]:
    """What the attention of each block costs for one image of the size the model was built for."""
    model = copy.deepcopy(model).eval()  # what is measured stays as it was
    costs = []
    for i, (module, tokens, options) in enumerate(model.attention_inputs(one_image(model))):
        mechanism = module.core if isinstance(module, Attention) else module.mixer
        count = tokens.shape[1]
        core = mechanism.macs(count)
        # keys may be fewer than tokens, and values wider
        if isinstance(module, Attention) and not mechanism.by_formula:
            grid = options.get("grid") if module.keeps_grid else None
            core = multiply_adds(mechanism, *module.heads(tokens, **options), None, grid)
        kept = bytes_kept(
            lambda x, module=module, options=options: module(x, **options), tokens.clone().requires_grad_()
        )
        costs.append(
            LayerCost(
                i,
                print_layer(mechanism.config),
                count,
                parameters(module).all,
                multiply_adds(module, tokens, **options),
                core,
                kept,
            )
        )
    return costs


@dataclass(frozen=True)
class ModelCost:
    tokens: int
    parameters: Parameters
    multiply_adds: int
    bytes_kept: int


def model_cost(model: Backbone) -> ModelCost:
    """For one image of the size the model was built for. In evaluation mode, because a batch norm cannot train on
    one."""
    model = copy.deepcopy(model).eval()
    image = one_image(model)
    return ModelCost(most_tokens(model), parameters(model), multiply_adds(model, image), bytes_kept(model, image))


def most_tokens(model: Backbone) -> int:
    """Of the layer that has the most; without attention none."""
    return max((tokens.shape[1] for _, tokens, _ in model.attention_inputs(one_image(model))), default=0)


def one_image(model: Backbone) -> Tensor:
    like = next(model.parameters())
    return torch.randn(1, model.in_chans, *model.img_size, device=like.device, dtype=like.dtype)
