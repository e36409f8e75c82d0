"""Editor of one workspace: one batch at a time at a file, acts of several steps, and undo for each caller.

An act is one plan of steps: write, load, test, then keep or restore. A refusal, a failure or a client that leaves ends
the act at that step, and the effects of the earlier steps are put back.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread

from codriver.editing.atomic_batch import commit
from codriver.editing.batch import Create, FileResult, Limits, Wanted, edits_refused, plan, unified
from codriver.editing.editable_paths import NotEditableError, editable_path, show
from codriver.editing.file_changes import (
    MISSING,
    Change,
    FilesChangedError,
    FilesUnwritableError,
    UnreadableError,
    read,
)
from codriver.editing.references import Elsewhere, find_elsewhere, renamed_by
from codriver.errors import refused
from codriver_lisp.edit import Rename
from codriver_lisp.errors import EditError, EditFailedError
from codriver_lisp.symbol_rename import Renamed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
    from pathlib import Path

    from codriver.editing.atomic_batch import BatchRecords
    from codriver.editing.file_changes import Snapshot
    from codriver.editing.file_languages import FileEdit
    from codriver.errors import RefusedError


EDIT_THREADS = 4
"""Threads that read and write files at a time; each holds a number of folders open."""
MAX_CALLERS = 200
MAX_BATCHES = 20
MAX_UNDO_BYTES = 64 * 2**20
"""The bytes that all undo batches together may hold; the caller that edited least recently is forgotten first."""


Result = TypeVar("Result")


def _nothing_to_undo() -> RefusedError:
    """Return the refusal that the caller has no batch to take back."""
    return refused(
        "nothing-to-undo",
        "there is no batch of yours to take back",
        hint="a batch is known by its who, or where it had none by the connection it came over; "
        f"the last {MAX_BATCHES} are kept until the server stops",
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a batch, file by file in the order they were first named."""

    files: tuple[FileResult, ...]
    elsewhere: Mapping[int, Elsewhere] = field(default_factory=dict)
    """The other files with the name, by the index of the renaming in the batch."""


Guard = Callable[[Change], str]
"""Says why a change is forbidden; nothing for an allowed change."""


def _nothing(_change: Change) -> str:
    return ""


def _other_file(file: str, changed: Sequence[str]) -> RefusedError:
    return refused(
        "nothing-to-undo",
        f"your last edit changed {', '.join(changed) or 'nothing'}, not {file}",
        hint="name a file of your last edit; edits are taken back from the last one on",
    )


