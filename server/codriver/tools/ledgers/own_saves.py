"""Remember files that the server itself saved, which file watchers must ignore."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codriver.files import stamp_from_status

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from codriver.files import Stamp


@dataclass(slots=True)
class SavedFiles:
    """Stamps of files that this server wrote and loads itself, for the lifetime of one server."""

    stamps: dict[Path, Stamp] = field(default_factory=dict)
    """Stamps of the files as written."""
    _under_way: int = 0

    @property
    def is_writing(self) -> bool:
        """Return whether an edit in progress may be writing files."""
        return self._under_way > 0

    @contextlib.contextmanager
    def edit_in_progress(self) -> Iterator[None]:
        """Mark an edit as in progress, from before its first write until all stamps are recorded."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    def record_stamps(self, paths: Iterable[Path]) -> None:
        """Record the current stamps of files.

        Reads the status of files, so it blocks.
        """
        for path in paths:
            with contextlib.suppress(OSError):
                self.stamps[path] = stamp_from_status(path.stat())
