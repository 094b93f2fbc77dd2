"""The models of "Vision Xformers", tables 1 to 5: their parameters in both counts."""

from __future__ import annotations

from typing import Any

import pytest

from vixformer import create_model
from vixformer.measure.cost import parameters

PERFORMER, LINFORMER, NYSTROM = "performer(features=110)", "linformer(rank=64, share=kv)", "nystrom(landmarks=64)"
PLAIN = {"softmax": dict(qkv_bias=False), PERFORMER: dict(qkv_bias=True), NYSTROM: dict(qkv_bias=False)}
LINEAR: dict[str, dict[str, Any]] = {a: {"proj": "linear", **o} for a, o in PLAIN.items()}
LINEAR[LINFORMER] = dict(proj="one-kv", qkv_bias=False)

VIT: dict[str, Any] = dict(patch_size=1, embed_dim=128, depth=4, num_heads=4, mlp_dim=256)
CCT: dict[str, Any] = dict(embed_dim=128, depth=4, num_heads=4, mlp_dim=512, conv_layers=3, pool_stride=1)
CVT: dict[str, Any] = dict(dims=(128,) * 3, num_heads=(4,) * 3, mlp_dim=256, strides=(1, 1, 1), norm="channel", head_norm=False)
LEVIT: dict[str, Any] = dict(patch_size=1)
PIT: dict[str, Any] = dict(patch_size=1, num_heads=(4, 4), mlp_dim=256, pointwise=True)
CONV: dict[str, Any] = dict(stem="conv")
MIXER: dict[str, Any] = {**VIT, "mlp_dim": 128, "pos": "none", "pool": "mean"}

ROWS: dict[str, tuple[str, str, dict[str, Any], int, int]] = {
    "ViT": ("vit", "softmax", {**VIT, **LINEAR["softmax"]}, 530_442, 661_770),
    "ViP": ("vit", PERFORMER, {**VIT, **LINEAR[PERFORMER]}, 531_978, 663_306),
    "ViL": ("vit", LINFORMER, {**VIT, **LINEAR[LINFORMER]}, 415_754, 809_482),
    "ViN": ("vit", NYSTROM, {**VIT, **LINEAR[NYSTROM]}, 530_970, 662_298),
    "FNet": ("vit", "fourier", VIT, 267_786, 399_114),
    "MLP Mixer": ("vit", "mlp", MIXER, 8_533_002, 8_533_002),
    "Hybrid ViT": ("vit", "softmax", {**VIT, **LINEAR["softmax"], **CONV}, 623_178, 754_506),
    "Hybrid ViP": ("vit", PERFORMER, {**VIT, **LINEAR[PERFORMER], **CONV}, 624_714, 756_042),
    "Hybrid ViL": ("vit", LINFORMER, {**VIT, **LINEAR[LINFORMER], **CONV}, 508_490, 902_218),
    "Hybrid ViN": ("vit", NYSTROM, {**VIT, **LINEAR[NYSTROM], **CONV}, 623_706, 755_034),
    "Hybrid FNet": ("vit", "fourier", {**VIT, **CONV}, 360_522, 491_850),
    "Hybrid MLP Mixer": ("vit", "mlp", {**MIXER, **CONV}, 8_625_738, 8_625_738),
    "LeViT": ("levit", "softmax", LEVIT, 624_970, 624_970),
    # printed 662,410: a misprint, because its 200-class twin, printed 646,920, has 24,510 more in its head
    "LeViP": ("levit", PERFORMER, {**LEVIT, **LINEAR[PERFORMER]}, 622_410, 622_410),
    "LeViL": ("levit", LINFORMER, {**LEVIT, **LINEAR[LINFORMER]}, 506_186, 768_330),
    "LeViN": ("levit", NYSTROM, {**LEVIT, **LINEAR[NYSTROM]}, 621_402, 621_402),
    "CCT": ("cct", "softmax", {**CCT, **LINEAR["softmax"]}, 905_547, 1_036_619),
    "CCP": ("cct", PERFORMER, {**CCT, **LINEAR[PERFORMER]}, 907_083, 1_038_155),
    "CCL": ("cct", LINFORMER, {**CCT, **LINEAR[LINFORMER]}, 790_859, 1_184_075),
    "CCN": ("cct", NYSTROM, {**CCT, **LINEAR[NYSTROM]}, 906_075, 1_037_147),
    "CvT": ("cvt", "softmax", {**CVT, "head_dim": 64, "shared_kv": True, "qkv_bias": False}, 1_099_786, 1_102_602),
    "CvP": ("cvt", PERFORMER, {**CVT, **LINEAR[PERFORMER]}, 827_914, 830_730),
    "CvL": ("cvt", LINFORMER, {**CVT, **LINEAR[LINFORMER]}, 711_690, 976_650),
    "CvN": ("cvt", NYSTROM, {**CVT, **LINEAR[NYSTROM]}, 826_906, 829_722),
    "PiT": ("pit", "softmax", {**PIT, **LINEAR["softmax"]}, 897_034, 1_028_362),
    "PiP": ("pit", PERFORMER, {**PIT, **LINEAR[PERFORMER]}, 898_570, 1_029_898),
    "PiN": ("pit", NYSTROM, {**PIT, **LINEAR[NYSTROM]}, 897_562, 1_028_890),
    "Hybrid PiT": ("pit", "softmax", {**PIT, **LINEAR["softmax"], **CONV}, 989_770, 1_121_098),
    "Hybrid PiP": ("pit", PERFORMER, {**PIT, **LINEAR[PERFORMER], **CONV}, 991_306, 1_122_634),
    "Hybrid PiN": ("pit", NYSTROM, {**PIT, **LINEAR[NYSTROM], **CONV}, 990_298, 1_121_626),
}


