"""What every backbone can do: classify, give features, change its classifier, be stored and come back the same."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

import torch
from pydantic import Field, NonNegativeInt, PositiveInt
from safetensors import SafetensorError
from safetensors.torch import load_file, save_model
from torch import Tensor, nn
from typing_extensions import Self

from vixformer import hub
from vixformer.attention.base import Core
from vixformer.attention.layout import MOST_LAYERS, parse, print_layers
from vixformer.attention.project.projection import Attention, Mixing, mechanism_of
from vixformer.backbones.as_timm import AsTimm
from vixformer.jsonfile import Values, read_json
from vixformer.nn.block import Block
from vixformer.nn.dense import Linear
from vixformer.nn.pooling import Pooling
from vixformer.ops import Grid
from vixformer.plugins import is_foreign, missing, source_of
from vixformer.registry import Configured, Named, Settings, checked, stated
from vixformer.room import MOST_PIXELS, Room, memory
from vixformer.writing import cannot_write, whole

Rate = Annotated[float, Field(ge=0.0, lt=1.0)]
Sizes = Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
"""One number a stage, or layer."""
ImageSize = PositiveInt | tuple[PositiveInt, PositiveInt]

SPARE = 64 * 2**20
"""Bytes for tensors that a model computes when it is built and does not store."""
NO_ATTENTION = "none"
"""What a backbone without attention says where others have a layout."""
CONFIG_FILE, WEIGHTS_FILE, BEST = "config.json", "model.safetensors", "best"
"""`BEST` is the folder of a run that its model is in."""
IMPORTS = "imports"
"""Key of a configuration that names the modules outside this package that define parts of the model. They are never
imported from it."""


@dataclass(frozen=True, kw_only=True)
class BackboneConfig(Settings):
    owner: ClassVar[type[Backbone]]
    dropout: ClassVar[tuple[str, ...]] = ()
    """Its fields that change training and no weight."""

    attention: str = "softmax"
    """Attention of all layers, as a layout expression."""
    img_size: ImageSize | None = None
    """Side of the images, or height and width, in pixels. Left out: that of the data set, or 32."""
    in_chans: PositiveInt | None = None
    """Number of color channels. Left out: that of the data set, or 3."""
    num_classes: NonNegativeInt | None = None
    """Number of classes. Left out: that of the data set, or 10."""

    def __post_init__(self) -> None:
        layers = sum(self.stage_depths)
        if layers > MOST_LAYERS:
            raise ValueError(f"a model has at most {MOST_LAYERS} layers, not {layers}: give a smaller depth")
        height, width = (self.img_size,) * 2 if isinstance(self.img_size, int) else self.img_size or (1, 1)
        if height * width > MOST_PIXELS:
            raise ValueError(
                f"img_size = {height} x {width} is more than the {MOST_PIXELS:,} pixels that an image may have: make it"
                " smaller"
            )

    @property
    def stage_depths(self) -> tuple[int, ...]:
        """Layers with attention in every stage; none of a model without attention."""
        return ()

    def filled(self, img_size: ImageSize = 32, in_chans: int = 3, num_classes: int = 10) -> Self:
        """What was left out, put in."""
        given = {"img_size": self.img_size, "in_chans": self.in_chans, "num_classes": self.num_classes}
        found = {"img_size": img_size, "in_chans": in_chans, "num_classes": num_classes}
        return replace(self, **{name: found[name] if value is None else value for name, value in given.items()})


class Backbone(AsTimm, Configured, family="model"):
    """Images (B, C, height, width) -> class scores (B, num_classes)."""

    Config: ClassVar[type[BackboneConfig]] = BackboneConfig
    config: BackboneConfig
    variants: ClassVar[dict[str, Values]] = {}
    """Published sizes: a name and the options that differ from the defaults."""
    stages: Iterable[nn.Module]
    norm: nn.Module
    pool: Pooling
    head: nn.Module

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.config = config = config.filled()
        # filled in
        assert config.img_size is not None and config.in_chans is not None and config.num_classes is not None
        self.img_size = (config.img_size, config.img_size) if isinstance(config.img_size, int) else config.img_size
        self.in_chans, self.num_classes = config.in_chans, config.num_classes
        if type(config).attention != NO_ATTENTION:
            self.layout = parse(config.attention)

    def run(self, x: Tensor) -> Iterator[tuple[Tensor, Grid]]:
        """Tokens (B, P + N, D) after each block, and the grid that the last N lie on."""
        raise NotImplementedError

    def forward_features(self, x: Tensor) -> Tensor:
        """Tokens (B, P + N, D) after the last block, normalized."""
        last = x
        for tokens, _ in self.run(x):
            last = tokens
        return self.norm(last)

    def forward_maps(self, x: Tensor) -> list[Tensor]:
        """The image as seen after each block, (B, D, height, width); for detection and segmentation."""
        return [
            tokens[:, tokens.shape[1] - h * w :].transpose(1, 2).unflatten(-1, (h, w)) for tokens, (h, w) in self.run(x)
        ]

    def forward_head(self, x: Tensor) -> Tensor:
        return self.head(self.pool(x))

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(x))

    def make_head(self, num_classes: int) -> nn.Module:
        """A fresh classifier, which `self.head` holds. Zero classes: the pooled vector itself."""
        return Linear(self.pool.out_dim, num_classes) if num_classes else nn.Identity()

    def reset_classifier(self, num_classes: int) -> None:
        """A fresh classifier for other classes."""
        values = {**vars(self.config), "num_classes": num_classes}
        self.config = checked(type(self.config), values, "reset_classifier")
        self.num_classes = num_classes
        like = next(self.parameters())
        self.head = self.make_head(num_classes).train(self.training).to(like.device, like.dtype)

    def no_weight_decay(self) -> set[str]:
        """Parameters that weight decay should leave alone: vectors and tokens, as is customary, and everything learned
        inside a core."""
        inside = {f"{name}." for name, module in self.named_modules() if isinstance(module, Core)}
        return {
            name
            for name, p in self.named_parameters()
            if p.dim() <= 1 or name.endswith(("cls_token", "pos.embed")) or name.startswith(tuple(inside))
        }

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """In training, keep only the tokens between blocks for backward, which computes each block again."""
        blocks = [module for module in self.modules() if isinstance(module, Block)]
        if enable and not blocks:
            raise ValueError(f"{self.name} has no transformer blocks, so gradient checkpointing has nothing to save")
        for block in blocks:
            block.checkpointed = enable

    def attentions(self) -> list[Attention | Mixing]:
        """The attention of every block, in order."""
        return [module for module in self.modules() if isinstance(module, Attention | Mixing)]

    @property
    def heads(self) -> list[int]:
        """The numbers of heads that its layers have, each once."""
        return list(dict.fromkeys(mechanism_of(module).shape.num_heads for module in self.attentions()))

    def block_weights(self) -> set[str]:
        """Names of the weights inside its stages."""
        inside = {id(tensor) for stage in self.stages for tensor in (*stage.parameters(), *stage.buffers())}
        return {name for name, tensor in self.state_dict(keep_vars=True).items() if id(tensor) in inside}

    @torch.no_grad()
    def attention_inputs(self, x: Tensor) -> list[tuple[Attention | Mixing, Tensor, Values]]:
        """For images, what the attention of every block gets: the module, its tokens and its options."""
        seen: list[tuple[Attention | Mixing, Tensor, Values]] = []

        def note(module: Attention | Mixing, args: tuple[Tensor, ...], options: Values, _: Tensor) -> None:
            seen.append((module, args[0], options))

        hooks = [module.register_forward_hook(note, with_kwargs=True) for module in self.attentions()]
        training = self.training
        try:
            self.eval()(x)  # looking must not change what batch norms remember
        finally:
            self.train(training)
            for hook in hooks:
                hook.remove()
        return seen

    @torch.no_grad()
    def attention_maps(self, x: Tensor) -> list[Tensor | None]:
        """For images, the map (B, H, N, keys) of every block, None where a block has no q and k. Quadratic, so for
        small N."""
        seen = self.attention_inputs(x)
        training = self.training
        self.eval()
        maps: list[Tensor | None] = [
            module.attention_map(tokens, **options) if isinstance(module, Attention) else None
            for module, tokens, options in seen
        ]
        self.train(training)
        return maps

    def attention_expression(self) -> str:
        """The layout as it was expanded, one term a layer."""
        return print_layers([mechanism_of(module).config for module in self.attentions()]) or NO_ATTENTION

    def spelled_out(self) -> BackboneConfig:
        """The configuration with what one option says of several layers written at each of them."""
        return self.config

    def check_images(self, x: Tensor) -> None:
        if not x.is_floating_point():
            raise ValueError(
                f"images must be floating-point numbers, normalized as the model was trained, not {x.dtype}"
            )
        if x.dim() != 4 or x.shape[1] != self.in_chans:
            raise ValueError(
                f"images must have the shape (batch, {self.in_chans}, height, width), not {tuple(x.shape)}"
            )

    def save_pretrained(self, folder: str | Path) -> None:
        """`config.json` and `model.safetensors` in a folder, each written whole or not at all."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        values = {**stated(self.config), "attention": self.attention_expression()}
        if needed := sorted(
            {source_of(type(m).__module__) for m in self.modules() if isinstance(m, Named) and is_foreign(type(m))}
        ):
            values[IMPORTS] = needed
        try:
            with whole(folder / CONFIG_FILE) as config, whole(folder / WEIGHTS_FILE) as weights:  # both or neither
                config.write_text(json.dumps({"model": self.name, **values}, indent=2) + "\n")
                save_model(self, str(weights))
        except SafetensorError as error:
            raise cannot_write(folder / WEIGHTS_FILE, error) from None


