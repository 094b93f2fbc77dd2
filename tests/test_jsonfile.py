"""What the one reader of JSON refuses, and how it says so."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

import vixformer as vix
from vixformer.backbones.backbone import from_pretrained
from vixformer.config import read_recipe
from vixformer.data.preprocess import Preprocessing
from vixformer.experiments.search.space import read_space
from vixformer.jsonfile import MOST_DEPTH, parse_json, read_json, read_json_lines

PREPROCESSING = {"classes": ["a", "b"], "channels": 1, "stored": [8, 8], "size": [8, 8], "mean": [0.5], "std": [0.5]}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[" * 200_000, "nested too deeply: at most 32 levels"),
        ("[" * (MOST_DEPTH + 1) + "]" * (MOST_DEPTH + 1), "nested too deeply"),
        ('{"a": 1, "a": 2}', 'cannot be read: "a" is given twice in one object'),
        ("9" * 5000, "the whole number 99999999999999999999... is too large"),
        (str(2**63), "is too large"),
        ("[NaN]", "it has the number nan: numbers must be finite"),
        ("[1e999]", "it has the number inf"),
        (r'["\ud800"]', "half of a surrogate pair"),
        ("{'a': 1}", "it is not JSON: Expecting property name"),
        (b"\xff", "it is not JSON: 'utf-8' codec can't decode"),
        ("", "it is not JSON"),
    ],
)
def test_refusals_are_one_sentence(text: str | bytes, says: str) -> None:
    with pytest.raises(ValueError, match=r"^it") as found:
        parse_json(text, "it")
    assert says.removeprefix("it ") in str(found.value)
    assert len(str(found.value)) < 200


def test_what_is_right_is_read_as_json_reads_it(tmp_path: Path) -> None:
    value = {"a": [1, -(2**63) + 1, 0.1, None, True, "\U0001f600", {"b": "\u2028"}], "": {}}
    (tmp_path / "x.json").write_text(json.dumps(value))
    assert read_json(tmp_path / "x.json") == value
    (tmp_path / "x.jsonl").write_text('{"a": NaN}\n{"a": "\u2028"}\n', encoding="utf-8")
    (first, second) = read_json_lines(tmp_path / "x.jsonl", finite=False)
    assert math.isnan(first["a"])
    assert second == {"a": "\u2028"}
    deepest = "[" * MOST_DEPTH + "]" * MOST_DEPTH
    assert json.dumps(parse_json(deepest, "it")) == deepest


def test_files_that_are_none_or_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, says in (
        (tmp_path / "pipe", "not a regular file"),
        (tmp_path, "not a regular file"),
        (tmp_path / "x", "No such file"),
    ):
        with pytest.raises(ValueError, match=says):
            read_json(path)
    monkeypatch.setattr("vixformer.jsonfile.MOST_BYTES", 10)
    (tmp_path / "large").write_text("[" + "1, " * 10 + "1]")
    with pytest.raises(ValueError, match="is too large"):
        read_json(tmp_path / "large")


def test_every_reader_refuses_what_is_nested_deeply(tmp_path: Path) -> None:
    for name in ("recipe.json", "config.json", "preprocessing.json"):
        (tmp_path / name).write_text('{"model": ' * 50_000)
    for read in (from_pretrained, Preprocessing.load):
        with pytest.raises(ValueError, match="nested too deeply"):
            read(tmp_path)
    for read in (read_recipe, read_space):
        with pytest.raises(ValueError, match="nested too deeply"):
            read(str(tmp_path / "recipe.json"))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"size": [0, 8]}, "size must be"),
        ({"stored": [8, 0]}, "stored must be"),
        ({"stored": [10**6, 10**6]}, "at most 50,000,000 pixels"),
        ({"classes": []}, "classes must be"),
        ({"std": [0.0]}, "std must be"),
        ({"mean": [0.5, 0.5]}, "mean should have a number for each of 1 channels, not 2"),
    ],
)
def test_sizes_in_preprocessing(tmp_path: Path, changes: dict[str, object], says: str) -> None:
    (tmp_path / "preprocessing.json").write_text(json.dumps({**PREPROCESSING, **changes}))
    with pytest.raises(ValueError, match=says):
        Preprocessing.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("vit", {"embed_dim": 10**10}, "this vit is too large: its weights need more than"),
        ("vit", {"embed_dim": 2**53, "num_heads": 1, "attention": "hedgehog"}, "is too large"),
        ("vit", {"embed_dim": 10**60}, "embed_dim must be at most"),
        ("vit", {"depth": 10**9}, "a model has at most 1000 layers, not 1000000000"),
        ("vit", {"img_size": 10**6}, "more than the 50,000,000 pixels"),
        ("vit", {"num_classes": 10**12}, "is too large"),
        ("vit", {"mlp_ratio": 1e300}, "is too large"),
        ("vit", {"attention": "performer(kernel=relu, features=1000000000000)"}, "is too large"),
        ("vit", {"attention": "linformer(rank=1000000000000)"}, "is too large"),
        ("cvt", {"depths": (10**9, 1, 1)}, "at most 1000 layers"),
        ("levit", {"dims": (10**10,)}, "is too large"),
        ("pit", {"head_dim": 10**10}, "is too large"),
        ("cct", {"conv_kernel": 10**8}, "is too large"),
        ("convtoken", {"conv_dims": (10**10, 8)}, "is too large"),
        ("cnn", {"conv_dims": (10**10,)}, "is too large"),
    ],
)
def test_absurd_sizes_are_refused_before_memory_is_taken(name: str, options: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        vix.create_model(name, **options)


def test_a_model_with_attention_needs_one() -> None:
    with pytest.raises(ValueError, match='unknown attention "none"'):
        vix.create_model("vit", attention="none")


def test_a_configuration_larger_than_its_weights(tmp_path: Path) -> None:
    vix.create_model("vit", img_size=8, embed_dim=16, depth=1).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "embed_dim": 4096}))
    with pytest.raises(ValueError, match="far larger than the weights beside it"):
        from_pretrained(tmp_path)
