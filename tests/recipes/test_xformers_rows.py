"""The models of "Vision Xformers", tables 1 to 5: their parameters in both counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from benchmarks.rows import exact_of, kept
from vixformer import create_model, load_recipe
from vixformer.measure.cost import parameters

ROWS: dict[str, tuple[int, int]] = {
    "vit": (530_442, 661_770),
    "vip": (531_978, 663_306),
    "vil": (415_754, 809_482),
    "vin": (530_970, 662_298),
    "fnet": (267_786, 399_114),
    "mixer": (8_533_002, 8_533_002),
    "hybrid-vit": (623_178, 754_506),
    "hybrid-vip": (624_714, 756_042),
    "hybrid-vil": (508_490, 902_218),
    "hybrid-vin": (623_706, 755_034),
    "hybrid-fnet": (360_522, 491_850),
    "hybrid-mixer": (8_625_738, 8_625_738),
    "levit": (624_970, 624_970),
    # printed 662,410: a misprint, because its 200-class twin, printed 646,920, has 24,510 more in its head
    "levip": (622_410, 622_410),
    "levil": (506_186, 768_330),
    "levin": (621_402, 621_402),
    "cct": (905_547, 1_036_619),
    "ccp": (907_083, 1_038_155),
    "ccl": (790_859, 1_184_075),
    "ccn": (906_075, 1_037_147),
    "cvt": (1_099_786, 1_102_602),
    "cvp": (827_914, 830_730),
    "cvl": (711_690, 976_650),
    "cvn": (826_906, 829_722),
    "pit": (897_034, 1_028_362),
    "pip": (898_570, 1_029_898),
    "pin": (897_562, 1_028_890),
    "hybrid-pit": (989_770, 1_121_098),
    "hybrid-pip": (991_306, 1_122_634),
    "hybrid-pin": (990_298, 1_121_626),
}
"""Recipe: parameters of modules, as the paper counts, and all of them."""


def built(recipe: str, **options: Any) -> Any:
    config: Any = replace(load_recipe(f"xformers/{recipe}").model, **options)
    return config.owner(config)


@pytest.mark.parametrize("row", ROWS)
def test_parameters_of_the_rows(row: str) -> None:
    with torch.device("meta"):
        found = parameters(built(f"cifar10/{row}"))
    assert (row, found.modules, found.all) == (row, *ROWS[row])


@pytest.mark.parametrize(
    ("row", "modules"),
    # the logs of its notebooks; its text says that RoPE leaves the number of parameters as it is
    [
        ("vit", 530_442), ("vip", 531_978), ("vil", 464_906), ("vin", 530_970),
        ("hybrid-vit", 623_178), ("hybrid-vip", 624_714), ("hybrid-vil", 557_642), ("hybrid-vin", 623_706),
    ],
)  # fmt: skip
def test_parameters_of_the_rotary_rows(row: str, modules: int) -> None:
    found = parameters(built(f"cifar10/{row}-rope"))
    # a class token, no positions
    assert (found.modules, found.all - found.modules) == (modules, 128 + (4 * 65_600 if "vil" in row else 0))
    assert parameters(built(f"cifar10/{row}-rope-adam")).modules == ROWS[row][0]


@pytest.mark.parametrize("row", [row for row in ROWS if "pi" not in row])
def test_parameters_of_the_rows_on_tiny_imagenet(row: str) -> None:
    """64 x 64 images of 200 classes with as many tokens: more by 190 classes, and in patches of 2 by as many weights as
    they are larger."""
    model = built(f"tiny-imagenet/{row}", img_size=64, num_classes=200)
    found, (modules, everything) = parameters(model), ROWS[row]
    assert model.attention_inputs(torch.randn(1, 3, 64, 64))[0][1].shape[1] in (1024, 1025)
    more = 25_662 if row in ("vit", "vip", "vil", "vin", "fnet", "mixer") else 24_510
    assert (row, found.modules - modules, found.all - everything) == (row, more, more)


@pytest.mark.parametrize("row", ["pit", "pip", "pin", "hybrid-pit", "hybrid-pip", "hybrid-pin"])
def test_parameters_of_pit_on_larger_images(row: str) -> None:
    """The paper has no such rows; patches or strides of 2 and 190 classes of the last width."""
    with torch.device("meta"):
        found = parameters(built(f"cifar10/{row}", img_size=64, num_classes=200, patch_size=2))
    assert found.modules - ROWS[row][0] == 190 * 257 + (0 if row.startswith("hybrid") else 1_152)


@pytest.mark.parametrize("row", [row for row in ROWS if row.removeprefix("hybrid-").endswith(("p", "n"))])
def test_linear_rows_keep_a_third_of_naive_attention(row: str) -> None:
    naive = kept(built(f"cifar10/{exact_of(row)}"), naive=True)
    assert kept(built(f"cifar10/{row}")) <= naive / 3


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        # Compact-Transformers' README: CCT-2/3x2 0.28, CCT-6/3x1 3.17 without positions, CCT-7/3x1 3.76, CCT-14/7x2
        # 22.36
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
    with torch.device("meta"):
        model = create_model(name)
    assert parameters(model).all / 1e6 == pytest.approx(millions, rel=0.01)
