"""Sites: functions whose calls, or lines, are told to captures while the application runs, by the way that costs least.

From Python 3.12 on that is `sys.monitoring` of their code alone. Before, functions are given a copy of their code that
tells: compiled from their source, which has to be what they were made of, or, of a function without one, a code that
calls it. What a function is to others, its signature, closure and name, stays; each gets its own code back in the end.
"""

from __future__ import annotations

import gc
import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Protocol

    class Listener(Protocol):
        """Whoever is told. It never raises, and asks nothing of the application's thread but time."""

        line: int | None
        """The line that it is about; None: the calls."""
        is_over: bool
        """Whether it wants to be told nothing any more."""

        def begin(self, values: Any, caller: Any) -> Any:
            """A call begins, with these variables, from the frame `caller`; what `end` is given, or None."""

        def end(self, begun: Any, word: str, value: Any, values: Callable[[], Any]) -> None:
            """It is over, and `value` is its `result`, or what was `raised`."""

        def at(self, values: Any, caller: Any) -> None:
            """The line is about to run."""


TOOL = 3
"""The id among the tools of `sys.monitoring` that nobody has by convention, beside that of `trace_calls`."""
STARS = 0x04, 0x08
"""The flags of a code that has *parameters, and **parameters."""


class Site:
    """The listeners of one code, told by frames of it."""

    def __init__(self, code: types.CodeType) -> None:
        self.code = code
        self.listeners: tuple[Listener, ...] = ()
        """Replaced whole, so that the application's threads take no lock."""
        self._begun: dict[int, list[tuple[Listener, Any]]] = {}
        """The calls under way, by the id of their frame."""

    @property
    def lines(self) -> frozenset[int]:
        """The lines that somebody is to be told of."""
        return frozenset([one.line for one in self.listeners if one.line is not None])

    @property
    def has_calls(self) -> bool:
        """Whether somebody is to be told of calls."""
        return any(one.line is None for one in self.listeners)

    def began(self, frame: Any) -> None:
        """A call begins."""
        begun = []
        for one in self.listeners:
            if one.line is None and not one.is_over:
                told = one.begin(frame.f_locals, frame.f_back)
                if told is not None:
                    begun.append((one, told))
        if begun:
            self._begun[id(frame)] = begun

    def ended(self, frame: Any, word: str, value: Any) -> None:
        """It is over."""
        for one, told in self._begun.pop(id(frame), ()):
            one.end(told, word, value, lambda: frame.f_locals)

    def reached(self, frame: Any, line: int) -> bool:
        """A line is about to run; whether anybody wanted to know."""
        is_wanted = False
        for one in self.listeners:
            if one.line == line:
                is_wanted = True
                if not one.is_over:
                    one.at(frame.f_locals, frame.f_back)
        return is_wanted


class Monitored:
    """The sites of this process by `sys.monitoring`."""

    how = "monitored"

    def __init__(self) -> None:
        self._monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]  # from Python 3.12 on
        self._sites: dict[int, Site] = {}
        """By the id of their code, which each keeps alive."""

    @staticmethod
    def is_free() -> bool:
        """Whether this Python has it, and nobody else took our place in it."""
        monitoring = getattr(sys, "monitoring", None)
        return monitoring is not None and monitoring.get_tool(TOOL) in (None, __name__)

    def listen(self, code: types.CodeType, listener: Listener) -> Callable[[], None]:
        """Tell a listener; how that is undone."""
        if self._monitoring.get_tool(TOOL) is None:
            self._begin()
        site = self._sites.setdefault(id(code), Site(code))
        if listener in site.listeners:
            return lambda: None
        site.listeners = (*site.listeners, listener)
        self._apply(site)

        def undo() -> None:
            site.listeners = tuple([one for one in site.listeners if one is not listener])
            self._apply(site)

        return undo

    def hears(self, function: types.FunctionType) -> bool:
        """Whether somebody is told of a function."""
        return id(function.__code__) in self._sites

    def _begin(self) -> None:
        events = self._monitoring.events
        self._monitoring.use_tool_id(TOOL, __name__)
        for event, told in (
            (events.PY_START, self._started),
            (events.PY_RETURN, self._returned),
            (events.PY_UNWIND, self._unwound),
            (events.LINE, self._line),
        ):
            self._monitoring.register_callback(TOOL, event, told)

    def _apply(self, site: Site) -> None:
        events = self._monitoring.events
        # Set anew, as lines that nobody wanted were switched off.
        self._monitoring.set_local_events(TOOL, site.code, 0)
        wanted = (events.PY_START | events.PY_RETURN) * site.has_calls | events.LINE * bool(site.lines)
        self._monitoring.set_local_events(TOOL, site.code, wanted)
        if not site.listeners:
            self._sites.pop(id(site.code), None)
        # What exceptions leave cannot be asked for of some functions alone: 0.1 µs for each call that one ends.
        is_any = any(one.has_calls for one in self._sites.values())
        self._monitoring.set_events(TOOL, events.PY_UNWIND * is_any)
        if not self._sites:
            self._monitoring.free_tool_id(TOOL)

    # On the application's threads

    def _started(self, code: types.CodeType, _offset: int) -> None:
        site = self._sites.get(id(code))
        if site is not None:
            site.began(sys._getframe(1))  # noqa: SLF001  # it is how a frame is had

    def _returned(self, code: types.CodeType, _offset: int, value: object) -> None:
        site = self._sites.get(id(code))
        if site is not None:
            site.ended(sys._getframe(1), "result", value)  # noqa: SLF001  # as above

    def _unwound(self, code: types.CodeType, _offset: int, error: BaseException) -> None:
        if id(code) in self._sites:
            self._sites[id(code)].ended(sys._getframe(1), "raised", error)  # noqa: SLF001  # as above

    def _line(self, code: types.CodeType, line: int) -> Any:
        site = self._sites.get(id(code))
        is_wanted = site is not None and site.reached(sys._getframe(1), line)  # noqa: SLF001  # as above
        return None if is_wanted else self._monitoring.DISABLE


def functions_of(is_meant: Callable[[types.CodeType], bool]) -> Iterator[types.FunctionType]:
    """The functions that live in this process and whose code is meant."""
    for one in gc.get_objects():
        if type(one) is types.FunctionType and is_meant(one.__code__):
            yield one


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code, and those of the functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_in(constant)


def parameters_of(code: types.CodeType) -> tuple[str, ...]:
    """The names of a code's parameters."""
    count = code.co_argcount + code.co_kwonlyargcount
    return code.co_varnames[: count + sum(bool(code.co_flags & flag) for flag in STARS)]
