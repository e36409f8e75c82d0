"""Record imports that draw random numbers, and find the generators to seed again in each child process."""

from __future__ import annotations

import sys

from .recording_wrappers import is_called_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from .import_record import ImportRecords

REDRAWN_MODULES = ("random", "multiprocessing.process", "numpy.random")
"""Modules that draw random numbers during import, including their submodules.

In each run, `draw_again` replaces these numbers with new ones.
"""
KEY_DRAWING_MODULES = frozenset({"opentelemetry.context"})
"""Modules that draw random numbers only for the names of keys that are not visible outside the process."""


def redraws_random_numbers(name: str) -> bool:
    """Return whether a module draws its random numbers again when it is revealed."""
    return any(f"{name}.".startswith(f"{prefix}.") for prefix in REDRAWN_MODULES)


class RecordingUrandom:
    """A wrapper for `os.urandom` that records when an import draws random bytes."""

    def __init__(self, imports: ImportRecords, real: Callable[[int], bytes]) -> None:
        self.imports = imports
        self.real = real

    def __call__(self, size: int) -> bytes:
        """Return random bytes, and record an obstacle for the current import unless it may draw them."""
        imports = self.imports
        is_allowed = (
            imports.current() is None or redraws_random_numbers(imports.in_progress[-1]) or imports.is_draw_allowed
        )
        if not is_allowed and not is_called_from(KEY_DRAWING_MODULES):
            imports.add_current_obstacle("draws random numbers")
        return self.real(size)


class RecordingSeedSource:
    """A wrapper for the function with which NumPy seeds generators. It allows imports to draw random bytes.

    The generators are found by `find_generators` and seeded again in each child process.
    """

    def __init__(self, imports: ImportRecords, real: Callable[..., Any]) -> None:
        self.imports = imports
        self.real = real

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call the function, and allow it to draw random numbers."""
        self.imports.is_draw_allowed = True
        try:
            return self.real(*arguments, **options)
        finally:
            self.imports.is_draw_allowed = False


def find_generators(objects: Iterable[Any]) -> list[Any]:
    """Return those objects that are bit generators of NumPy with a random seed, which has more than 64 bits."""
    kind: Any = getattr(sys.modules.get("numpy.random.bit_generator"), "BitGenerator", None)
    found = [candidate for candidate in objects if kind is not None and issubclass(type(candidate), kind)]
    return [
        candidate
        for candidate in found
        if is_large_seed(getattr(getattr(candidate, "seed_seq", None), "entropy", None))
    ]


def is_large_seed(seed: Any) -> bool:
    """Return whether a seed is an integer of more than 64 bits."""
    return type(seed) is int and seed >> 64 != 0
