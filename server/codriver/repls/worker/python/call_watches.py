"""Watch functions while the program is running, and report calls whose arguments meet a condition.

Only the code of watched functions has local `sys.monitoring` events, so other functions are unaffected. The exception
is `PY_UNWIND`, which Python only offers for all code. While a reported call is in progress, a short callback runs when
an exception leaves any function. At other times, no callback is registered for the end of a call. Arguments and results
are converted to short texts on the program's thread without running any of its code. Another thread formats and sends
them. It polls for them, because waking it would cost the program more time than everything else.

Source: Python's library reference, `sys.monitoring`.
"""

from __future__ import annotations

import _thread
import ast
import builtins
import json
import os
import sys
import threading
import time
import types
from collections import deque

from ..basics.connections import start_thread
from .call_monitor import FRAME_AT, NO_FREE_ID_MESSAGE, PREFERRED_TOOL_IDS
from .recorded_calls import HIDDEN_TEXT, CallPrinter, Function, mro_of, space_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Condition = Callable[[Any], object]
    Call = list[Any]

MONITORING_MISSING_MESSAGE = "watch_calls needs sys.monitoring, which requires Python 3.12 or later"
TOOL_NAME = "codriver watch_calls"
"""The name under which watches use `sys.monitoring`."""
DEFAULT_LIMIT, MAX_LIMIT = 50, 1000
"""The default and the maximum number of calls that a watch reports."""
MAX_CALLS_PER_S = 100
"""Maximum number of calls per second that a watch reports. A program must not become slow because it is watched."""
MAX_WATCHES = 20
"""Maximum number of watches in a process. Each has its own thread."""
MAX_FOLLOWED_DECORATORS = 20
"""Maximum number of decorators followed for one function, in case they refer to one another."""
MAX_CALLS_PER_MESSAGE = 50
"""Maximum number of calls sent in one message."""
CHECK_INTERVAL_S = 1.0
"""Interval at which a watch reports omitted calls, and checks whether its function's code was replaced."""
SEND_INTERVAL_S = 0.05
"""Interval at which calls are sent."""
NS_PER_SECOND = 1_000_000_000
WATCH, START_NS, END_NS, ARGUMENTS, CALLER, RESULT, ERROR = range(7)
"""The indexes of the fields in the record of a call.

The field `CALLER` is a code object with the index of an instruction in it. The last two fields are strings or None.
"""
NOW_NS = time.perf_counter_ns  # tests may replace this name without patching `time`


