"""The worker's nREPL server. Network threads handle requests, and the main thread runs evaluations in order."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import socket
import sys
import threading
import traceback
from functools import partial
from time import sleep

from ..basics import sensitive_texts
from ..basics.connections import Connection, start_thread
from ..basics.dialect import NamespaceMissingError
from ..basics.error_report import store_error, strip_codriver_frames
from ..basics.features import load_features
from ..basics.frame_spaces import FRAME_OP, FrameSpaces
from ..basics.jobs import ABANDONED_MESSAGE, Job, Session, exit_forked_child
from ..basics.print_limits import add_print_limits
from ..basics.stacks import format_stacks
from ..basics.systems import current_user, peer_user
from ..fresh.comparison import Comparison
from . import thread_interrupts
from .request_threads import RequestThreads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..basics.connections import Message
    from ..basics.dialect import Dialect
    from ..basics.jobs import Interrupts
    from .standard_streams import Output

WORKER_VERSION = "0.1.0"
"""The version reported by `describe`.

It is the version of Codriver, repeated here because Codriver is not installed in the worker's interpreter.
"""
WORKER_PACKAGE = sys.modules[__package__.partition(".serving")[0]]
"""The worker's package, which counts refused calls to `start_repl`."""
ORIGINAL_EXCEPTHOOK = sys.excepthook
"""The excepthook when the interpreter started. Any other hook was set by the user."""
DEFAULT_LOCAL_CHARACTERS = 120
"""Maximum length of a printed local variable if the request does not set a limit."""
ACCEPT_RETRY_INTERVAL_S = 0.1
"""Seconds to wait before accepting connections again after the process had too many open files."""
END_OF_INPUT_ERRORS = ("EOFError", "BdbQuit", "SystemExit")
"""Names of errors that code may raise at the end of its input. Names are used because debuggers are loaded late."""


