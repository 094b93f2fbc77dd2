"""A server with two models, and a picture."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
import torch

from tests.support.pictures import encoded
from tests.support.recipes import tiny
from tests.support.serving import EXACT, RELU, Served, get
from vixformer.experiments.compare import compare
from vixformer.report.pictures import image_of
from vixformer.serve.app import create_app
from vixformer.serve.server import server as serving
from vixformer.training.parts import load_parts


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    compare({name: tiny(attention=a, epochs=2, fraction=0.1) for name, a in (("exact", EXACT), ("relu", RELU))}, folder)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    server = serving(create_app([folder], margin=2.0))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    url = f"http://127.0.0.1:{port}"
    yield Served(url, folder, [m["name"] for m in get(f"{url}/api/models").json()])
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="session")
def sneaker(served: Served) -> tuple[bytes, str]:
    """A test image that the best model takes for what it is."""
    from vixformer.backbones.backbone import from_pretrained

    recipe = tiny(fraction=0.1)
    parts = load_parts(recipe, torch.device("cpu"))
    model = from_pretrained(next(served.folder.glob(f"{served.models[0]}-seed*")) / "best")
    images, labels = next(parts.test.plain())
    i = int(torch.nonzero(model(images).argmax(-1) == labels)[0])
    picture = image_of(parts.test.images.pixels[parts.test.images.rows[i]])
    return encoded(picture), parts.classes[int(labels[i])]
