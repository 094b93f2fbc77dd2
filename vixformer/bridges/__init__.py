"""Our attention in other people's models: those of transformers, of timm, and of your own code."""