class WatchRefusedError(Exception):
    """Raised when a function cannot be watched. `kind` is `capability-missing` or `bad-arguments`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Target:
    """A Python function to watch, found by its name.

    The name is `module.function`, `module.Class.method` or `module:function`, or the name of a function in `home`, the
    module in which the client evaluates.

    Raises:
        WatchRefusedError: there is no such function in a loaded module.
    """

    def __init__(self, name: str, home: types.ModuleType) -> None:
        self.name, self._home = name, home
        self.wrappers: list[types.CodeType] = []
        """The code of the decorators around the function, which do not count as its callers."""
        self.function = self._unwrap(self._value())

    def _value(self) -> Any:
        module, colon, rest = self.name.partition(":")
        steps = (rest if colon else self.name).split(".")
        if colon:
            candidates = [(module, steps)]
        else:
            candidates = [(".".join(steps[:end]), steps[end:]) for end in range(len(steps) - 1, 0, -1)]
        for found, path in candidates:
            loaded = sys.modules.get(found)
            if loaded is not None:
                return self._attribute(loaded, found, path)
        if not colon and steps[0] in vars(self._home):
            return self._attribute(self._home, self._home.__name__, steps)
        raise WatchRefusedError(
            "bad-arguments",
            f"no loaded module contains {self.name}: pass the module and the function, such as shop.orders.total",
        )

    def _attribute(self, value: Any, module: str, path: list[str]) -> Any:
        for step in path:
            spaces = map(space_of, mro_of(value)) if isinstance(value, type) else [getattr(value, "__dict__", {})]
            space = next((space for space in spaces if step in space), None)
            if space is None:
                raise WatchRefusedError("bad-arguments", f"{module} has no {'.'.join(path)}: {step} does not exist")
            value = space[step]
        return value

    def _unwrap(self, value: Any) -> types.FunctionType:
        """Return the function inside decorators, methods and properties."""
        for _ in range(MAX_FOLLOWED_DECORATORS):
            if type(value) is types.FunctionType:
                inner = value.__dict__.get("__wrapped__")
                if inner is None:
                    return value
                self.wrappers.append(value.__code__)
            elif isinstance(value, type):
                break
            else:
                steps = ("__wrapped__", "__func__", "fget", "func")
                inner = next((getattr(value, step) for step in steps if getattr(value, step, None) is not None), None)
            if inner is None:
                break
            value = inner
        kind = "a class: name one of its methods" if isinstance(value, type) else "not a function written in Python"
        raise WatchRefusedError("bad-arguments", f"{self.name} is {kind}, so its calls cannot be watched")


def compile_condition(condition: str, arguments: tuple[str, ...], namespace: dict[str, Any]) -> Condition:
    """Compile a condition to a function that evaluates it with a call's local variables.

    Raises:
        WatchRefusedError: the condition is not a Python expression, or uses a name that does not exist.
    """
    try:
        body = ast.parse(condition.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise WatchRefusedError("bad-arguments", f"the condition is not a Python expression: {error}") from None
    nodes = list(ast.walk(body))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    stored |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    unknown = sorted(
        name for name in names - stored - set(arguments) if name not in namespace and not hasattr(builtins, name)
    )
    if unknown:
        known = f"the arguments are {', '.join(arguments)}" if arguments else "the function has no arguments"
        raise WatchRefusedError("bad-arguments", f"the condition uses {unknown[0]}, which does not exist: {known}")
    # The condition becomes the body of one function, because each call of a function takes time in the program.
    values = "values"
    while values in names or values in arguments:
        values += "_"
    lines = [f"    {name} = {values}[{name!r}]\n" for name in arguments if name in names]
    module = ast.parse(f"def condition({values}):\n{''.join(lines)}    return None")
    module.body[0].body[-1].value = body  # type: ignore[attr-defined]  # it is a function that ends with `return`
    found: dict[str, Condition] = {}
    try:
        code = compile(ast.fix_missing_locations(module), "<condition of watch_calls>", "exec")
    except (SyntaxError, ValueError, RecursionError) as error:  # such as `await`
        raise WatchRefusedError("bad-arguments", f"the condition cannot be compiled: {error}") from None
    exec(code, namespace, found)  # the condition comes from a caller that may evaluate code
    return found["condition"]


def _match_all(_values: object) -> bool:
    return True


class Client:
    """The client of a watch. `push` sends a frame to the client, and returns whether it was sent.

    `push` raises `OSError` if the client has disconnected.
    """

    def __init__(self, push: Callable[[str], bool]) -> None:
        self.push = push

    def is_connected(self) -> bool:
        """Return whether the client may still be connected. This is called about once per `CHECK_INTERVAL_S`."""
        return True

    def end(self) -> None:
        """Clean up after the last frame has been sent."""


class CallWatch:
    """A watch on one function. It ends after it has reported `limit` calls, or on request."""

    def __init__(self, identity: str, target: Target, condition: str, limit: int, client: Client) -> None:
        self.identity, self.target, self.limit = identity, target, limit
        self._condition, self.client = condition, client
        self.queue: deque[Call] = deque()
        """The calls that have ended but have not been sent yet."""
        self.matched = self.omitted = self.failed = self.unsent = 0
        self.open = 0
        self.failure = ""
        """The message of the first error raised by the condition."""
        self.end = ""
        """The reason why the watch ended; empty until then."""
        self.is_accepting = True
        """Whether further calls may be reported."""
        self._printer = CallPrinter()
        self._window_ns = self._in_window = 0
        self.full_until_ns = 0
        """The time until which further calls are omitted, because there were too many within a second."""
        self.watch_current_code()

    def watch_current_code(self) -> None:
        """Watch the function's current code, which an edit may have replaced."""
        function = self.target.function
        self.code = function.__code__
        self._function = Function(self.code, str(function.__module__), function.__qualname__, is_requested=True)
        names = self._function.arguments
        self._hidden = frozenset(name for name in names if self._printer.is_secret(name))
        text = self._condition
        self.condition = compile_condition(text, names, function.__globals__) if text.strip() else _match_all

    @property
    def is_over(self) -> bool:
        """Return whether the watch was ended, or has reported all its calls."""
        return bool(self.end) or (self.matched >= self.limit and self.open <= 0)

    def close(self, why: str) -> None:
        """End the watch, unless it has ended. `why` is the reason that the client receives."""
        self.end = self.end or why
        self.is_accepting = False

    def note_failure(self, error: BaseException) -> None:
        """Count a call for which the condition failed. The program does not notice."""
        self.failed += 1
        self.failure = self.failure or self._printer.error(error)

    def begin_call(self, frame: types.FrameType, values: Mapping[str, Any], now: int) -> Call:
        """Return a record for a call that is starting and will be reported."""
        if now - self._window_ns >= NS_PER_SECOND:
            self._window_ns, self._in_window = now, 0
        self._in_window += 1
        if self._in_window >= MAX_CALLS_PER_S:
            self.full_until_ns = self._window_ns + NS_PER_SECOND
        self.matched += 1
        self.open += 1
        self.is_accepting = self.matched < self.limit and not self.end
        short, hidden = self._printer.short_text, self._hidden
        snapshots = [
            [name, HIDDEN_TEXT if name in hidden else short(values[name])]
            for name in self._function.arguments
            if name in values
        ]
        caller, wrappers = frame.f_back, self.target.wrappers
        while wrappers and caller is not None and any(caller.f_code is code for code in wrappers):
            caller = caller.f_back
        origin = None if caller is None else (caller.f_code, caller.f_lasti)
        return [self, 0, 0, snapshots, origin, None, None]

    def end_call(self, call: Call, frame: types.FrameType, value: object, error: BaseException | None) -> None:
        """Complete the record of a call and queue it for delivery."""
        if error is not None:
            call[ERROR] = self._printer.error(error)
        else:
            made = frame.f_locals.get(self._function.arguments[0]) if self._function.makes else value
            call[RESULT] = self._printer.short_text(made)
        self.queue.append(call)
        self.open -= 1

    def pop_counts(self) -> dict[str, Any]:
        """Return the nonzero numbers of omitted, failed and unsent calls since the previous call of this method."""
        counts = {"omitted": self.omitted, "failed": self.failed, "unsent": self.unsent}
        # Calls that are counted at the same time are reported next time.
        self.omitted -= counts["omitted"]
        self.failed -= counts["failed"]
        self.unsent -= counts["unsent"]
        found: dict[str, Any] = {name: count for name, count in counts.items() if count}
        return {**found, "why": self.failure} if "failed" in found else found

    def send(self, calls: list[Call], counts: dict[str, Any], *, is_last: bool = False) -> None:
        """Send calls and counts to the client. The last frame includes the reason why the watch ended."""
        frame = {"watch": self.identity, "calls": [self._row(call) for call in calls], **counts}
        if is_last:
            frame["end"] = self.end
        if not self.client.push(json.dumps(frame)):
            self.unsent += len(calls)

    def _row(self, call: Call) -> dict[str, Any]:
        row = {"function": self._function.name, "arguments": call[ARGUMENTS]}
        row["us"] = (call[END_NS] - call[START_NS]) // 1000
        if call[CALLER] is not None:
            code, instruction = call[CALLER]
            line = _line_of(code, instruction)
            row["caller"] = f"{code.co_filename}:{line} in {getattr(code, 'co_qualname', code.co_name)}"
        return {**row, "raised": call[ERROR]} if call[ERROR] is not None else {**row, "result": call[RESULT]}


