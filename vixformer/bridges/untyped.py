"""The type of what belongs to others."""

from typing import Any

Foreign = Any
"""A model, a module, a configuration, an input or an answer of somebody else's code, which says nothing of its type."""
