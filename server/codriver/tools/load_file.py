"""`load_file`: load a source file into a session, and, if requested, the namespaces that depend on it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

import anyio
from pydantic import Field

from codriver.core import evaluation_queue
from codriver.core.records import replace
from codriver.core.requests import Form, Request
from codriver.systems.file_system import with_spelling_on_disk
from codriver.tools.answers.evaluation_answers import EVALUATION_SCHEMA, describe_evaluation
from codriver.tools.answers.lean_answers import Evaluating
from codriver.tools.answers.load_notes import load_notes
from codriver.tools.calls.answer import Answer, answer_schema
from codriver.tools.calls.arguments import UNLISTED_KEY, WaitMs
from codriver.tools.calls.evaluation_waits import wait_for_evaluation
from codriver.tools.calls.session_choice import caller_lane, check_working_tree, choose_session
from codriver.tools.calls.syntax_check import (
    check_language,
    check_with_repl,
    possible_repls,
    readable_forms,
    speaks_lisp,
)
from codriver.tools.calls.tool import Tool
from codriver.tools.execution.dependent_loads import (
    DependentLoads,
    check_dependent_load,
    prune_and_load_dependents,
    reload_python_dependents,
)
from codriver.tools.execution.source_files import read_source
from codriver.tools.execution.submission import MAX_ELEMENTS, print_limits_for_client, submit
from codriver_lisp.definitions import read_definitions

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.core.evaluations import Evaluation
    from codriver.tools.calls.call import Call


class LoadFileArguments(Evaluating):
    """Arguments of `load_file`: the file, and whether to load its dependents too."""

    CHOOSES_SESSION: ClassVar[bool] = True

    file_path: str
    dependents: bool = Field(default=False, json_schema_extra={UNLISTED_KEY: True})
    """Whether to then load the namespaces that require the file's namespace.

    In Python, with `whole`, load the modules that import the file's module.
    """
    prune: bool = Field(default=False, json_schema_extra={UNLISTED_KEY: True})
    """Whether to remove names from the namespace that the file no longer defines, in Lisp."""
    whole: bool = Field(default=False, json_schema_extra={UNLISTED_KEY: True})
    """Whether to run a loaded Python module as a whole, instead of only its changes."""
    repl_session_key: str | None = None
    """Key of the session, described in the schema of `evaluate_code`. By default, the file determines the REPL."""
    timeout_ms: WaitMs | None = Field(None, json_schema_extra={UNLISTED_KEY: True})
    """How long the call waits, in milliseconds. `get_evaluation` can wait longer."""
    max_length: int | None = Field(None, ge=1, le=MAX_ELEMENTS, json_schema_extra={UNLISTED_KEY: True})

    @property
    def session_files(self) -> tuple[str, ...]:
        """Return the file to load, which determines the session."""
        return (self.file_path,)


async def load_file(call: Call, arguments: LoadFileArguments) -> Answer:
    """Load a file into a session, wait for it, and return its result, or its state if it is still loading."""
    who = call.who(arguments.who)
    path = call.services.workspace / arguments.file_path
    repl = choose_session(call, arguments.repl_session_key, who, file=arguments.file_path).repl
    is_followed = arguments.dependents or arguments.prune
    if is_followed:
        check_dependent_load(repl, prune=arguments.prune, is_whole=arguments.whole)
    loads = _Loads(call, who, arguments)
    current = await loads.file(path)
    repl = call.state.repls.get(repl.id, repl)
    followed = DependentLoads()
    is_python = repl.dialect == "python"
    if current.status == "done" and is_followed and is_python:
        followed = await reload_python_dependents(call, repl, path, loads)
    elif current.status == "done" and is_followed:
        options = {"prune": arguments.prune, "dependents": arguments.dependents}
        followed = await prune_and_load_dependents(call, repl, loads.namespace, loads, **options)
    described = followed.unfinished or current
    is_noted = is_followed and is_python
    stale = await load_notes(call, repl) if described.status == "done" and not is_noted else ()
    notes = (*followed.notes, *stale)
    return await describe_evaluation(call, described, arguments, notes=notes)


class _Loads:
    """Loads files and evaluates forms for one call of `load_file`, within the call's time limit."""

    def __init__(self, call: Call, who: str, arguments: LoadFileArguments) -> None:
        self._call = call
        self._who = who
        self._arguments = arguments
        timeout_ms = call.wait_ms(arguments.timeout_ms)
        self._ends_at = anyio.current_time() + timeout_ms / 1000
        self.namespace = ""
        """Namespace that the first loaded file names, or empty."""

    async def file(self, path: Path) -> Evaluation:
        """Load a file and return its evaluation, which is unfinished if time ran out."""
        call, arguments = self._call, self._arguments
        path = await call.services.work.files.run(call.client, partial(with_spelling_on_disk, path))
        text = await call.services.work.files.run(call.client, partial(read_source, path))
        target = choose_session(call, arguments.repl_session_key, self._who, file=str(path))
        repl = target.repl
        check_language(call, path, text, repl)
        readers = possible_repls(call.state, arguments.repl_session_key, target)
        lisp = path.suffix != ".py" and speaks_lisp(readers)
        if repl.dialect == "unknown":
            await check_with_repl(call, repl, text)
        forms = await readable_forms(call, readers, text, lisp=lisp)
        if arguments.prune or arguments.dependents:
            read = partial(read_definitions, text)
            self.namespace = self.namespace or (await call.services.work.editing.run(call.client, read)).namespace
        request = Request("", text, forms=forms, file=str(path), kind="load-file", max_length=arguments.max_length)
        request = replace(request, how="whole" if arguments.whole else "")
        return await self._run(replace(request, description=f"load {path}"))

    async def evaluate_forms(self, namespace: str, forms: tuple[Form, ...]) -> Evaluation:
        """Evaluate forms in a namespace and return their evaluation, which is unfinished if time ran out."""
        code = "\n".join([form.log_text for form in forms])
        return await self._run(Request("", code, forms=forms, kind="load-forms", namespace=namespace))

    async def _run(self, submitted: Request) -> Evaluation:
        """Send a request to the session, and wait until it finishes or time runs out."""
        call = self._call
        given = self._arguments
        target = choose_session(call, given.repl_session_key, self._who, file=given.file_path)
        check_working_tree(call, target, self._who, self._arguments.repl_session_key)
        if self._arguments.repl_session_key is None:
            target = caller_lane(call, target, self._who)
        limits, identity = print_limits_for_client(call, target), evaluation_queue.next_evaluation_id(call.state)
        request = replace(submitted, id=identity, session=target.session.name, default_limits=limits, who=self._who)
        submit(call, target, self._who, request)
        return await wait_for_evaluation(
            call, request.id, max(0.0, self._ends_at - anyio.current_time()), may_last=True
        )


TOOL = Tool(
    name="load_file",
    other_names=("clojure_load_file",),
    title="Load file",
    description="Load a changed source file into the live session. Variables persist.",
    arguments=LoadFileArguments,
    output=answer_schema(**EVALUATION_SCHEMA),
    run=load_file,
    may_be_task=True,
    needs=("load-file", "evaluate"),
    setting="enable_mcp_repl_evaluation",
    destructive=True,
    open_world=True,
    is_core=True,
)
