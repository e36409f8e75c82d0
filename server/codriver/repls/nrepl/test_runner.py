"""Run tests in an nREPL server, with Codriver's own programs or with the server's op.

In Clojure dialects, Codriver itself finds the test files in the workspace and the files that results refer to.
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
from codriver.core.images import DATA_URL_PATTERN
from codriver.core.requests import TEST_SESSION, Request, TestSelection
from codriver.errors import CodriverError, refused
from codriver.files import tree_walk
from codriver.repls.contract.adapter import CapabilityMissingError, EvaluationFailedError, missing_namespace_error
from codriver.repls.contract.display_data import Display
from codriver.repls.contract.events import NAMESPACE_MISSING_TYPE, Listener, OnEnd, Output
from codriver.repls.contract.test_progress import TestProgress
from codriver.repls.contract.test_run_values import UNKNOWN_TEST_NAME, TestResult, TestRun
from codriver.repls.nrepl import replies
from codriver.repls.nrepl.connection import Message
from codriver.repls.nrepl.connection_routes import TOOL_SESSION
from codriver.repls.nrepl.replies import Reply, parse_program_data, require_capability, require_success
from codriver.repls.stack_traces import mark_user_frames, parse_frame_maps
from codriver.repls.test_results import parse_test_run
from codriver.repls.test_runs import TestEvaluations, parse_selection
from codriver.wire.untrusted import mapping_or_empty

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codriver.repls.contract.evaluation_extensions import Programs
    from codriver.repls.contract.stack_trace_values import StackFrame
    from codriver.repls.dialects.server_dialect import Words
    from codriver.repls.nrepl.probe import ProbeResult
    from codriver.repls.nrepl.session_pool import NreplSession, SessionPool
    from codriver.wire import bencode


PROGRESS_TIMEOUT_S: Final = 1.0
"""Seconds to wait for the finished tests of a run in progress. A REPL may not answer while code is running."""
INTERRUPT_TIMEOUT_S: Final = 2.0
"""Seconds to wait for the end of a test run that was interrupted because nobody is waiting for its result."""
TRAILING_IMAGE_PATTERN: Final = re.compile(f"{DATA_URL_PATTERN.pattern}\\Z")
"""Matches an image at the end of a displayed value.