class Server:
    """The worker's nREPL server, with its sessions, clients and jobs.

    `about` returns additional fields for `describe`. With `compares`, each load is compared with a fresh import
    automatically.
    """

    def __init__(
        self,
        dialect: Dialect,
        interrupts: Interrupts,
        output: Output,
        about: Mapping[str, Mapping[str, object]],
        *,
        compares: bool = False,
    ) -> None:
        self._dialect = dialect
        self._features = load_features()
        self._feature_fields = frozenset(field for feature in self._features for field in feature.fields)
        self._about_features = [feature.about for feature in self._features if feature.about is not None]
        self._about = about
        self._interrupts = interrupts
        self._output = output
        self._sessions: dict[str, Session] = {}
        self._default = self._new_session()
        self._listener: socket.socket | None = None
        self._connections: list[Connection] = []
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = RequestThreads()
        self._comparison: Comparison | None = dialect.create_load_comparison(partial(Comparison, is_unasked=compares))
        self._open: list[Job] = []
        """The running and queued jobs, in the order in which they were received."""
        self.at_first: list[Callable[[], object]] = []
        """Functions that are called before the first evaluation."""
        self.while_evaluating: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
        """A context manager in which each request is run on the main thread."""
        self._ops = {
            "clone": self._clone,
            "close": self._close,
            "describe": self._describe,
            "eval": self._enqueue,
            FRAME_OP: self._enqueue,
            "load-file": self._enqueue,
            "interrupt": self._interrupt,
            "stdin": self._stdin,
            "completions": self._completions,
            "complete": self._completions,
            "lookup": self._lookup,
            "ls-sessions": self._ls_sessions,
            "codriver/names": self._names,
            "codriver/source": self._source,
            "codriver/stacks": self._stacks,
            "codriver/locals": self._locals,
            "codriver/value": self._enqueue,
            "codriver/restore": self._restore,
            sensitive_texts.SENSITIVE_OP: sensitive_texts.begin_reporting,
        }
        self._add_dialect_ops(dialect)
        for feature in self._features:
            self._ops.update(feature.ops)

    def _add_dialect_ops(self, dialect: Dialect) -> None:
        """Add the ops that only some dialects support."""
        if dialect.runs_concurrently:
            self._ops["codriver/background"] = self._enqueue
        if dialect.reports_drift:
            self._ops["codriver/drift"] = self._drift
            self._ops["codriver/dependents"] = self._dependents
        if self._comparison is not None:
            self._ops["codriver/fresh"] = self._fresh
        if dialect.reports_loaded:
            self._ops["codriver/loaded"] = self._loaded
        if dialect.expands:
            self._ops["macroexpand"] = self._enqueue

    def _new_session(self) -> Session:
        session = Session(os.urandom(16).hex(), self._dialect.home)
        self._sessions[session.id] = session
        return session

    def capture_process(self) -> None:
        """Capture all output of user code, and disable the server in forked children."""
        self._output.capture_process()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)
        self._dialect.capture_streams()
        sensitive_texts.make_seam_importable()

    def _after_fork(self) -> None:
        """Disable the server in a forked child process, whose output reaches the parent through the pipes."""
        self._output.is_child, self._output.last_job = True, None
        if self._comparison is not None:
            self._comparison.stop()
        for connection in self._connections:
            connection.close_in_child()
        if self._listener is not None:
            self._listener.close()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    # On network threads

    def accept_connections(self, listener: socket.socket) -> None:
        """Start accepting connections in a new thread."""
        self._listener = listener
        start_thread(lambda: self._accept(listener))
        start_thread(self._output.flush_repeatedly)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, peer = listener.accept()
            except OSError:
                if listener.fileno() == -1:
                    return
                sleep(ACCEPT_RETRY_INTERVAL_S)
                continue
            if peer_user(peer, sock.getsockname()) not in (None, current_user(), 0):
                sock.close()
                continue
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            start_thread(self._add_connection(sock).serve)

    def _add_connection(self, sock: socket.socket) -> Connection:
        """Create a connection for a client connected through this socket."""
        connection = Connection(sock, self._handle)
        self._connections[:] = [item for item in self._connections if item.is_open]
        self._connections.append(connection)
        connection.at_end.append(partial(self._client_left, connection))
        return connection

    def _client_left(self, connection: Connection) -> None:
        """Do nothing, because this process ends together with the server that started it."""

    def _handle(self, message: Message, connection: Connection) -> None:
        """Handle a request immediately, or queue it for the main thread."""
        name, identity = message.get("op"), message.get("session")
        op = self._ops.get(name) if isinstance(name, str) else None
        session = self._default if not identity else self._sessions.get(identity) if isinstance(identity, str) else None
        if op is None:
            connection.reply_failure(message, "unknown-op", f"there is no op {name!r}")
        elif session is None:
            words = f"there is no session {identity!r}: it may have been closed"
            connection.reply_failure(message, "unknown-session", words)
        else:
            self._threads.handle(op, message, connection, session)

    def _clone(self, message: Message, connection: Connection, session: Session) -> None:
        clone = self._new_session()
        clone.is_apart = bool(message.get("codriver/apart"))
        clone.namespace = self._dialect.create_session_namespace() if clone.is_apart else session.namespace
        connection.reply(message, {"new-session": clone.id, "status": ["done"]})

    def _close(self, message: Message, connection: Connection, session: Session) -> None:
        if session is not self._default:
            self._sessions.pop(session.id, None)
            self._dialect.stored_values.drop(session.id)
            if session.is_apart:
                self._dialect.drop_session_namespace(session.namespace)
        connection.reply(message, {"status": ["done", "session-closed"]})

    def _ls_sessions(self, message: Message, connection: Connection, _session: Session) -> None:
        connection.reply(message, {"sessions": list(self._sessions), "status": ["done"]})

    def _describe(self, message: Message, connection: Connection, _session: Session) -> None:
        versions = {name: {"version-string": text} for name, text in self._dialect.versions().items()}
        versions["codriver-worker"] = {"version-string": WORKER_VERSION}
        ops: dict[str, dict[str, str]] = {op: {} for op in self._ops}
        fields: dict[str, object] = {**self._about}
        for about in self._about_features:
            fields.update(about())
        connection.reply(message, {"ops": ops, "versions": versions, **fields, "status": ["done"]})

    def _enqueue(self, message: Message, connection: Connection, session: Session) -> None:
        field = {"load-file": "file", "codriver/value": "evaluation"}.get(message["op"], "code")
        if not isinstance(message.get(field), str):
            op = message["op"]
            connection.reply_failure(message, "no-code", f"the op {op} needs {field!r}, a string")
            return
        job = Job(
            add_print_limits(message, session), connection, session, self._interrupts.shield, self._output.dirty.put
        )
        with self._lock:
            self._open.append(job)
        if message["op"] == "codriver/background":
            thread_interrupts.run_on_thread(job, self._run_concurrently, self._abandon)
        else:
            self._queue.put(job)

    def _interrupt(self, message: Message, connection: Connection, session: Session) -> None:
        interrupt_id = message.get("interrupt-id")
        with self._lock:
            mine = [job for job in self._open if not message.get("session") or job.session is session]
            job = next((job for job in mine if not interrupt_id or job.message.get("id") == interrupt_id), None)
            if job is not None:
                job.is_interrupted = True
        if not mine:
            connection.reply(message, {"status": ["done", "session-idle"]})
        elif job is None:
            words = f"the evaluation {interrupt_id!r} is neither running nor queued in this session"
            connection.reply_failure(message, "interrupt-id-mismatch", words)
        elif job.is_started:
            running = job

            def stop() -> None:
                is_over = self._interrupts_of(running).stop(running)
                note = {"codriver/note": running.abandoned or ABANDONED_MESSAGE} if running.is_abandoned else {}
                connection.reply(message, {**note, "status": ["done"] if is_over else ["done", "interrupt-pending"]})

            # Interrupting may take long, and this thread must read the client's next requests.
            start_thread(stop)
        else:
            # The main thread skips this job.
            self._end(job, ["done", "interrupted"])
            connection.reply(message, {"status": ["done"]})

    def _stdin(self, message: Message, connection: Connection, session: Session) -> None:
        if not isinstance(message.get("stdin"), str):
            connection.reply_failure(message, "no-stdin", "the op stdin needs 'stdin', a string")
            return
        session.input.put(message["stdin"])
        connection.reply(message, {"status": ["done"]})

    def _completions(self, message: Message, connection: Connection, session: Session) -> None:
        prefix = message.get("prefix") or message.get("symbol") or ""
        namespace = self._dialect.find(message.get("ns")) or session.namespace
        found = self._dialect.complete(prefix, namespace)
        connection.reply(message, {"completions": found, "status": ["done"]})

    def _lookup(self, message: Message, connection: Connection, session: Session) -> None:
        name = message.get("sym") or message.get("symbol") or ""
        namespace = self._dialect.find(message.get("ns")) or session.namespace
        found = self._dialect.lookup(name, namespace)
        connection.reply(message, {"info": found, "status": ["done"] if found else ["done", "no-info"]})

    def _names(self, message: Message, connection: Connection, session: Session) -> None:
        namespace = self._dialect.find(message.get("ns")) or session.namespace
        found = self._dialect.names(message.get("name") or "", namespace)
        connection.reply(message, {**(found or {}), "status": ["done"] if found else ["done", "no-info"]})

    def _source(self, message: Message, connection: Connection, session: Session) -> None:
        namespace = self._dialect.find(message.get("ns")) or session.namespace
        found = self._dialect.source(message.get("name") or "", namespace)
        answer = dict(zip(("text", "file", "line"), found or ()))
        connection.reply(message, {**answer, "status": ["done"]})

    def _drift(self, message: Message, connection: Connection, _session: Session) -> None:
        rows = self._dialect.find_drift(message.get("root") or "", message.get("only") or "")
        connection.reply(message, {"rows": rows, "status": ["done"]})

    def _dependents(self, message: Message, connection: Connection, _session: Session) -> None:
        rows = [{"name": name, "file": file} for name, file in self._dialect.dependents(message.get("file") or "")]
        connection.reply(message, {"rows": rows, "status": ["done"]})

    def _fresh(self, message: Message, connection: Connection, _session: Session) -> None:
        """Compare loaded modules with a fresh import and send the differences.

        With `wait`, only wait that many milliseconds for a finding about recent loads.
        """
        comparison, wait_ms = self._comparison, message.get("wait")

        def compare() -> None:
            try:
                if comparison is None:
                    found = None
                else:
                    found = (
                        comparison.wait(wait_ms / 1000, is_patient=bool(message.get("patient")))
                        if isinstance(wait_ms, int)
                        else comparison.compare_now()
                    )
            except Exception as error:
                connection.reply_failure(message, "failed", f"{type(error).__name__}: {error}")
                return
            connection.reply(message, {"finding": json.dumps(found), "status": ["done"]})

        start_thread(compare)

    def _restore(self, message: Message, connection: Connection, _session: Session) -> None:
        """Undo the changes made by a batch of loads. With `keep`, keep the changes and only discard their record."""
        left = self._dialect.undo_records.close_record(message.get("hold") or "", puts_back=not message.get("keep"))
        connection.reply(message, {"left": left, "status": ["done"]})

    def _loaded(self, message: Message, connection: Connection, _session: Session) -> None:
        found = self._dialect.list_loaded(message.get("root") or "", message.get("known") or "")
        connection.reply(message, {**found, "status": ["done"]})

    def _stacks(self, message: Message, connection: Connection, _session: Session) -> None:
        made = [session.made_tasks for session in list(self._sessions.values())]
        connection.reply(message, {"stacks": format_stacks(made), "status": ["done"]})

    def _locals(self, message: Message, connection: Connection, session: Session) -> None:
        """Send the local variables of the session's last error. No user code runs."""
        most = message.get("characters")
        most = most if isinstance(most, int) and most > 0 else DEFAULT_LOCAL_CHARACTERS
        fields = [] if session.error is None else self._dialect.error_locals(session.error, most)
        connection.reply(message, {"locals": fields, "status": ["done"]})

    # On the main thread

    def run(self) -> None:
        """Evaluate queued jobs forever. Ctrl-C in a terminal ends this while no job is running."""
        self._interrupts.install()
        while (job := self._queue.get()) is not None:
            while self.at_first:
                self.at_first.pop()()
            with self._lock:
                job.is_started = not job.is_interrupted
            if job.is_started:
                with self.while_evaluating:
                    self._run_one(job)

    def _run_one(self, job: Job) -> None:
        """Evaluate a job and report its end."""
        with self._comparison or contextlib.nullcontext():
            self._output.set_job(job)
            self._interrupts.install()
            error = self._interrupts.run_interruptibly(job, lambda: self._run_with_features(job))
            if self._output.is_child:
                # User code has forked, and this is the child returning. The REPL belongs to the parent.
                exit_forked_child(error)
            self._dialect.before_answer()
            if not job.is_abandoned:
                self._conclude(job, error)
            self._dialect.after_answer()

    def _run_with_features(self, job: Job) -> None:
        """Evaluate a job inside the context managers of the features that its request uses."""
        job.connection.wait_for_space()
        job.directory, job.declined = working_directory(), WORKER_PACKAGE.declined
        with sensitive_texts.checking():
            if self._feature_fields.isdisjoint(job.message):
                self._evaluate(job)
                return
            with contextlib.ExitStack() as stack:
                for feature in self._features:
                    if not job.message.keys().isdisjoint(feature.fields):
                        stack.enter_context(feature.around(job, self._dialect))
                self._evaluate(job)

    def _evaluate(self, job: Job) -> None:
        """Run a job's operation, which depends on its op."""
        if job.message["op"] == "codriver/value":
            self._dialect.send_part(job)
        else:
            self._dialect.evaluate(job)

    def _run_concurrently(self, job: Job) -> None:
        """Evaluate a job on its own thread."""
        with self._lock:
            job.is_started = not job.is_interrupted
        if not job.is_started:
            return
        with self._comparison or contextlib.nullcontext():
            self._output.set_concurrent_job(job)
            error = self._interrupts_of(job).run_interruptibly(job, lambda: self._run_with_features(job))
            if not job.is_abandoned:
                self._conclude(job, error)

    def _interrupts_of(self, job: Job) -> Interrupts:
        return job.interrupts or self._interrupts

    def _abandon(self, job: Job, words: str) -> None:
        """Report that a concurrent job was abandoned because it may never end."""
        job.abandoned = words
        job.send({"err": "codriver: " + words + "\n"})
        self._end(job, ["done", "interrupted"])

    def _conclude(self, job: Job, error: BaseException | None) -> None:
        """Report the end of an evaluation. `error` is the exception that ended it, or None."""
        if job.is_cut_off and (error is None or type(error).__name__ in END_OF_INPUT_ERRORS):
            status = ["done", "interrupted"]
        else:
            status = ["done"] if error is None else self._failed(job, error)
        if not job.is_concurrent:
            self._output.finish(job)
        # If the code had no value, the namespace is reported here.
        space = self._dialect.find(job.message.get("ns")) or job.session.namespace
        edited = {"codriver/edited": "\n".join(job.edited)} if job.edited else {}
        directory = working_directory()
        moved = {"codriver/folder": directory} if directory != job.directory else {}
        declined = {"codriver/declined": "1"} if WORKER_PACKAGE.declined != job.declined else {}
        fields = {"ns": self._dialect.display_name(space), **edited, **moved, **declined, **self._finding(job)}
        self._end(job, status, fields)

    def _finding(self, job: Job) -> dict[str, str]:
        """Return a field with the findings of comparisons since the last reply, or {} if there are none."""
        if self._comparison is None or job.message["op"] not in ("eval", "load-file"):
            return {}
        finding = self._comparison.pop_finding()
        return {} if finding is None else {"codriver/fresh": json.dumps(finding)}

    def _end(self, job: Job, status: list[str], fields: Mapping[str, str] | None = None) -> None:
        """Send the last reply to a job, unless the job has been abandoned."""
        with self._lock:
            if job not in self._open:
                return  # the job was abandoned, and this was reported
            self._open = [item for item in self._open if item is not job]
        last: dict[str, Any] = {"status": status, **(fields or {})}
        for about in self._about_features:
            last.update(about())
        job.send(last)
        job.over.set()

    def _failed(self, job: Job, error: BaseException) -> list[str]:
        """Report that an evaluation failed, and return its final status."""
        if isinstance(error, KeyboardInterrupt) and job.is_interrupted:
            return ["done", "interrupted"]
        if isinstance(error, NamespaceMissingError):
            job.send({"err": str(error) + "\n"})
            return ["done", "error", "namespace-not-found"]
        if job.message["op"] != FRAME_OP:  # the error whose frame is being examined stays the last one
            job.session.error, job.session.spaces = error, FrameSpaces()
            store_error(error)
        fields: list[tuple[dict[str, Any], str]] = []
        # The message may be created by user code, which may itself fail or never end.
        failure = self._interrupts_of(job).run_interruptibly(
            job, lambda: fields.append(self._dialect.describe_failure(error, job))
        )
        if not fields:
            name = type(error).__name__
            words = "the message cannot be displayed: " + type(failure).__name__
            unsaid = {"type": name, "message": words, "phase": "execution", "trace": []}
            fields.append((unsaid, name + ": " + words + "\n"))
        parts, text = fields[0]
        if job.form:
            parts["form"] = job.form
        if seen := self._dialect.plain_error_locals(error):
            parts["locals"] = seen
        self._show(job, error, text)
        name = parts["type"]
        job.send({"ex": name, "root-ex": name, "codriver/error": parts, "status": ["eval-error"]})
        return ["done"]

    def _show(self, job: Job, error: BaseException, text: str) -> None:
        """Print a failure by calling the user's excepthook. If there is none, print `text`."""
        if sys.excepthook is ORIGINAL_EXCEPTHOOK or not self._dialect.has_hooks or isinstance(error, SystemExit):
            job.send({"err": text})
            return
        failure = self._interrupts_of(job).run_interruptibly(
            job, lambda: sys.excepthook(type(error), error, error.__traceback__)
        )
        if failure is not None:
            strip_codriver_frames(failure)
            why = "".join(traceback.format_exception(type(failure), failure, failure.__traceback__))
            job.send({"err": "Error in sys.excepthook:\n" + why + "\nOriginal exception was:\n" + text})


def working_directory() -> str:
    """Return the working directory of the process, or "" if the directory was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return ""
