"""Images of the hub."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from PIL import Image

from vixformer.config import Data
from vixformer.data.hub_images import Hub


def test_the_hub_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="write hub:owner/name"):
        Hub(Path("nowhere")).read("train")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ValueError, match="pip install datasets"):
        Hub(Path("nowhere")).read("train")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_data_set_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package `datasets` reads a folder as it reads the hub."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    features = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])})
    for part, count in (("train", 5), ("validation", 2)):
        pictures = [
            Image.new("L" if i == 0 else "RGB", (8, 6), 40 * i if i == 0 else (40 * i, 0, 9)) for i in range(count)
        ]
        rows = {"img": pictures, "label": [i % 2 for i in range(count)]}
        datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "set" / f"{part}.parquet")
    hub = Data(name=f"hub:{tmp_path / 'set'}").source()
    images = hub.read("train")
    assert images.shape == (3, 6, 8)
    assert images.labels.tolist() == [0, 1, 0, 1, 0]
    assert images.classes == ("cat", "dog")
    assert images.pixels[3, :, 0, 0].tolist() == [120, 0, 9]
    assert len(hub.read("test")) == 2
    assert Data(name=f"hub:{tmp_path / 'set'}", resize=4).source().read("test").shape == (3, 4, 4)
