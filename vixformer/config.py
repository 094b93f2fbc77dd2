"""What to run: a recipe is data, model and training, in frozen dataclasses that read, write, check and override
themselves."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from vixformer.backbones.backbone import Backbone, BackboneConfig, build
from vixformer.backbones.vit import ViT
from vixformer.data.dataset import TEST_SPLIT, DataSet, Images, open_data
from vixformer.jsonfile import Values, read_json
from vixformer.models import model_config
from vixformer.options import Means
from vixformer.plugins import missing, used_in
from vixformer.registry import Named, checked, later, stated, unknown
from vixformer.room import MOST_PIXELS

FINE_TUNING = 0.3
"""The rate that fine-tunes a trained model, as a part of the rate that it was trained at."""
WEIGHTS_SHARE = 0.25
"""Share of the memory. Training needs as much again for gradients, and twice as much for the moments of the
optimizer."""
FOLDER = "folder"
"""The data set that is a folder of images."""
Share = Annotated[float, Field(gt=0.0, le=1.0)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
"""The range that NumPy accepts."""
PartShare = Annotated[float, Field(ge=0.0, lt=1.0)]


@dataclass(frozen=True, kw_only=True)
class Data:
    name: str = "fashion-mini"
    """A data set of `vix data list`, or hub:owner/name."""
    root: str | None = None
    """Folder of its files. Left out: $VIX_DATA, or else ~/.cache/vix/data."""
    target: str = later("")
    """Column of a CSV or Parquet file with the number that the model predicts (regression), instead of classes."""
    fraction: Share = 1.0
    """Stratified part of the training images to use, for quick experiments."""
    test_split: Annotated[float, Field(gt=0.0, lt=1.0)] = later(TEST_SPLIT)
    """Share of each class that is set apart for testing, if a folder of images has no test folder."""
    test_fraction: Share = 1.0
    """Stratified part of the test images to use, if a test on all of them takes too long."""
    val_fraction: PartShare = 0.1
    """Stratified part of the training images that is held out for validation and chooses the epoch."""
    folds: Annotated[int, Field(ge=2)] | None = None
    """Number of stratified folds, instead of val_fraction; `fold` says which one validates."""
    fold: NonNegativeInt = 0
    """Fold that validates, counted from 0."""
    split_seed: Seed = 0
    """Random seed of the split into training and validation images."""
    gray: bool = later(False)
    """Read the images of a folder in gray, for models that were trained on gray images."""
    resize: PositiveInt | None = None
    """Resize images to this side, in pixels, before anything else."""
    crop: NonNegativeInt = 0
    """Augmentation: random shift by up to this number of pixels, filled with zeros."""
    flip: bool = False
    """Augmentation: mirror half of the images."""
    rotate: Annotated[float, Field(ge=0.0, le=180.0)] = 0.0
    """Augmentation: random rotation by up to this number of degrees."""
    interpolation: Literal["bilinear", "nearest"] = later("bilinear")
    """Interpolation between pixels, for rotate."""
    cutout: NonNegativeInt = 0
    """Augmentation: a black square of this side at a random place in each image."""
    crop_scale: tuple[Share, Share] | None = later(None)
    """Augmentation: cut a random box out of each image and resize it to the image; smallest and largest share of the
    area, such as 0.08 1."""
    rand_augment: Annotated[int, Field(ge=0, le=10)] = later(0)
    """Augmentation: RandAugment with this number of operations on each image; 2 is customary."""
    magnitude: Annotated[float, Field(ge=0, le=30)] = later(9.0)
    """Strength of rand_augment, up to 30."""
    auto_augment: Literal["cifar"] | None = later(None)
    """Augmentation: AutoAugment with the policy that was found for CIFAR-10."""
    color_jitter: Annotated[float, Field(ge=0, le=1)] = later(0.0)
    """Augmentation: multiply brightness, contrast and saturation by random factors that differ from 1 by up to this."""
    erase: Annotated[float, Field(ge=0, le=1)] = later(0.0)
    """Augmentation: share of the images in which a random box is erased."""
    mixup: NonNegativeFloat = later(0.0)
    """Augmentation: mix pairs of images and their labels; parameter of the Beta distribution, such as 0.8."""
    cutmix: NonNegativeFloat = later(0.0)
    """Augmentation: paste a box of another image, and mix the labels; parameter of the Beta distribution, such as 1.
    With mixup as well, each batch takes one of the two."""
    repeats: PositiveInt = later(1)
    """Repeated augmentation: each batch has every image this number of times, augmented differently; an epoch has as
    many steps as before."""
    balanced: bool = later(False)
    """Draw the images of an epoch so that all classes are equally frequent."""
    mean: tuple[float, ...] | None = None
    """Mean of each channel, from 0 to 1. Left out: measured on the training images."""
    std: tuple[PositiveFloat, ...] | None = None
    """Standard deviation of each channel. Left out: measured on the training images."""

    def __post_init__(self) -> None:
        if self.folds is not None and self.fold >= self.folds:
            raise ValueError(f"fold counts from 0 and must be below folds = {self.folds}, not {self.fold}")

        if self.crop_scale is not None and self.crop_scale[0] > self.crop_scale[1]:
            least, most = self.crop_scale
            raise ValueError(
                f"crop_scale is the least and the most part, such as {most:g} {least:g}, not {least:g} {most:g}"
            )
        if self.resize is not None and self.resize**2 > MOST_PIXELS:
            raise ValueError(
                f"resize = {self.resize} gives more than the {MOST_PIXELS:,} pixels that an image may have: make it"
                " smaller"
            )

    @property
    def shown(self) -> str:
        """The name of the data set; of a folder of images, that of the folder."""
        return Path(self.root).name if self.name == FOLDER and self.root is not None else self.name

    def source(self) -> DataSet:
        size = None if self.resize is None else (self.resize, self.resize)
        return open_data(self.name, self.root, size, test_split=self.test_split, gray=self.gray, target=self.target)


GIVEN = "PATH"
"""In `train.weights` of a recipe that starts from a model of the user."""


LOGGERS = ("csv", "tensorboard", "mlflow", "wandb")


def _loggers() -> list[str]:
    """Ours, and those of plugins, which are loaded before any recipe is read."""
    return sorted(
        {*LOGGERS, *(name for family in Named.families if family.family == "logger" for name in family.members)}
    )


def _logger(given: Any) -> Any:
    if given not in _loggers():
        raise ValueError(f"loggers must be {' or '.join(_loggers())}, not {given!r:.60}")
    return given


LoggerName = Annotated[str, BeforeValidator(_logger), Means("the name of a logger", "LOGGER", _loggers)]


@dataclass(frozen=True, kw_only=True)
class Train:
    epochs: NonNegativeInt = 10
    """Number of epochs; 0 only evaluates `weights`."""
    batch_size: PositiveInt = 128
    """Number of images in a batch."""
    seed: Seed = 0
    """Random seed of the initial weights and of the order of the images."""
    optimizer: Literal["adam", "adamw", "sgd", "muon"] = "adamw"
    """Optimizer. `muon` is Muon on the matrices of the blocks, and AdamW on all other weights."""
    lr: PositiveFloat = 1e-3
    """Learning rate."""
    weight_decay: NonNegativeFloat = 1e-4
    """Weight decay."""
    decays: Literal["matrices", "all"] = later("matrices")
    """Which weights decay: matrices outside the attention cores, as is customary, or all weights."""
    layer_decay: Share = later(1.0)
    """Factor on the learning rate from each block to the one below it, for fine-tuning: 0.75, for example."""
    ema: PartShare = later(0.0)
    """Decay of an exponential moving average of the weights, such as 0.9999. It is validated, tested and stored beside
    the weights themselves."""
    momentum: PartShare = 0.9
    """SGD momentum."""
    schedule: Literal["constant", "step", "cosine", "restarts", "onecycle"] = "cosine"
    """Schedule of the learning rate."""
    step_every: PositiveInt = 5
    """Epochs between two steps of the schedule `step`."""
    step_factor: Share = 0.5
    """Factor on the learning rate at each step of the schedule `step`."""
    restart_every: PositiveInt | PositiveFloat = 10
    """Epochs of each period of the schedule `restarts`; a budget may make it a fraction."""
    restart_growth: PositiveInt = later(1)
    """Length of each period of `restarts`, relative to the one before: 2 gives 10, 20 and 40 epochs."""
    warmup: NonNegativeFloat = 0.0
    """Epochs of linear warm-up before the schedule."""
    min_lr: NonNegativeFloat = 0.0
    """Learning rate at which the schedules cosine and restarts end."""
    clip: PositiveFloat | None = None
    """Clip the norm of the gradient at this value."""
    label_smoothing: PartShare = 0.0
    """Label smoothing."""
    loss: Literal["cross-entropy", "focal", "huber"] = later("cross-entropy")
    """Loss function; `focal` gives less weight to images that are classified well (arXiv:1708.02002). Numbers
    (data.target) have the squared error instead, or with `huber` that of Huber, which large errors count less in."""
    focal_gamma: NonNegativeFloat = later(2.0)
    """Gamma of the focal loss; 0 is cross-entropy."""
    class_weights: bool | tuple[PositiveFloat, ...] = False
    """Weight classes by their inverse frequency, or by these numbers, one per class."""
    accumulate: PositiveInt = 1
    """Number of batches in an optimizer step (gradient accumulation)."""
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    """Number format of the forward and backward passes."""
    patience: PositiveInt | None = None
    """Stop early, after this number of epochs without an improvement of `monitor`."""
    monitor: Literal["val_loss", "val_top1"] = "val_top1"
    """Validation measure that chooses the best epoch; of numbers (data.target), always the loss."""
    redraw_every: PositiveInt | None = 1000
    """Optimizer steps after which random features are drawn again. The last ones are used for at least this number of
    steps."""
    track_test: bool = False
    """Also record test accuracy every epoch, in separate columns that never choose anything."""
    weights: str | None = None
    """Folder of a run or a model to start from, or a recipe that is trained first. Layers with other attention are
    converted (`vix convert`). If the model differs in more, weights with the same name and shape are used, and the rest
    is initialized."""
    distill: NonNegativeInt = 0
    """Number of steps that distill the layers of `weights` into layers with other attention, before the first epoch."""
    on_nan: Literal["stop", "back"] = "stop"
    """If the loss is not finite: stop, or return to the last good checkpoint with half the learning rate."""
    loggers: tuple[LoggerName, ...] = ()
    """Loggers that get the history, in addition to the run folder."""
    tta: Literal["flip", "shift"] | None = later(None)
    """Also test with the mean prediction for several views of each image: the mirrored one (flip), or those and ones
    that are shifted by a sixteenth of the side (shift). A number of its own in the summary."""
    measure: bool = True
    """Measure inference time and peak memory at the end, which takes a few seconds."""
    compile: bool = False
    """Compile with torch.compile."""
    checkpoint: bool = later(False)
    """Gradient checkpointing: keep only the tokens between blocks for backward, which computes each block again."""
    trial: bool = later(False)
    """Set by `vix compare --tune` in its learning-rate trials, which reports leave out."""
    shard: bool = False
    """With torchrun: split weights, gradients and moments over the processes (FSDP), for models that do not fit into
    memory."""
    device: str = "auto"
    """Device, such as cpu or cuda:0; auto takes the fastest one."""

    def __post_init__(self) -> None:
        if self.weights is None and (self.epochs == 0 or self.distill):
            what = "epochs = 0 leaves the model untrained" if self.epochs == 0 else "distill has nothing to learn from"
            raise ValueError(f"{what}: give weights, a run to start from")
        if self.class_weights == ():  # the flag alone
            object.__setattr__(self, "class_weights", True)
        if self.loss == "focal" and self.label_smoothing:
            raise ValueError(
                f"loss=focal does not support label_smoothing = {self.label_smoothing}: leave label_smoothing at 0"
            )

        if self.shard and (self.ema or self.optimizer == "muon"):
            what = "ema" if self.ema else "optimizer=muon"
            raise ValueError(f"{what} needs all weights in one place: leave out {what}, or shard")

    def shortened(self, epochs: int) -> Train:
        """At most this many epochs. The test set is read at the end only: every epoch would take a large part of the
        time."""
        return replace(self if self.epochs <= epochs else self.lasting(epochs), track_test=False)

    def lasting(self, epochs: int) -> Train:
        """So many epochs. Schedules keep their shape."""
        share = epochs / self.epochs
        return replace(
            self,
            epochs=epochs,
            warmup=self.warmup * share,
            step_every=max(1, round(self.step_every * share)),
            restart_every=self._period(share),
        )

    def _period(self, share: float) -> float:
        """Periods that grow end together with training (10 + 20 + 40 of 70 epochs), which whole epochs would not
        keep."""
        exact = self.restart_every * share
        if self.restart_growth == 1:
            return max(1, round(exact))
        return round(exact) if exact == round(exact) else exact


@dataclass(frozen=True, kw_only=True)
class Recipe:
    data: Data = field(default_factory=Data)
    model: BackboneConfig = field(default_factory=ViT.Config)
    train: Train = field(default_factory=Train)

    def __post_init__(self) -> None:
        if self.train.loss == "focal" and (self.data.mixup or self.data.cutmix):
            raise ValueError("loss=focal needs one label per image: leave out data.mixup and data.cutmix, or the loss")

    def build(self, images: Images | None = None) -> Backbone:
        """Its model with fresh weights; image size, channels and classes are the data set's unless given."""
        return build(self.model_for(images or self.data.source().read("test")), WEIGHTS_SHARE)

    def model_for(self, images: Images) -> BackboneConfig:
        """The configuration of its model for these images; says so where it is not for them."""
        channels, height, width = images.shape
        size = (height, width) if self.data.resize is None else (self.data.resize, self.data.resize)
        config = self.model.filled(size[0] if size[0] == size[1] else size, channels, len(images.classes))
        wanted = (config.img_size, config.img_size) if isinstance(config.img_size, int) else config.img_size or size
        if wanted != tuple(size):
            resize = f": set data.resize={wanted[0]}" if wanted[0] == wanted[1] else ""
            raise ValueError(
                f"the model is for images of {wanted[0]} x {wanted[1]} and {self.data.name} has {size[0]} x"
                f" {size[1]}{resize}"
            )
        if config.in_chans != channels:
            raise ValueError(
                f"the model is for images of {config.in_chans} channels and {self.data.name} has {channels}: choose"
                " other data"
            )
        if config.num_classes is not None and config.num_classes < len(images.classes):
            raise ValueError(
                f"the model has {config.num_classes} classes and {self.data.name} {len(images.classes)}: choose other"
                " data, or other classes"
            )
        return config

    def with_attention(self, attention: str) -> Recipe:
        """This recipe with another attention, and nothing else changed."""
        return replace(self, model=replace(self.model, attention=attention))

    def to_dict(self, *, whole: bool = False) -> Values:
        """With `whole`, `later` fields at their defaults are included. Otherwise they are left out, so that no content
        hash changes."""
        model = self.model
        told = vars if whole else stated
        return {
            "data": dict(told(self.data)),
            "model": {"name": model.owner.name, **told(self.model)},
            "train": dict(told(self.train)),
        }

    def to_json(self, name: str | None = None) -> str:
        """As a file, of a run with its `name`, which is that of the recipe it came from, and with the plugins that it
        needs."""
        named = {} if name is None else {"name": name}
        plugins = {"plugins": found} if (found := used_in(self.to_dict())) else {}
        return json.dumps({**named, **plugins, **self.to_dict()}, indent=2) + "\n"


