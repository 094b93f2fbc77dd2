"""Layers that attention and backbones share. None knows of either: a block is given the attention that it runs."""
