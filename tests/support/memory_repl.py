"""A REPL in this process: the smallest thing that fulfils the contract of an adapter. It speaks a tiny Lisp.

`connect` is the connector of the protocol `memory`, whose addresses are the names of the REPLs that `start` created.
"""

import json
import os
import re
import tempfile
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import anyio
import anyio.lowlevel

from codriver.core.evaluations import Failure
from codriver.core.print_limits import NO_PRINT_LIMITS
from codriver.core.profiles import Capability, Profile
from codriver.core.requests import MAIN_SESSION, Form
from codriver.errors import ReplDisconnectedError
from codriver.repls.contract.adapter import Adapter, EvaluationFailedError, ReplUnreachableError, SessionNotOpenError
from codriver.repls.contract.display_data import Display
from codriver.repls.contract.events import (
    NAMESPACE_MISSING_TYPE,
    Ending,
    ForeignCodeFinished,
    ForeignCodeStarted,
    InputNeeded,
    Interruption,
    Output,
    Value,
)
from codriver.repls.contract.queries import Complete, LastError, Lookup
from codriver.repls.contract.stack_trace_values import StackFrame, StackTrace, ThreadDump

PROTOCOL = "memory"
HOME = "user"
GIVEN = ("evaluate", "load-file", "interrupt", "complete", "lookup", "stdin", "sessions", "print-limits", "macroexpand",
         "stacktrace", "cells")  # fmt: skip
MISSING = {"test": "this REPL is for tests, and runs none"}
TOKEN = re.compile(r'\s*([()]|"(?:[^"\\]|\\.)*"|[^\s()"]+)')

LINES_AT_ONCE = 1000

_running = {}


@dataclass
class CellRun:
    """The run of a cell, with the fields of the feature's class, which may be absent."""

    execution_count: int
    outputs: tuple
    omitted: int = 0
    has_started: bool = True


class CellRuns:
    """The runs of cells whose outputs are waiting to be collected, as the feature's companion of kernels has them."""

    def __init__(self):
        self.by_evaluation = {}

    def collect(self, evaluation):
        return self.by_evaluation.pop(evaluation, None)


# The language


class UnreadableError(Exception):
    """The text is not a form."""


class Name(str):
    """A name in code, as distinct from a string."""

    __slots__ = ()


def read(text):
    """Return the first form of a text, and the rest."""
    if (match := TOKEN.match(text)) is None:
        raise UnreadableError("a form is not closed")
    token, rest = match[1], text[match.end() :]
    if token == "(":
        items = []
        while not re.match(r"\s*\)", rest):
            item, rest = read(rest)
            items.append(item)
        return items, rest.lstrip()[1:]
    if token == ")":
        raise UnreadableError("there is nothing to close")
    if token.startswith('"'):
        return json.loads(token), rest
    return (int(token) if token.isdecimal() else float(token) if token[0].isdecimal() else Name(token)), rest


def printed_value(value, limits=NO_PRINT_LIMITS):
    """Return the printed form of a value."""
    if isinstance(value, list):
        items = [printed_value(item) for item in value[: limits.max_length]]
        return f"({' '.join([*items, *(['...'] if len(items) < len(value) else [])])})"
    if value is None:
        return "nil"
    return json.dumps(value, ensure_ascii=False) if type(value) is str else str(value)


def expanded(form):
    """Return a form with the macro at its head expanded once; there is one macro."""
    if isinstance(form, list) and form[:1] == [Name("when")]:
        _, test, *body = form
        return [Name("if"), test, body[0] if len(body) == 1 else [Name("do"), *body]]
    return form


@dataclass
class Run:
    """What running code can use: the names of its session, and the client to print to."""

    adapter: "MemoryAdapter"
    session: "Session"
    identity: str

    def report(self, event):
        self.adapter.listener(self.identity, event)

    async def value(self, form):
        await anyio.lowlevel.checkpoint()
        form = expanded(form)
        if isinstance(form, Name):
            if form not in self.session.names:
                raise NameError(f"there is no {form}")
            return self.session.names[form]
        if not isinstance(form, list):
            return form
        head, *rest = form
        if head == "if":
            return await self.value(rest[1]) if await self.value(rest[0]) else None
        if head == "def":
            self.session.names[str(rest[0])] = await self.value(rest[1])
            return Name(f"#'{rest[0]}")
        if head == "next":
            self.session.names[str(rest[0])] = 1 + self.session.names.get(str(rest[0]), 0)
            return self.session.names[str(rest[0])]
        if head == "do":
            return [await self.value(item) for item in rest][-1]
        if head == "dotimes":
            name, times, *body = rest
            for number in range(await self.value(times)):
                self.session.names[str(name)] = number
                for item in body:
                    await self.value(item)
            return None
        return await FUNCTIONS[head][0](self, *[await self.value(item) for item in rest])


