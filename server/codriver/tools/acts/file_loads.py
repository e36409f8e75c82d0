"""Loads of files into sessions: of a whole source file, or of the changes that a batch of edits made in several.

With a source file come, if asked for, the namespaces that depend on it: the loaded ones that require a Lisp file's,
directly or not, by their `ns` forms; each is loaded after those that it requires. Names that the file has no more are
taken out. The changed top-level forms of an edited file are loaded in the session that serves the file. All loads are
evaluations of their own, which the log has as any other; the first that is not done ends the rest.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import anyio
from pydantic import Field

from codriver import files
from codriver.core import evaluation_queue
from codriver.core.records import replace
from codriver.core.values import MAIN_SESSION, Evaluation, Form, Request
from codriver.editing import HY, FileResult, Outcome
from codriver.editing.file_languages import is_python
from codriver.editing.python_edits import changed_statements, imported_names
from codriver.errors import RefusedError, ReplDisconnectedError, few, refused
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.repls.dialects.server_dialect import removal
from codriver.repls.kinds import dialects_by_suffix
from codriver.systems.file_system import as_spelled
from codriver.tools.acts.submission import MOST_ELEMENTS, begin, default_limits
from codriver.tools.answers.answer_budget import budget
from codriver.tools.answers.drift_notes import drift_of, notes_of_load
from codriver.tools.answers.evaluation_answers import describe
from codriver.tools.answers.lean_answers import Evaluating
from codriver.tools.calls.base import UNLISTED, Answer, Call, Services
from codriver.tools.calls.evaluation_waits import evaluation_of, queue_notes, stop, wait, way_to_end
from codriver.tools.calls.gate import await_search
from codriver.tools.calls.session_choice import Target, await_server, check_tree, chosen, in_lane, serving
from codriver.tools.calls.syntax_check import check_by_repl, check_language, meant, readable_forms, speaks_lisp
from codriver_lisp.binding_forms import namespace_of, ns_form
from codriver_lisp.definitions import definitions
from codriver_lisp.reader import top_level_forms
from codriver_lisp.source_text import Document

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from codriver.core.state import Repl


FILE = files.Rules(files.Links.ANY, most_bytes=16 * 2**20)
"""The rules for a file to load: any place that its caller names, as the caller could as well send the text."""


def _file_unreadable(path: str, why: str) -> RefusedError:
    """The file to load cannot be read."""
    return refused(
        "file-unreadable",
        f"cannot read {path}: {why}",
        hint="give a path that is absolute or relative to the workspace, to a UTF-8 text file",
    )


class LoadFileArguments(Evaluating):
    """Arguments of `load_file`."""

    file_path: str
    dependents: bool = Field(default=False, json_schema_extra={UNLISTED: True})
    """Whether the loaded namespaces of Lisp that require the file's are loaded after it."""
    prune: bool = Field(default=False, json_schema_extra={UNLISTED: True})
    """Whether names that the file has no more are taken out of its namespace, in Lisp."""
    whole: bool = Field(default=False, json_schema_extra={UNLISTED: True})
    """Whether a loaded module of Python is run as a whole, and not only its changes."""
    repl_session_key: str | None = Field(None, json_schema_extra={UNLISTED: True})
    """Said of any tool in the first one; the file tells the REPL."""
    timeout_ms: int | None = Field(None, ge=100, le=600_000, json_schema_extra={UNLISTED: True})
    """How long the call waits; `get_evaluation` waits on from there."""
    max_length: int | None = Field(None, ge=1, le=MOST_ELEMENTS, json_schema_extra={UNLISTED: True})