def from_pretrained(folder: str | Path) -> Backbone:
    """The model stored in a folder by `save_pretrained`, that of a run, or of the Hugging Face hub as "owner/name", in
    evaluation mode."""
    folder = hub.here(folder)
    folder = folder / BEST if (folder / BEST / CONFIG_FILE).exists() else folder
    if not (folder / CONFIG_FILE).exists():
        raise ValueError(
            f"{folder} has no model: give a run folder, a folder with {CONFIG_FILE} and its weights, or owner/name of"
            " the hub"
        )
    name, values = read_config(folder)
    needed, weights = values.pop(IMPORTS, []), folder / WEIGHTS_FILE
    stored = _stored(weights)
    most = SPARE + 4 * 4 * sum(tensor.numel() for tensor in stored.values())
    try:
        backbone = Backbone.member(name)
        config = checked(backbone.Config, values, str(folder / CONFIG_FILE))
        with Room(
            most, f"{folder / CONFIG_FILE} describes a model far larger than the weights beside it: copy both again"
        ):
            model = backbone(config)
    except ValueError as error:
        raise ValueError(f"{error}{missing(needed)}") from None
    _load_weights(model, stored, weights)
    return model.eval()


def read_config(folder: Path) -> tuple[str, Values]:
    """The backbone's name and its options."""
    path = folder / CONFIG_FILE
    values = read_json(path)
    if (
        not isinstance(values, dict)
        or not isinstance(values.get("model"), str)
        or not isinstance(values.get("attention"), str)
    ):
        raise ValueError(
            f"{path} is not a model's configuration as save_pretrained writes it: it needs the keys model and attention"
        )
    return values.pop("model"), values


