"""vixformer: vision transformers whose attention can be swapped layer by layer."""

from vixformer.attention.base import redraw
from vixformer.models import create_attention, create_model, from_pretrained, list_attentions, list_models
from vixformer.version import __version__

__all__ = ["__version__", "create_attention", "create_model", "from_pretrained", "list_attentions", "list_models", "redraw"]
