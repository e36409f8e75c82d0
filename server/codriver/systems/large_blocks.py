"""Large blocks of memory: how a system's allocator is told to give them back as soon as they are free."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Final

LARGE_BYTES: Final = 256 * 2**10
"""From this size on a block is the system's own, whose pages are new each time: for a megabyte that takes 0.1 ms."""
_MMAP_THRESHOLD: Final = -3
"""Source: mallopt(3), `M_MMAP_THRESHOLD`."""


def give_back_large_blocks() -> None:
    """Have large blocks given back when they are free, where glibc allocates. Again is harmless; it takes some ms.

    By itself glibc raises its bound to the largest block that was freed, up to 32 MiB, and puts what is smaller among
    all else: long texts that come and go then leave holes between what stays, of any number of megabytes.
    """
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415  # milliseconds, before which nobody can connect

        with suppress(AttributeError, OSError):  # another C library, such as musl's, which gives them back by itself
            ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, LARGE_BYTES)