async def load_file(call: Call, arguments: LoadFileArguments) -> Answer:
    """Load a file into a session, as that file, wait, and tell its standing."""
    who = call.who(arguments.who)
    path = call.services.workspace / arguments.file_path
    repl = chosen(call, arguments.repl_session_key, who, file=arguments.file_path).repl
    is_followed = arguments.dependents or arguments.prune
    if is_followed:
        check(repl)
    loads = _Loads(call, who, arguments)
    current = await loads.file(path)
    repl = call.state.repls.get(repl.id, repl)
    followed = Followed()
    if current.status == "done" and is_followed:
        asked = {"prune": arguments.prune, "dependents": arguments.dependents}
        followed = await follow(call, repl, loads.namespace, loads, **asked)
    shown = followed.unfinished or current
    stale = await notes_of_load(call, repl) if shown.status == "done" else ()
    notes = (*followed.notes, *stale)
    return await describe(call, shown, arguments, notes=notes)


class _Loads:
    """The evaluations of one call of `load_file`, within its time."""

    def __init__(self, call: Call, who: str, arguments: LoadFileArguments) -> None:
        self._call = call
        self._who = who
        self._arguments = arguments
        timeout_ms = call.wait_ms(arguments.timeout_ms)
        self._ends_at = anyio.current_time() + timeout_ms / 1000
        self.namespace = ""
        """The namespace that the first loaded file names; empty if it names none."""

    async def file(self, path: Path) -> Evaluation:
        """Load a file; the evaluation at its end, or when the time is over."""
        call, arguments = self._call, self._arguments
        path = await call.services.work.files.run(call.client, partial(as_spelled, path))
        text = await call.services.work.files.run(call.client, partial(read_source, path))
        target = chosen(call, arguments.repl_session_key, self._who, file=str(path))
        repl = target.repl
        check_language(path, text, repl)
        readers = meant(call.state, arguments.repl_session_key, target)
        lisp = path.suffix != ".py" and speaks_lisp(readers)
        if repl.dialect == "unknown":
            await check_by_repl(call, repl, text)
        forms = await readable_forms(call, readers, text, lisp=lisp)
        if arguments.prune or arguments.dependents:
            read = partial(definitions, text)
            self.namespace = self.namespace or (await call.services.work.texts.run(call.client, read)).namespace
        request = Request("", text, forms=forms, file=str(path), kind="load-file", max_length=arguments.max_length)
        request = replace(request, how="whole" if arguments.whole else "")
        return await self._run(replace(request, description=f"load {path}"))

    async def forms(self, namespace: str, forms: tuple[Form, ...]) -> Evaluation:
        """Evaluate forms in a namespace; the evaluation at its end, or when the time is over."""
        code = "\n".join([form.said for form in forms])
        return await self._run(Request("", code, forms=forms, kind="load-forms", namespace=namespace))

    async def _run(self, asked: Request) -> Evaluation:
        call = self._call
        given = self._arguments
        target = chosen(call, given.repl_session_key, self._who, file=given.file_path)
        check_tree(call, target, self._who, self._arguments.repl_session_key)
        if self._arguments.repl_session_key is None:
            target = in_lane(call, target, self._who)
        limits, identity = default_limits(call, target), evaluation_queue.next_id(call.state)
        request = replace(asked, id=identity, session=target.session.name, default_limits=limits)
        begin(call, target, self._who, request)
        return await wait(call, request.id, max(0.0, self._ends_at - anyio.current_time()), may_last=True)


def read_source(path: Path) -> str:
    """The text of a file that is to be loaded.

    Raises:
        RefusedError: the file cannot be read.
    """
    try:
        return files.read_text(path, FILE)  # REPLs take a byte order mark for code, so the mark is left out
    except UnicodeDecodeError as error:
        raise _file_unreadable(str(path), "it is not UTF-8") from error
    except (OSError, ValueError) as error:  # a path with a null byte is no path
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise _file_unreadable(str(path), why or "it cannot be opened") from error


class Loads(Protocol):
    """Ways to load a file, and to evaluate forms in a namespace, in the session and within the time of the load."""

    async def file(self, path: Path) -> Evaluation:
        """The evaluation that loads a file, at its end or when the time is over."""
        ...

    async def forms(self, namespace: str, forms: tuple[Form, ...]) -> Evaluation:
        """The evaluation of forms, at its end or when the time is over."""
        ...


