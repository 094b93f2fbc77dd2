"""What vixformer imports, because pyproject.toml names it: every file registers what it defines."""

from vixformer_example import attention, backbone, data, kernel, logger, recipes

__all__ = ["attention", "backbone", "data", "kernel", "logger", "recipes"]
