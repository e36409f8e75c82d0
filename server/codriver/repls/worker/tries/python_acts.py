"""Candidates of Python: files written and loaded, code, and then tests or a check, done by the worker's own code."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import json
import linecache
import os
import sys

from ..basics.connections import start_thread
from ..basics.error_report import OWN_FOLDER
from ..basics.frame_spaces import RED_TEST
from ..basics.jobs import Job
from ..python.live_recording import LiveRecording
from ..python.module_loads import is_loaded

if sys.platform == "linux":
    from .attempt import Attempt

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    from ..basics.dialect import Dialect

    Told = dict[str, Any]

    class UnderWay(Protocol):
        """The type of an `Attempt`, by a name that type checkers know on every system."""

        def wait(self) -> Told: ...  # noqa: D102  # as there
        def stop(self) -> None: ...  # noqa: D102  # as there


TRY = "codriver/try"
"""The op that tries candidates: its field `code` is JSON, and so is its value."""
RERUN = "codriver/rerun"
"""The op that tries candidates beside the next job, with calls recorded; it does nothing if a job waits."""
CODE, CHECK = "<candidate>", "<check>"
"""The names of evaluated code in tracebacks."""
VALUE_CHARACTERS = 2000
TOLD_TESTS = 500
FALSE = ("False", "np.False_")
"""The values of a failed check; any other value says nothing."""
TEMPORARY = "/tmp"  # noqa: S108  # as `tempfile` has it, where TMPDIR names no other
PROGRAM = OWN_FOLDER + "tests.py"
"""The name of the test program, by which its frames are left out."""
NO_CACHE = " -p no:cacheprovider"
NO_PLUGINS = ["-p", "no:cacheprovider", "-p", "no:faulthandler"]


class SilentJob(Job):
    """A job within a candidate; its values stay here, as nobody is connected."""

    def __init__(self, job: Job, **message: object) -> None:
        named = {"ns": job.message["ns"]} if job.message.get("ns") else {}
        super().__init__({**named, **message}, job.connection, job.session, job.shield, lambda _: None)
        self.values: list[str] = []

    def send(self, fields: Mapping[str, object]) -> None:
        """Keep a value."""
        if isinstance(value := fields.get("value"), str):
            self.values.append(value[:VALUE_CHARACTERS])

    tell = send

    def write(self, stream: str, text: str) -> None:
        """Print to this process' own output."""
        os.write(1 if stream == "out" else 2, text.encode("utf-8", "backslashreplace"))

    def flush(self) -> None:
        """Nothing: no text waits."""