@dataclass(frozen=True, slots=True)
class Followed:
    """The outcome in words, and the unfinished or failed evaluation, if any."""

    notes: tuple[str, ...] = ()
    unfinished: Evaluation | None = None


def check(repl: Repl) -> None:
    """Refuse a REPL without namespaces of Lisp, or whose loaded ones are not known.

    Raises:
        RefusedError: the REPL is such a one.
    """
    profile = repl.profile
    if repl.dialect == "python":
        raise refused(
            "bad-arguments",
            "dependents and prune are for Lisp: nothing was loaded",
            hint="leave them out: in Python load_file renews what others hold, and takes out what the file has no more",
        )
    if profile is None or "drift" not in profile.capabilities:
        raise CapabilityMissingError("drift", profile.missing.get("drift") if profile is not None else None)


async def follow(call: Call, repl: Repl, namespace: str, loads: Loads, *, prune: bool, dependents: bool) -> Followed:
    """Take out the names that the file of `namespace` has no more, then load its dependents, as far as asked for."""
    found = await drift_of(call, repl)
    drift = call.services.ledger.lisp.drifts.get(repl.id)
    notes = []
    if prune:
        gone = [one.name for one in found if (one.module, one.kind, one.evaluated) == (namespace, "gone", False)]
        codes = filter(None, (removal(repl.dialect, namespace, name, namespace) for name in gone))
        forms = tuple(Form(code, 1, 1, said) for code, said in codes)
        if forms:
            evaluation = await loads.forms(namespace, forms)
            if evaluation.status != "done":
                return Followed((f"not all taken out of {namespace}: {few(gone)}",), evaluation)
            notes.append(f"taken out, as the file has it no more: {few(gone)}")
    if dependents and drift is not None:
        waiting = drift.dependents(namespace)
        for number, (name, file) in enumerate(waiting):
            evaluation = await loads.file(Path(file))
            if evaluation.status != "done":
                before = [one for one, _ in waiting[:number]]
                after = [one for one, _ in waiting[number + 1 :]]
                notes += [f"loaded, too: {few(before)}"] if before else []
                notes.append(f"{name} did not load" if evaluation.over else f"{name} is being loaded")
                notes += [f"not loaded: {few(after)}"] if after else []
                return Followed(tuple(notes), evaluation)
        notes += [f"loaded, too: {few([name for name, _ in waiting], len(waiting))}"] if waiting else []
    return Followed(tuple(notes))


FAILURE = ("reason", "error", "hint")
"""The fields of a failed load that become fields of the whole answer."""


@dataclass(frozen=True, slots=True)
class Changed:
    """The code that a batch changed in one file, the file's place among the results and its name as answers show it.

    `forms` are the new top-level forms, the `ns` form first; `header` is the present text of the `ns` form, or the
    names that a Python file imports. `fault` says why the text cannot be read.
    """

    place: int
    name: str
    text: str
    namespace: str | None
    header: str
    forms: tuple[Form, ...]
    fault: str | None


@dataclass(frozen=True, slots=True)
class Gone:
    """A name that a renaming took away, and the namespace that defined it."""

    name: str
    home: str


