"""Models from the Hugging Face hub, where its package is installed."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType


def is_name(text: str) -> bool:
    return re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", text) is not None and ".." not in text and "--" not in text


def download(name: str) -> Path:
    """A folder with the model `owner/name`, from the hub or from what is kept of it."""
    try:
        hub = library()
    except ValueError as error:
        raise ValueError(f"{name} is no folder here; {error}") from None
    try:
        return Path(hub.snapshot_download(name, allow_patterns=["*.json", "*.safetensors"]))
    except (hub.errors.HfHubHTTPError, OSError, ValueError) as error:
        raise ValueError(
            f"{name} is not a local folder, and not found on the Hugging Face Hub: {first_line(error)}"
        ) from None


def here(folder: str | Path) -> Path:
    """The folder itself where it is one, else what the hub has under this name; "runs/TYPO" beside a folder "runs" is
    none."""
    path = Path(folder)
    return path if path.exists() or path.parent.exists() or not is_name(str(folder)) else download(str(folder))


def first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def library() -> ModuleType:
    try:
        import huggingface_hub
        import huggingface_hub.errors
    except ImportError:
        raise ValueError('models of the Hugging Face hub need huggingface_hub: pip install "vixformer[hub]"') from None
    return huggingface_hub
