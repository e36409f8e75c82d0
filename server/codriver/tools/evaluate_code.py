"""`evaluate_code` and `load_file`: code goes to a REPL."""

from __future__ import annotations

import hashlib
import sys
from functools import partial
from typing import TYPE_CHECKING, Literal

import anyio
from pydantic import Field

from codriver import files
from codriver.core import evaluation_queue
from codriver.core.actions import Evaluate
from codriver.core.records import replace
from codriver.core.values import NO_LIMITS, Form, PrintLimits, Request
from codriver.errors import RefusedError
from codriver.lisp.definitions import definitions
from codriver.lisp.plain_form import is_plain_form
from codriver.lisp.reader import top_level_forms
from codriver.tools import dependent_loads
from codriver.tools.answer_budget import budget
from codriver.tools.base import TEXTS, UNLISTED, Answer, Call, Schema, Tool, answer_schema
from codriver.tools.client_traits import traits_of
from codriver.tools.conflicts import note_sent
from codriver.tools.drift_notes import look_at_load, notes_of_load
from codriver.tools.evaluation_answers import describe
from codriver.tools.evaluation_waits import stop, wait
from codriver.tools.lean_answers import Evaluating
from codriver.tools.session_choice import Target, check_tree, evaluation_of, in_lane, isolated, resolve
from codriver.tools.syntax_check import check_brackets, check_by_repl, check_language, check_python, meant, speaks_lisp

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from codriver.core.state import Repl
    from codriver.core.values import Evaluation

MAX_BYTES_OF_A_CLIENT = 32 * 2**20
"""Two of the longest messages that are read unless `maxLineBytes` says otherwise."""
MAX_BYTES = 128 * 2**20
SURE_BYTES = 64 * 1024
"""A client may have so much, however much the others have: 32 MiB for as many clients as there may be."""
EVALUATION_BYTES = 8 * 1024
"""An evaluation weighs this much beside its code, so that their number has a bound too."""
FORM_BYTES = 200


class TooMuchCodeError(RefusedError):
    """The code would be more than a client, or all of them, may have waiting."""

    reason = "too-much-code"

    def __init__(self, waiting: int, most: int, whose: str) -> None:
        super().__init__(
            f"the code was not sent: {waiting:,} bytes of {whose} are running or queued, and {most:,} are the most "
            "that is allowed",
            hint="wait for evaluations to end, or end some with interrupt_evaluation; load_file keeps code in a file",
            details={"waiting": waiting, "most": most},
        )


def check_room(unfinished: Iterable[Evaluation], client: str, request: Request) -> None:
    """Whether one more request may be queued beside what has not ended. A client with none there may send any one.

    Raises:
        TooMuchCodeError: it would be too much.
    """
    own = total = 0
    for evaluation in unfinished:
        if evaluation.request is not None:
            held = weight(evaluation.request)
            total += held
            own += held if evaluation.client == client else 0
    more = weight(request)
    if own and own + more > MAX_BYTES_OF_A_CLIENT:
        raise TooMuchCodeError(own, MAX_BYTES_OF_A_CLIENT, "this client")
    if own + more > SURE_BYTES and total and total + more > MAX_BYTES:
        raise TooMuchCodeError(total, MAX_BYTES, "all clients")


def weight(request: Request) -> int:
    """The bytes that a queued request holds, without walking through its forms."""
    code = sys.getsizeof(request.code)
    return EVALUATION_BYTES + (2 * code + FORM_BYTES * len(request.forms) if request.forms else code)


FILE = files.Rules(files.Links.ANY, most_bytes=16 * 2**20)
"""Of a file to load: wherever its caller says, who could as well send its text."""
MOST_ELEMENTS, MOST_LEVELS = 100_000, 1000
"""The most of a collection that can be asked for."""
AT_ONCE_CHARACTERS = 2**15
"""Reading the brackets of more takes so long that others would notice."""


class FileUnreadableError(RefusedError):
    """The file to load cannot be read."""

    reason = "file-unreadable"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            f"cannot read {path}: {why}",
            hint="give a path that is absolute or relative to the workspace, to a UTF-8 text file",
        )


class EvaluateArguments(Evaluating):
    """Arguments of `evaluate_code`."""

    code: str
    namespace: str | None = Field(None, description="Python: module.")
    repl_session_key: str | None = Field(None, description="If several.")
    who: str | None = Field(None, description="Slug of you in any tool.")
    description: str | None = Field(None, description="Why, for the log.")
    timeout_ms: int | None = Field(None, ge=1000, le=600_000, description="Of the wait (25000).")
    on_timeout: Literal["continue", "interrupt"] = "continue"
    allow_restart: bool = False
    isolate: bool = Field(default=False, description="In a session of your own.")
    detail: bool | None = None
    max_images: int = Field(10, ge=0)
    max_length: int | None = Field(None, ge=1, le=MOST_ELEMENTS)
    max_depth: int | None = Field(None, ge=1, le=MOST_LEVELS)


