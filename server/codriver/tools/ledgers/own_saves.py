"""Files that this server saved itself and loads on request. File watchers leave them alone."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codriver.files import stamp_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from codriver.files import Stamp


@dataclass(slots=True)
class Saves:
    """The saves of ours that are loaded on request, for the life of one server: file watchers leave them alone."""

    stamps: dict[Path, Stamp] = field(default_factory=dict)
    """The stamps of the files as written."""
    _under_way: int = 0

    @property
    def is_writing(self) -> bool:
        """Return whether an edit may be writing just now."""
        return self._under_way > 0

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """The context of an edit, from before its first file is written until the stamps of all are noted."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    def note(self, paths: Iterable[Path]) -> None:
        """Note the present stamps of files. Blocks."""
        for path in paths:
            with contextlib.suppress(OSError):
                self.stamps[path] = stamp_of(path.stat())
