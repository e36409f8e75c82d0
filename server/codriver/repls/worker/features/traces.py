"""Record the calls during a request, measure the slowest functions, and watch functions.

A recording starts before the request and ends after it, even if the request fails. A watch ends when it has reported
enough calls, on request, or when its client disconnects.
"""

from __future__ import annotations

import json
import os
import sys

from ..basics.features import WorkerFeature
from ..basics.systems import is_process_running
from ..python.call_monitor import CallMonitor
from ..python.call_profiler import CallProfiler
from ..python.call_watches import DEFAULT_LIMIT, CallWatch, CallWatches, Client, Target, WatchRefusedError
from ..python.kernel_stream import KernelStream
from ..python.recorded_calls import Recording, Selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Sequence
    from typing import Any

    from ..basics.connections import Connection, Message
    from ..basics.dialect import Dialect
    from ..basics.jobs import Job, Session

TRACE_FIELD = "codriver/trace"
"""The request field that starts a recording.

It lists the functions to record, or is empty to record all of the project's functions.
"""
RUN_FIELD = "codriver/run"
"""The reply field with the recording as JSON. See `Recording.report`.

If recording was not possible, it only has `refused` with the reason.
"""


PROFILE_FIELD = "codriver/profile"
"""The request field that requests the slowest functions."""
WATCH_OP = "codriver/watch-calls"
"""The op that starts or ends a watch.

Its field `watch` is an id chosen by the client, and `args` is a JSON object that has `function`, `condition` and
`limit`, or is empty to end the watch. The reply has `answer`, a JSON object.
"""
WATCHED_CALLS_FIELD = "codriver/watched-calls"
"""The field with calls to a watched function as JSON, sent with the id of the request that started the watch."""
STREAM_MISSING_MESSAGE = (
    "watch_calls needs ipykernel, because this kernel cannot send messages while no code is running"
)
MAX_PROFILED_FUNCTIONS = 10
"""Maximum number of functions in a profile."""


class recorded:  # noqa: N801  # it is used like a function
    """A context manager that records the calls during a job if the job's request asks for it."""

    __slots__ = ("_dialect", "_job", "_live")

    def __init__(self, job: Job, dialect: Dialect) -> None:
        self._job, self._dialect = job, dialect
        self._live: LiveRecording | None = None

    def __enter__(self) -> None:
        message = self._job.message
        names = message.get(TRACE_FIELD)
        if names is not None or PROFILE_FIELD in message:
            dialect, profiles = self._dialect, PROFILE_FIELD in message
            self._live = LiveRecording(
                dialect.roots, names, dialect, profiles=profiles, changed_ms=dialect.last_changed_ms
            )

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            with self._job.shield:  # the recording must always end
                self._job.send_soon({RUN_FIELD: json.dumps(self._live.end())})


class LiveRecording:
    """A recording of calls to the functions in `names`. It lasts from its creation until `end`.

    With `profiles`, execution times are recorded as well.
    """

    def __init__(
        self,
        roots: Sequence[str],
        names: Sequence[str] | None,
        dialect: Dialect | None = None,
        *,
        profiles: bool = False,
        changed_ms: Callable[[types.CodeType, int], int] = lambda *_: 0,
    ) -> None:
        self._selection = Selection(roots)
        selection = Selection(roots, [name for name in names or () if type(name) is str])
        self._recording = Recording(selection, dialect, changed_ms)
        self._refused = ""
        self._recorder = None if names is None else create_recorder(self._recording)
        self._profile: Any = None
        if self._recorder is not None:
            self._refused = self._recorder.begin()
        if profiles and not self._refused:
            self._begin_profile()

    def _begin_profile(self) -> None:
        import cProfile  # loading the module takes long

        self._profile = cProfile.Profile()
        try:
            self._profile.enable()
        except ValueError as error:  # another profiler is active
            self._profile, self._refused = None, str(error)

    def end(self) -> dict[str, Any]:
        """End the recording and return its report. If there is none, the result contains the reason in `refused`."""
        if self._profile is not None:
            self._profile.disable()
        if self._recorder is not None:
            self._recorder.end()
        report = {} if self._recorder is None else self._recording.report()
        if self._profile is not None:
            report["profile"] = slowest_functions(self._profile, self._selection)
        return {"refused": self._refused} if self._refused else report


def slowest_functions(profile: Any, selection: Selection) -> list[list[Any]]:
    """Return rows for the project's slowest functions, slowest first.

    Each row has the name, file, line and number of calls, and the microseconds spent in the function without and with
    the functions that it called.
    """
    rows = []
    for getstat in profile.getstats():
        code = getstat.code
        if not isinstance(code, str) and code.co_name != "<module>" and selection.is_project_file(code.co_filename):
            name = getattr(code, "co_qualname", code.co_name)
            self_time, total = int(getstat.inlinetime * 1e6), int(getstat.totaltime * 1e6)
            rows.append([name, code.co_filename, code.co_firstlineno, getstat.callcount, self_time, total])
    return sorted(rows, key=lambda row: -row[4])[:MAX_PROFILED_FUNCTIONS]


