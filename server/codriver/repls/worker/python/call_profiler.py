"""Record calls with a profile function, in Python versions before 3.12.

A profile function sees its own thread and threads started later. It is called when a call ends but does not receive the
error, so the frame's current instruction is used to determine whether the call returned, yielded or raised.
"""

from __future__ import annotations

import _thread
import sys
import threading
import time

from ..basics.connections import THREAD_NAME
from .recorded_calls import END_NS, ERROR, FUNCTION, MAX_RECORDED_CALLS, RESULT, YIELDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from typing import Any

    from .recorded_calls import Function, Record, Recording

SUSPENDABLE_FLAGS = 0x20 | 0x80 | 0x200
"""Flags of the code objects of generators, coroutines and asynchronous generators. Source: `inspect`."""
PROFILER_REPLACED_NOTE = (
    "a profiler has set another profile function in the meantime: the calls since then are not recorded"
)
OTHER_THREADS_NOTE = "threads that were already running are not recorded, because this requires Python 3.12 or later"
UNKNOWN_ERROR_TEXT = "an error"
"""Text reported in place of the error that ended a call, because a profile function does not receive the error."""
LACKS_SUSPENDABLE_CALLS = sys.version_info < (3, 11)
"""Whether this version of Python cannot record calls to generators and coroutines."""
NO_GENERATORS_NOTE = "calls to generators and coroutines are not recorded, because this requires Python 3.11 or later"
YIELD_INSTRUCTION_PREFIX = "YIELD"
"""Name prefix of the instructions that suspend a call."""


class CallProfiler:
    """A recorder of calls that uses a profile function. An instance can be used only once.

    It must be started on the thread whose calls are recorded.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._stacks: dict[int, list[Record]] = {}
        self._live: dict[int, Record] = {}
        self._bytes: dict[int, bytes] = {}
        """The bytecode of each function by its id, cached because `co_code` creates a copy each time it is read."""
        import opcode  # only needed in this class

        self._names = opcode.opname
        self._previous: Any = None
        self._are_unseen = False
        """Whether other user threads, which are not recorded, were already running."""
        self._profile: Any = None

    def begin(self) -> str:
        """Start recording. Return the reason if that is not possible, or "" on success."""
        self._previous = sys.getprofile()
        if self._previous is not None:
            return "a profiler or coverage tool has set a profile function: end it first"
        this_thread = threading.get_ident()
        self._are_unseen = any(item.ident != this_thread and item.name != THREAD_NAME for item in threading.enumerate())
        self._profile = self._profile_function()
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        return ""

    def end(self) -> None:
        """Stop recording, and add notes on calls that may be missing."""
        if self._profile is None:
            return
        if sys.getprofile() is self._profile:
            sys.setprofile(None)
        else:
            self._recording.notes.append(PROFILER_REPLACED_NOTE)
        if getattr(threading, "_profile_hook", None) is self._profile:
            threading.setprofile(None)
        self._profile = None
        if self._are_unseen:
            self._recording.notes.append(OTHER_THREADS_NOTE)
        if LACKS_SUSPENDABLE_CALLS:
            self._recording.notes.append(NO_GENERATORS_NOTE)

    def _profile_function(self) -> Any:
        functions, function_of = self._recording.functions, self._recording.register_function
        on_start, on_end = self._start_callback, self._finish

        def profile(frame: types.FrameType, event: str, value: object) -> None:
            if event == "call":
                code = frame.f_code
                function = functions.get(id(code)) or function_of(code, frame)
                if function.is_requested and not (LACKS_SUSPENDABLE_CALLS and code.co_flags & SUSPENDABLE_FLAGS):
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
        if known is not None and known[FUNCTION] is function and function.code.co_flags & SUSPENDABLE_FLAGS:
            stack.append(known)
            return
        calls = self._recording.calls
        if function.count >= function.most or len(calls) >= MAX_RECORDED_CALLS:
            function.is_over = True
            return
        function.count += 1
        printed_arguments = self._recording.format_arguments(function, frame)
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
        """Record that a call has finished or yielded."""
        record = self._live.get(id(frame))
        if record is None:
            return
        stack = self._stacks.get(_thread.get_ident())
        if stack and stack[-1] is record:
            stack.pop()
        elif stack:
            stack[:] = [item for item in stack if item is not record]
        name = self._current_instruction(function, frame)
        if name.startswith(YIELD_INSTRUCTION_PREFIX) and function.code.co_flags & SUSPENDABLE_FLAGS:
            record[YIELDS] += 1
            record[RESULT] = self._recording.printer.short_text(value)
            return
        del self._live[id(frame)]
        record[END_NS] = time.perf_counter_ns()
        is_error = value is None and not name.startswith("RETURN")
        record[RESULT] = None if is_error else self._recording.result(function, frame, value)
        record[ERROR] = UNKNOWN_ERROR_TEXT if is_error else None

    def _current_instruction(self, function: Function, frame: types.FrameType) -> str:
        """Return the name of the instruction that a frame is executing."""
        code = self._bytes.get(id(function))
        if code is None:
            code = self._bytes[id(function)] = function.code.co_code
        return self._names[code[frame.f_lasti]] if 0 <= frame.f_lasti < len(code) else ""
