"""`vix export` and `vix predict`: files for other programs that say what the model says."""

from __future__ import annotations

import io
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import vixformer as vix
from benchmarks.export import BACKBONES, FORMS, differences, small
from tests.support.pictures import encoded
from vixformer.attention.kernels.kernel import Kernel
from vixformer.cli import main
from vixformer.data.mini import FashionMini
from vixformer.data.preprocess import Preprocessing
from vixformer.export.check import export
from vixformer.export.formats import WRITERS, onnx_session
from vixformer.measure import load
from vixformer.measure.overview import every_attention
from vixformer.report.pictures import image_of
from vixformer.results.predictor import Predictor

SMALL = {"img_size": 16, "patch_size": 4, "num_classes": 10, "embed_dim": 32, "depth": 2, "num_heads": 4}


def test_a_run_becomes_files_that_agree(runs: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run = next(runs.glob("mixed-seed0*"))
    main(["export", str(run), "--format", "onnx,onnxruntime,torch,int8", "--dynamic-batch", "--out", str(tmp_path)])
    said = capsys.readouterr().out
    assert "fashion-mini, validation part" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model-int8.onnx",
        "model-onnxruntime.onnx",
        "model.onnx",
        "model.pt2",
        "preprocessing.json",
    ]
    images = FashionMini(Path()).read("test")
    predictor = Predictor.load(run)
    pixels = images.pixels[:500]
    wanted = predictor.logits(predictor.preprocessing.batch(pixels))
    for name in ("model.onnx", "model-onnxruntime.onnx"):
        torch.testing.assert_close(onnx_session(tmp_path / name)(pixels), wanted, atol=1e-4, rtol=0)
    torch.testing.assert_close(torch.export.load(tmp_path / "model.pt2").module()(pixels), wanted, atol=1e-4, rtol=0)
    small = onnx_session(tmp_path / "model-int8.onnx")(pixels)
    accuracy = [float((logits.argmax(-1) == images.labels[:500]).float().mean()) for logits in (wanted, small)]
    assert abs(accuracy[0] - accuracy[1]) <= 0.02  # hardly trained; trained ones: tests/tools/test_pretrained.py
    assert (tmp_path / "model-int8.onnx").stat().st_size < (tmp_path / "model.onnx").stat().st_size
    import onnx

    notes = {entry.key: entry.value for entry in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert json.loads(notes["classes"]) == list(predictor.preprocessing.classes)
    assert onnx.load(tmp_path / "model.onnx").graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def test_mechanisms_become_onnx(tmp_path: Path) -> None:
    """All of them with all backbones: `make test-slow`."""
    model = vix.create_model("vit", attention="nystrom(landmarks=4) + fourier", **SMALL)
    assert max(differences(model, FORMS, tmp_path).values()) <= 1e-4


def test_times_beside_other_work_are_said_to_be_unreliable(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("waited", "now"):
        monkeypatch.setattr(load, name, lambda *_: load.Load(1.9, 2, 9.7))
    monkeypatch.setattr(load.Sample, "since", lambda _: load.Load(1.9, 2, 9.7))
    main(["export", str(next(runs.glob("mixed-seed0*"))), "--format", "onnx", "--out", str(tmp_path)])
    assert (
        "ther work is running (load 9.7 on 2 cores, 1.9 of 2 busy with it): these times are not reliable"
        in capsys.readouterr().out
    )


def test_resizing_goes_with_the_model(tmp_path: Path) -> None:
    prepare = Preprocessing(
        classes=tuple("abcdefghij"), channels=3, stored=(12, 10), size=(16, 16), mean=(0.5,), std=(0.25,)
    )
    predictor = Predictor(vix.create_model("vit", **{**SMALL, "depth": 1}).eval(), prepare)
    found = export(predictor, FORMS, tmp_path, None, dynamic_batch=True, batch=3, tested=0)
    assert max(e.difference for e in found) <= 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("attention", every_attention())
def test_every_backbone_with_every_mechanism(backbone: str, attention: str, tmp_path: Path) -> None:
    try:
        model = small(backbone, attention)
    except ValueError as error:
        pytest.skip(str(error))
    assert max(differences(model, FORMS, tmp_path).values()) <= 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("kernel", sorted(Kernel.members))
def test_every_kernel(kernel: str, tmp_path: Path) -> None:
    model = vix.create_model("vit", attention=f"performer(kernel={kernel})", **SMALL)
    assert max(differences(model, FORMS, tmp_path).values()) <= 1e-4


@pytest.mark.slow
def test_a_compiled_package(tmp_path: Path) -> None:
    assert (
        differences(vix.create_model("vit", attention="performer(kernel=relu)", **SMALL), ["aot"], tmp_path)["aot"]
        <= 1e-4
    )


def test_what_cannot_be_exported_is_a_sentence(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = str(next(runs.glob("exact-seed0*")))
    monkeypatch.setenv("CXX", "no-such-compiler")
    (tmp_path / "empty").mkdir()
    for args, says in (
        ([], "which model?"),
        (
            [run, "--format", "tflite"],
            "--format must be one or more of onnx, onnxruntime, torch, aot, int8, separated by commas, not tflite",
        ),
        ([str(tmp_path / "empty")], "has no model"),
        ([run, "--format", "aot", "--out", str(tmp_path / "out")], "there is no C++ compiler"),
        ([run, "--batch", "0"], "batch"),
        (
            [run, "--format", ""],
            "--format needs a value: one or more of onnx, onnxruntime, torch, aot, int8, separated by commas",
        ),
        ([run, "--out", __file__], "is a file, and --out takes a folder"),
        ([run, "--out", "/proc/nowhere"], "cannot make the folder /proc/nowhere for --out"),
        ([run, "--data", "synthetic"], "and the model takes 28 x 28 with 1 channel"),
    ):
        with pytest.raises(SystemExit):
            main(["export", *args])
        assert says in capsys.readouterr().err


def test_one_format_that_fails_does_not_stop_the_others(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(SystemExit):
        main(
            [
                "export",
                str(next(runs.glob("exact-seed0*"))),
                "--format",
                "aot,torch",
                "--batch",
                "5000",
                "--out",
                str(tmp_path),
            ]
        )
    said = capsys.readouterr()
    assert "there is no C++ compiler" in said.err
    assert "model.pt2" in said.out
    assert {path.name for path in tmp_path.iterdir()} == {"model.pt2", "preprocessing.json"}


def test_every_picture_has_a_map_of_its_own(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a/0.png", "b/0.png"):
        (tmp_path / name).parent.mkdir()
        Image.new("L", (28, 28)).save(tmp_path / name)
    run = str(next(runs.glob("exact-seed0*")))
    main(["predict", run, str(tmp_path / "a"), str(tmp_path / "b"), "--attention-map", str(tmp_path / "maps")])
    assert sorted(path.name for path in (tmp_path / "maps").iterdir()) == ["0-2-attention.png", "0-attention.png"]
    with pytest.raises(SystemExit):
        main(["predict", run, str(tmp_path / "a"), "--attention-map", str(tmp_path / "a/0.png")])
    assert "is a file, and --attention-map takes a folder" in capsys.readouterr().err


def test_dark_on_white_is_inverted(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pixels = FashionMini(Path()).read("test").pixels[0]
    image_of(pixels).save(tmp_path / "light.png")
    image_of(255 - pixels).save(tmp_path / "dark.png")
    said, inverted, sentences = [], [], []
    for words in (["light.png"], ["dark.png", "--invert"], ["dark.png"], ["dark.png", "--as-is"]):
        main(["predict", str(next(runs.glob("exact-seed0*"))), str(tmp_path / words[0]), "--json", *words[1:]])
        out, err = capsys.readouterr()
        answer = json.loads(out)
        said.append(answer["top"])
        inverted.append(answer.get("inverted", False))
        sentences.append("1 image was inverted, because the model was trained on dark backgrounds; --as-is" in err)
    assert said[0] == said[1] == said[2] != said[3]
    assert inverted == sentences == [False, False, True, False]


def test_only_models_of_drawings_know_what_is_reversed() -> None:
    dark, light = (Image.fromarray(np.full((28, 28), value, np.uint8)) for value in (20, 235))
    prepare = Preprocessing(classes=("a", "b"), channels=1, stored=(28, 28), size=(28, 28), mean=(0.5,), std=(0.25,))
    for border, ground, wrong in (
        ((0.0, 0.1), "dark", light),
        ((0.9, 1.0), "light", dark),
        ((0.25, 0.8), None, None),
        (None, None, None),
    ):
        model = replace(prepare, border=border)
        assert model.ground == ground
        assert [picture for picture in (dark, light) if model.reversed(picture)] == ([] if wrong is None else [wrong])


def test_a_run_says_what_its_images_lie_on(runs: Path) -> None:
    found = Preprocessing.load(next(runs.glob("exact-seed0*")) / "best")
    assert found.border is not None
    assert 0 <= found.border[0] <= found.border[1] < 0.2  # clothes are light on black
    assert found.ground == "dark"


def test_classes_that_are_not_those_of_the_model(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(next(runs.glob("exact-seed0*")) / "best", tmp_path / "model")
    path = tmp_path / "model" / "preprocessing.json"
    facts = json.loads(path.read_text())
    path.write_text(json.dumps({**facts, "classes": [*facts["classes"], "more"]}))
    with pytest.raises(ValueError, match=r"has 10 outputs and its preprocessing\.json names 11 classes"):
        Predictor.load(tmp_path / "model")
    path.write_text("{}")
    with pytest.raises(ValueError, match="classes is missing"):
        Predictor.load(tmp_path / "model")


def test_an_export_that_says_something_else_is_refused(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, plain = WRITERS["torch"]
    wrong = (file, lambda *args: (lambda run: lambda x: run(x) + 0.01)(plain(*args)))
    monkeypatch.setitem(WRITERS, "torch", wrong)
    with pytest.raises(SystemExit):
        main(["export", str(next(runs.glob("exact-seed0*"))), "--format", "torch", "--out", str(tmp_path)])
    assert "differs from torch by 1.0e-02: do not use it" in capsys.readouterr().err


def test_a_run_can_be_loaded_as_a_model(runs: Path) -> None:
    run = next(runs.glob("exact-seed0*"))
    assert vix.from_pretrained(run).config == vix.from_pretrained(run / "best").config


def test_pictures_of_any_size_are_predicted(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = next(runs.glob("exact-seed0*"))
    predictor = Predictor.load(run)
    images = FashionMini(Path()).read("test")
    wanted = predictor.logits(predictor.preprocessing.batch(images.pixels[:70])).argmax(-1)
    for i in range(70):
        image_of(images.pixels[i]).resize((56, 56), Image.Resampling.NEAREST).save(tmp_path / f"{i:02}.png")
    main(["predict", str(run), str(tmp_path), "--json", "--top", "2", "--attention-map", str(tmp_path / "maps")])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    same = sum(line["top"][0]["label"] == images.classes[label] for line, label in zip(lines, wanted, strict=True))
    assert same >= 60  # making them smaller again blurs them, and the model is hardly trained
    assert all(len(line["top"]) == 2 for line in lines)
    with Image.open(tmp_path / "maps" / "00-attention.png") as sheet:
        assert sheet.size == (28 + 3 * 98 - 2, 18 + 2 * 98 - 2)


def test_a_picture_from_standard_input_and_broken_ones(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = str(next(runs.glob("exact-seed0*")))
    data = encoded(Image.fromarray(np.zeros((40, 30, 3), np.uint8)))
    monkeypatch.setattr(sys, "stdin", type("Standard", (), {"buffer": io.BytesIO(data)}))
    main(["predict", run, "-", "--json"])
    assert json.loads(capsys.readouterr().out)["image"] == "-"
    (tmp_path / "good.png").write_bytes(data)
    (tmp_path / "bad.png").write_bytes(data[:60])
    with pytest.raises(SystemExit):
        main(["predict", run, str(tmp_path), "--json"])
    said = capsys.readouterr()
    assert json.loads(said.out)["image"].endswith("good.png")
    assert "bad.png is no image that can be read" in said.err
    assert "1 of 2 images could not be read" in said.err
    for args, says in (
        ([run], "which images?"),
        ([run, "nowhere.png"], "nowhere.png is not there"),
        ([run, str(tmp_path / "x"), "--top", "0"], "top"),
    ):
        with pytest.raises(SystemExit):
            main(["predict", *args])
        assert says in capsys.readouterr().err
