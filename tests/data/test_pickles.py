"""Pickles that run nothing."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from tests.support.datasets import Evil, write_cifar
from vixformer.data.cifar import CIFAR10


def test_a_pickle_that_wants_to_run_code_does_not(tmp_path: Path) -> None:
    write_cifar(tmp_path, CIFAR10, python=True)
    path, mark = tmp_path / CIFAR10.python / "test_batch", tmp_path / "ran"
    path.write_bytes(pickle.dumps({b"data": Evil(mark)}, protocol=2))
    with pytest.raises(ValueError, match=r"was not run: it asks for posix.system"):
        CIFAR10(tmp_path).read("test")
    assert not mark.exists()
    for content in (
        [],
        {b"data": 3},
        {b"data": np.zeros((2, 5), np.uint8), b"labels": [1, 2]},
        {b"data": np.zeros((1, 3072), np.uint8), b"labels": ["a"]},
    ):
        path.write_bytes(pickle.dumps(content, protocol=2))
        with pytest.raises(ValueError, match="should hold uint8 data"):
            CIFAR10(tmp_path).read("test")