async def _print(run, text):
    run.report(Output("out", f"{text if isinstance(text, str) else printed_value(text)}\n"))


async def _write(run, stream, text):
    run.report(Output(stream, text))


async def _print_lines(run, times, text):
    for start in range(0, times, LINES_AT_ONCE):
        lines = range(start, min(start + LINES_AT_ONCE, times))
        run.report(Output("out", "".join(f"{number}{text}\n" for number in lines)))
        await anyio.lowlevel.checkpoint()


async def _await_file(_run, path):
    while not await anyio.Path(path).exists():
        await anyio.sleep(0.01)


async def _print_often(run, times, text):
    for _ in range(times):
        await _print(run, text)
        await anyio.sleep(0.001)


async def _print_later(run, delay_s, text):
    async def later():
        await anyio.sleep(delay_s)
        await _print(run, text)

    run.adapter.tasks.start_soon(later)


async def _print_after(run, path, text):
    async def later():
        await _await_file(run, path)
        await _print(run, text)

    run.adapter.tasks.start_soon(later)


async def _fail(_run, text):
    raise ValueError(text)


async def _read_line(run):
    run.report(InputNeeded())
    while not run.session.input:
        run.session.has_input = anyio.Event()
        await run.session.has_input.wait()
    return run.session.input.pop(0).rstrip("\n")


async def _prompt(run, prompt):
    await _write(run, "out", prompt)
    return await _read_line(run)


async def _map(run, name, items):
    return [await FUNCTIONS[name][0](run, item) for item in items]


async def _exit(run):
    run.adapter.repl.end()
    await anyio.sleep_forever()


async def _human(run, code, delay_s, value):
    """Evaluate as a person would do in this REPL, without the server."""
    adapter = run.adapter
    identity = f"human-{next(adapter.numbers)}"

    async def cell():
        adapter.listener(identity, ForeignCodeStarted(code))
        adapter.listener(identity, Output("out", "by hand\n"))
        with anyio.CancelScope() as adapter.others:
            await anyio.sleep(delay_s)
            adapter.listener(identity, Value(printed_value(value), HOME))
        adapter.listener(identity, ForeignCodeFinished("interrupted" if adapter.others.cancel_called else "done"))
        adapter.others = None

    adapter.tasks.start_soon(cell)


async def _display(run, media_type, data):
    run.report(Display({media_type: data}))


async def _progress(run, *states):
    run.report(Display({"text/plain": states[0]}, display_id="bar"))
    for state in states[1:]:
        run.report(Display({"text/plain": state}, display_id="bar", is_update=True))


def _plain(function):
    async def call(_run, *values):
        return function(*values)

    return call


FUNCTIONS = {
    "+": (_plain(lambda *n: sum(n)), "The sum of the numbers."),
    "/": (_plain(lambda a, b: a / b), "One number divided by another."),
    "range": (_plain(lambda n: list(range(n))), "The numbers from 0 to below n."),
    "str": (
        _plain(lambda *values: "".join(v if isinstance(v, str) else printed_value(v) for v in values)),
        "One text of all.",
    ),
    "repeat": (_plain(lambda text, n: text * n), "A text n times."),
    "map": (_map, "The results of the function of that name for each of a list."),
    "println": (_print, "Prints a value and ends the line."),
    "write": (_write, "Prints a text to a stream, out or err."),
    "print-lines": (_print_lines, "Prints so many lines at once, each a number from 0 on and a text."),
    "await-file": (_await_file, "Waits until there is such a file."),
    "print-often": (_print_often, "Prints a text again and again."),
    "print-later": (_print_later, "Prints a text from another task, after so many seconds."),
    "sleep": (lambda _run, seconds: anyio.sleep(seconds), "Waits for so many seconds."),
    "wait": (lambda _run: anyio.sleep_forever(), "Waits for ever."),
    "print-after": (_print_after, "Prints a text from another task, once there is such a file."),
    "fail": (_fail, "Fails with this message."),
    "raw": (_plain(Name), "A value that is printed as this text."),
    "read-line": (_read_line, "Reads a line from stdin."),
    "ask": (_prompt, "Prints a prompt and reads a line from stdin."),
    "human": (_human, "Evaluates as a human who shares this REPL: code, seconds, value."),
    "show": (_display, "Shows something of a media type."),
    "progress": (_progress, "Shows one text after the other in the same place."),
    "exit": (_exit, "Ends this REPL."),
}


