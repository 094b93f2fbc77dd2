"""Memory that training gives back and takes again at every step should stay with the process."""

from __future__ import annotations

import ctypes
import platform

TRIM, MMAP = -1, -3  # of glibc's mallopt
LARGEST_MMAP_THRESHOLD = 32 * 2**20
KEPT = 2**30


def keep_freed_memory() -> None:
    """Ask the C library not to return what is freed, up to a gigabyte: fresh pages cost up to a third of a step of a
    small model.

    Whether it does by itself depends on the order of earlier allocations, so without this the same run is fast one day
    and slow the next.
    """
    if platform.libc_ver()[0] == "glibc":
        library = ctypes.CDLL(None)
        library.mallopt(MMAP, LARGEST_MMAP_THRESHOLD)
        library.mallopt(TRIM, KEPT)