class LoadFileArguments(Evaluating):
    """Arguments of `load_file`."""

    file_path: str
    dependents: bool = Field(default=False, json_schema_extra={UNLISTED: True})
    """Whether the loaded namespaces of Lisp that require the file's are loaded after it."""
    prune: bool = Field(default=False, json_schema_extra={UNLISTED: True})
    """Whether what the file has no more is taken out of its namespace, in Lisp."""
    repl_session_key: str | None = None
    timeout_ms: int | None = Field(None, ge=1000, le=600_000)
    max_length: int | None = Field(None, ge=1, le=MOST_ELEMENTS)


async def evaluate_code(call: Call, arguments: EvaluateArguments) -> Answer:
    """Evaluate, wait, and say how it stands."""
    who, core = call.who(arguments.who), call.services.core
    state = core.state
    target = resolve(state, arguments.repl_session_key)  # a wrong key is told before the code is judged
    repl, readers = target.repl, meant(state, arguments.repl_session_key)
    lisp = speaks_lisp(readers)
    if lisp:
        await look_at_load(call, repl, arguments.code)
    forms = await _forms(call, readers, arguments.code, lisp=lisp)
    if not lisp:
        await check_by_repl(call, repl, arguments.code)
    if core.state is not state:  # judging it took a while
        target = resolve(core.state, arguments.repl_session_key)
    check_tree(call, target, who, arguments.repl_session_key)
    if arguments.isolate:
        target = await isolated(call, target, who)
    elif arguments.repl_session_key is None:
        target = in_lane(call, target, who)
    request = Request(
        id=evaluation_queue.next_id(core.state),
        code=arguments.code,
        session=target.session.name,
        namespace=arguments.namespace,
        description=arguments.description,
        forms=forms,
        max_length=arguments.max_length,
        max_depth=arguments.max_depth,
        default_limits=default_limits(call, target),
    )
    settings = call.services.settings
    timeout_ms = arguments.timeout_ms or settings.evaluate_timeout_ms
    begin(call, target, who, request)
    current = await wait(call, request.id, timeout_ms / 1000, may_last=arguments.on_timeout == "continue")
    if current.status == "running" and arguments.on_timeout == "interrupt":
        return await _interrupt_late(call, request.id, timeout_ms, arguments)
    if lisp:
        await look_at_load(call, repl, arguments.code)
    own = target.key if arguments.repl_session_key is None and not arguments.isolate else None
    images, most = arguments.max_images, budget(call)
    return await describe(call, current, arguments, max_images=images, max_bytes=most, own_session=own)


async def load_file(call: Call, arguments: LoadFileArguments) -> Answer:
    """Load a file into a session, as that file, wait, and say how it stands."""
    who = call.who(arguments.who)
    path = call.services.workspace / arguments.file_path
    repl = resolve(call.state, arguments.repl_session_key).repl
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
        text = await call.services.work.files.run(call.client, partial(_read, path))
        repl = resolve(call.state, arguments.repl_session_key).repl
        check_language(path, text, repl)
        readers = meant(call.state, arguments.repl_session_key)
        lisp = path.suffix != ".py" and speaks_lisp(readers)
        if repl.dialect == "unknown":
            await check_by_repl(call, repl, text)
        forms = await _forms(call, readers, text, lisp=lisp)
        if arguments.prune or arguments.dependents:
            read = partial(definitions, text)
            self.namespace = self.namespace or (await call.services.work.texts.run(call.client, read)).namespace
        request = Request("", text, forms=forms, file=str(path), kind="load-file", max_length=arguments.max_length)
        return await self._run(replace(request, description=f"load {path}"))

    async def forms(self, namespace: str, forms: tuple[Form, ...]) -> Evaluation:
        """Evaluate forms in a namespace; the evaluation when it is over, or its time is."""
        code = "\n".join([form.said for form in forms])
        return await self._run(Request("", code, forms=forms, kind="load-forms", namespace=namespace))

    async def _run(self, asked: Request) -> Evaluation:
        call = self._call
        target = resolve(call.state, self._arguments.repl_session_key)
        check_tree(call, target, self._who, self._arguments.repl_session_key)
        if self._arguments.repl_session_key is None:
            target = in_lane(call, target, self._who)
        limits, identity = default_limits(call, target), evaluation_queue.next_id(call.state)
        request = replace(asked, id=identity, session=target.session.name, default_limits=limits)
        begin(call, target, self._who, request)
        return await wait(call, request.id, max(0.0, self._ends_at - anyio.current_time()), may_last=True)


