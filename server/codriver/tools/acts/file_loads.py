"""The load of a source file into a session, and with it, if asked for, of the namespaces that depend on it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import anyio
from pydantic import Field

from codriver import files
from codriver.core import evaluation_queue
from codriver.core.records import replace
from codriver.core.values import Form, Request
from codriver.errors import RefusedError
from codriver.lisp.definitions import definitions
from codriver.systems.file_names import as_spelled
from codriver.tools.acts import dependent_loads
from codriver.tools.acts.submission import MOST_ELEMENTS, begin, default_limits
from codriver.tools.answers.answer_budget import budget
from codriver.tools.answers.evaluation_answers import describe
from codriver.tools.answers.lean_answers import Evaluating
from codriver.tools.calls.base import UNLISTED, Answer, Call
from codriver.tools.calls.evaluation_waits import wait
from codriver.tools.calls.session_choice import check_tree, chosen, in_lane
from codriver.tools.calls.syntax_check import check_by_repl, check_language, meant, readable_forms, speaks_lisp
from codriver.tools.truth.drift_notes import notes_of_load

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.core.values import Evaluation

FILE = files.Rules(files.Links.ANY, most_bytes=16 * 2**20)
"""Of a file to load: wherever its caller says, who could as well send its text."""


class FileUnreadableError(RefusedError):
    """The file to load cannot be read."""

    reason = "file-unreadable"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
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
    repl_session_key: str | None = None
    timeout_ms: int | None = Field(None, ge=100, le=600_000)
    max_length: int | None = Field(None, ge=1, le=MOST_ELEMENTS)


async def load_file(call: Call, arguments: LoadFileArguments) -> Answer:
    """Load a file into a session, as that file, wait, and say how it stands."""
    who = call.who(arguments.who)
    path = call.services.workspace / arguments.file_path
    repl = chosen(call, arguments.repl_session_key, who, file=arguments.file_path).repl
    is_followed = arguments.dependents or arguments.prune
    if is_followed:
        dependent_loads.check(repl)
    loads = _Loads(call, who, arguments)
    current = await loads.file(path)
    repl = call.state.repls.get(repl.id, repl)
    followed = dependent_loads.Followed()
    if current.status == "done" and is_followed:
        asked = {"prune": arguments.prune, "dependents": arguments.dependents}
        followed = await dependent_loads.follow(call, repl, loads.namespace, loads, **asked)
    shown = followed.unfinished or current
    stale = await notes_of_load(call, repl) if shown.status == "done" else ()
    notes = (*followed.notes, *stale)
    return await describe(call, shown, arguments, max_images=0, max_bytes=budget(call), notes=notes)


class _Loads:
    """The evaluations of one call of `load_file`, within its time."""

    def __init__(self, call: Call, who: str, arguments: LoadFileArguments) -> None:
        self._call = call
        self._who = who
        self._arguments = arguments
        timeout_ms = arguments.timeout_ms or call.services.settings.evaluate_timeout_ms
        self._ends_at = anyio.current_time() + timeout_ms / 1000
        self.namespace = ""
        """The one of the file that was loaded first, where it names one."""

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
        FileUnreadableError: it cannot be read.
    """
    try:
        return files.read_text(path, FILE)  # REPLs take a byte order mark for code, so it is left out
    except UnicodeDecodeError as error:
        raise FileUnreadableError(str(path), "it is not UTF-8") from error
    except (OSError, ValueError) as error:  # a null byte makes it no path
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise FileUnreadableError(str(path), why or "it cannot be opened") from error