The report of the test run is a printed string that ends with a quotation mark, so it does not match.
"""
POLL_INTERVAL_S: Final = 0.05
"""Seconds between polls for the end of a test run that the REPL does not report by itself."""


class TestRunner:
    """Runs tests in one REPL. An instance lives as long as its adapter."""

    __test__ = False  # pytest must not collect this class

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
        """The progress of each evaluation that runs tests."""
        self._given_up: anyio.Event | None = None
        """Set when nobody is waiting any longer for a run that continues after its reply."""
        self._runs = TestEvaluations(self._run, self._interrupt, listener)
        self.run_tests = self._runs.run_tests
        self.end = self._runs.end

    def start(self, request: Request, on_end: OnEnd) -> None:
        """Start a test run as an evaluation."""
        self._sessions.get(request.session)
        self._runs.start(request, on_end)

    def stop_waiting(self) -> bool:
        """Stop waiting for a run that continues after its reply, and return whether there was such a run."""
        if self._given_up is not None:
            self._given_up.set()
        return self._given_up is not None

    async def finished_tests(self, evaluation: str) -> TestRun | None:
        """Return the results so far of a run in progress. See `Adapter.finished_tests`."""
        progress = self._progress.get(evaluation)
        is_deaf = self._profile.is_serial or "test-partial" not in self._dialect.expressions
        if progress is None or progress.run is not None or is_deaf:
            return progress.run if progress is not None else None
        with suppress(CodriverError, anyio.BrokenResourceError), anyio.move_on_after(PROGRESS_TIMEOUT_S):
            answer = await self._sessions.evaluate(TOOL_SESSION, self._dialect.program_code("test-partial"))
            run = parse_test_run(parse_program_data("the test run", answer, self._dialect), self._dialect, output="")
            return replace(
                run, results=tuple(result for result in run.results if result.outcome != "pass"), stopped=None
            )
        return None

    async def _interrupt(self) -> None:
        if "interrupt" in self._profile.capabilities:
            target = self._sessions.get(TEST_SESSION)
            await target.connection.request("interrupt", timeout_s=INTERRUPT_TIMEOUT_S, **target.address())

    async def _run(self, selection: TestSelection, session: str, evaluation: str | None) -> TestRun:
        if evaluation is None:
            return await self._choose(selection, session, None)
        self._progress[evaluation] = TestProgress(self._frames)
        try:
            return await self._choose(selection, session, evaluation)
        finally:
            del self._progress[evaluation]

    async def _choose(self, selection: TestSelection, session: str, evaluation: str | None) -> TestRun:
        """Run tests with Codriver's program if the dialect has one, or else with the server's op."""
        support = require_capability(self._profile, "test")
        target = self._sessions.get(session)
        is_plain = (
            bool(selection.namespace)
            and not (selection.match or selection.only)
            and "::" not in (selection.namespace or "")
        )
        is_by_expression = support.adapted or not is_plain or bool(selection.extensions)
        if support.adapted or (is_by_expression and "test" in self._dialect.expressions):
            run = await self._evaluate_run(target, selection, evaluation)
        elif selection.match or selection.only:
            words = "this REPL runs tests with its own op, which supports neither match nor a list of tests"
            raise CapabilityMissingError("test", message=words)
        else:
            run = await self._run_by_op(support.op, selection, evaluation)
        results = tuple(self._mark_user_frames(result) for result in run.results)
        stopped = self._mark_user_frames(run.stopped) if run.stopped else None
        return with_file_paths(replace(run, results=results, stopped=stopped), self._workspace)

    def _frames(self, row: Mapping[str, object]) -> tuple[StackFrame, ...]:
        return mark_user_frames(parse_frame_maps(row, self._dialect), self._workspace)

    def _mark_user_frames(self, result: TestResult) -> TestResult:
        return replace(result, frames=mark_user_frames(result.frames, self._workspace)) if result.frames else result

    async def _run_by_op(self, op: str, selection: TestSelection, evaluation: str | None) -> TestRun:
        query: dict[str, bencode.Value] = {"ns": selection.namespace} if selection.namespace else {}
        if selection.test:
            query["tests"] = [selection.test]
        everything = f"{op}-all"
        op = op if selection.namespace or everything not in self._ops else everything
        tool = await self._sessions.open(TEST_SESSION)
        answer = await self._answer(tool, op, evaluation, **{**query, "load?": "true"})
        if selection.namespace and any(NAMESPACE_MISSING_TYPE in message.status for message in answer):
            raise missing_namespace_error(selection.namespace)
        require_success("the test run", answer, self._dialect)
        return replies.parse_cider_tests(answer, self._dialect)

    async def _evaluate_run(self, target: NreplSession, selection: TestSelection, evaluation: str | None) -> TestRun:
        tool = await self._sessions.open(TEST_SESSION)
        names = await anyio.to_thread.run_sync(partial(self._placeholder_values, selection))
        # The REPL can store one run that continues after its reply, so runs take turns.
        async with self._testing:
            unread = await self._load(tool, names, target.namespace)
            root = self._profile.project_root or ""
            code = self._dialect.program_code("test", **names, session=target.namespace_session_id, root=root)
            fields: dict[str, bencode.Value] = {"code": code}
            for extension in selection.extensions:
                fields |= extension.fields
            async with self._programs.run_programs(
                evaluation or "", selection.extensions if evaluation else ()
            ) as rewrite:
                fields = rewrite(fields) if rewrite is not None else fields
                answer = await self._answer(tool, "eval", evaluation, **fields)
            if any("interrupted" in message.status for message in answer):
                return await self._read_partial_run(answer)
            data = mapping_or_empty(parse_program_data("the test run", answer, self._dialect))
            if data.get("pending"):
                return _add_load_errors(unread, await self._await_rest(answer))
        if data.get("missing") and not unread:
            raise missing_namespace_error(selection.namespace or "")
        return _add_load_errors(unread, parse_test_run(data, self._dialect, output=_output_text(answer)))

    async def _load(self, tool: NreplSession, names: dict[str, Words], namespace: str | None) -> list[TestResult]:
        """Load the test files that are not loaded yet, and return an error for each file that fails to load."""
        if not names["files"] or self._workspace is None or "test-unloaded" not in self._dialect.expressions:
            return []
        answer = await self._evaluate("test-unloaded", files=names["files"])
        unloaded = parse_program_data("the test run", answer, self._dialect)
        unread = []
        for name, file in cast("list[tuple[str, str]]", names["files"]):
            if name not in cast("list[str]", unloaded):
                continue
            text = await anyio.to_thread.run_sync(read_test_file, file, self._workspace)
            if text is None:
                continue
            fields = {"file": text, "file-path": file, "file-name": file.rpartition("/")[2]}
            try:
                require_success("the load", await self._answer(tool, "load-file", None, **fields), self._dialect)
            except EvaluationFailedError as error:
                words = f"{error.error.type}: {error.error.message}"
                unread.append(TestResult("(load)", name, "error", actual=words, file=file))
        if self._dialect.namespace_by == "ns":
            code = f"{self._dialect.preserve_last}(ns {namespace or 'user'})"
            await tool.connection.request("eval", timeout_s=self._op_timeout_s, code=code, **tool.address())
        return unread

    async def _await_rest(self, answer: list[Message]) -> TestRun:
        """Wait until a run that continues after its reply has ended, and return its results."""
        self._given_up = given_up = anyio.Event()
        try:
            while True:
                rest = await self._evaluate("test-rest")
                answer += rest
                data = mapping_or_empty(parse_program_data("the test run", rest, self._dialect))
                if not data.get("pending"):
                    return parse_test_run(data, self._dialect, output=_output_text(answer))
                with anyio.move_on_after(POLL_INTERVAL_S):
                    await given_up.wait()
                    return await self._read_partial_run(answer)
        finally:
            self._given_up = None

    async def _read_partial_run(self, answer: list[Message]) -> TestRun:
        """Return the tests that had finished when the run was interrupted."""
        data: object = {}
        if any(message.text("value") for message in answer) and "test-partial" not in self._dialect.expressions:
            with suppress(CodriverError):
                data = parse_program_data("the test run", answer, self._dialect)
        elif "test-partial" in self._dialect.expressions:
            with suppress(CodriverError):
                data = parse_program_data("the test run", await self._evaluate("test-partial"), self._dialect)
        run = parse_test_run(data, self._dialect, output=_output_text(answer))
        return run if run.stopped else replace(run, stopped=TestResult(UNKNOWN_TEST_NAME, UNKNOWN_TEST_NAME, "error"))

    async def _evaluate(self, capability: str, **names: Words) -> list[Message]:
        return await self._sessions.evaluate(TEST_SESSION, self._dialect.program_code(capability, **names))

    async def _answer(
        self, session: NreplSession, op: str, evaluation: str | None, **fields: bencode.Value
    ) -> list[Message]:
        """Send a request that runs user code, and return the replies.

        Output is reported to the listener as soon as it is received.
        """
        messages: list[Message] = []
        reply = Reply(evaluation, self._listener, reports=self._programs.report_fields)
        progress = self._progress.get(evaluation or "") or TestProgress()

        def on_message(message: Message) -> None:
            if text := message.text("out"):
                message = replace(message, fields={**message.fields, "out": progress.feed(text)})
            messages.append(message)
            if evaluation is not None:
                if text := message.text("out") or message.text("err"):
                    self._listener(evaluation, Output("out", text))
                if image := TRAILING_IMAGE_PATTERN.search(message.text("value") or ""):
                    self._listener(evaluation, Display({image[1]: image[2]}))
                reports = {key: message.fields[key] for key, _ in self._programs.report_fields if key in message.fields}
                reply.receive(replace(message, fields=reports))

        connection = session.connection
        session.running = exchange = connection.register(on_message)
        try:
            await connection.send(exchange, op, {**session.address(), **fields})
            await exchange.wait_finished()
        finally:
            session.running = None
            connection.finish(exchange)
        if "interrupted" in exchange.status:
            messages.append(Message(exchange.id, None, frozenset({"interrupted"}), {}))
        elif not any(message.is_done for message in messages):
            connection.check_open()
        return messages

    def _placeholder_values(self, selection: TestSelection) -> dict[str, Words]:
        """Return the values of the test program's placeholders.

        This searches for test files below a path, so it runs in a thread.
        """
        words = parse_selection(selection.match or "")
        names: dict[str, Words] = {"match": selection.match or "", "words": words, "only": selection.only}
        namespace, test = selection.namespace or "", selection.test or ""
        found: list[tuple[str, str]] = []
        is_path = False
        if not self._dialect.runs_files:
            namespace, _, node = namespace.partition("::")
            test = node or test
            is_path = bool(namespace and self._workspace and (self._workspace / namespace).exists())
            if "/" in namespace and not is_path:
                namespace, _, test = namespace.rpartition("/")
            if self._workspace is not None and (is_path or not selection.only):
                found = find_test_namespaces(self._workspace, self._dialect.name, namespace if is_path else "")
                found = [space for space in found if is_path or namespace in ("", space[0])]
            if selection.match and not words:
                raise refused(
                    "bad-arguments",
                    f"match cannot be read: {selection.match!r}",
                    hint="combine parts of test names with `and`, `or` and `not`, as in: parser and not slow or reader",
                )
        names |= {"files": found, "spaces": [space for space, _ in found] if is_path else []}
        if is_path and not found:
            raise missing_namespace_error(namespace)
        if is_path and test:
            return {**names, "ns": "", "name": "", "only": [(space, test) for space, _ in found]}
        return {**names, "ns": "" if is_path else namespace, "name": test}


def _add_load_errors(unread: list[TestResult], run: TestRun) -> TestRun:
    """Add an error for each file that failed to load to the results of a run."""
    count = len(unread)
    return replace(run, tests=run.tests + count, errors=run.errors + count, results=(*unread, *run.results))


def _output_text(answer: list[Message]) -> str:
    return "".join([text for message in answer if (text := message.text("out") or message.text("err"))])


TEST_FILE_SUFFIXES: Final = {
    "clojure": (".clj", ".cljc"),
    "babashka": (".clj", ".cljc", ".bb"),
    "basilisp": (".lpy", ".cljc"),
    "nbb": (".cljs", ".cljc"),
}
TEST_DIRECTORIES: Final = ("test", "tests", "src/test/clojure", "src/test")
"""Directories in which projects keep tests, relative to the workspace."""
SOURCE_DIRECTORIES: Final = ("test", "tests", "src", "src/test/clojure", "src/test", "")
"""Directories in which projects keep source files, relative to the workspace. Test directories come first."""
SOURCE_SUFFIXES: Final = (".clj", ".cljc", ".cljs", ".bb")
MAX_TEST_FILES: Final = 2000
"""Maximum number of test files that one search returns."""
MAX_SCANNED_ENTRIES: Final = 50_000
"""Maximum number of directory entries that are scanned."""
TEST_FILE_RULES: Final = files.FileRules(files.Links.WITHIN, files.MEBIBYTE)
_NAMESPACE_PATTERN: Final = re.compile(r"^\(ns\s+(?:\^\S+\s+)*([^\s()\[\]{}\";]+)", re.MULTILINE)


def find_test_namespaces(workspace: Path, dialect: str, where: str = "") -> list[tuple[str, str]]:
    """Return the namespaces that define tests, each with its file.

    The search is limited to the file or directory `where`. By default, it covers the usual test directories.
    """
    suffixes = TEST_FILE_SUFFIXES.get(dialect, ())
    directories = [workspace / where] if where else [workspace / name for name in TEST_DIRECTORIES]
    found: dict[str, str] = {}
    for directory in directories:
        for path in _paths(directory, suffixes):
            if (
                len(found) < MAX_TEST_FILES
                and (text := read_test_file(path, workspace))
                and (match := _NAMESPACE_PATTERN.search(text))
            ):
                found.setdefault(match[1], path)
    return sorted(found.items())


def read_test_file(path: str, workspace: Path) -> str | None:
    """Return the content of a test file, or None if it defines no tests or cannot be read."""
    try:
        text = files.read_text(Path(path), TEST_FILE_RULES, root=workspace)
    except (OSError, UnicodeDecodeError):
        return None
    return text if "(deftest" in text else None


def _paths(directory: Path, suffixes: tuple[str, ...]) -> Iterator[str]:
    if directory.is_file():
        yield str(directory)
        return
    yield from map(str, tree_walk.walk_files(directory, suffixes, max_entries=MAX_SCANNED_ENTRIES))


def with_file_paths(run: TestRun, workspace: Path | None) -> TestRun:
    """Return the run with the paths of source files in `workspace` added to results that have no path."""
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
    file = result.file
    if file is not None and (Path(file).is_absolute() or ":" in file):
        return file
    stem = result.namespace.replace("-", "_").replace(".", "/")
    for name in SOURCE_DIRECTORIES:
        for suffix in SOURCE_SUFFIXES:
            path = workspace / name / f"{stem}{suffix}"
            if path.is_file() and (file is None or path.name == Path(file).name):
                return str(path)
    return file
