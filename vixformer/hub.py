"""Models from the Hugging Face hub, where its package is installed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any


def is_name(text: str) -> bool:
    return re.fullmatch(r"[\w.-]+/[\w.-]+", text) is not None


def download(name: str) -> Path:
    """A folder with the model `owner/name`, from the hub or from what is kept of it."""
    hub = library()
    try:
        return Path(hub.snapshot_download(name, allow_patterns=["*.json", "*.safetensors"]))
    except (hub.errors.HfHubHTTPError, OSError, ValueError) as error:
        raise ValueError(f"{name} is neither a folder here nor a model of the hub that can be had: {first_line(error)}") from None


def here(folder: str | Path) -> Path:
    """The folder itself where it is one, else what the hub has under this name."""
    path = Path(folder)
    return download(str(folder)) if not path.exists() and is_name(str(folder)) else path


def first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def library() -> Any:
    try:
        import huggingface_hub
        import huggingface_hub.errors
    except ImportError:
        raise ValueError('the hub needs huggingface_hub: pip install "vixformer[hub]"') from None
    return huggingface_hub
