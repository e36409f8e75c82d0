"""Errors raised when edits cannot be written, which list the files that could not be restored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codriver.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class UnrestoredFiles:
    """The files of a failed batch that could not be restored, because they have changed since or cannot be written."""

    saved: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return a clause about these files for messages, or "" if every file was restored."""
        words = ""
        if self.saved:
            verb = "was changed by somebody else in the meantime and was left as it is"
            if len(self.saved) > 1:
                verb = "were changed by somebody else in the meantime and were left as they are"
            words += f"; {', '.join(self.saved)} {verb}"
        if self.stuck:
            words += f"; the edits to {', '.join(self.stuck)} could not be reverted"
        return words


class FilesChangedError(RefusedError):
    """Raised when a file was changed after the edit was planned.

    Nothing was written, or everything was reverted except the files in `left`.
    """

    reason = "file-changed"

    def __init__(
        self,
        paths: Sequence[str],
        hint: str = "Read the file again, and repeat the edits.",
        left: UnrestoredFiles | None = None,
    ) -> None:
        self.paths = tuple(paths)
        more = left.describe() if left is not None else ""
        done = f"so the edits were reverted{more}" if more else "so nothing was written"
        super().__init__(
            f"{', '.join(paths)} changed in the meantime, {done}", hint=hint, details={"filePaths": list(paths)}
        )


class FilesUnwritableError(RefusedError):
    """Raised when the system refused to write a file. All files are unchanged except those in `left`."""

    reason = "file-unwritable"

    def __init__(self, path: str, why: str, left: UnrestoredFiles | None = None) -> None:
        hint = "Check that the folder is writable and the disk is not full, and try again."
        more = left.describe() if left is not None else ""
        if more:
            hint = "Check the files that were not restored, and that their folders are writable."
        super().__init__(f"cannot write {path}: {why}{more}", hint=hint)
