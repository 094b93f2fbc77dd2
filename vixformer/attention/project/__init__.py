"""From tokens to q, k and v, and back: one way a file. A recipe chooses it by `proj=`, the mechanism never does."""
