"""Test runs of one nREPL server: by our own code in a session of ours, else by an op.

The test files of a workspace in Clojure's dialects are found with their namespaces, and so are the files of test
results.

"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import anyio

from codriver import files
from codriver.core.pictures import DATA
from codriver.core.values import TEST_SESSION, Request, TestSelection
from codriver.errors import CodriverError, refused
from codriver.files import working_trees
from codriver.repls.contract.adapter import CapabilityMissingError, EvaluationFailedError, namespace_missing
from codriver.repls.contract.adapter_values import (
    NAMESPACE_MISSING,
    UNKNOWN_TEST,
    Display,
    Ended,
    Listener,
    Output,
    StackFrame,
    TestResult,
    TestRun,
)
from codriver.repls.contract.reports import TestProgress
from codriver.repls.nrepl import responses
from codriver.repls.nrepl.connection import Message
from codriver.repls.nrepl.responses import Reply, check, read_data, require
from codriver.repls.nrepl.session_routes import TOOL_SESSION
from codriver.repls.stack_traces import frames_of, marked
from codriver.repls.test_results import tests_of
from codriver.repls.test_runs import TestEvaluations, alternatives
from codriver.wire.untrusted import as_map

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codriver.repls.contract.extras import Programs
    from codriver.repls.dialects.server_dialect import Words
    from codriver.repls.nrepl.probe import ProbeResult
    from codriver.repls.nrepl.session_pool import NreplSession, SessionPool
    from codriver.wire import bencode


SO_FAR_S: Final = 1.0
"""The time for the question about ended tests: a REPL may not answer while code runs."""
INTERRUPT_S: Final = 2.0
"""The time for interrupting a test run that nobody waits for."""
PICTURE: Final = re.compile(f"{DATA.pattern}\\Z")
"""A value shown by tests: it ends with a picture. The run's own value ends with a quotation mark."""
PENDING_S: Final = 0.05
"""The rest between questions for the end of a test run that the REPL does not tell by itself."""


