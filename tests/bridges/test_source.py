"""Models of other libraries by one name, and how a converted one comes back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import vixformer as vix
from tests.support.transformers import images, made, scores
from vixformer.bridges.source import create, load_patched, store, trained
from vixformer.measure.advise import Question, with_sizes_of_model
from vixformer.measure.bench import Models, bench_models

pytest.importorskip("transformers")


@pytest.fixture
def folder(tmp_path: Path) -> str:
    made("DINOv2").save_pretrained(tmp_path / "dino")
    return f"hf:{tmp_path / 'dino'}"


@torch.no_grad()
def test_a_folder_of_transformers(folder: str, tmp_path: Path) -> None:
    model, x = trained(folder), images()
    wanted = scores(made("DINOv2"), x)
    assert torch.allclose(model(x), wanted, atol=1e-6)
    assert (model.img_size, model.in_chans, model.num_classes) == ((32, 32), 3, 2)
    assert vix.create_model(folder, attention="first(lens)").attention_expression() == "lens + softmax"
    inner: Any = model.inner
    new, _ = vix.convert(inner, "hedgehog", x)
    new.save_pretrained(tmp_path / "new")
    again = trained(f"hf:{tmp_path / 'new'}")
    assert again.attention_expression() == "hedgehog"
    assert torch.equal(again(x), scores(new, x))


def test_it_is_measured_as_ours(folder: str) -> None:
    rows = bench_models([folder], ["softmax", "cosine"], {}, Models(batch=2, seconds=0.01, memory=False))
    assert [(row.attention, row.tokens, row.ratio is None) for row in rows] == [
        ("softmax", 17, True), ("cosine", 17, False)
    ]  # fmt: skip
    question = with_sizes_of_model(Question(model=folder))
    assert (question.image, question.patch, question.dim, question.depth, question.heads) == (32, 8, 48, 2, 3)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hf:nothing/here/at/all", "has no config.json; give the folder of a model of transformers"),
        ("timm:vit_tiny_patch16_224", "needs timm, which cannot be imported here"),
    ],
)
def test_what_is_not_there(name: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "timm", None)
    for make in (create, trained):
        with pytest.raises(ValueError, match=message):
            make(name)


def test_damaged_folders(folder: str, tmp_path: Path) -> None:
    place = Path(folder.removeprefix("hf:"))
    config: Any = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({**config, "architectures": []}))
    with pytest.raises(ValueError, match="names no class in architectures"):
        trained(folder)
    (place / "config.json").write_text(json.dumps({**config, "architectures": ["NoSuchModel"]}))
    with pytest.raises(ValueError, match="names NoSuchModel, which is not in transformers"):
        trained(folder)
    (tmp_path / "vixformer.json").write_text("{}")
    with pytest.raises(ValueError, match="it should have source and attention; convert again"):
        load_patched(tmp_path)


def test_a_model_of_timm(with_timm: Callable[[str], None], tmp_path: Path) -> None:
    with_timm(f"""
from vixformer.bridges.source import create, load_patched, store, trained
from safetensors.torch import save_model
name = "timm:vit_tiny_patch16_224"
for text, message in (("timm:nosuch", "has no model nosuch"), (name + "@none.safetensors", "there is no file none")):
    try:
        trained(text)
        raise SystemExit(text)
    except ValueError as error:
        assert message in str(error), error
plain = create_model("vit_tiny_patch16_224").eval()
save_model(plain, r"{tmp_path / "weights.safetensors"}")
model = trained(name + r"@{tmp_path / "weights.safetensors"}")
image = torch.randn(1, 3, 224, 224)
with torch.no_grad():
    assert torch.allclose(model(image), plain(image), atol=1e-4)
    model = create(name, attention="last(lens)")
    store(model, name, __import__("pathlib").Path(r"{tmp_path / "out"}"))
    again = vix.load_patched(r"{tmp_path / "out"}")
    assert torch.equal(again(image), model(image))
assert model.img_size == (224, 224) and model.num_classes == 1000
try:
    create(name, nonsense=3)
    raise SystemExit("options")
except ValueError as error:
    assert "does not take these options" in str(error), error
""")


def test_store_is_the_folder_of_transformers(tmp_path: Path) -> None:
    model = vix.patch(made("ViT"), "hedgehog")
    from vixformer.bridges.theirs import Theirs

    store(Theirs(model), "hf:x", tmp_path)
    assert torch.equal(scores(vix.load_patched(tmp_path), images()), scores(model, images()))