def create_recorder(recording: Recording) -> Any:
    """Create a recorder of the kind that this interpreter supports."""
    return CallMonitor(recording) if hasattr(sys, "monitoring") else CallProfiler(recording)


def operations(changed_ms: Callable[[types.CodeType, int], int]) -> dict[str, Callable[..., Any]]:
    """Return the operations that start and end a recording in a kernel, which runs one cell at a time."""
    running: list[LiveRecording] = []

    def record(names: list[str] | None, directory: str, profiles: bool) -> None:  # noqa: FBT001  # JSON
        recorded_calls()
        running.append(LiveRecording([directory or os.getcwd()], names, profiles=profiles, changed_ms=changed_ms))

    def recorded_calls() -> dict[str, Any] | None:
        return running.pop().end() if running else None

    return {"record": record, "recorded": recorded_calls, WATCH_OP: watch_calls_in_kernel}


PROCESS_WATCHES = CallWatches()
"""The watches in this process. Creating this object has no effect on the program."""


class ClientWatches:
    """The watches started by one client. Calling the object ends them, after the client has disconnected."""

    def __init__(self) -> None:
        self._watches: list[CallWatch] = []

    def add(self, identity: str) -> None:
        """Add a watch, unless it has ended already. Watches that have ended are dropped."""
        added = PROCESS_WATCHES.find(identity)
        self._watches = [watch for watch in self._watches if not watch.is_over and watch is not added]
        self._watches += [added] if added is not None else []

    def __call__(self) -> None:
        """End all of the client's watches, but none that another client has started with the same identity."""
        for watch in self._watches:
            PROCESS_WATCHES.stop(watch.identity, "disconnected", only=watch)


def watches_of_client(connection: Connection) -> ClientWatches:
    """Return the watches of a connection's client, creating the object on first use."""
    for act in connection.at_end:
        if isinstance(act, ClientWatches):
            return act
    watches = ClientWatches()
    connection.at_end.append(watches)
    return watches


def watch_calls(message: Message, connection: Connection, session: Session) -> None:
    """Start or end a watch. This runs on the connection's thread, so it does not wait for running code."""
    identity = message.get("watch") or ""
    try:
        client = Client(connection.make_sender(message, WATCHED_CALLS_FIELD))
        answer = start_or_end_watch(identity, message.get("args") or "{}", client, session.namespace)
        watches_of_client(connection).add(identity)
    except Exception as error:
        connection.reply_failure(message, "failed", f"{type(error).__name__}: {error}")
        return
    connection.reply(message, {"answer": answer, "status": ["done"]})


def start_or_end_watch(identity: str, text: str, client: Client, home: types.ModuleType) -> str:
    """Start or end a watch according to its JSON arguments, and return the answer as JSON.

    Empty arguments end the watch. `home` is the module in which the client evaluates.
    """
    try:
        arguments = json.loads(text)
        if not arguments:
            return json.dumps({"existed": PROCESS_WATCHES.stop(identity, "stopped")})
        limit = int(arguments.get("limit") or DEFAULT_LIMIT)
        condition, target = str(arguments.get("condition") or ""), Target(str(arguments.get("function") or ""), home)
        watch = PROCESS_WATCHES.start(identity, target, condition, limit, client)
    except WatchRefusedError as error:
        return json.dumps({"refused": error.kind, "message": str(error)})
    name, code = watch.target.function.__qualname__, watch.code
    return json.dumps({"function": name, "at": f"{code.co_filename}:{code.co_firstlineno}"})


class KernelClient(Client):
    """The client of a watch in a kernel, which has no connection to it. `process` is the id of the client's process."""

    def __init__(self, stream: KernelStream, process: int) -> None:
        super().__init__(stream)
        self._process = process if is_process_running(process) else 0  # also 0 for a client on another machine
        self._stream = stream

    def is_connected(self) -> bool:
        """Return whether the client's process is running. A process on another machine counts as running."""
        return not self._process or is_process_running(self._process)

    def end(self) -> None:
        """End the stream of watched calls."""
        self._stream.end()


def watch_calls_in_kernel(client: int, watch: str, args: str = "{}") -> str:
    """Start or end a watch in a kernel. `client` is the id of the client's process."""
    try:
        stream = KernelStream(WATCHED_CALLS_FIELD)
    except LookupError:
        return json.dumps({"refused": "capability-missing", "message": STREAM_MISSING_MESSAGE})
    answer = start_or_end_watch(watch, args, KernelClient(stream, client), sys.modules["__main__"])
    if watch not in PROCESS_WATCHES.identities():
        stream.end()
    return answer


FEATURE = WorkerFeature((TRACE_FIELD, PROFILE_FIELD), recorded, operations, {WATCH_OP: watch_calls})