class TestRunner:
    """Runs the tests of one REPL. Lives as long as its adapter."""

    __test__ = False  # for pytest, which would take it for a test

    def __init__(
        self,
        sessions: SessionPool,
        probed: ProbeResult,
        listener: Listener,
        programs: Programs,
        *,
        op_timeout_s: float,
        workspace: Path | None,
    ) -> None:
        self._sessions = sessions
        self._profile = probed.profile
        self._ops = probed.ops
        self._dialect = probed.dialect
        self._listener = listener
        self._programs = programs
        self._op_timeout_s = op_timeout_s
        self._workspace = workspace
        self._testing = anyio.Lock()
        self._progress: dict[str, TestProgress] = {}
        """The progress, by evaluation that runs tests."""
        self._given_up: anyio.Event | None = None
        """Set when nobody waits for a run that goes on after its answer."""
        self._runs = TestEvaluations(self._run, self._interrupt, listener)
        self.run_tests = self._runs.run_tests
        self.end = self._runs.end

    def start(self, request: Request, ended: Ended) -> None:
        """Run tests as an evaluation."""
        self._sessions.get(request.session)
        self._runs.start(request, ended)

    def give_up(self) -> bool:
        """Stop waiting for a run that continues after its answer; whether there is one."""
        if self._given_up is not None:
            self._given_up.set()
        return self._given_up is not None

    async def so_far(self, evaluation: str) -> TestRun | None:
        """Return the ended tests of a run under way."""
        progress = self._progress.get(evaluation)
        is_deaf = self._profile.is_serial or "test-partial" not in self._dialect.ask
        if progress is None or progress.run is not None or is_deaf:
            return progress.run if progress is not None else None
        with suppress(CodriverError, anyio.BrokenResourceError), anyio.move_on_after(SO_FAR_S):
            answer = await self._sessions.ask(TOOL_SESSION, self._dialect.expression("test-partial"))
            run = tests_of(read_data("the test run", answer, self._dialect), self._dialect, output="")
            return replace(run, results=tuple(one for one in run.results if one.outcome != "pass"), stopped=None)
        return None

    async def _interrupt(self) -> None:
        if "interrupt" in self._profile.capabilities:
            target = self._sessions.get(TEST_SESSION)
            await target.connection.ask("interrupt", timeout_s=INTERRUPT_S, **target.address())

    async def _run(self, asked: TestSelection, session: str, evaluation: str | None) -> TestRun:
        if evaluation is None:
            return await self._choose(asked, session, None)
        self._progress[evaluation] = TestProgress(self._frames)
        try:
            return await self._choose(asked, session, evaluation)
        finally:
            del self._progress[evaluation]

    async def _choose(self, asked: TestSelection, session: str, evaluation: str | None) -> TestRun:
        """Run tests by our own code if there is some for the dialect, else by the server's op."""
        support = require(self._profile, "test")
        if asked.fresh and "test-fresh" not in self._dialect.ask:
            raise CapabilityMissingError("test", message="only Python tests can be run in a new process")
        target = self._sessions.get(session)
        is_plain = bool(asked.namespace) and not (asked.match or asked.only) and "::" not in (asked.namespace or "")
        is_ours = support.adapted or not is_plain or bool(asked.extras)
        if support.adapted or (is_ours and "test" in self._dialect.ask):
            run = await self._by_evaluation(target, asked, evaluation)
        elif asked.match or asked.only:
            words = "this REPL runs tests by its own op, which takes no match and no list"
            raise CapabilityMissingError("test", message=words)
        else:
            run = await self._by_op(support.op, asked, evaluation)
        results = tuple(self._marked(result) for result in run.results)
        stopped = self._marked(run.stopped) if run.stopped else None
        return located(replace(run, results=results, stopped=stopped), self._workspace)

    def _frames(self, row: Mapping[str, object]) -> tuple[StackFrame, ...]:
        return marked(frames_of(row, self._dialect), self._workspace)

    def _marked(self, result: TestResult) -> TestResult:
        return replace(result, frames=marked(result.frames, self._workspace)) if result.frames else result

    async def _by_op(self, op: str, asked: TestSelection, evaluation: str | None) -> TestRun:
        query: dict[str, bencode.Value] = {"ns": asked.namespace} if asked.namespace else {}
        if asked.test:
            query["tests"] = [asked.test]
        everything = f"{op}-all"
        op = op if asked.namespace or everything not in self._ops else everything
        tool = await self._sessions.open(TEST_SESSION)
        answer = await self._answer(tool, op, evaluation, **{**query, "load?": "true"})
        if asked.namespace and any(NAMESPACE_MISSING in message.status for message in answer):
            raise namespace_missing(asked.namespace)
        check("the test run", answer, self._dialect)
        return responses.read_tests(answer, self._dialect)

    async def _by_evaluation(self, target: NreplSession, asked: TestSelection, evaluation: str | None) -> TestRun:
        tool = await self._sessions.open(TEST_SESSION)
        names = await anyio.to_thread.run_sync(partial(self._names, asked))
        # The REPL has one place for a run that goes on after its answer: one at a time.
        async with self._testing:
            unread = await self._load(tool, names, target.namespace)
            how = "test-fresh" if asked.fresh else "test"
            root = self._profile.project_root or ""
            code = self._dialect.expression(how, **names, session=target.names_id, root=root)
            fields: dict[str, bencode.Value] = {"code": code}
            for extra in asked.extras:
                fields |= extra.fields
            async with self._programs.running(evaluation or "", asked.extras if evaluation else ()) as rewrite:
                fields = rewrite(fields) if rewrite is not None else fields
                answer = await self._answer(tool, "eval", evaluation, **fields)
            if any("interrupted" in message.status for message in answer):
                return await self._partial(answer)
            data = as_map(read_data("the test run", answer, self._dialect))
            if data.get("pending"):
                return _with(unread, await self._rest(answer))
        if data.get("missing") and not unread:
            raise namespace_missing(asked.namespace or "")
        return _with(unread, tests_of(data, self._dialect, output=_printed(answer)))

    async def _load(self, tool: NreplSession, names: dict[str, Words], namespace: str | None) -> list[TestResult]:
        """Load the unloaded files of tests, by the server's op if no expression can; the failures."""
        if not names["files"] or self._workspace is None or "test-unloaded" not in self._dialect.ask:
            return []
        answer = await self._ask("test-unloaded", files=names["files"])
        unloaded = read_data("the test run", answer, self._dialect)
        unread = []
        for name, file in cast("list[tuple[str, str]]", names["files"]):
            if name not in cast("list[str]", unloaded):
                continue
            text = await anyio.to_thread.run_sync(read, file, self._workspace)
            if text is None:
                continue
            fields = {"file": text, "file-path": file, "file-name": file.rpartition("/")[2]}
            try:
                check("the load", await self._answer(tool, "load-file", None, **fields), self._dialect)
            except EvaluationFailedError as error:
                words = f"{error.error.type}: {error.error.message}"
                unread.append(TestResult("(load)", name, "error", actual=words, file=file))
        if self._dialect.namespace_by == "ns":
            code = f"{self._dialect.keeps_last}(ns {namespace or 'user'})"
            await tool.connection.ask("eval", timeout_s=self._op_timeout_s, code=code, **tool.address())
        return unread

    async def _rest(self, answer: list[Message]) -> TestRun:
        """Return the end of a run that continues after its answer."""
        self._given_up = given_up = anyio.Event()
        try:
            while True:
                rest = await self._ask("test-rest")
                answer += rest
                data = as_map(read_data("the test run", rest, self._dialect))
                if not data.get("pending"):
                    return tests_of(data, self._dialect, output=_printed(answer))
                with anyio.move_on_after(PENDING_S):
                    await given_up.wait()
                    return await self._partial(answer)
        finally:
            self._given_up = None

    async def _partial(self, answer: list[Message]) -> TestRun:
        """Return the part of a run that had ended at the interrupt."""
        data: object = {}
        if any(message.text("value") for message in answer) and "test-partial" not in self._dialect.ask:
            with suppress(CodriverError):
                data = read_data("the test run", answer, self._dialect)
        elif "test-partial" in self._dialect.ask:
            with suppress(CodriverError):
                data = read_data("the test run", await self._ask("test-partial"), self._dialect)
        run = tests_of(data, self._dialect, output=_printed(answer))
        return run if run.stopped else replace(run, stopped=TestResult(UNKNOWN_TEST, UNKNOWN_TEST, "error"))

    async def _ask(self, capability: str, **names: Words) -> list[Message]:
        return await self._sessions.ask(TEST_SESSION, self._dialect.expression(capability, **names))

    async def _answer(
        self, session: NreplSession, op: str, evaluation: str | None, **fields: bencode.Value
    ) -> list[Message]:
        """The answer to a request that runs user code; output and requests for input are passed on as they come."""
        messages: list[Message] = []
        reply = Reply(evaluation, self._listener, reports=self._programs.reply_fields)
        progress = self._progress.get(evaluation or "") or TestProgress()

        def heard(message: Message) -> None:
            if text := message.text("out"):
                message = replace(message, fields={**message.fields, "out": progress.take(text)})
            messages.append(message)
            if evaluation is not None:
                if text := message.text("out") or message.text("err"):
                    self._listener(evaluation, Output("out", text))
                if picture := PICTURE.search(message.text("value") or ""):
                    self._listener(evaluation, Display({picture[1]: picture[2]}))
                reports = {key: message.fields[key] for key in self._programs.reply_fields if key in message.fields}
                reply.take(replace(message, fields=reports))

        connection = session.connection
        session.running = exchange = connection.begin(heard)
        try:
            await connection.send(exchange, op, {**session.address(), **fields})
            await exchange.wait_over()
        finally:
            session.running = None
            connection.end(exchange)
        if "interrupted" in exchange.status:
            messages.append(Message(exchange.id, None, frozenset({"interrupted"}), {}))
        elif not any(message.is_done for message in messages):
            connection.check_open()
        return messages

    def _names(self, asked: TestSelection) -> dict[str, Words]:
        """Return the names in our own code: for a given path, the namespaces there and their files. In a thread."""
        words = alternatives(asked.match or "")
        names: dict[str, Words] = {"match": asked.match or "", "words": words, "only": asked.only}
        namespace, test = asked.namespace or "", asked.test or ""
        found: list[tuple[str, str]] = []
        is_path = False
        if not self._dialect.runs_files:
            namespace, _, node = namespace.partition("::")
            test = node or test
            is_path = bool(namespace and self._workspace and (self._workspace / namespace).exists())
            if "/" in namespace and not is_path:
                namespace, _, test = namespace.rpartition("/")
            if self._workspace is not None and not asked.only:
                found = find(self._workspace, self._dialect.name, namespace if is_path else "")
                found = [one for one in found if is_path or namespace in ("", one[0])]
            if asked.match and not words:
                raise refused(
                    "bad-arguments",
                    f"match cannot be read: {asked.match!r}",
                    hint="write words of test names with and, or and not before a word: parser and not slow or reader",
                )
        names |= {"files": found, "spaces": [one for one, _ in found] if is_path else []}
        if is_path and not found:
            raise namespace_missing(namespace)
        if is_path and test:
            return {**names, "ns": "", "name": "", "only": [(one, test) for one, _ in found]}
        return {**names, "ns": "" if is_path else namespace, "name": test}


