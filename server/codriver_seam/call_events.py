"""Record calls to selected functions as events."""

from __future__ import annotations

import functools
import sys
import time

from .recording import emit, seam

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any


TOOL_ID = 4
"""The tool id for `sys.monitoring`. By convention, it is not reserved for any kind of tool."""


def trace_calls(*functions: Callable[..., Any]) -> str:
    """Record each call to these functions as an event, and return a description of how calls are recorded.

    Python 3.12 and later use `sys.monitoring`, which does not slow down other functions. Before that, each function is
    replaced in its module, so calls through names that were imported earlier are not recorded.
    """
    if seam.session_id is None:
        return "the seam is off"
    codes = [traced.__code__ for traced in functions if hasattr(traced, "__code__")]
    if hasattr(sys, "monitoring"):
        _monitor_calls(codes)
        return "monitored"
    for function in functions:
        _wrap_in_module(function)
    return "wrapped where they are defined"


_call_starts: dict[int, float] = {}
"""The start time of each call in progress, by the id of its frame."""


def _monitor_calls(codes: list[CodeType]) -> None:
    """Record the calls to these code objects with `sys.monitoring`."""
    monitoring = sys.monitoring  # type: ignore[attr-defined, unused-ignore]  # from Python 3.12 on
    events = monitoring.events
    if monitoring.get_tool(TOOL_ID) != __name__:
        monitoring.use_tool_id(TOOL_ID, __name__)
        monitoring.register_callback(TOOL_ID, events.PY_START, _on_start)
        monitoring.register_callback(TOOL_ID, events.PY_RETURN, _on_return)
        # Unwinding cannot be monitored for single functions. The callback returns immediately for others.
        monitoring.register_callback(TOOL_ID, events.PY_UNWIND, _on_unwind)
        monitoring.set_events(TOOL_ID, events.PY_UNWIND)
    for code in codes:
        monitoring.set_local_events(TOOL_ID, code, events.PY_START | events.PY_RETURN)


def _on_start(_code: CodeType, _offset: int) -> None:
    """Store the start time of a call."""
    _call_starts[id(sys._getframe(1))] = time.perf_counter()  # noqa: SLF001  # there is no public API for frames


def _on_return(code: CodeType, _offset: int, value: object) -> None:
    started_at = _call_starts.pop(id(sys._getframe(1)), None)  # noqa: SLF001  # as above
    if started_at is not None:
        _record_call(code, started_at, type(value).__name__)


def _on_unwind(code: CodeType, _offset: int, error: BaseException) -> None:
    started_at = _call_starts.pop(id(sys._getframe(1)), None) if _call_starts else None  # noqa: SLF001  # as above
    if started_at is not None:
        _record_call(code, started_at, f"raised {type(error).__name__}")


def _record_call(code: CodeType, started_at: float, result: str) -> None:
    ms = round((time.perf_counter() - started_at) * 1000, 3)
    name = getattr(code, "co_qualname", code.co_name)
    emit("call", name, source="calls", ms=ms, result=result, at=f"{code.co_filename}:{code.co_firstlineno}")


def _wrap_in_module(function: Any) -> None:
    """Replace a function in its module or class with a wrapper that records its calls."""
    owner: Any = sys.modules.get(function.__module__)
    *path, name = function.__qualname__.split(".")
    for step in path:
        owner = getattr(owner, step, None)
    if owner is None or vars(owner).get(name) is not function:
        return

    @functools.wraps(function)
    def noted(*arguments: Any, **named: Any) -> Any:
        started_at = time.perf_counter()
        try:
            value = function(*arguments, **named)
        except BaseException as error:
            _record_call(function.__code__, started_at, f"raised {type(error).__name__}")
            raise
        _record_call(function.__code__, started_at, type(value).__name__)
        return value

    setattr(owner, name, noted)
