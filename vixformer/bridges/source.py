"""Models of other libraries by one name: `timm:NAME` and `hf:FOLDER`, and how a converted one is stored."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_model

from vixformer import hub
from vixformer.bridges.interface import is_transformers
from vixformer.bridges.patch import expression_of, patch
from vixformer.bridges.seam import layers_of
from vixformer.bridges.stored import CONFIG_FILE, class_of, load_transformers, patched_as
from vixformer.bridges.theirs import Theirs
from vixformer.bridges.untyped import Foreign
from vixformer.jsonfile import Values, read_json
from vixformer.writing import whole

TIMM, HF = "timm:", "hf:"
FILE, WEIGHTS = "vixformer.json", "model.safetensors"


def is_source(name: str) -> bool:
    return name.startswith((TIMM, HF))


def create(name: str, attention: str = "softmax", **options: Foreign) -> Theirs:
    """The model with random weights."""
    model = _timm(name, False, options) if name.startswith(TIMM) else _hf(name, False, options)
    return Theirs(patch(model.eval(), attention))


def trained(name: str) -> Theirs:
    """The model with trained weights. Those of timm are downloaded, or read from the file after `@`; those of
    transformers are in the folder or on the Hugging Face Hub."""
    model: Foreign = _timm(name, True, {}) if name.startswith(TIMM) else _hf(name, True, {})
    model = model if layers_of(model) else patch(model, "softmax")
    return Theirs(model.eval())


def store(model: Theirs, name: str, folder: Path) -> None:
    """Store the model in a folder that `vix.load_patched` can read."""
    folder.mkdir(parents=True, exist_ok=True)
    inner: Foreign = model.inner
    if is_transformers(inner):
        inner.save_pretrained(folder)
        return
    facts = {"source": name.partition("@")[0], "attention": expression_of(inner)}
    with whole(folder / FILE) as described, whole(folder / WEIGHTS) as weights:  # both or neither
        described.write_text(json.dumps(facts, indent=2) + "\n")
        save_model(inner, str(weights))


def load_patched(folder: str | Path, **options: Foreign) -> Foreign:
    """A patched model that `save_pretrained` of transformers or `vix convert` stored, with its attention, in evaluation
    mode.

    `folder` may be a name of the Hugging Face Hub. `options` go to `from_pretrained` of its class.
    """
    place = hub.here(folder)
    if not (place / FILE).exists():
        return load_transformers(place, **options)
    facts = read_json(place / FILE)
    try:
        source, attention = str(facts["source"]), str(facts["attention"])
    except (KeyError, TypeError):
        raise ValueError(f"{place / FILE} is damaged: it should have source and attention; convert again") from None
    model = patch(_timm(source, False, {}), attention)
    _fill(model, place / WEIGHTS)
    return model.eval()


def _timm(name: str, weights: bool, options: Values) -> Foreign:
    called, _, file = name.removeprefix(TIMM).partition("@")
    try:
        timm = importlib.import_module("timm")
    except Exception as error:  # timm imports much, and a broken one raises anything
        raise ValueError(f"{name} needs timm, which cannot be imported here: {error}") from None
    if not timm.is_model(called.partition(".")[0]):
        raise ValueError(f"timm {timm.__version__} has no model {called}: timm.list_models() lists them")
    try:
        model = timm.create_model(called, pretrained=weights and not file, **options)
    except TypeError as error:
        raise ValueError(f"{name} does not take these options: {error}") from None
    except (OSError, RuntimeError) as error:
        raise ValueError(
            f"the weights of {called} cannot be downloaded: {hub.first_line(error)}; {TIMM}{called}@FILE reads them"
            " from a file"
        ) from None
    if weights and file:
        _fill(model, Path(file))
    return model


def _hf(name: str, weights: bool, options: Values) -> Foreign:
    place = hub.here(name.removeprefix(HF))
    if not (place / CONFIG_FILE).exists():
        raise ValueError(f"{name}: {place} has no {CONFIG_FILE}; give the folder of a model of transformers")
    try:
        importlib.import_module("transformers")
    except Exception as error:
        raise ValueError(f"{name} needs transformers, which cannot be imported here: {error}") from None
    config: Foreign = read_json(place / CONFIG_FILE)
    kind = class_of(place, config)
    if weights:
        return load_transformers(place) if patched_as(config) else kind.from_pretrained(str(place))
    given = {("image_size" if key == "img_size" else key): value for key, value in options.items()}
    return kind(kind.config_class.from_pretrained(str(place), **given))


def _fill(model: Foreign, file: Path) -> None:
    if not file.exists():
        raise ValueError(f"there is no file {file}: give a .safetensors file of the model's weights")
    try:
        model.load_state_dict(load_file(file), strict=False)
        missing = sorted(set(model.state_dict()) - set(load_file(file)))
    except (SafetensorError, RuntimeError) as error:
        raise ValueError(f"{file} does not fit this model: {hub.first_line(error)}") from None
    if missing:
        raise ValueError(f"{file} lacks {', '.join(missing[:3])}: give a file with all weights of this model")