def _with(unread: list[TestResult], run: TestRun) -> TestRun:
    """Return the run, with the files that did not load before its other results."""
    count = len(unread)
    return replace(run, tests=run.tests + count, errors=run.errors + count, results=(*unread, *run.results))


def _printed(answer: list[Message]) -> str:
    return "".join([text for message in answer if (text := message.text("out") or message.text("err"))])


SUFFIXES: Final = {
    "clojure": (".clj", ".cljc"),
    "babashka": (".clj", ".cljc", ".bb"),
    "basilisp": (".lpy", ".cljc"),
    "nbb": (".cljs", ".cljc"),
}
FOLDERS: Final = ("test", "tests", "src/test/clojure", "src/test")
"""Folders in which projects keep tests, from the workspace."""
SOURCE_FOLDERS: Final = ("test", "tests", "src", "src/test/clojure", "src/test", "")
"""Folders in which projects keep namespaces, from the workspace; test folders first."""
SOURCE_SUFFIXES: Final = (".clj", ".cljc", ".cljs", ".bb")
MAX_FILES: Final = 2000
MAX_ENTRIES: Final = 50_000
RULES: Final = files.Rules(files.Links.WITHIN, files.MEBIBYTE)
_NAMESPACE: Final = re.compile(r"^\(ns\s+(?:\^\S+\s+)*([^\s()\[\]{}\";]+)", re.MULTILINE)


