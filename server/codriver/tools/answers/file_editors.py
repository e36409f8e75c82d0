"""Record who edited which file, so that notes about outdated modules can name another caller who edited them last."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from codriver.editing.source_encoding import decode_with_replacement
from codriver.files import last_write_ns
from codriver.repls.contract.events import LOAD_IT_SUFFIX
from codriver.tools.answers.drift_notes import may_be_file_of_module
from codriver.tools.ledgers.file_edits import Edit, EditedFile, is_made_by

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from codriver.editing import FileResult
    from codriver.tools.calls.call import Call

MAX_RECORDED_TEXT_BYTES: Final = 2**18
"""Maximum size of a string recorded with an edit."""


def edited_files(call: Call, who: str, results: Iterable[FileResult]) -> list[EditedFile]:
    """Record edits to files, and return each edited file with its earlier edits."""
    found = []
    for result in results:
        change = result.change
        edit = Edit(
            who,
            call.client,
            call.services.now(),
            _text(change.path, change.before.data),
            _text(change.path, change.after),
        )
        found.append(call.services.ledger.file_edits.add(change.path, result.display_path, edit))
    return found


def record_written_file(call: Call, who: str, path: Path, display_path: str) -> EditedFile:
    """Record that a caller wrote a file without using Codriver's editing tools."""
    return call.services.ledger.file_edits.add(path, display_path, Edit(who, call.client, call.services.now()))


def _text(path: Path, data: bytes | None) -> str | None:
    """Decode the content of a file. Return an empty string for a missing file, and None for a long one."""
    return (
        None if data is not None and len(data) > MAX_RECORDED_TEXT_BYTES else decode_with_replacement(path, data or b"")
    )


async def find_other_editor(call: Call, who: str, path: Path) -> str:
    """Return the name of the last caller to edit a file, if that was not `who`.

    Returns an empty string otherwise, or if another program has written the file since.
    """
    edits = call.services.ledger.file_edits.by_file.get(path, ())
    if not edits or is_made_by(call.state, edits[-1], who, call.client):
        return ""
    is_last = await call.services.work.files.run(call.client, partial(_is_unchanged_since, path, edits[-1].at_ms))
    return edits[-1].who if is_last else ""


def _is_unchanged_since(path: Path, at_ms: int) -> bool:
    """Return whether a file was last written no later than the given time, in epoch milliseconds.

    Reads the status of the file, so it blocks.
    """
    try:
        status = path.stat()
    except OSError:
        return False
    return last_write_ns(status) // 1_000_000 <= at_ms


async def add_editor(call: Call, who: str, note: str) -> str:
    """Add the name of the caller who last edited a module's file to a note, unless it was `who` or is unknown."""
    module = note.partition(" ")[0]
    for path in tuple(call.services.ledger.file_edits.by_file):
        if may_be_file_of_module(path, module) and (by := await find_other_editor(call, who, path)):
            return f"{note.removesuffix(LOAD_IT_SUFFIX)[:-1]}, by {by}){LOAD_IT_SUFFIX}"
    return note