# The server


class MemoryRepl:
    """One REPL, from `start` to its end."""

    def __init__(self, name, folder):
        self.name = name
        self.address = f"{PROTOCOL}://{name}"
        self._own_folder = None if folder else Path(tempfile.mkdtemp(prefix="repl-memory-"))
        self.folder = folder or self._own_folder
        self.names = {}
        self.adapters = []
        _running[name] = self

    def is_running(self):
        return self.name in _running

    def end(self):
        """End it as a crash would; every client loses its connection."""
        _running.pop(self.name, None)
        for adapter in self.adapters:
            adapter.lose("the REPL ended")
        if self._own_folder:
            with suppress(OSError):
                self._own_folder.rmdir()


def start(name, folder=None):
    """Start a new one, whose project is in this directory or in a new one."""
    return MemoryRepl(name, folder)


def repl():
    """Return the shared one, which is started on first use."""
    return _running.get("shared") or start("shared")


@contextmanager
def fresh():
    """Start a REPL for one test."""
    running = start("fresh")
    try:
        yield running
    finally:
        running.end()


# The adapter


@dataclass
class Session:
    names: dict
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    input: list = field(default_factory=list)
    has_input: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope | None = None
    running: str = ""
    over: anyio.Event = field(default_factory=anyio.Event)
    failure: Failure | None = None


@asynccontextmanager
async def connect(place, *, listener, workspace, is_remote, found_by=None):
    """Connect over the protocol `memory`."""
    if (found := _running.get(place)) is None:
        raise ReplUnreachableError(place, "nothing is listening at this address")
    async with anyio.create_task_group() as tasks:
        adapter = MemoryAdapter(found, listener, tasks)
        found.adapters.append(adapter)
        try:
            yield adapter
        finally:
            found.adapters.remove(adapter)
            adapter.lose("Codriver closed the connection")
            tasks.cancel_scope.cancel()


