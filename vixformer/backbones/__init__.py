"""Whole networks, one a file; each owns its Config. Adding a file adds a model."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__, __name__ + "."):
    importlib.import_module(_module.name)