class CallWatches:
    """The watches in this process. Monitoring is active only while there are watches."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watches: dict[str, CallWatch] = {}
        self._by_code: dict[int, tuple[CallWatch, ...]] = {}
        """The watches on each code object, by its id. Each watch has a reference to its code object."""
        self._live: dict[int, list[Call]] = {}
        """The reported calls in progress, including suspended ones, by the id of their frame."""
        self._live_lock = _thread.RLock()
        """Protects `_live` and the callbacks for the ends of calls. A lock from `threading` may be patched.

        It is reentrant, because a signal handler may call a watched function at any time.
        """
        self._monitoring: Any = getattr(sys, "monitoring", None)
        self._tool = -1
        self._is_listening = False
        """Whether the callbacks for the ends of calls are registered."""
        self._is_fork_registered = False

    def start(self, identity: str, target: Target, condition: str, limit: int, client: Client) -> CallWatch:
        """Start watching a function. Frames about its calls are sent to `client`.

        Raises:
            WatchRefusedError: the function cannot be watched.
        """
        if self._monitoring is None:
            raise WatchRefusedError("capability-missing", MONITORING_MISSING_MESSAGE)
        watch = CallWatch(identity, target, condition, max(1, min(limit, MAX_LIMIT)), client)
        with self._lock:
            if len(self._watches) >= MAX_WATCHES:
                message = f"{MAX_WATCHES} functions are already watched, which is the maximum: end one with limit 0"
                raise WatchRefusedError("bad-arguments", message)
            if self._tool < 0:
                self._begin()
            self._watches[identity] = watch
            self._update(watch.code)
        start_thread(lambda: self._deliver(watch))
        return watch

    def identities(self) -> set[str]:
        """Return the ids of the active watches."""
        with self._lock:
            return set(self._watches)

    def find(self, identity: str) -> CallWatch | None:
        """Return the running watch with this identity, or None."""
        return self._watches.get(identity)

    def stop(self, identity: str, why: str, only: CallWatch | None = None) -> bool:
        """End a watch, and return whether it existed. `why` is the reason that the client receives.

        With `only`, a later watch with the same identity goes on.
        """
        with self._lock:
            watch = self._watches.get(identity)
            if watch is None or (only is not None and watch is not only):
                return False
            watch.close(why)
            self._remove(watch)
        return True

    def _deliver(self, watch: CallWatch) -> None:
        """Send the calls recorded by a watch to its client until the watch ends."""
        checked = time.monotonic()
        try:
            while not watch.is_over:
                time.sleep(SEND_INTERVAL_S)
                calls, counts = _pop_queued(watch.queue), {}
                if not calls and time.monotonic() - checked >= CHECK_INTERVAL_S:  # in a pause between the calls
                    checked = time.monotonic()
                    counts = watch.pop_counts()
                    if not counts and not watch.client.is_connected():
                        watch.close("disconnected")
                if calls or counts:
                    watch.send(calls, counts)
                self._follow(watch)
            watch.close("limit")
            with self._lock:  # the last message means that nothing is monitored any longer
                self._remove(watch)
            while calls := _pop_queued(watch.queue):
                watch.send(calls, {})
            watch.send([], watch.pop_counts(), is_last=True)
        except OSError:  # the client has disconnected
            watch.close("disconnected")
        finally:
            with self._lock:
                self._remove(watch)
            watch.client.end()

    def _follow(self, watch: CallWatch) -> None:
        """Watch the new code of a function that was edited. End the watch if its condition no longer applies."""
        if watch.target.function.__code__ is watch.code:
            return
        with self._lock:
            if self._watches.get(watch.identity) is not watch:
                return
            old = watch.code
            try:
                watch.watch_current_code()
            except WatchRefusedError as error:
                watch.close(f"the function was changed: {error}")
            self._update(old)
            self._update(watch.code)

    def _begin(self) -> None:
        monitoring = self._monitoring
        tool = next((item for item in PREFERRED_TOOL_IDS if monitoring.get_tool(item) is None), -1)
        if tool < 0:
            raise WatchRefusedError("capability-missing", NO_FREE_ID_MESSAGE)
        monitoring.use_tool_id(tool, TOOL_NAME)
        self._tool = tool
        monitoring.set_events(tool, monitoring.events.PY_UNWIND)
        if not self._is_fork_registered and hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)
            self._is_fork_registered = True

    def _update(self, code: types.CodeType) -> None:
        """Set the events needed by the watches on a code object, or remove them if there are no watches."""
        watches = tuple(watch for watch in self._watches.values() if watch.code is code)
        monitoring, events = self._monitoring, self._monitoring.events
        if watches:
            self._by_code[id(code)] = watches
        else:
            self._by_code.pop(id(code), None)
        monitoring.register_callback(self._tool, events.PY_START, self._start_callback())
        monitoring.set_local_events(self._tool, code, events.PY_START | events.PY_RETURN if watches else 0)

    def _remove(self, watch: CallWatch) -> None:
        """Remove a watch. If it was the last one, stop monitoring.

        A later watch may have the same identity, because this is also called after the end of a watch was delivered.
        """
        if self._watches.get(watch.identity) is not watch:
            return
        del self._watches[watch.identity]
        self._update(watch.code)
        with self._live_lock:
            for frame, calls in list(self._live.items()):
                calls[:] = [call for call in calls if call[WATCH] is not watch]
                if not calls:
                    self._live.pop(frame, None)
            self._listen_for_ends()
        if not self._watches:
            self._end()

    def _end(self) -> None:
        monitoring, tool = self._monitoring, self._tool
        events = monitoring.events
        monitoring.set_events(tool, 0)
        for event in (events.PY_START, events.PY_RETURN, events.PY_UNWIND):
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)
        self._tool = -1
        self._live.clear()
        self._is_listening = False

    def _after_fork(self) -> None:
        """End all watches in a forked child process, which has no threads to report calls."""
        self._lock, self._live_lock = threading.Lock(), _thread.RLock()
        watches, self._watches = self._watches, {}
        if self._tool >= 0:
            for watch in watches.values():
                self._update(watch.code)
            self._end()

    # Each callback keeps what it needs in local variables, because it runs for every call.

    def _start_callback(self) -> Any:
        """Return the callback for the start of calls."""
        if len(self._watches) == 1:
            return self._start_callback_of_only_watch(*self._watches.values())
        by_code, frame_at, now_ns, begin = self._by_code, FRAME_AT, NOW_NS, self._begin_call

        def on_start(code: types.CodeType, _offset: int) -> None:
            frame = frame_at(1)
            values = frame.f_locals
            for watch in by_code.get(id(code), ()):
                if watch.is_accepting:
                    try:
                        if not watch.condition(values):
                            continue
                    except (Exception, SystemExit) as error:
                        watch.note_failure(error)
                    else:
                        now = now_ns()
                        if now < watch.full_until_ns:
                            watch.omitted += 1
                        else:
                            begin(watch, frame, values, now)

        return on_start

    def _start_callback_of_only_watch(self, watch: CallWatch) -> Any:
        """Return a faster callback for the start of calls, to be used while there is only one watch."""
        watched, condition, frame_at, now_ns, begin = watch.code, watch.condition, FRAME_AT, NOW_NS, self._begin_call

        def on_start(code: types.CodeType, _offset: int) -> None:
            if code is not watched or not watch.is_accepting:
                return
            frame = frame_at(1)
            values = frame.f_locals
            try:
                if not condition(values):
                    return
            except (Exception, SystemExit) as error:
                watch.note_failure(error)
                return
            now = now_ns()
            if now < watch.full_until_ns:
                watch.omitted += 1
            else:
                begin(watch, frame, values, now)

        return on_start

    def _begin_call(self, watch: CallWatch, frame: types.FrameType, values: Mapping[str, Any], now: int) -> None:
        """Record a call that is starting, and listen for its end."""
        call = watch.begin_call(frame, values, now)
        with self._live_lock:
            self._live.setdefault(id(frame), []).append(call)
            self._listen_for_ends()
        call[START_NS] = NOW_NS()

    def _end_calls(self, frame: types.FrameType, value: object, error: BaseException | None) -> None:
        """Complete the records of the reported calls that this frame runs."""
        now = NOW_NS()
        with self._live_lock:
            calls = self._live.pop(id(frame), ())
            self._listen_for_ends()
        for call in calls:
            call[END_NS] = now
            call[WATCH].end_call(call, frame, value, error)

    def _listen_for_ends(self) -> None:
        """Register the callbacks for the ends of calls, or remove them if no reported call is in progress."""
        if bool(self._live) is self._is_listening or self._tool < 0:
            return
        self._is_listening = bool(self._live)
        register, events = self._monitoring.register_callback, self._monitoring.events
        register(self._tool, events.PY_RETURN, self._on_return if self._is_listening else None)
        register(self._tool, events.PY_UNWIND, self._on_unwind if self._is_listening else None)

    def _on_return(self, _code: types.CodeType, _offset: int, value: object) -> None:
        frame = FRAME_AT(1)
        if id(frame) in self._live:
            self._end_calls(frame, value, None)

    def _on_unwind(self, _code: types.CodeType, _offset: int, error: BaseException) -> None:
        frame = FRAME_AT(1)
        if id(frame) in self._live:
            self._end_calls(frame, None, error)


def _line_of(code: types.CodeType, instruction: int) -> int | None:
    """Return the line of an instruction, given by its index in the bytecode."""
    return next((line for start, end, line in code.co_lines() if start <= instruction < end), None)


def _pop_queued(calls: deque[Call]) -> list[Call]:
    """Return the queued calls, up to the maximum for one message, without waiting."""
    return [calls.popleft() for _ in range(min(len(calls), MAX_CALLS_PER_MESSAGE))]