def default_limits(call: Call, target: Target) -> PrintLimits | None:
    """The limits to which a value is printed for who does not say; None where that is the settings' to say."""
    if not traits_of(call.client_name).reads_whole:
        return None
    # Python prints no collection without an end; a sequence of Lisp may have none.
    return NO_LIMITS if target.repl.dialect == "python" else PrintLimits(MOST_ELEMENTS, MOST_LEVELS)


def begin(call: Call, target: Target, who: str, request: Request) -> None:
    """Ask for an evaluation, whose texts are kept from now on.

    Raises:
        TooMuchCodeError: too much waits already.
    """
    state = call.services.core.state
    if state.live:
        check_room(state.unfinished(), call.client, request)
    code = hashlib.blake2b(request.code.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    asked = (target.repl.id, request.session, request.namespace, request.file, request.cell, request.kind, code)
    shown = f"load-file {request.file}" if request.file and request.cell is None else request.code
    transcript = call.services.transcripts.open(request.id, asked, shown)
    call.dispatch(Evaluate(target.repl.id, request, transcript.head, target.lane), who=who)
    note_sent(call, target, who, request)


async def _interrupt_late(call: Call, evaluation: str, timeout_ms: int, arguments: EvaluateArguments) -> Answer:
    # A client that goes away now would otherwise leave running what it asked to be ended. Each step has a time limit.
    with anyio.CancelScope(shield=True):
        did = await stop(call, evaluation, f"it ran longer than {timeout_ms} ms", allow_restart=arguments.allow_restart)
    current = evaluation_of(call.state, evaluation)
    images, most = arguments.max_images, budget(call)
    answer = await describe(call, current, arguments, max_images=images, max_bytes=most, notes=did)
    if current.status == "done":
        return answer
    fields = {
        **answer.fields,
        "reason": "timed-out",
        "hint": "read notes for the state of the session; evaluate less at once, or with a longer timeoutMs",
    }
    return Answer(fields, ok=False, images=answer.images)


async def _forms(call: Call, readers: list[Repl], code: str, *, lisp: bool) -> tuple[Form, ...]:
    """The forms of Lisp, to be evaluated one by one; none of Python, which goes whole. Refused is what nobody can read.

    Raises:
        UnbalancedError, PythonSyntaxError: it cannot be read.
    """
    if not lisp:
        check_python(readers, code)
        return ()
    texts = call.services.work.texts
    # What comes after long code does not overtake it, however short it is.
    if len(code) <= AT_ONCE_CHARACTERS and not texts.is_busy(call.client):
        return _lisp_forms(code)
    return await texts.run(call.client, partial(_lisp_forms, code))


def _lisp_forms(code: str) -> tuple[Form, ...]:
    if is_plain_form(code):
        return (Form(code, 1, 1),)
    spans = top_level_forms(code, check_brackets(code))
    return tuple([Form(code[span.start : span.end], span.line, span.column) for span in spans])


def _read(path: Path) -> str:
    try:
        return files.read_text(path, FILE)  # REPLs take a byte order mark for code, so it is left out
    except UnicodeDecodeError as error:
        raise FileUnreadableError(str(path), "it is not UTF-8") from error
    except (OSError, ValueError) as error:  # a null byte makes it no path
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise FileUnreadableError(str(path), why or "it cannot be opened") from error


EVALUATION: dict[str, Schema | str] = {
    "evaluationId": "string",
    "status": "string",
    "result": "string",
    "values": TEXTS,
    "ns": "string",
    "stdout": "string",
    "stderr": "string",
    "stacks": "string",
    "sessionKey": "string",
    "who": "string",
    "elapsedMs": "integer",
    "outputLines": {"type": "object"},
    "generation": "integer",
    "notes": TEXTS,
    "otherWhosSinceLast": TEXTS,
    "error": {"type": "object"},
}

TOOLS = (
    Tool(
        name="evaluate_code",
        title="Evaluate code",
        description=(
            "Evaluate in the live REPL: one small form, look, build on it; then write it to the file and load_file. "
            "Status running: get_evaluation waits; never send twice."
        ),
        arguments=EvaluateArguments,
        output=answer_schema(**EVALUATION),
        run=evaluate_code,
        lists_output=True,
        needs=("evaluate",),
        setting="enable_mcp_repl_evaluation",
        destructive=True,
        open_world=True,
        is_core=True,
    ),
    Tool(
        name="load_file",
        title="Load file",
        description="Load a source file into the REPL.",
        arguments=LoadFileArguments,
        output=answer_schema(**EVALUATION),
        run=load_file,
        needs=("load-file", "evaluate"),
        setting="enable_mcp_repl_evaluation",
        destructive=True,
        open_world=True,
        is_core=True,
    ),
)
