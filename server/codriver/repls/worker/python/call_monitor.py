"""Recorders of calls: by `sys.monitoring`, which Python has from 3.12 on, and by a profile function before.

By `sys.monitoring` calls are seen on all threads. The beginning of a call and an error that leaves one are told by
events of the whole interpreter, the rest by events of the recorded codes. A disabled event at a place of a code stays
disabled until the events of the code change: events are not restarted, as that would restart those of debuggers and of
coverage too.

A profile function sees its own thread and those that are started meanwhile. The function gets the end of a call and not
its error: the frame's present instruction tells whether the call returned, yielded or raised.

Source: Python's library reference, `sys.monitoring`; the places that stay disabled were tried on 3.12 and 3.13.
"""

from __future__ import annotations

import _thread
import sys
import threading
import time

from ..basics.connections import THREAD_NAME
from .recorded_calls import END_NS, ERROR, FUNCTION, MOST_CALLS, RESULT, YIELDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from typing import Any

    from .recorded_calls import Function, Record, Recording

TOOL_IDS = (4, 3, 5, 2)
"""The ids without an owner in Python, then the profiler's; never the debugger's or coverage's."""
NAME = "codriver"
FRAME_AT = sys._getframe  # noqa: SLF001  # no public API gives the frame of a call
NO_FREE_ID = "all ids of sys.monitoring are taken, by a debugger or by profilers: end one of them"


