"""Reading a pickle that may come from anywhere: nothing but numpy arrays and plain containers can be built."""

from __future__ import annotations

import io
import pickle

import numpy as np


def _latin1(text: str, encoding: str) -> bytes:
    """How Python 3 writes bytes into an old pickle."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it encodes text as {encoding}")
    return text.encode("latin1")


class _Harmless(pickle.Unpickler):
    """Pickles of numpy arrays name exactly these; whatever else a pickle asks for is refused before it is looked up."""

    allowed = {
        ("numpy.core.multiarray", "_reconstruct"): np.zeros(0).__reduce__()[0],
        ("numpy._core.multiarray", "_reconstruct"): np.zeros(0).__reduce__()[0],
        ("_codecs", "encode"): _latin1,
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
    }

    def find_class(self, module_name: str, global_name: str, /) -> object:
        try:
            return self.allowed[module_name, global_name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"it asks for {module_name}.{global_name}, which a data set has no use for"
            ) from None


def load_harmless(data: bytes) -> object:
    """The object, or `ValueError`. Strings of Python 2 come back as bytes."""
    try:
        return _Harmless(io.BytesIO(data), encoding="bytes").load()
    except Exception as error:  # a damaged pickle can fail in any way, none of them worth a traceback
        raise ValueError(str(error) or type(error).__name__) from None
