"""A recorder of calls by a profile function, for interpreters without `sys.monitoring`: before Python 3.12.

It sees its own thread and those that are started meanwhile. A profile function is told of the end of a call and not of
its error: the instruction that a frame stands at says whether it returned, yielded or raised.
"""

from __future__ import annotations

import _thread
import sys
import threading
import time

from ..basics.connections import OWN_THREAD
from .recorded_calls import ENDED_NS, ERROR, FUNCTION, MOST_CALLS, RESULT, YIELDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from typing import Any

    from .recorded_calls import Function, Record, Recording

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
        """By the id of a function: its instructions, which each look at a code copies."""
        import opcode  # only this recorder needs it

        self._names = opcode.opname
        self._former: Any = None
        self._are_unseen = False
        """True where threads of the user's run already."""
        self._profile: Any = None

    def begin(self) -> str:
        """Record from now on; else in words why that cannot be."""
        self._former = sys.getprofile()
        if self._former is not None:
            return "a profile function is set, by a profiler or by coverage: end that first"
        own = threading.get_ident()
        self._are_unseen = any(one.ident != own and one.name != OWN_THREAD for one in threading.enumerate())
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
        functions, look = self._recording.functions, self._recording.look
        began, ended = self._began, self._ended

        def profile(frame: types.FrameType, event: str, value: object) -> None:
            if event == "call":
                code = frame.f_code
                function = functions.get(id(code)) or look(code, frame)
                if function.is_wanted and not (OLD and code.co_flags & SUSPENDED):
                    began(function, frame)
            elif event == "return":
                known = functions.get(id(frame.f_code))
                if known is not None and known.is_wanted:
                    ended(known, frame, value)

        return profile

    def _began(self, function: Function, frame: types.FrameType) -> None:
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
        shown = self._recording.shown(function, frame)
        record = [function, stack[-1] if stack else None, thread, time.perf_counter_ns(), 0, shown, None, None, 0]
        live[id(frame)] = record
        calls.append(record)
        stack.append(record)

    def _ended(self, function: Function, frame: types.FrameType, value: object) -> None:
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
            record[RESULT] = self._recording.texts.short(value)
            return
        del self._live[id(frame)]
        record[ENDED_NS] = time.perf_counter_ns()
        is_error = value is None and not name.startswith("RETURN")
        record[RESULT] = None if is_error else self._recording.result(function, frame, value)
        record[ERROR] = RAISED if is_error else None

    def _instruction(self, function: Function, frame: types.FrameType) -> str:
        """The name of the instruction at which a frame is left."""
        code = self._bytes.get(id(function))
        if code is None:
            code = self._bytes[id(function)] = function.code.co_code
        return self._names[code[frame.f_lasti]] if 0 <= frame.f_lasti < len(code) else ""
