"""Load edited files into the live session.

The changed top-level forms of an edited file are loaded in the session that serves the file. Each load is an
evaluation, and appears in the log as one. The first load that does not finish stops the rest.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import anyio

from codriver.core import evaluation_queue
from codriver.core.records import replace
from codriver.core.requests import MAIN_SESSION, Form, Request
from codriver.editing import HY_SUFFIX, FileResult, Outcome
from codriver.editing.python_source import TooLongError, changed_statements, imported_names
from codriver.editing.source_encoding import is_python
from codriver.errors import RefusedError, ReplDisconnectedError
from codriver.repls.kinds import dialects_by_suffix
from codriver.tools.answers.answer_budget import default_budget
from codriver.tools.answers.evaluation_answers import describe_evaluation
from codriver.tools.answers.load_notes import load_notes
from codriver.tools.calls.evaluation_waits import (
    describe_how_to_stop,
    describe_queue,
    find_evaluation,
    stop_evaluation,
    wait_for_evaluation,
)
from codriver.tools.calls.gate import await_search
from codriver.tools.calls.session_choice import Target, await_serving_repl, caller_lane, repl_for_file
from codriver.tools.execution.submission import submit
from codriver_lisp.reader import top_level_forms
from codriver_lisp.requirements import declared_namespace, ns_form
from codriver_lisp.source_text import Document

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from codriver.core.evaluations import Evaluation
    from codriver.core.state import Repl
    from codriver.tools.answers.lean_answers import Evaluating
    from codriver.tools.calls.call import Call, Services

FAILURE_FIELDS = ("reason", "error", "hint")
"""Fields that the answer about an edit copies from the answer about the failed load of its files."""

RELOAD_TIMEOUT_S = 10.0
"""Maximum time to wait for an application that ended during a load to be restarted by its own reloader."""
RELOAD_CHECK_INTERVAL_S = 0.05
"""Time between two checks for the application's next process."""


@dataclass(frozen=True, slots=True)
class ChangedCode:
    """Code that an edit changed in one file."""

    index: int
    """The index of the file among the edited files."""
    name: str
    """The name of the file in answers."""
    text: str
    namespace: str | None
    header: str
    """The current `ns` form, or the names that a Python file imports."""
    forms: tuple[Form, ...]
    """The new top-level forms, with the `ns` form first."""
    reason: str | None
    """The reason why the code cannot be loaded, or None if it can."""