class MemoryAdapter(Adapter):
    """Codriver's side of a REPL in this process."""

    def __init__(self, repl, listener, tasks):
        self.repl = repl
        self.listener = listener
        self.tasks = tasks
        self._sessions = {MAIN_SESSION: Session(repl.names)}
        self._closed = anyio.Event()
        self._cause = None
        self.numbers = count(1)
        self.others = None
        self._cells = CellRuns()
        self._executions = count(1)

    @property
    def profile(self):
        return Profile(
            "memory",
            capabilities={name: Capability(name) for name in GIVEN},
            missing=MISSING,
            isolation="session",
            process_id=os.getpid(),
            project_root=str(self.repl.folder),
        )

    def lose(self, cause):
        """Lose the connection."""
        self._cause = self._cause or cause
        self._closed.set()
        for session in self._sessions.values():
            if session.scope:
                session.scope.cancel()

    async def wait_closed(self):
        await self._closed.wait()
        return self._cause

    def _session(self, name):
        if self._cause:
            raise ReplDisconnectedError(self._cause)
        if name not in self._sessions:
            raise SessionNotOpenError(name)
        return self._sessions[name]

    def start_evaluation(self, request, ended, limits=NO_PRINT_LIMITS):
        session = self._session(request.session)
        self.tasks.start_soon(self._run, session, request, ended, limits)

    async def _run(self, session, request, ended, limits):
        how = Ending("interrupted", HOME)
        try:
            async with session.lock:
                session.over = anyio.Event()
                with anyio.CancelScope() as session.scope:
                    session.running = request.code
                    how = await self._evaluate(session, request, limits)
        finally:
            session.scope = None
            session.over.set()
            ended(ReplDisconnectedError(self._cause) if self._cause else how)

    def companion(self, kind):
        return self._cells if kind.__name__ == "CellRuns" else None

    async def _evaluate(self, session, request, limits):
        if request.part is None:
            return await self._evaluate_forms(session, request, limits)
        reported, outputs, number = self.listener, [], next(self._executions)

        def report(identity, event):
            if isinstance(event, Output):
                outputs.append({"output_type": "stream", "name": f"std{event.stream}", "text": event.text})
            elif isinstance(event, Value):
                data = {"text/plain": event.text}
                outputs.append(
                    {"output_type": "execute_result", "execution_count": number, "data": data, "metadata": {}}
                )
            reported(identity, event)

        self.listener = report
        try:
            how = await self._evaluate_forms(session, request, limits)
            if how.failure:
                about = {"ename": how.failure.type, "evalue": how.failure.message, "traceback": []}
                outputs.append({"output_type": "error", **about})
            return how
        finally:
            self.listener = reported
            self._cells.by_evaluation[request.id] = CellRun(number, tuple(outputs))

    async def _evaluate_forms(self, session, request, limits):
        if request.namespace not in (None, HOME):
            return Ending("failed", HOME, Failure(NAMESPACE_MISSING_TYPE, f"there is no {request.namespace}"))
        run = Run(self, session, request.id)
        for number, form in enumerate(request.forms or (Form(request.code, 1, 1),), 1):
            try:
                text = printed_value(await run.value(read(form.text)[0]), limits)
            except Exception as error:  # noqa: BLE001 - whatever fails is the code's failure
                session.failure = Failure(type(error).__name__, str(error), form=number, line=form.line)
                return Ending("failed", HOME, session.failure)
            cut = text[: limits.max_value_bytes]
            self.listener(request.id, Value(cut, HOME, truncated=cut != text))
        return Ending("done", HOME)

    async def interrupt_others(self):
        if self.others is None:
            return Interruption("idle")
        self.others.cancel()
        return Interruption("interrupted")

    async def interrupt(self, session=MAIN_SESSION):
        target = self._session(session)
        if target.scope is None:
            return Interruption("idle")
        target.scope.cancel()
        await target.over.wait()
        return Interruption("interrupted")

    async def dump_threads(self, session=MAIN_SESSION):
        target = self._sessions.get(session)
        return ThreadDump(f"{target.running}\n  memory_repl", target.running) if target and target.scope else None

    async def send_input(self, text, session=MAIN_SESSION):
        target = self._session(session)
        target.input.append(text)
        target.has_input.set()

    async def query(self, question):
        names, reported = self._session(question.session).names, {}
        match question:
            case Complete(prefix=prefix):
                found = [name for name in (*FUNCTIONS, *names) if name.startswith(prefix)]
                reported = {"completions": [{"candidate": name, "ns": question.namespace} for name in found]}
            case Lookup(symbol=symbol) if symbol in FUNCTIONS or symbol in names:
                doc = FUNCTIONS[symbol][1] if symbol in FUNCTIONS else None
                reported = {"name": symbol, "ns": question.namespace, "doc": doc}
            case LastError() if failure := self._session(question.session).failure:
                frames = (StackFrame("form", line=failure.line), StackFrame("memory_repl", tooling=True))
                reported = {"trace": StackTrace(failure.type, failure.message, frames)}
            case Lookup() | LastError():
                pass
            case _:
                return await super().query(question)
        return question.read(reported)

    async def macroexpand(self, code, namespace, session=MAIN_SESSION, *, full=False):
        self._session(session)
        try:
            form = expanded(read(code)[0])
        except UnreadableError as error:
            raise EvaluationFailedError("the expansion", Failure("UnreadableError", str(error))) from error
        while full and form != expanded(form):
            form = expanded(form)
        return printed_value(form)

    async def open_session(self, name, *, shares_names=False):
        self._session(MAIN_SESSION)
        self._sessions.setdefault(name, Session({}))

    async def close_session(self, name):
        if name != MAIN_SESSION and (session := self._sessions.pop(name, None)) and session.scope:
            session.scope.cancel()