def find(workspace: Path, dialect: str, where: str = "") -> list[tuple[str, str]]:
    """Namespaces that define tests, each with its file: in the file or folder `where`, else in the usual folders."""
    suffixes = SUFFIXES.get(dialect, ())
    places = [workspace / where] if where else [workspace / folder for folder in FOLDERS]
    found: dict[str, str] = {}
    for place in places:
        for path in _paths(place, suffixes):
            if len(found) < MAX_FILES and (text := read(path, workspace)) and (match := _NAMESPACE.search(text)):
                found.setdefault(match[1], path)
    return sorted(found.items())


def read(path: str, workspace: Path) -> str | None:
    """Return the text of a file with tests; None for a file without tests, or an unreadable one."""
    try:
        text = files.read_text(Path(path), RULES, root=workspace)
    except (OSError, UnicodeDecodeError):
        return None
    return text if "(deftest" in text else None


def _paths(place: Path, suffixes: tuple[str, ...]) -> Iterator[str]:
    if place.is_file():
        yield str(place)
        return
    yield from map(str, working_trees.files_of(place, suffixes, max_entries=MAX_ENTRIES))


def located(run: TestRun, workspace: Path | None) -> TestRun:
    """Return `run` with the paths of the namespaces' files in `workspace`, for results without a path."""
    if workspace is None:
        return run
    found: dict[tuple[str, str | None], str | None] = {}
    for result in run.results:
        key = (result.namespace, result.file)
        if key not in found:
            found[key] = _file(result, workspace)
    return replace(
        run, results=tuple(replace(result, file=found[result.namespace, result.file]) for result in run.results)
    )


def _file(result: TestResult, workspace: Path) -> str | None:
    told = result.file
    if told is not None and (Path(told).is_absolute() or ":" in told):
        return told
    stem = result.namespace.replace("-", "_").replace(".", "/")
    for folder in SOURCE_FOLDERS:
        for suffix in SOURCE_SUFFIXES:
            path = workspace / folder / f"{stem}{suffix}"
            if path.is_file() and (told is None or path.name == Path(told).name):
                return str(path)
    return told