class EditLoads:
    """Loads the files of one edit for the caller `who`.

    `rows` contains what the answer reports about each file, by the file's index. `failure` contains the fields of the
    answer that describe a failed load, if there was one.
    """

    def __init__(
        self,
        call: Call,
        who: str,
        arguments: Evaluating,
        *,
        undo_id: str = "",
        key: str | None = None,
        undone: Mapping[Path, tuple[str, int]] | None = None,
    ) -> None:
        """Prepare loading the files of an edit.

        The REPLs retain the replaced values under `undo_id`, unless it is empty. Loads with an `undo_id` are
        interrupted at their time limit. `key` is the session that loads the files, if the caller named one. `undone` is
        the value of `loaded` for an edit that was reverted. Its files are loaded again where they had been loaded.
        """
        self._key = key
        self.rows: dict[int, dict[str, object]] = {}
        self.is_done = True
        """Whether all loads finished."""
        self.failure: dict[str, object] = {}
        self.unserved: dict[str, object] = {}
        """Fields of the answer about code that was not loaded because no session serves it."""
        self._call = call
        self._who = who
        self._arguments = arguments
        self._undo_id = undo_id
        self._undone = undone
        self.loaded: dict[Path, tuple[str, int]] = {}
        """The id and the generation of the REPL that was asked to load each file."""
        self.repls: dict[str, tuple[str, int]] = {}
        """The key and the generation, at the time of the load, of each REPL that was asked to load code, by id."""
        self._reloaded: dict[str, int] = {}
        """Applications that restarted during a load, by key, with the generation since then."""

    async def run(self, results: Sequence[FileResult]) -> None:
        """Load the changed forms of each file, each after the files that it requires.

        The first load that does not finish stops the rest. For a file that was not loaded, the answer explains why, and
        how to load it.
        """
        call, blocked_by = self._call, ""
        await await_search(call.services.core)
        files = await call.services.work.editing.run(call.client, partial(changed_files, results))
        ends_at = anyio.current_time() + call.wait_ms() / 1000
        for file in files:
            path = results[file.index].change.path
            previous = None if self._undone is None else self._previous_repl(path)
            if self._undone is None:
                await await_serving_repl(call, path, max(0.0, ends_at - anyio.current_time()))
            elif previous is None:
                continue
            why = blocked_by or file.reason
            repl = None if why else previous or repl_for_file(call, path, self._who, self._key)
            if repl is None or isinstance(repl, str):
                self.rows[file.index] = {"notLoaded": why or _describe_unserved(path, repl)}
                if not why and dialects_by_suffix().get(path.suffix):
                    message = f"{file.name} was written, but not loaded: {repl or 'no connected REPL serves this file'}"
                    hint = (
                        "Start a REPL (see status), then call load_file."
                        if repl is None
                        else "Call load_file with replSessionKey."
                    )
                    self.unserved = self.unserved or {"reason": "no-repl", "message": message, "hint": hint}
            elif not await self._load(file, path, repl, ends_at):
                self.is_done = False
                blocked_by = f"the load of {file.name} has not finished. When it has, call load_file"

    def _previous_repl(self, path: Path) -> Repl | None:
        """Return the REPL that loaded the reverted edit of a file, or None if it has ended or restarted since."""
        name, generation = (self._undone or {}).get(path, ("", 0))
        repl = self._call.state.repls.get(name)
        return repl if repl is not None and (repl.phase, repl.generation) == ("connected", generation) else None

    async def _load(self, file: ChangedCode, path: Path, repl: Repl, ends_at: float) -> bool:
        """Load a file, and return whether the load finished in time."""
        call = self._call
        if repl.key in self._reloaded:
            self.rows[file.index] = _describe_reload(repl.key, self._reloaded[repl.key])
            return True
        is_of_python = is_python(path)
        loader = "edit_files" if self._undone is None else "the undo"
        lines = ", ".join(str(form.line) for form in file.forms)
        request = Request(
            id=evaluation_queue.next_evaluation_id(call.state),
            code=file.text,
            namespace=None if is_of_python else file.namespace,
            forms=() if is_of_python else file.forms,
            file=str(path),
            kind="load-file" if is_of_python else "load-forms",
            lines=tuple(form.line for form in file.forms) if is_of_python else None,
            undo_id=self._undo_id,
            who=self._who,
            description=f"{loader} loads {file.name}, line {lines}",
        )
        self.repls[repl.id] = repl.key, repl.generation
        self.loaded[path] = repl.id, repl.generation
        try:
            target = caller_lane(call, Target(repl, repl.sessions[MAIN_SESSION]), self._who)
            submit(call, target, self._who, replace(request, session=target.session.name))
            current = await wait_for_evaluation(call, request.id, max(0.0, ends_at - anyio.current_time()))
            if self._undo_id and not current.is_finished:
                self.failure = self._timeout_failure(current, file.name)
                await stop_evaluation(call, request.id, "the load took too long")
                current = find_evaluation(call.state, request.id)
        except (RefusedError, ReplDisconnectedError) as error:
            if isinstance(error, ReplDisconnectedError) and await self._wait_for_reload(file, repl, ends_at):
                return True
            self.rows[file.index] = {"notLoaded": f"{error}. When that is fixed, call load_file"}
            if self._undo_id:
                reason = error.reason if isinstance(error, RefusedError) else "repl-disconnected"
                self.failure = {"reason": reason, "message": f"{file.name} was not loaded: {error}"}
            return False
        if current.status == "lost" and await self._wait_for_reload(file, repl, ends_at):
            return True
        stale = await load_notes(call, repl, is_edit=True) if current.status == "done" else ()
        described = await describe_evaluation(
            call, current, self._arguments, max_bytes=default_budget(call) // 2, notes=stale
        )
        self.rows[file.index] = {
            "load": {key: value for key, value in described.fields.items() if key not in FAILURE_FIELDS}
        }
        if not described.ok:
            self.failure = {
                key: described.fields[key] for key in FAILURE_FIELDS if key in described.fields
            } | self.failure
        return current.status == "done"

    async def _wait_for_reload(self, file: ChangedCode, repl: Repl, ends_at: float) -> bool:
        """Wait until an application whose process ended during a load runs again, and describe that in the file's row.

        Its reloader noticed the edit before the load had finished. The new process imports the edited file, so nothing
        is left to load. Return False if the REPL is not part of an application, or if the application does not return
        in time.
        """
        if repl.profile is None or not repl.profile.application:
            return False
        with anyio.move_on_after(min(RELOAD_TIMEOUT_S, max(0.0, ends_at - anyio.current_time()))):
            while True:
                for other in self._call.state.repls.values():
                    if other.profile is None or other.profile.process_id == repl.profile.process_id:
                        continue
                    if (other.key, other.phase) == (repl.key, "connected") and other.generation > repl.generation:
                        self._reloaded[repl.key] = other.generation
                        self.rows[file.index] = _describe_reload(repl.key, other.generation)
                        return True
                await anyio.sleep(RELOAD_CHECK_INTERVAL_S)
        return False

    def _timeout_failure(self, current: Evaluation, name: str) -> dict[str, object]:
        """Return the fields of an answer that describe a load that did not finish in time or did not even start."""
        if current.status != "queued":
            return {"reason": "timed-out", "message": f"loading {name} took longer than the time limit"}
        why = describe_queue(self._call, current)[0].partition(";")[0]
        ends = describe_how_to_stop(self._call, current)
        return {
            "reason": "timed-out",
            "message": f"the load of {name} never started and was removed from the queue: {why}",
            "hint": (
                f"Send the edits again when that has finished. get_evaluation waits for it, and {ends} interrupts it."
            ),
        }