class Editor:
    """Edits the files of one workspace, whose path is resolved. Lives as long as its server."""

    def __init__(self, workspace: Path, records: BatchRecords | None = None) -> None:
        self._workspace = workspace
        self._records = records
        self._untold: list[str] = []
        self._threads = anyio.CapacityLimiter(EDIT_THREADS)
        self._locks: WeakValueDictionary[Path, anyio.Lock] = WeakValueDictionary()
        self._done: OrderedDict[str, list[tuple[Change, ...]]] = OrderedDict()

    def recover(self) -> list[str]:
        """Take back the half-done batches of killed servers; the results in words, which the next edit repeats."""
        found = [] if self._records is None else self._records.recover()
        self._untold += found
        return found

    def take_untold(self) -> list[str]:
        """Return the words of `recover` that no edit has told, once."""
        told, self._untold = self._untold, []
        return told

    async def edit(
        self,
        caller: str,
        wanted: Sequence[Wanted],
        *,
        limits: Limits,
        allow_outside: bool,
        guard: Guard = _nothing,
        dry_run: bool = False,
    ) -> Outcome:
        """Do all of `wanted` or nothing; with `dry_run` only tell the planned changes.

        `guard` says of each change why it is forbidden, or nothing.

        Raises:
            RefusedError: the problems, by the index of the edit.
            FilesChangedError: somebody else wrote one of the files at the same time.
            FilesUnwritableError: the system refused.
        """
        locate_all = partial(self._locate, wanted, allow_outside=allow_outside)
        paths, problems = await self._in_thread(locate_all)
        elsewhere = await self._in_thread(partial(self._look_elsewhere, paths))
        problems += self._spread(paths, elsewhere, wanted)
        async with self._locked(paths):
            results = await self._in_thread(partial(self._plan, paths, limits, problems, wanted, guard))
            changes = _changes(results)
            if not dry_run:
                with anyio.CancelScope(shield=True):  # the changes must be known, so that they can be taken back
                    if changes:
                        await self._in_thread(partial(commit, changes, self._workspace, self._records))
                    # Also a batch that changed nothing: otherwise taking it back would take back the batch before.
                    self._remember(caller, changes)
        return Outcome(tuple(results), elsewhere)

    def adopt(self, caller: str, former: str) -> None:
        """Give the batches of a `former` caller to `caller`, the same client: its newest, if `caller` has others."""
        if batches := self._done.pop(former, None):
            self._done[caller] = [*self._done.get(caller, []), *batches][-MAX_BATCHES:]
            self._done.move_to_end(caller)

    async def undo(self, caller: str, file: str | None = None) -> tuple[Outcome, int]:
        """Take back the last remaining batch of `caller`; its outcome, and the number of batches then left.

        With `file`, the batch has to have changed that file.

        Raises:
            RefusedError: the caller has no batch, or it did not change `file`.
            FilesChangedError: a file is not as the batch left it; the batch can be taken back once the file is.
            FilesUnwritableError: the system refused.
        """
        batches = self._done.get(caller)
        if not batches:
            raise _nothing_to_undo()
        batch = batches[-1]
        if file is not None and file not in (changed := [show(self._workspace, change.path) for change in batch]):
            path = await self._in_thread(partial(editable_path, self._workspace, file, allow_outside=True))
            if path not in [change.path for change in batch]:
                raise _other_file(file, changed)
        if not batch:  # the batch changed nothing, so there is nothing to wait for
            batches.pop()
            return Outcome(()), len(batches)
        async with self._locked([change.path for change in batch]):
            if not batches or batches[-1] is not batch:  # taken back while this call waited
                raise _nothing_to_undo()
            with anyio.CancelScope(shield=True):
                files = await self._in_thread(partial(self._take_back, batch))
                batches.pop()
        return Outcome(files), len(batches)

    async def put_back(self, caller: str, outcome: Outcome) -> list[str]:
        """Restore each file from before a batch of `caller`; the files that stay, as answers show them.

        A file stays if it is not as the batch left it, or cannot be written. The batch cannot be taken back any more.
        """
        changes = _changes(outcome.files)
        async with self._locked([change.path for change in changes]):
            with anyio.CancelScope(shield=True):
                left = await self._in_thread(partial(self._put_back, changes))
        batches = self._done.get(caller, [])
        self._done[caller] = [batch for batch in batches if batch != changes]
        return left

    async def read(self, given: str, *, allow_outside: bool) -> tuple[Path, Snapshot]:
        """Return the path of the file named by `given`, and the file as it is now.

        Raises:
            NotEditableError, UnreadableError: the file cannot be edited, for the reason said.
        """
        path = await self._in_thread(partial(editable_path, self._workspace, given, allow_outside=allow_outside))
        return path, await self._in_thread(partial(read, path, self._workspace))

    async def rewrite(self, path: Path, make: Callable[[bytes | None], bytes]) -> None:
        """Replace a file by the result of `make`, which runs in a thread. This is no batch and cannot be taken back.

        Raises:
            FilesChangedError: somebody else wrote the file at the same time.
            FilesUnwritableError: the system refused.
            UnreadableError: the file cannot be edited, for the reason said. Whatever `make` raises; then nothing was
            written.
        """

        def write() -> None:
            before = read(path, self._workspace)
            after = make(before.data)
            if after != before.data:
                commit([Change(path, before, after)], self._workspace, self._records)

        async with self._locked([path]):
            with anyio.CancelScope(shield=True):
                await self._in_thread(write)

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        """Run a function that waits for a disk in one of the editor's own threads."""
        return await anyio.to_thread.run_sync(work, limiter=self._threads)

    def _locate(
        self, wanted: Sequence[Wanted], *, allow_outside: bool
    ) -> tuple[dict[Path, dict[int, FileEdit | Create]], list[tuple[int, str, EditError]]]:
        """Return the edits by file, and the problems with their paths."""
        paths: dict[Path, dict[int, FileEdit | Create]] = {}
        problems = []
        for index, want in enumerate(wanted):
            try:
                path = editable_path(self._workspace, want.file, allow_outside=allow_outside)
            except NotEditableError as error:
                problems.append((index, want.file, EditError(str(error))))
            else:
                paths.setdefault(path, {})[index] = want.edit
        return paths, problems

    def _look_elsewhere(self, paths: Mapping[Path, Mapping[int, FileEdit | Create]]) -> dict[int, Elsewhere]:
        """Return the uses of a renamed name in other files, by the renaming's index."""
        found = {}
        for path, edits in paths.items():
            for index, edit in edits.items():
                try:
                    name = renamed_by(path, self._workspace, edit) if isinstance(edit, Rename) else None
                except (OSError, ValueError, EditFailedError):
                    found[index] = Elsewhere(None)  # the plan itself tells the problem
                    continue
                if name is not None:
                    found[index] = find_elsewhere(self._workspace, path, name)
        return found

    def _spread(
        self,
        paths: dict[Path, dict[int, FileEdit | Create]],
        elsewhere: dict[int, Elsewhere],
        wanted: Sequence[Wanted],
    ) -> list[tuple[int, str, EditError]]:
        """Add to `paths` the changes of each renaming with `files: all` in other files; give their problems."""
        problems = []
        for index, want in enumerate(wanted):
            if not want.is_everywhere:
                continue
            found = elsewhere.get(index)
            if found is None:
                words = (
                    "files: all is for a name of the file's own namespace, or a keyword, in all of a file; not in Hy"
                )
                problems.append((index, want.file, EditError(words)))
                continue
            problems += [(index, file, problem) for file, problem in found.unread]
            if found.name is not None:
                for path in found.files:
                    paths.setdefault(path, {})[index] = found.name
        return problems

    def _plan(
        self,
        paths: dict[Path, dict[int, FileEdit | Create]],
        limits: Limits,
        problems: list[tuple[int, str, EditError]],
        wanted: Sequence[Wanted],
        guard: Guard,
    ) -> list[FileResult]:
        """Return the results of all edits, by file.

        Raises:
            RefusedError: an edit cannot be done.
        """
        results = []
        for path, edits in paths.items():
            result = plan(self._workspace, path, edits, limits)
            if isinstance(result, FileResult) and (words := guard(result.change)):
                result = [(index, EditError(f"{result.display_path}: {words}")) for index in edits]
            if isinstance(result, FileResult):
                results.append(result)
            else:
                name = show(self._workspace, path)
                own = {index for index in edits if not isinstance(edits[index], Renamed)}
                problems = problems + [
                    (index, wanted[index].file if index in own else name, problem) for index, problem in result
                ]
        if problems:
            raise edits_refused(sorted(problems, key=lambda problem: problem[0]), len(wanted))
        return results

    def _put_back(self, batch: tuple[Change, ...]) -> list[str]:
        try:
            self._take_back(batch)
        except (FilesChangedError, FilesUnwritableError):
            pass
        else:
            return []
        left = []
        for change in batch:
            try:
                self._take_back((change,))
            except (FilesChangedError, FilesUnwritableError):
                if not self._is_as_before(change):
                    left.append(show(self._workspace, change.path))
        return left

    def _is_as_before(self, change: Change) -> bool:
        try:
            return read(change.path, self._workspace).data == change.before.data
        except UnreadableError:
            return False

    def _take_back(self, batch: tuple[Change, ...]) -> tuple[FileResult, ...]:
        backward = []
        changed = []
        for change in batch:
            try:
                now = read(change.path, self._workspace)
            except UnreadableError:
                now = MISSING
            if now.data != change.after:
                changed.append(show(self._workspace, change.path))
            else:
                backward.append(Change(change.path, now, change.before.data))
        if changed:
            raise FilesChangedError(changed, "look at it, and change by hand what is to be changed")
        commit(backward, self._workspace, self._records)
        return tuple(self._result_of_undo(change) for change in backward)

    def _result_of_undo(self, change: Change) -> FileResult:
        name = show(self._workspace, change.path)
        old = (change.before.data or b"").decode(errors="replace")
        new = (change.after or b"").decode(errors="replace")
        is_new, is_gone = change.before.data is None, change.after is None
        return FileResult(change, name, {}, unified(old, new, name, is_new=is_new, is_gone=is_gone))

    def _remember(self, caller: str, changes: tuple[Change, ...]) -> None:
        batches = self._done.setdefault(caller, [])
        batches.append(changes)
        self._done.move_to_end(caller)
        del batches[:-MAX_BATCHES]
        while len(self._done) > MAX_CALLERS or (len(self._done) > 1 and self._held_bytes() > MAX_UNDO_BYTES):
            self._done.popitem(last=False)
        while len(batches) > 1 and self._held_bytes() > MAX_UNDO_BYTES:
            del batches[0]

    def _held_bytes(self) -> int:
        return sum(
            len(data or b"")
            for batches in self._done.values()
            for batch in batches
            for change in batch
            for data in (change.before.data, change.after)
        )

    @contextlib.asynccontextmanager
    async def _locked(self, paths: Iterable[Path]) -> AsyncIterator[None]:
        """Hold the locks of all `paths`, taken in one order everywhere, so that no two batches wait for each other."""
        async with contextlib.AsyncExitStack() as stack:
            for path in sorted(paths):
                lock = self._locks.setdefault(path, anyio.Lock())
                await stack.enter_async_context(lock)
            yield


