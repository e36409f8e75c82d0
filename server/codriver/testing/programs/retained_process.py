"""Retain the process of a failed run, for evaluating code in the frames of the first failure.

Fixtures have been torn down by then. A process with resources that affect others is not retained. The process is
stopped except while it evaluates code. A request is a file that the server writes before it continues the process.
"""

from __future__ import annotations

import ast
import io
import os
import signal
import sys

from ...repls.worker.basics.frame_spaces import FrameSpaces, check_frame_code
from .failures import class_name, error_message, frame_values, shorten_middle, test_frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any

    from .event_file import EventFile

MAX_PRIVATE_BYTES = 2**30
"""Maximum size, in bytes, of the private memory of a process that is retained."""
NO_FRAMES_MESSAGE = "no test failed in its own code"
"""The reason given for not retaining a process if no test failed in its own code."""
GPU_DEVICE_PREFIXES = ("/dev/nvidia", "/dev/dri/render", "/dev/kfd", "/dev/accel")
"""Path prefixes of GPU devices. A process that has one of them open is not retained."""
SOCKET_TABLES = (("tcp", 3, 9, "0A"), ("tcp6", 3, 9, "0A"), ("unix", 3, 6, "00010000"))
"""Tables of sockets: name, columns of the state and the inode, and the state of a listening socket.

Source: proc(5), `tcp_states.h`.
"""