@pytest.mark.parametrize("row", ROWS)
def test_parameters_of_the_rows(row: str) -> None:
    model, attention, options, modules, everything = ROWS[row]
    found = parameters(create_model(model, attention=attention, img_size=32, num_classes=10, **options))
    assert (row, found.modules, found.all) == (row, modules, everything)


@pytest.mark.parametrize("row", ROWS)
def test_parameters_of_the_rows_on_tiny_imagenet(row: str) -> None:
    """The same with 64 x 64 images of 200 classes: patches of 2, or a first stride of 2, so that there are as many tokens."""
    model, attention, options, modules, everything = ROWS[row]
    if model == "cct":
        options = {**options, "conv_stride": (2, 1, 1), "img_size": 64}
    elif model == "cvt":
        options = {**options, "strides": (2, 1, 1), "img_size": 64}
    else:
        options = {**options, "patch_size": 2, "img_size": 64}
    found = parameters(create_model(model, attention=attention, num_classes=200, **options))
    patches = model in ("vit", "pit") and "stem" not in options
    head = 190 * (257 if model == "pit" else 129)
    more = head + (1_152 if patches else 0)
    assert (row, found.modules - modules, found.all - everything) == (row, more, more)


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        # Compact-Transformers' README: CCT-2/3x2 0.28, CCT-6/3x1 3.17 without positions, CCT-7/3x1 3.76, CCT-14/7x2 22.36
        ("cct-2-3x2", 0.284), ("cct-7-3x1", 3.76), ("cct-14-7x2", 22.36),
        # microsoft/CvT's README: CvT-13 20.0 (19.98 in arXiv:2103.15808, table 3), CvT-21 31.54, CvT-W24 277
        ("cvt-13", 19.98), ("cvt-21", 31.54), ("cvt-w24", 277.0),
        # arXiv:2104.01136, table 2: LeViT-128S 7.8, 128 9.2, 192 10.9, 256 18.9, 384 39.1
        ("levit-128s", 7.78), ("levit-128", 9.2), ("levit-192", 10.9), ("levit-256", 18.9), ("levit-384", 39.1),
        # arXiv:2103.16302, table 2: PiT-Ti 4.9 (4.85 in naver-ai/pit's weights), XS 10.6, S 23.5, B 73.8
        ("pit-tiny", 4.85), ("pit-xs", 10.6), ("pit-small", 23.5), ("pit-base", 73.8),
    ],
)  # fmt: skip
def test_published_sizes(name: str, millions: float) -> None:
    assert parameters(create_model(name)).all / 1e6 == pytest.approx(millions, rel=0.01)
