"""Ways for tokens to attend to each other: pure ops, feature maps, one mechanism a file, and the language that lays
them out."""

import importlib
import pkgutil
from types import ModuleType

from vixformer.attention import kernels as _kernels
from vixformer.attention import project as _project


def _import_all(package: ModuleType) -> None:
    """Importing a file registers what is in it, so that a new file is all it takes to add a mechanism or a kernel."""
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)


_import_all(_kernels)
_import_all(_project)
_import_all(importlib.import_module(__name__))