class Trial:
    """The candidates of one request, and their execution; made in the worker, run in its forks."""

    def __init__(self, dialect: Dialect, job: Job, asked: Mapping[str, Any]) -> None:
        self._dialect = dialect
        self._job = job
        self._asked = asked
        self._is_recorded = bool(asked.get("isRecorded"))
        self._program: Any = _compiled(asked["program"]) if asked["tests"] else None

    @property
    def needs_files(self) -> bool:
        """True if an edited file is no loaded module, so that the file itself has to change."""
        files = [file for one in self._asked["candidates"] for file in one["files"]]
        return any(file["data"] is None or not self._is_loaded(file["path"]) for file in files)

    def _is_loaded(self, path: str) -> bool:
        name = self._dialect.module_of(path)
        return name is not None and is_loaded(name, path)

    def prepare(self, is_shielded: bool) -> list[tuple[Callable[[], Told], Mapping[str, str]]]:  # noqa: FBT001  # what the supervisor tells
        """The candidates' acts, after pytest was loaded once for all, if no tests have run here."""
        if self._asked["tests"] and RED_TEST not in sys.modules and importlib.util.find_spec("pytest") is not None:
            _warm_up(self._program)
        return [(self._act(one, is_shielded=is_shielded), self._sources(one)) for one in self._asked["candidates"]]

    def _act(self, candidate: Mapping[str, Any], *, is_shielded: bool) -> Callable[[], Told]:
        return lambda: self._do(candidate, is_shielded=is_shielded)

    def _sources(self, candidate: Mapping[str, Any]) -> dict[str, str]:
        files = {file["path"]: file["text"] for file in candidate["files"] if file["text"] is not None}
        return {**files, CODE: candidate["code"], CHECK: self._asked["check"]}

    def _do(self, candidate: Mapping[str, Any], *, is_shielded: bool) -> Told:
        """Run a candidate, and test it; the result, and the failed step."""
        told: Told = {}
        self._job.session.loop = None  # the worker's would wake nobody here
        if not is_shielded:
            os.environ["PYTEST_ADDOPTS"] = os.environ.get("PYTEST_ADDOPTS", "") + NO_CACHE
        job = SilentJob(self._job, op="eval", code="")
        step = "load"
        try:
            for file in candidate["files"]:
                _write(file, is_shielded=is_shielded)
            importlib.invalidate_caches()
            for file in candidate["files"]:
                # For a rerun, only files loaded before are loaded.
                if file["text"] is not None and (not self._is_recorded or self._is_loaded(file["path"])):
                    job = SilentJob(self._job, **_load_message(file))
                    self._dialect.evaluate(job)
            if candidate["code"]:
                step = "code"
                job = self._evaluate(candidate["code"], CODE, told)
            if self._asked["check"]:
                step = "check"
                job = self._evaluate(self._asked["check"], CHECK, told)
                told["isFalse"] = job.values[-1:] != [] and job.values[-1] in FALSE
            step = "tests"
            told.update(self._tested())
        except BaseException as error:
            told["error"] = {**self._explained(error, job), "step": step}
        return told

    def _evaluate(self, code: str, name: str, told: Told) -> SilentJob:
        job = SilentJob(self._job, op="eval", code=code, file=name)
        try:
            self._dialect.evaluate(job)
        except BaseException as error:
            told["error"] = self._explained(error, job)
            raise
        told["value"] = job.values[-1] if job.values else None
        return job

    def _explained(self, error: BaseException, job: Job) -> Told:
        try:
            parts, _ = self._dialect.explain(error, job)
        except BaseException:
            return {"class": type(error).__name__, "message": ""}
        told = {"class": parts["type"], "message": str(parts.get("message", ""))[:VALUE_CHARACTERS]}
        return {**told, **{key: parts[key] for key in ("file", "line") if key in parts}}

    def _tested(self) -> Told:
        """The outcome of each test, and the first one not passed."""
        told: Told = {}
        ended: dict[str, str] = {}
        for arguments in self._asked["tests"]:
            space: dict[str, Any] = {"__name__": "tests"}
            exec(self._program, space)
            space["SoFar"].tell = _untold
            live = LiveRecording(self._dialect.roots, []) if self._is_recorded else None
            report = json.loads(space["answer"](*arguments))
            if live is not None:
                told["run"] = live.end()
            if report.get("missing") or not (report["tests"] or report["results"]):
                raise LookupError(f"there are no tests in {arguments[0]}")
            for row in report["results"]:
                name = f"{row['ns']}/{row['test']}"
                if ended.get(name, "pass") == "pass":
                    ended[name] = row["outcome"]
                if row["outcome"] != "pass":
                    told.setdefault("firstFailure", _short(row))
        return {**told, "ended": dict(list(ended.items())[:TOLD_TESTS]), "count": len(ended)} if ended else told


@functools.lru_cache(maxsize=1)
def _compiled(program: str) -> types.CodeType:
    """The test program, compiled in the worker, as its forks' compiled code is gone with them."""
    return compile(program, PROGRAM, "exec", dont_inherit=True)


def _warm_up(program: types.CodeType) -> None:
    """Have pytest load its plugins, which takes long, once for all candidates, by a run without tests."""
    space: dict[str, Any] = {"__name__": "tests"}
    with contextlib.suppress(Exception):
        exec(program, space)
        given = [*NO_PLUGINS, *space["NO_LISP"], "--noconftest", "-c", os.devnull, "--rootdir", os.sep]
        space["pytest"].main([*given, "--collect-only", os.devnull])