def recipe_from_dict(values: object, where: str) -> Recipe:
    sections = ("data", "model", "train")
    if not isinstance(values, dict) or not all(isinstance(values.get(name, {}), dict) for name in sections):
        raise ValueError(f"{where} is no recipe: it should be an object with the sections data, model and train")
    for name in values:
        if name not in sections:
            raise ValueError(unknown(f"section of {where}", str(name), sections))
    model = dict(values.get("model", {}))
    return Recipe(
        data=checked(Data, values.get("data", {}), f"{where}: data"),
        model=model_config(str(model.pop("name", "vit")), **model),
        train=checked(Train, values.get("train", {}), f"{where}: train"),
    )


def read_recipe(path: str | Path) -> Recipe:
    """A recipe from a JSON file, which every error names."""
    return read_named_recipe(path)[1]


def read_named_recipe(path: str | Path) -> tuple[str | None, Recipe]:
    """The recipe of a run, and its name; None where the file does not say it."""
    values = read_json(path)
    name, plugins = (values.pop(key, None) if isinstance(values, dict) else None for key in ("name", "plugins"))
    if not isinstance(name, str | None):
        raise ValueError(f"{path} is no recipe: name should be a string, not {name!r:.60}")
    try:
        return name, recipe_from_dict(values, str(path))
    except ValueError as error:
        raise ValueError(f"{'' if str(path) in str(error) else f'{path}: '}{error}{missing(plugins)}") from None