def build(config: BackboneConfig, share: float = 1.0) -> Backbone:
    """A model with fresh weights, unless they need more than this share of the memory."""
    most = int(share * memory())
    refusal = (
        f"this {config.owner.name} is too large: its weights need more than {most / 2**30:.1f} GiB, "
        + (f"which is {share:.0%} of this machine's memory" if share < 1 else "which is all of this machine's memory")
        + "; give smaller widths, depths, images or numbers of features"
    )
    with Room(most, refusal):
        return config.owner(config)


def _stored(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path} is missing, damaged or cut short, copy it again: {error}") from None


def _load_weights(model: nn.Module, stored: dict[str, Tensor], path: Path) -> None:
    wanted = model.state_dict()
    storages = {name: tensor.data_ptr() for name, tensor in wanted.items()}
    present = {storages[name] for name in stored if name in storages}
    # A weight that several layers share is stored once, under one of its names.
    missing = [name for name in wanted if name not in stored and storages[name] not in present]
    extra = [name for name in stored if name not in wanted]
    other = [name for name in stored if name in wanted and stored[name].shape != wanted[name].shape]
    for what, names in (("lacks", missing), ("has the unknown", extra), ("has another shape of", other)):
        if names:
            raise ValueError(
                f"{path} does not fit the config.json beside it: it {what}"
                f" {', '.join(names[:3])}{' ...' if names[3:] else ''}"
            )
    dtypes = {tensor.dtype for tensor in stored.values() if tensor.is_floating_point()}
    if len(dtypes) == 1:
        model.to(dtypes.pop())
    model.load_state_dict(stored, strict=False)