async def load_undone(call: Call, arguments: Evaluating, outcome: Outcome) -> EditLoads:
    """Load the previous code of an edit that was reverted, in the REPLs that had loaded the edit.

    Nothing is loaded if the file watcher does that, or if the user does not allow evaluation.
    """
    settings = call.services.live.settings
    is_allowed = settings.enable_mcp_repl_evaluation and not settings.watch
    loads = EditLoads(call, call.who(arguments.who), arguments, undone=outcome.loaded_in if is_allowed else {})
    if outcome.loaded_in:
        await loads.run(outcome.files)
    return loads


async def edit_unseen_by_watchers(call: Call, edit: Callable[[], Awaitable[Outcome]]) -> Outcome:
    """Make an edit and keep file watchers from loading the edited files.

    The caller loads them.
    """
    saves = call.services.ledger.saves
    with saves.edit_in_progress():
        outcome = await edit()
        if call.services.live.settings.watch:
            paths = [result.change.path for result in outcome.files]
            await call.services.work.files.run(call.client, partial(saves.record_stamps, paths))
        return outcome


def hide_save_from_watchers(services: Services, path: Path) -> None:
    """Make the file watcher ignore the current content of a file that a tool loads.

    Reads the file's status, so it blocks.
    """
    if services.live.settings.watch:
        services.ledger.saves.record_stamps([path])


def changed_files(results: Sequence[FileResult]) -> list[ChangedCode]:
    """Return the changed code of each file that still exists, ordered so that required files come first."""
    waiting = [_changed_code(index, result) for index, result in enumerate(results) if result.change.after is not None]
    ordered: list[ChangedCode] = []
    while waiting:
        names = {file.namespace for file in waiting}
        free = [file for file in waiting if not (_symbols(file.header) & (names - {file.namespace}))]
        ordered += free[:1] or waiting[:1]  # files that require one another keep the given order
        waiting.remove(ordered[-1])
    return ordered


def _symbols(header: str) -> set[str | None]:
    """Return the symbols in an `ns` form or in a list of imported names."""
    return set(re.findall(r"[^\s()\[\]{}\"';,]+", header))


def _changed_code(index: int, result: FileResult) -> ChangedCode:
    """Compare a file before and after an edit, and return the changed code."""
    change = result.change
    if is_python(change.path):
        return _changed_python_code(index, result)
    text = (change.after or b"").decode("utf-8-sig", "replace")
    document = Document(text, is_hy=change.path.suffix == HY_SUFFIX)
    header = ns_form(document)
    header_text = "" if header is None else text[header.start : header.end]
    before = (change.before.data or b"").decode("utf-8-sig", "replace")
    forms = sorted(_new_forms(before, text), key=lambda form: form.text != header_text)
    reason = None if forms else "no form that can be evaluated changed"
    if document.bracket_error is not None:
        reason = f"the file's brackets do not balance: {document.bracket_error}"
    return ChangedCode(
        index, result.display_path, text, declared_namespace(document), header_text, tuple(forms), reason
    )


def _changed_python_code(index: int, result: FileResult) -> ChangedCode:
    """Compare a Python file before and after an edit, and return the changed code."""
    change = result.change
    try:
        text, found = changed_statements(change.before.data or b"", change.after or b"")
    except (SyntaxError, ValueError) as error:
        words = (
            f"the file is too long: {error.msg}"
            if isinstance(error, TooLongError)
            else f"the file does not parse: {error}"
        )
        return ChangedCode(index, result.display_path, "", None, "", (), words)
    reason = None if found is not None else "the file's code did not change"
    forms = tuple(Form(statement, line, 1) for line, statement in found or ())
    return ChangedCode(
        index, result.display_path, text, change.path.stem, " ".join(imported_names(text)), forms, reason
    )


def _new_forms(before: str, after: str) -> Iterator[Form]:
    """Yield the top-level forms of `after` that are not in `before`."""
    old = Counter(before[span.start : span.end] for span in top_level_forms(before))
    for span in top_level_forms(after):
        text = after[span.start : span.end]
        old[text] -= 1
        if old[text] < 0:
            yield Form(text, span.line, span.column)


def _describe_reload(key: str, generation: int) -> dict[str, object]:
    """Return the entry of the answer for a file whose program restarted, probably by its own reloader."""
    return {
        "notLoaded": (
            f"{key} restarted the program (generation {generation}), whose new process imports the file from disk. "
            "The edit is kept, and nothing else is needed"
        )
    }


def _describe_unserved(path: Path, why: str | None) -> str:
    """Explain why no session loads a file, and how to load it."""
    if why is not None:
        return f"{why}. Call load_file with replSessionKey"
    if not dialects_by_suffix().get(path.suffix):
        return f"no REPL loads files that end in {path.suffix}"
    return "no connected REPL serves this file. Start one (see status), then call load_file"
