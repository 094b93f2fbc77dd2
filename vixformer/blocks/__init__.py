"""Parts that backbones are put together from."""
