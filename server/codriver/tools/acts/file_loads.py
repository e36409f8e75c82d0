"""The load of a source file into a session, and with it, if asked for, of the namespaces that depend on it.

Names that the file has no more are taken out. Dependents are the loaded namespaces that require a Lisp file's, directly
or not, by their `ns` forms; each is loaded after those that it requires. All loads are evaluations of their own, which
the log has as any other; the first that is not done ends the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import anyio
from pydantic import Field

from codriver import files
from codriver.core import evaluation_queue
from codriver.core.records import replace
from codriver.core.values import Form, Request
from codriver.errors import RefusedError, few, refused
from codriver.lisp.definitions import definitions
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.repls.dialects.server_dialect import removal
from codriver.systems.file_system import as_spelled
from codriver.tools.acts.submission import MOST_ELEMENTS, begin, default_limits
from codriver.tools.answers.evaluation_answers import describe
from codriver.tools.answers.lean_answers import Evaluating
from codriver.tools.calls.base import UNLISTED, Answer, Call
from codriver.tools.calls.evaluation_waits import wait
from codriver.tools.calls.session_choice import check_tree, chosen, in_lane
from codriver.tools.calls.syntax_check import check_by_repl, check_language, meant, readable_forms, speaks_lisp
from codriver.tools.truth.drift_notes import drift_of, notes_of_load

if TYPE_CHECKING:
    from codriver.core.state import Repl
    from codriver.core.values import Evaluation


FILE = files.Rules(files.Links.ANY, most_bytes=16 * 2**20)
"""Of a file to load: wherever its caller says, who could as well send its text."""


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
    """Whether what the file has no more is taken out of its namespace, in Lisp."""
    whole: bool = Field(default=False, json_schema_extra={UNLISTED: True})
    """Whether a module of Python that is loaded is run as a whole, and not only what changed of it."""
    repl_session_key: str | None = Field(None, json_schema_extra={UNLISTED: True})
    """Said of any tool in the first one; the file tells the REPL."""
    timeout_ms: int | None = Field(None, ge=100, le=600_000, json_schema_extra={UNLISTED: True})
    """The wait, after which `get_evaluation` waits."""
    max_length: int | None = Field(None, ge=1, le=MOST_ELEMENTS, json_schema_extra={UNLISTED: True})


async def load_file(call: Call, arguments: LoadFileArguments) -> Answer:
    """Load a file into a session, as that file, wait, and say how it stands."""
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
        timeout_ms = arguments.timeout_ms or call.services.live.settings.evaluate_timeout_ms
        self._ends_at = anyio.current_time() + timeout_ms / 1000
        self.namespace = ""
        """The namespace that the file loaded first names; empty if it names none."""

    async def file(self, path: Path) -> Evaluation:
        """Load a file; the evaluation when it is over, or its time is."""
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
        """Evaluate forms in a namespace; the evaluation when it is over, or its time is."""
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
        RefusedError: it cannot be read.
    """
    try:
        return files.read_text(path, FILE)  # REPLs take a byte order mark for code, so it is left out
    except UnicodeDecodeError as error:
        raise _file_unreadable(str(path), "it is not UTF-8") from error
    except (OSError, ValueError) as error:  # a null byte makes it no path
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise _file_unreadable(str(path), why or "it cannot be opened") from error


class Loads(Protocol):
    """Ways to load a file, and to evaluate forms in a namespace, in the session and within the time of the load."""

    async def file(self, path: Path) -> Evaluation:
        """The evaluation that loads a file, when it is over or its time is."""
        ...

    async def forms(self, namespace: str, forms: tuple[Form, ...]) -> Evaluation:
        """The evaluation of forms, when it is over or its time is."""
        ...


@dataclass(frozen=True, slots=True)
class Followed:
    """The outcome in words, and the evaluation that is not done, if one is not."""

    notes: tuple[str, ...] = ()
    unfinished: Evaluation | None = None


def check(repl: Repl) -> None:
    """Refuse a REPL that has no namespaces of Lisp, or whose loaded ones are not known.

    Raises:
        RefusedError: it is one.
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
    """Take out what the file of `namespace` has no more, then load its dependents, as far as that is asked for."""
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
