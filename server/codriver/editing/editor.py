"""The editor for a workspace, which applies batches of edits and can undo the batches of each caller."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread

from codriver.editing.atomic_batch import commit_changes
from codriver.editing.batch import (
    CreateFile,
    EditRequest,
    FileResult,
    SearchLimits,
    edits_refused_error,
    plan_file_edits,
    unified_diff,
)
from codriver.editing.editable_paths import NotEditableError, editable_path, path_for_display
from codriver.editing.file_changes import (
    MISSING,
    Change,
    UnreadableError,
    read_snapshot,
    read_text_snapshot,
)
from codriver.editing.file_languages import NO_LANGUAGES
from codriver.editing.source_encoding import decode_with_replacement
from codriver.editing.write_errors import FilesChangedError, FilesUnwritableError
from codriver.errors import refused
from codriver_lisp.errors import EditError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
    from pathlib import Path

    from codriver.editing.atomic_batch import BatchRecords
    from codriver.editing.file_changes import Snapshot
    from codriver.editing.file_languages import ApplyText, FileEdit
    from codriver.errors import RefusedError


MAX_EDIT_THREADS = 4
"""Maximum number of threads that read and write files. Each one keeps several directories open."""
MAX_CALLERS = 200
"""Maximum number of callers whose batches can be undone."""
MAX_BATCHES_PER_CALLER = 20
"""Maximum number of batches that one caller can undo."""
MAX_UNDO_BYTES = 64 * 2**20
"""Maximum total size of all undo batches. The batches of the least recent caller are discarded first."""


Result = TypeVar("Result")


def _nothing_to_undo_error() -> RefusedError:
    """Return the error for an undo request by a caller that has no batch to undo."""
    return refused(
        "nothing-to-undo",
        "you have no batch of edits to revert",
        hint="A batch belongs to the `who` that sent it or, without `who`, to the connection. Until the server "
        f"stops, each caller can revert its last {MAX_BATCHES_PER_CALLER} batches.",
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a batch of edits for each file, in the order in which the files were first named."""

    files: tuple[FileResult, ...]
    loaded_in: Mapping[Path, tuple[str, int]] = field(default_factory=dict)
    """After an undo, the id and the generation of the REPL that had loaded each file."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """The changes of a batch, and the id and the generation of the REPL that was asked to load each file."""

    changes: tuple[Change, ...]
    loaded_in: Mapping[Path, tuple[str, int]] = field(default_factory=dict)


Guard = Callable[[Change], str]
"""A function that returns why a change is forbidden, or an empty string if it is allowed."""


def _allow_any_change(_change: Change) -> str:
    return ""


def _other_file_error(file: str, changed: Sequence[str]) -> RefusedError:
    return refused(
        "nothing-to-undo",
        f"your last edit changed {', '.join(changed) or 'nothing'}, not {file}",
        hint="Name a file that your last edit changed. Edits are reverted one by one, starting with the last.",
    )


class Editor:
    """Edits the files of one workspace, for the lifetime of a server. The path of the workspace must be resolved."""

    def __init__(
        self,
        workspace: Path,
        records: BatchRecords | None = None,
        languages: Mapping[str, ApplyText] = NO_LANGUAGES,
    ) -> None:
        """Create the editor of a workspace.

        `languages` are the languages that features add, by suffix: see `codriver.editing.file_languages`.
        """
        self._workspace = workspace
        self._languages = languages
        self._records = records
        self._recovery_notes: list[str] = []
        self._threads = anyio.CapacityLimiter(MAX_EDIT_THREADS)
        self._locks: WeakValueDictionary[Path, anyio.Lock] = WeakValueDictionary()
        self._done: OrderedDict[str, list[_Batch]] = OrderedDict()

    def recover(self) -> list[str]:
        """Revert unfinished batches of servers that were killed, and return a message about each.

        The messages are also stored for `pop_recovery_notes`.
        """
        found = [] if self._records is None else self._records.recover()
        self._recovery_notes += found
        return found

    def pop_recovery_notes(self) -> list[str]:
        """Return the messages of `recover` and clear them, so that only one answer includes them."""
        notes, self._recovery_notes = self._recovery_notes, []
        return notes

    async def edit(
        self,
        caller: str,
        requests: Sequence[EditRequest],
        *,
        limits: SearchLimits,
        allow_outside: bool,
        guard: Guard = _allow_any_change,
        dry_run: bool = False,
    ) -> Outcome:
        """Apply all edits or none. With `dry_run`, only return the planned changes.

        `guard` returns why a change is forbidden, or "".

        Raises:
            RefusedError: edits cannot be applied. The details have the errors by index.
            FilesChangedError: one of the files was changed at the same time.
            FilesUnwritableError: the system refused to write.
        """
        locate_all = partial(self._locate, requests, allow_outside=allow_outside)
        paths, errors = await self._in_thread(locate_all)
        async with self._lock_paths(paths):
            results = await self._in_thread(partial(self._plan, paths, limits, errors, requests, guard))
            changes = _changes(results)
            if not dry_run:
                with anyio.CancelScope(shield=True):  # the changes must be recorded, so that they can be reverted
                    if changes:
                        await self._in_thread(partial(commit_changes, changes, self._workspace, self._records))
                    # Also a batch without changes, because reverting it would otherwise revert the previous batch.
                    self._remember(caller, changes)
        return Outcome(tuple(results))

    def adopt(self, caller: str, previous: str) -> None:
        """Let `caller` undo the batches of `previous`, which is an earlier name of the same client."""
        if batches := self._done.pop(previous, None):
            self._done[caller] = [*self._done.get(caller, []), *batches][-MAX_BATCHES_PER_CALLER:]
            self._done.move_to_end(caller)

    async def undo(self, caller: str, file: str | None = None) -> tuple[Outcome, int]:
        """Revert the latest batch of a caller. Return the outcome and how many of the caller's batches are left.

        With `file`, the batch must have changed that file.

        Raises:
            RefusedError: the caller has no batch, or the batch did not change `file`.
            FilesChangedError: a file has changed since the batch. Once this change is reverted, the batch can be
                undone.
            FilesUnwritableError: the system refused to write.
        """
        batches = self._done.get(caller)
        if not batches:
            raise _nothing_to_undo_error()
        batch = batches[-1]
        if file is not None and file not in (
            changed := [path_for_display(self._workspace, change.path) for change in batch.changes]
        ):
            path = await self._in_thread(partial(editable_path, self._workspace, file, allow_outside=True))
            if path not in [change.path for change in batch.changes]:
                raise _other_file_error(file, changed)
        if not batch.changes:  # a batch without changes needs no locks
            batches.pop()
            return Outcome(()), len(batches)
        async with self._lock_paths([change.path for change in batch.changes]):
            if not batches or batches[-1] is not batch:  # reverted while this call waited
                raise _nothing_to_undo_error()
            with anyio.CancelScope(shield=True):
                files = await self._in_thread(partial(self._revert, batch.changes))
                batches.pop()
        return Outcome(files, batch.loaded_in), len(batches)

    async def put_back(self, caller: str, outcome: Outcome) -> list[str]:
        """Restore the files of a batch of `caller`, and return the display paths of files that were not restored.

        A file is not restored if it has changed since the batch, or cannot be written. The batch can no longer be
        undone.
        """
        changes = _changes(outcome.files)
        async with self._lock_paths([change.path for change in changes]):
            with anyio.CancelScope(shield=True):
                left = await self._in_thread(partial(self._put_back, changes))
        batches = self._done.get(caller, [])
        self._done[caller] = [batch for batch in batches if batch.changes != changes]
        return left

    def record_load(self, caller: str, outcome: Outcome, loaded_in: Mapping[Path, tuple[str, int]]) -> None:
        """Record which REPLs were asked to load a batch of a caller, so that they can load the text before it."""
        changes = _changes(outcome.files)
        for index, batch in enumerate(batches := self._done.get(caller, [])):
            if batch.changes == changes:
                batches[index] = replace(batch, loaded_in=loaded_in)

    async def read(self, given: str, *, allow_outside: bool) -> tuple[Path, Snapshot]:
        """Return the resolved path of a text file and its current content. `given` is the path from the caller.

        Raises:
            NotEditableError, UnreadableError: the file cannot be edited.
        """
        path = await self._in_thread(partial(editable_path, self._workspace, given, allow_outside=allow_outside))
        return path, await self._in_thread(partial(read_text_snapshot, path, self._workspace))

    async def rewrite(self, path: Path, make: Callable[[bytes | None], bytes]) -> None:
        """Replace a file with the result of `make`, which a thread calls with the current content. Cannot be undone.

        Exceptions from `make` propagate, and nothing is written.

        Raises:
            FilesChangedError: the file was changed at the same time.
            FilesUnwritableError: the system refused to write.
            UnreadableError: the file cannot be edited.
        """

        def write() -> None:
            before = read_snapshot(path, self._workspace)
            after = make(before.data)
            if after != before.data:
                commit_changes([Change(path, before, after)], self._workspace, self._records)

        async with self._lock_paths([path]):
            with anyio.CancelScope(shield=True):
                await self._in_thread(write)

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        """Run a function that may block on the disk in one of the editor's threads."""
        return await anyio.to_thread.run_sync(work, limiter=self._threads)

    def _locate(
        self, requests: Sequence[EditRequest], *, allow_outside: bool
    ) -> tuple[dict[Path, dict[int, FileEdit | CreateFile]], list[tuple[int, str, EditError]]]:
        """Group the edits by file. Also return the errors of those whose path is invalid."""
        paths: dict[Path, dict[int, FileEdit | CreateFile]] = {}
        errors = []
        for index, request in enumerate(requests):
            try:
                path = editable_path(self._workspace, request.file, allow_outside=allow_outside)
            except NotEditableError as error:
                errors.append((index, request.file, EditError(str(error))))
            else:
                paths.setdefault(path, {})[index] = request.edit
        return paths, errors

    def _plan(
        self,
        paths: dict[Path, dict[int, FileEdit | CreateFile]],
        limits: SearchLimits,
        errors: list[tuple[int, str, EditError]],
        requests: Sequence[EditRequest],
        guard: Guard,
    ) -> list[FileResult]:
        """Return the result of the edits for each file.

        Raises:
            RefusedError: an edit cannot be applied.
        """
        results = []
        for path, edits in paths.items():
            result = plan_file_edits(self._workspace, path, edits, limits, self._languages)
            if isinstance(result, FileResult) and (words := guard(result.change)):
                result = [(index, EditError(f"{result.display_path}: {words}")) for index in edits]
            if isinstance(result, FileResult):
                results.append(result)
            else:
                errors = errors + [(index, requests[index].file, error) for index, error in result]
        if errors:
            raise edits_refused_error(sorted(errors, key=lambda error: error[0]), len(requests))
        return results

    def _put_back(self, batch: tuple[Change, ...]) -> list[str]:
        try:
            self._revert(batch)
        except (FilesChangedError, FilesUnwritableError):
            pass
        else:
            return []
        left = []
        for change in batch:
            try:
                self._revert((change,))
            except (FilesChangedError, FilesUnwritableError):
                if not self._is_as_before(change):
                    left.append(path_for_display(self._workspace, change.path))
        return left

    def _is_as_before(self, change: Change) -> bool:
        try:
            return read_snapshot(change.path, self._workspace).data == change.before.data
        except UnreadableError:
            return False

    def _revert(self, batch: tuple[Change, ...]) -> tuple[FileResult, ...]:
        backward = []
        changed = []
        for change in batch:
            try:
                now = read_snapshot(change.path, self._workspace)
            except UnreadableError:
                now = MISSING
            if now.data != change.after:
                changed.append(path_for_display(self._workspace, change.path))
            else:
                backward.append(Change(change.path, now, change.before.data))
        if changed:
            raise FilesChangedError(changed, "Check the file, and edit its text directly.")
        commit_changes(backward, self._workspace, self._records)
        return tuple(self._undo_result(change) for change in backward)

    def _undo_result(self, change: Change) -> FileResult:
        name = path_for_display(self._workspace, change.path)
        old = decode_with_replacement(change.path, change.before.data or b"")
        new = decode_with_replacement(change.path, change.after or b"")
        is_new, is_gone = change.before.data is None, change.after is None
        return FileResult(change, name, {}, unified_diff(old, new, name, is_new=is_new, is_gone=is_gone))

    def _remember(self, caller: str, changes: tuple[Change, ...]) -> None:
        batches = self._done.setdefault(caller, [])
        batches.append(_Batch(changes))
        self._done.move_to_end(caller)
        del batches[:-MAX_BATCHES_PER_CALLER]
        while len(self._done) > MAX_CALLERS or (len(self._done) > 1 and self._stored_bytes() > MAX_UNDO_BYTES):
            self._done.popitem(last=False)
        while len(batches) > 1 and self._stored_bytes() > MAX_UNDO_BYTES:
            del batches[0]

    def _stored_bytes(self) -> int:
        return sum(
            len(data or b"")
            for batches in self._done.values()
            for batch in batches
            for change in batch.changes
            for data in (change.before.data, change.after)
        )

    @contextlib.asynccontextmanager
    async def _lock_paths(self, paths: Iterable[Path]) -> AsyncIterator[None]:
        """Lock these paths for the duration of the context, always in the same order to prevent deadlocks."""
        async with contextlib.AsyncExitStack() as stack:
            for path in sorted(paths):
                lock = self._locks.setdefault(path, anyio.Lock())
                await stack.enter_async_context(lock)
            yield


def _changes(results: Iterable[FileResult]) -> tuple[Change, ...]:
    """Return the changes from `results`, except those that leave their file as it was."""
    return tuple(result.change for result in results if result.change.before.data != result.change.after)