def _changes(results: Iterable[FileResult]) -> tuple[Change, ...]:
    """Return the changes of a batch that reach the disk."""
    return tuple(result.change for result in results if result.change.before.data != result.change.after)


@dataclass(frozen=True, slots=True)
class PutBack:
    """The outcome of putting back: the files and definitions that stay, being newer or unchangeable.

    `why`: why the definitions were not put back, in words; empty if they were.
    """

    files: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    why: str = ""


class LiveSide(Protocol):
    """The steps of an act in a REPL. Each returns whether it succeeded, and keeps its failure to itself."""

    async def load(self, outcome: Outcome) -> bool:
        """Load the changed files."""
        ...

    async def test(self, outcome: Outcome) -> bool:
        """Run the tests."""
        ...

    async def commit(self) -> None:
        """Release the previous definitions."""
        ...

    async def put_back(self) -> tuple[Sequence[str], str]:
        """Put back the definitions; the names that stay, and the reason for a failure. Never raises."""
        ...


@dataclass(frozen=True, slots=True)
class OnEnd:
    """The end of an act: the written files, and after a failed step the outcome of putting all back."""

    outcome: Outcome
    put_back: PutBack | None = None


class Act:
    """One act in a workspace. `restores`: a failed step has all changes put back.

    `put_files` makes files as they were before, and gives those that stay, as somebody else wrote them meanwhile.
    """

    def __init__(
        self, put_files: Callable[[Outcome], Awaitable[Sequence[str]]], side: LiveSide, *, restores: bool
    ) -> None:
        self._put_files = put_files
        self._side = side
        self._restores = restores

    async def run(self, write: Callable[[], Awaitable[Outcome]]) -> OnEnd:
        """Do the steps. When `write` raises, nothing was done; a cancellation continues when all is put back."""
        outcome = await write()
        is_well, put_back = False, None
        try:
            is_well = await self._side.load(outcome) and await self._side.test(outcome)
        finally:
            with anyio.CancelScope(shield=True):  # a cancelled act must not stay half done
                put_back = await self._end(outcome, is_well=is_well)
        return OnEnd(outcome, put_back)

    async def _end(self, outcome: Outcome, *, is_well: bool) -> PutBack | None:
        if is_well or not self._restores:
            await self._side.commit()
            return None
        try:
            files = await self._put_files(outcome)
        finally:
            names, why = await self._side.put_back()
        return PutBack(tuple(files), tuple(names), why)