class EditLoads:
    """The loads of one batch, for the caller `who`: the words on each in its file's row, and the failure, if any."""

    def __init__(
        self,
        call: Call,
        who: str,
        asked: Evaluating,
        *,
        hold: str = "",
        key: str | None = None,
    ) -> None:
        """Prepare the loads of a batch.

        `hold`: the id under which the REPLs keep the values that the loads change; such loads are ended when their time
        is over. `key`: the session that loads the files, if the caller named one.
        """
        self._key = key
        self.rows: dict[int, dict[str, object]] = {}
        self.is_done = True
        """Whether all loads are done."""
        self.failure: dict[str, object] = {}
        self.unserved: dict[str, object] = {}
        """Why code that should have been loaded was not, as no session serves it: an answer's fields."""
        self._call = call
        self._who = who
        self._asked = asked
        self._hold = hold
        self.repls: dict[str, tuple[str, int]] = {}
        """The REPLs that were asked to load something: by id, the key and the generation at that time."""

    async def run(self, results: Sequence[FileResult], gone: Mapping[int, Sequence[Gone]]) -> None:
        """Load the changed forms of each file, required files first; the first failure ends the loads.

        The names that are `gone`, by the file's place, are taken out of its namespace when it is loaded.

        Nothing is sent twice. The row of each file that was not loaded says so, with the way to load it.
        """
        call, held_up = self._call, ""
        await await_search(call.services.core)
        files = await call.services.work.texts.run(call.client, partial(changed_files, results))
        ends_at = anyio.current_time() + call.wait_ms() / 1000
        for file in files:
            path = results[file.place].change.path
            await await_server(call, path, max(0.0, ends_at - anyio.current_time()))
            why = held_up or file.fault
            repl = None if why else serving(call, path, self._who, self._key)
            if repl is None or isinstance(repl, str):
                self.rows[file.place] = {"notLoaded": why or _unserved(path, repl)}
                if not why and dialects_by_suffix().get(path.suffix):
                    message = f"{file.name} is written, and is not loaded: {repl or 'no connected REPL serves it'}"
                    hint = "start one (see status), then load_file" if repl is None else "load_file with replSessionKey"
                    self.unserved = self.unserved or {"reason": "no-repl", "message": message, "hint": hint}
            elif not await self._load(file, path, repl, ends_at, gone.get(file.place, ())):
                self.is_done = False
                held_up = f"{file.name} comes first, and its load is not done: load_file afterwards"

    async def _load(self, file: Changed, path: Path, repl: Repl, ends_at: float, gone: Sequence[Gone]) -> bool:
        """Load a file; true if that is done when its time is over."""
        call = self._call
        found = (removal(repl.dialect, file.namespace or "", name.name, name.home) for name in gone)
        removals = [Form(code, 1, 1, said) for code, said in filter(None, found)]
        is_of_python = is_python(path)
        request = Request(
            id=evaluation_queue.next_id(call.state),
            code=file.text,
            namespace=None if is_of_python else file.namespace,
            forms=() if is_of_python else (*file.forms, *removals),
            file=str(path),
            kind="load-file" if is_of_python else "load-forms",
            lines=tuple(form.line for form in file.forms) if is_of_python else None,
            hold=self._hold,
            description=f"edit_files loads {file.name}, line {', '.join(str(form.line) for form in file.forms)}",
        )
        self.repls[repl.id] = repl.key, repl.generation
        try:
            target = in_lane(call, Target(repl, repl.sessions[MAIN_SESSION]), self._who)
            begin(call, target, self._who, replace(request, session=target.session.name))
            current = await wait(call, request.id, max(0.0, ends_at - anyio.current_time()))
            if self._hold and not current.over:
                self.failure = self._of_time(current, file.name)
                await stop(call, request.id, "it took too long")
                current = evaluation_of(call.state, request.id)
        except (RefusedError, ReplDisconnectedError) as error:
            self.rows[file.place] = {"notLoaded": f"{error}: load_file when that is mended"}
            if self._hold:
                reason = error.reason if isinstance(error, RefusedError) else "repl-disconnected"
                self.failure = {"reason": reason, "message": f"{file.name} was not loaded: {error}"}
            return False
        told = await describe(call, current, self._asked, max_bytes=budget(call) // 2)
        self.rows[file.place] = {"load": {key: value for key, value in told.fields.items() if key not in FAILURE}}
        if not told.ok:
            self.failure = {key: told.fields[key] for key in FAILURE if key in told.fields} | self.failure
        return current.status == "done"

    def _of_time(self, current: Evaluation, name: str) -> dict[str, object]:
        """The failure of a load that is not over in time, by whether it has begun."""
        if current.status != "queued":
            return {"reason": "timed-out", "message": f"{name} took longer to load than is waited for"}
        why = queue_notes(self._call, current)[0].partition(";")[0]
        ends = way_to_end(self._call, current)
        return {
            "reason": "timed-out",
            "message": f"the load of {name} never began and was taken out of the queue: {why}",
            "hint": f"send the edits again when that is over: get_evaluation waits, {ends} ends it",
        }


async def unwatched(call: Call, edit: Callable[[], Awaitable[Outcome]]) -> Outcome:
    """The outcome of an edit whose files are loaded afterwards; no watcher loads them once more."""
    saves = call.services.ledger.saves
    with saves.writing():
        outcome = await edit()
        if call.services.live.settings.watch:
            paths = [result.change.path for result in outcome.files]
            await call.services.work.files.run(call.client, partial(saves.note, paths))
        return outcome


def unwatched_save(services: Services, path: Path) -> None:
    """Have the watcher leave the file's present state to the loading tool. Blocks."""
    if services.live.settings.watch:
        services.ledger.saves.note([path])


def changed_files(results: Sequence[FileResult]) -> list[Changed]:
    """The changed files that still exist, each behind those that it requires."""
    waiting = [_changed(place, result) for place, result in enumerate(results) if result.change.after is not None]
    ordered: list[Changed] = []
    while waiting:
        names = {file.namespace for file in waiting}
        free = [file for file in waiting if not (_words(file.header) & (names - {file.namespace}))]
        ordered += free[:1] or waiting[:1]  # files that require one another keep the given order
        waiting.remove(ordered[-1])
    return ordered


def _words(header: str) -> set[str | None]:
    return set(re.findall(r"[^\s()\[\]{}\"';,]+", header))


def _changed(place: int, result: FileResult) -> Changed:
    change = result.change
    if is_python(change.path):
        return _changed_python(place, result)
    text = (change.after or b"").decode("utf-8-sig", "replace")
    document = Document(text, is_hy=change.path.suffix == HY)
    header = ns_form(document)
    shown = "" if header is None else text[header.start : header.end]
    before = (change.before.data or b"").decode("utf-8-sig", "replace")
    forms = sorted(_new_forms(before, text), key=lambda form: form.text != shown)
    fault = None if forms else "no form of it changed that can be run"
    if document.complaint is not None:
        fault = f"its brackets do not balance: {document.complaint}"
    return Changed(place, result.shown, text, namespace_of(document), shown, tuple(forms), fault)


def _changed_python(place: int, result: FileResult) -> Changed:
    change = result.change
    try:
        text, found = changed_statements(change.before.data or b"", change.after or b"")
    except (SyntaxError, ValueError) as error:
        return Changed(place, result.shown, "", None, "", (), f"it does not parse: {error}")
    fault = None if found is not None else "no code of it changed"
    forms = tuple(Form(said, line, 1) for line, said in found or ())
    return Changed(place, result.shown, text, change.path.stem, " ".join(imported_names(text)), forms, fault)


def _new_forms(before: str, after: str) -> Iterator[Form]:
    """The top-level forms of a text that another text lacks."""
    old = Counter(before[span.start : span.end] for span in top_level_forms(before))
    for span in top_level_forms(after):
        text = after[span.start : span.end]
        old[text] -= 1
        if old[text] < 0:
            yield Form(text, span.line, span.column)


def _unserved(path: Path, why: str | None) -> str:
    """The reason why no session loads a file, and the remedy."""
    if why is not None:
        return f"{why}: load_file with replSessionKey"
    if not dialects_by_suffix().get(path.suffix):
        return f"no REPL loads files that end in {path.suffix}"
    return "no connected REPL serves it: start one (see status), then load_file"
