import pytest
import torch

torch.set_num_threads(1)  # pytest-xdist runs a process a core


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