def _untold(*_run: object) -> None:
    """Tell no progress of a run: nobody reads it."""


def _short(row: Mapping[str, Any]) -> Told:
    named = {key: row[key] for key in ("test", "file", "line") if row.get(key)}
    words = str(row.get("actual") or row.get("message") or "")
    return {**named, "message": words.strip()[:VALUE_CHARACTERS]}


def _write(file: Mapping[str, Any], *, is_shielded: bool) -> None:
    """Write a file in this process's overlay; without a shield only show its new lines in tracebacks."""
    path = file["path"]
    if not is_shielded:
        lines = (file["text"] or "").splitlines(keepends=True)
        linecache.cache[path] = (len(file["text"] or ""), None, lines, path)
        return
    linecache.cache.pop(path, None)
    if file["data"] is None:
        os.unlink(path)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as opened:
        opened.write(file["data"].encode("latin-1"))


def _load_message(file: Mapping[str, Any]) -> dict[str, object]:
    message = {"op": "load-file", "file": file["text"], "file-path": file["path"]}
    return message if file["lines"] is None else {**message, "codriver/lines": file["lines"]}


def is_possible() -> bool:
    """True if this system has the forks and the files of `/proc` that a try needs."""
    return sys.platform == "linux" and hasattr(os, "pidfd_open")


def try_all(dialect: Dialect, job: Job) -> None:
    """Answer the op that tries candidates."""
    if sys.platform == "linux":  # elsewhere the op is not there
        told = _begun(dialect, job, json.loads(job.message["code"]), is_unasked=False).wait()
        job.send({"value": json.dumps(told), "ns": dialect.name_of(job.session.namespace)})


class Reruns:
    """Reruns of tests in forks while the worker goes on, one at a time. The next evaluation ends a rerun."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._under_way: UnderWay | None = None

    def begin(self, job: Job, *, is_free: bool) -> None:
        """Fork for a job, on the main thread; a thread of ours tells the results."""
        try:
            asked = json.loads(job.message["code"])
            if not (is_free and is_possible() and _has_former(self._dialect, asked)):
                job.connection.answer(job.message, {"status": ["done"]})
                return
            attempt = self._under_way = _begun(self._dialect, job, asked, is_unasked=True)
        except Exception as error:
            job.connection.refuse(job.message, "failed", f"{type(error).__name__}: {error}")
            return

        def tell() -> None:
            told = attempt.wait()
            job.connection.answer(job.message, {"told": json.dumps(told), "status": ["done"]})

        start_thread(tell)

    def stop(self) -> None:
        """End the rerun under way, if there is one."""
        if self._under_way is not None:
            self._under_way.stop()
            self._under_way = None


def _has_former(dialect: Dialect, asked: Mapping[str, Any]) -> bool:
    """Give the last candidate the modules' former texts in place of its own; whether it has any files then."""
    files = asked["candidates"][-1]["files"]
    former = dialect.former_texts(asked["sinceMs"], asked["evaluated"])
    files[:] = [one for one in files if one["path"] not in former]
    for path, data in former.items():
        text = data.decode("utf-8-sig", "replace")
        files.append({"path": path, "data": data.decode("latin-1"), "text": text, "lines": None})
    return bool(files)


def _begun(dialect: Dialect, job: Job, asked: Mapping[str, Any], *, is_unasked: bool) -> UnderWay:
    """The candidates of a request, under way. Candidates that nobody asked for never write unshielded files."""
    trial = Trial(dialect, job, asked)
    folders = [*asked["folders"], os.environ.get("TMPDIR") or TEMPORARY]
    needs_files = is_unasked or trial.needs_files
    if sys.platform == "linux":
        return Attempt(trial.prepare, folders, asked["wallMs"] / 1000, job.shield, needs_files=needs_files)
    raise NotImplementedError(sys.platform)  # unreachable: the op does not exist here
