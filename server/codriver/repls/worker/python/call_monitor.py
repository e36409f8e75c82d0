"""Record calls with `sys.monitoring`, in Python 3.12 and later.

`sys.monitoring` sees calls on all threads. Events for the start of a call and for an error that ends it apply to the
whole interpreter. The others apply to the recorded code objects. An event disabled at a location in a code object stays
disabled until the set of events for that object changes. `restart_events` is not used, because it would also affect
debuggers and coverage tools.

Source: Python's library reference, `sys.monitoring`. How long events stay disabled was tested on 3.12 and 3.13.
"""

from __future__ import annotations

import _thread
import sys
import time

from .recorded_calls import END_NS, ERROR, FUNCTION, MAX_RECORDED_CALLS, RESULT, YIELDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from typing import Any

    from .recorded_calls import Function, Record, Recording

PREFERRED_TOOL_IDS = (4, 3, 5, 2)
"""Tool ids in order of preference: those without a conventional owner, then the profiler's.

The ids of debuggers and coverage tools are never used.
"""
TOOL_NAME = "codriver"
"""The name under which the recorder uses `sys.monitoring`."""
FRAME_AT = sys._getframe  # noqa: SLF001  # no public API gives the frame of a call
NO_FREE_ID_MESSAGE = "all tool ids of sys.monitoring are in use, by debuggers or profilers: end one of them"


class CallMonitor:
    """A recorder of calls that uses `sys.monitoring`. An instance can be used only once."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._stacks: dict[int, list[Record]] = {}
        """The calls in progress on each thread, innermost last."""
        self._live: dict[int, Record] = {}
        """The calls in progress, including suspended generators, by the id of their frame."""
        self._monitoring: Any = getattr(sys, "monitoring", None)
        self._tool = -1
        self._local = 0

    def begin(self) -> str:
        """Start recording. Return the reason if that is not possible, or "" on success."""
        monitoring = self._monitoring
        self._tool = next((item for item in PREFERRED_TOOL_IDS if monitoring.get_tool(item) is None), -1)
        if self._tool < 0:
            return NO_FREE_ID_MESSAGE
        monitoring.use_tool_id(self._tool, TOOL_NAME)
        events = monitoring.events
        self._local = events.PY_RETURN | events.PY_YIELD | events.PY_RESUME
        for event, callback in self._callbacks(events).items():
            monitoring.register_callback(self._tool, event, callback)
        monitoring.set_events(self._tool, events.PY_START | events.PY_UNWIND | events.PY_THROW)
        return ""

    def end(self) -> None:
        """Stop recording and remove all events."""
        if self._tool < 0:
            return
        monitoring, tool = self._monitoring, self._tool
        monitoring.set_events(tool, 0)
        events = monitoring.events
        for function in list(self._recording.functions.values()):
            if not function.is_requested:
                # Set another event briefly. Otherwise, disabled locations would stay disabled for the next recording.
                monitoring.set_local_events(tool, function.code, events.PY_RETURN)
            monitoring.set_local_events(tool, function.code, 0)
        for event in self._callbacks(events):
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)
        self._tool = -1

    def _callbacks(self, events: Any) -> dict[int, Any]:
        return {
            events.PY_START: self._start_callback(),
            events.PY_RETURN: self._return_callback(),
            events.PY_YIELD: self._yield_callback(),
            events.PY_RESUME: self._resume_callback(),
            events.PY_THROW: self._resume_callback(),
            events.PY_UNWIND: self._unwind_callback(),
        }

    def _register_function(self, code: types.CodeType, frame: types.FrameType) -> Function:
        found = self._recording.register_function(code, frame)
        if found.is_requested:
            self._monitoring.set_local_events(self._tool, code, self._local)
        return found

    # Each callback keeps what it needs in local variables, because it runs for every call.

    def _start_callback(self) -> Any:
        recording, stacks, live, function_of = self._recording, self._stacks, self._live, self._register_function
        functions, calls, printed_arguments = recording.functions, recording.calls, recording.format_arguments
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
            if function.count >= function.most or len(calls) >= MAX_RECORDED_CALLS:
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

    def _return_callback(self) -> Any:
        functions, short, leave, live = (
            self._recording.functions,
            self._recording.printer.short_text,
            self._remove_from_stack,
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

    def _yield_callback(self) -> Any:
        """Return the callback that records when a call yields or awaits."""
        functions, short, leave, live = (
            self._recording.functions,
            self._recording.printer.short_text,
            self._remove_from_stack,
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

    def _resume_callback(self) -> Any:
        """Return the callback that records when a call resumes after yielding."""
        stacks, live, frame_at, thread_id = self._stacks, self._live, FRAME_AT, _thread.get_ident

        def resumed(_code: types.CodeType, _offset: int, _error: object = None) -> Any:
            record = live.get(id(frame_at(1)))
            if record is not None:
                stacks.setdefault(thread_id(), []).append(record)

        return resumed

    def _unwind_callback(self) -> Any:
        """Return the callback that records a call ended by an exception."""
        recording, leave, live = self._recording, self._remove_from_stack, self._live
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

    def _remove_from_stack(self, record: Record) -> None:
        """Remove a finished or suspended call from the stack of its thread."""
        stack = self._stacks.get(_thread.get_ident())
        if stack and stack[-1] is record:
            stack.pop()
        elif stack:
            stack[:] = [item for item in stack if item is not record]
