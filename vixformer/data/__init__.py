"""Files -> uint8 tensors -> augmented batches."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__, __name__ + "."):
    importlib.import_module(_module.name)