class FailureKeeper:
    """Stores the first failure of a run, and evaluates code in its frames after the run."""

    def __init__(self, events: EventFile, directory: str) -> None:
        self._events, self._directory = events, directory
        self._nodeid = ""
        self._frames: list[FrameType] = []
        self._frame_values: list[dict[str, Any]] = []
        self._databases: dict[str, str] = {}
        self._spaces = FrameSpaces()
        self.obstacle = ""
        """The reason why there are no frames to retain, if that is known before the end."""

    def store_first(self, nodeid: str, trace: TracebackType | None) -> None:
        """Store the frames of a failure unless one is already stored."""
        if not self._frames:
            self._nodeid = nodeid
            self._frames = [frame for frame, _ in test_frames(trace)]
            self._frame_values = frame_values(trace)
            self._databases = database_names()

    def discard(self, nodeid: str) -> None:
        """Discard the stored failure of a test, because the test is run again."""
        if self._nodeid == nodeid:
            self._nodeid, self._frames, self._frame_values = "", [], []

    def serve_requests(self) -> None:
        """Stop the process, and answer requests whenever it is resumed, until a request ends it.

        Return immediately if there are no frames, or if the process cannot be stopped safely.
        """
        obstacle = self.obstacle or ("" if self._frames else NO_FRAMES_MESSAGE) or stop_obstacle(os.getpid())
        if obstacle:
            self._events.write("not-kept", reason=obstacle)
            return
        refuse_queries_of_replaced_databases(self._databases)
        self._events.write("kept", nodeid=self._nodeid, frames=self._frame_values)
        number = 0
        while True:
            try:
                request = self._read_request(number)
                if request is None:
                    os.kill(os.getpid(), signal.SIGSTOP)
                    continue
                frame, code = request
                if frame is None:
                    return
                number += 1
                self._write(number - 1, self.evaluate_in_frame(frame, code))
            except KeyboardInterrupt:
                continue  # an interrupt that arrived after the code finished

    def _read_request(self, number: int) -> tuple[int | None, str] | None:
        """Read a request. Return its frame and code, or None if there is none. A frame of None ends the process."""
        try:
            with open(os.path.join(self._directory, "question-" + str(number)), encoding="utf-8") as file:
                found: tuple[int | None, str] = eval(file.read(), {})
                return found
        except OSError:
            return None

    def _write(self, number: int, answer: dict[str, str]) -> None:
        """Write the answer to a request."""
        target = os.path.join(self._directory, "answer-" + str(number))
        with open(target + ".new", "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(ascii(answer))
        os.replace(target + ".new", target)

    def evaluate_in_frame(self, number: int, code: str) -> dict[str, str]:
        """Evaluate code in a frame. Return its value or its error, and its output, as strings."""
        output = io.StringIO()
        streams = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = output
        try:
            answer = self._evaluate(number, code)
        except BaseException as error:
            answer = {"type": class_name(type(error)), "error": error_message(error)}
        finally:
            sys.stdout, sys.stderr = streams
        return {key: shorten_middle(text) for key, text in dict(answer, output=output.getvalue()).items()}

    def _evaluate(self, number: int, code: str) -> dict[str, str]:
        """Evaluate code in a frame, and return its value. The value is an empty string for None."""
        space = self._spaces.space_for_frame(number, self._frames)
        tree = ast.parse(code, "<frame>")
        check_frame_code(tree)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        codes: list[Any] = [compile(tree, "<frame>", "exec", dont_inherit=True)]
        if isinstance(last, ast.Expr):
            codes.append(compile(ast.Expression(last.value), "<frame>", "eval", dont_inherit=True))
        space.prepare(codes)
        try:
            exec(codes[0], space.names)
            value = eval(codes[1], space.names) if len(codes) > 1 else None
        finally:
            space.write_back()
        return {"value": "" if value is None else repr(value)}


def database_names() -> dict[str, str]:
    """Return the name of Django's database for each alias, or an empty dict if Django is not set up."""
    module = sys.modules.get("django.db")
    if module is None:
        return {}
    try:
        return {alias: str(module.connections[alias].settings_dict["NAME"]) for alias in module.connections}
    except Exception:  # the settings are missing or invalid
        return {}


def refuse_queries_of_replaced_databases(previous: dict[str, str]) -> None:
    """Make Django refuse queries of databases whose names differ from those in `previous`.

    When a run ends, Django destroys its test databases and uses the databases in the settings again. SQLite's
    connections to a database in memory remain open, but code could close them.
    """
    for alias, name in database_names().items():
        if previous.get(alias) != name:
            sys.modules["django.db"].connections[alias].execute_wrappers.append(_refuse_query)


def _refuse_query(*_: object) -> None:
    """Refuse a query. Django calls this function instead of executing the query."""
    raise RuntimeError("Django no longer uses the test database, so this query could use the database in the settings")


def stop_obstacle(pid: int) -> str:
    """Return the reason why a process cannot be stopped safely, such as an open port, or an empty string."""
    proc = "/proc/" + str(pid)
    try:
        if len(os.listdir(proc + "/task")) > 1:
            return "the process still has other threads"
        descriptors = [_link_target(proc + "/fd/" + number) for number in os.listdir(proc + "/fd")]
        if any(descriptor.startswith(GPU_DEVICE_PREFIXES) for descriptor in descriptors):
            return "the process has a device open"
        sockets = {descriptor[8:-1] for descriptor in descriptors if descriptor.startswith("socket:[")}
        if sockets & _listening_sockets(proc):
            return "the process is still listening on a port"
        with open("/proc/locks", encoding="ascii") as file:
            if any(line.split()[4:5] == [str(pid)] for line in file):
                return "the process holds a file lock"
        with open(proc + "/statm", encoding="ascii") as file:
            _, resident, shared, *_ = map(int, file.read().split())
    except OSError:
        return "this system does not show the resources of a process"
    is_large = (resident - shared) * os.sysconf("SC_PAGE_SIZE") > MAX_PRIVATE_BYTES
    return "the process uses more than 1 GB of memory" if is_large else ""


def _link_target(path: str) -> str:
    """Return the target of a symbolic link, or an empty string if it cannot be read."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _listening_sockets(proc: str) -> set[str]:
    """Return the inode numbers of the listening sockets in the network namespace of a process."""
    found: set[str] = set()
    for name, state_at, number_at, state in SOCKET_TABLES:
        try:
            with open(proc + "/net/" + name, encoding="ascii", errors="replace") as file:
                rows = [line.split() for line in file][1:]
        except OSError:
            continue
        found.update(row[number_at] for row in rows if len(row) > number_at and row[state_at] == state)
    return found