class CallMonitor:
    """Records calls between `begin` and `end`, for one run."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._stacks: dict[int, list[Record]] = {}
        """The calls under way, by thread, innermost last."""
        self._live: dict[int, Record] = {}
        """Each call under way, by the id of its frame, also of a waiting generator."""
        self._monitoring: Any = getattr(sys, "monitoring", None)
        self._tool = -1
        self._local = 0

    def begin(self) -> str:
        """Record from now on; the reason in words if that is impossible."""
        monitoring = self._monitoring
        self._tool = next((one for one in TOOL_IDS if monitoring.get_tool(one) is None), -1)
        if self._tool < 0:
            return NO_FREE_ID
        monitoring.use_tool_id(self._tool, NAME)
        events = monitoring.events
        self._local = events.PY_RETURN | events.PY_YIELD | events.PY_RESUME
        for event, callback in self._callbacks(events).items():
            monitoring.register_callback(self._tool, event, callback)
        monitoring.set_events(self._tool, events.PY_START | events.PY_UNWIND | events.PY_THROW)
        return ""

    def end(self) -> None:
        """Record no more, and leave no event of ours anywhere."""
        if self._tool < 0:
            return
        monitoring, tool = self._monitoring, self._tool
        monitoring.set_events(tool, 0)
        events = monitoring.events
        for function in list(self._recording.functions.values()):
            if not function.is_requested:
                # Another event is set for a moment, else disabled places would stay disabled for the next recording.
                monitoring.set_local_events(tool, function.code, events.PY_RETURN)
            monitoring.set_local_events(tool, function.code, 0)
        for event in self._callbacks(events):
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)
        self._tool = -1

    def _callbacks(self, events: Any) -> dict[int, Any]:
        return {
            events.PY_START: self._start_callback(),
            events.PY_RETURN: self._returned(),
            events.PY_YIELD: self._yielded(),
            events.PY_RESUME: self._resumed(),
            events.PY_THROW: self._resumed(),
            events.PY_UNWIND: self._unwound(),
        }

    def _function_of(self, code: types.CodeType, frame: types.FrameType) -> Function:
        found = self._recording.function_of(code, frame)
        if found.is_requested:
            self._monitoring.set_local_events(self._tool, code, self._local)
        return found

    # Callbacks, each with all its data in variables of its own: they run at every call.

    def _start_callback(self) -> Any:
        recording, stacks, live, function_of = self._recording, self._stacks, self._live, self._function_of
        functions, calls, printed_arguments = recording.functions, recording.calls, recording.printed_arguments
        disable, frame_at, now, thread_id = (
            self._monitoring.DISABLE,
            FRAME_AT,
            time.perf_counter_ns,
            _thread.get_ident,
        )

        def on_start(code: types.CodeType, _offset: int) -> Any:
            function = functions.get(id(code)) or function_of(code, frame_at(1))
            if not function.is_requested:
                return disable
            if function.count >= function.most or len(calls) >= MOST_CALLS:
                function.is_over = True
                return disable
            function.count += 1
            function.open += 1
            frame, thread = frame_at(1), thread_id()
            stack = stacks.get(thread)
            if stack is None:
                stack = stacks[thread] = []
            arguments = printed_arguments(function, frame)
            record = [function, stack[-1] if stack else None, thread, now(), 0, arguments, None, None, 0]
            live[id(frame)] = record
            calls.append(record)
            stack.append(record)
            return None

        return on_start

    def _returned(self) -> Any:
        functions, short, leave, live = (
            self._recording.functions,
            self._recording.printer.short,
            self._leave,
            self._live,
        )
        result = self._recording.result
        disable, frame_at, now = self._monitoring.DISABLE, FRAME_AT, time.perf_counter_ns

        def returned(code: types.CodeType, _offset: int, value: object) -> Any:
            frame = frame_at(1)
            record = live.pop(id(frame), None)
            if record is None:
                function = functions.get(id(code))
                return disable if function is None or (function.is_over and not function.open) else None
            record[END_NS] = now()
            function = record[FUNCTION]
            record[RESULT] = result(function, frame, value) if function.makes else short(value)
            function.open -= 1
            leave(record)
            return None

        return returned

    def _yielded(self) -> Any:
        functions, short, leave, live = (
            self._recording.functions,
            self._recording.printer.short,
            self._leave,
            self._live,
        )
        disable, frame_at = self._monitoring.DISABLE, FRAME_AT

        def yielded(code: types.CodeType, _offset: int, value: object) -> Any:
            record = live.get(id(frame_at(1)))
            if record is None:
                function = functions.get(id(code))
                return disable if function is None or (function.is_over and not function.open) else None
            record[YIELDS] += 1
            record[RESULT] = short(value)
            leave(record)
            return None

        return yielded

    def _resumed(self) -> Any:
        stacks, live, frame_at, thread_id = self._stacks, self._live, FRAME_AT, _thread.get_ident

        def resumed(_code: types.CodeType, _offset: int, _error: object = None) -> Any:
            record = live.get(id(frame_at(1)))
            if record is not None:
                stacks.setdefault(thread_id(), []).append(record)

        return resumed

    def _unwound(self) -> Any:
        recording, leave, live = self._recording, self._leave, self._live
        functions, error_of, frame_at, now = (
            recording.functions,
            recording.printer.error,
            FRAME_AT,
            time.perf_counter_ns,
        )

        def unwound(code: types.CodeType, _offset: int, error: BaseException) -> Any:
            if id(code) not in functions:
                return
            record = live.pop(id(frame_at(1)), None)
            if record is not None:
                record[END_NS] = now()
                record[RESULT], record[ERROR] = None, error_of(error)
                record[FUNCTION].open -= 1
                leave(record)

        return unwound

    def _leave(self, record: Record) -> None:
        """Take an ended or waiting call from the stack of its thread."""
        stack = self._stacks.get(_thread.get_ident())
        if stack and stack[-1] is record:
            stack.pop()
        elif stack:
            stack[:] = [one for one in stack if one is not record]


SUSPENDED = 0x20 | 0x80 | 0x200
"""Flags of the codes of generators, coroutines and both in one. Source: `inspect`."""
OTHERS = "another profile function was set meanwhile, by a profiler: the calls since then are not recorded"
OTHER_THREADS = "threads that ran before are not seen: Python 3.12 and later tell of those"
RAISED = "an error"
OLD = sys.version_info < (3, 11)
NO_GENERATORS = "calls of generators and coroutines are not recorded: Python 3.11 and later tell where they wait"
YIELDING = "YIELD"


class CallProfiler:
    """Records calls between `begin` and `end`, for one run, on the thread that begins it."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._stacks: dict[int, list[Record]] = {}
        self._live: dict[int, Record] = {}
        self._bytes: dict[int, bytes] = {}
        """The instructions of each function, by its id, since each look at a code copies them."""
        import opcode  # only this recorder needs it

        self._names = opcode.opname
        self._previous: Any = None
        self._are_unseen = False
        """Whether threads of the user's run already."""
        self._profile: Any = None

    def begin(self) -> str:
        """Record from now on; the reason in words if that is impossible."""
        self._previous = sys.getprofile()
        if self._previous is not None:
            return "a profile function is set, by a profiler or by coverage: end that first"
        this_thread = threading.get_ident()
        self._are_unseen = any(one.ident != this_thread and one.name != THREAD_NAME for one in threading.enumerate())
        self._profile = self._callback()
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        return ""

    def end(self) -> None:
        """Record no more."""
        if self._profile is None:
            return
        if sys.getprofile() is self._profile:
            sys.setprofile(None)
        else:
            self._recording.notes.append(OTHERS)
        if getattr(threading, "_profile_hook", None) is self._profile:
            threading.setprofile(None)
        self._profile = None
        if self._are_unseen:
            self._recording.notes.append(OTHER_THREADS)
        if OLD:
            self._recording.notes.append(NO_GENERATORS)

    def _callback(self) -> Any:
        functions, function_of = self._recording.functions, self._recording.function_of
        on_start, on_end = self._start_callback, self._finish

        def profile(frame: types.FrameType, event: str, value: object) -> None:
            if event == "call":
                code = frame.f_code
                function = functions.get(id(code)) or function_of(code, frame)
                if function.is_requested and not (OLD and code.co_flags & SUSPENDED):
                    on_start(function, frame)
            elif event == "return":
                known = functions.get(id(frame.f_code))
                if known is not None and known.is_requested:
                    on_end(known, frame, value)

        return profile

    def _start_callback(self, function: Function, frame: types.FrameType) -> None:
        thread, live = _thread.get_ident(), self._live
        stack = self._stacks.get(thread)
        if stack is None:
            stack = self._stacks[thread] = []
        known = live.get(id(frame))
        if known is not None and known[FUNCTION] is function and function.code.co_flags & SUSPENDED:
            stack.append(known)
            return
        calls = self._recording.calls
        if function.count >= function.most or len(calls) >= MOST_CALLS:
            function.is_over = True
            return
        function.count += 1
        printed_arguments = self._recording.printed_arguments(function, frame)
        record = [
            function,
            stack[-1] if stack else None,
            thread,
            time.perf_counter_ns(),
            0,
            printed_arguments,
            None,
            None,
            0,
        ]
        live[id(frame)] = record
        calls.append(record)
        stack.append(record)

    def _finish(self, function: Function, frame: types.FrameType, value: object) -> None:
        record = self._live.get(id(frame))
        if record is None:
            return
        stack = self._stacks.get(_thread.get_ident())
        if stack and stack[-1] is record:
            stack.pop()
        elif stack:
            stack[:] = [one for one in stack if one is not record]
        name = self._instruction(function, frame)
        if name.startswith(YIELDING) and function.code.co_flags & SUSPENDED:
            record[YIELDS] += 1
            record[RESULT] = self._recording.printer.short(value)
            return
        del self._live[id(frame)]
        record[END_NS] = time.perf_counter_ns()
        is_error = value is None and not name.startswith("RETURN")
        record[RESULT] = None if is_error else self._recording.result(function, frame, value)
        record[ERROR] = RAISED if is_error else None

    def _instruction(self, function: Function, frame: types.FrameType) -> str:
        """The name of the instruction at which a frame is left."""
        code = self._bytes.get(id(function))
        if code is None:
            code = self._bytes[id(function)] = function.code.co_code
        return self._names[code[frame.f_lasti]] if 0 <= frame.f_lasti < len(code) else ""
