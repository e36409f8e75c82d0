"""Read the events of a test process from the file that it writes.

The process runs the project's code and is not trusted: lines that are not events are skipped.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, get_args

from codriver.testing.runs import (
    Collected,
    Event,
    FailureFrame,
    Interruption,
    LinkedError,
    Outcome,
    OutcomeCounts,
    Phase,
    Recorded,
    RunError,
    RunErrorKind,
    SecretsFound,
    TestFailure,
    TestFinished,
    TestStarted,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_EVENT_BYTES: Final = 2**26
"""Maximum size of an event. A record of all functions that twenty thousand tests execute is smaller."""
_OUTCOMES: Final[Mapping[str, Outcome]] = {argument: argument for argument in get_args(Outcome)}
"""Test outcomes, by their names in events."""
_PHASES: Final[Mapping[str, Phase]] = {argument: argument for argument in get_args(Phase)}
"""Test phases, by their names in events."""
_ERROR_KINDS: Final[Mapping[str, RunErrorKind]] = {argument: argument for argument in get_args(RunErrorKind)}
"""Kinds of run errors, by their names in events."""
_COLOR_CODE_PATTERN: Final = re.compile(r"\x1b\[[0-9;]*m")
"""Matches a color code, which pytest writes into comparisons with the option `--color=yes`."""
_COUNT_NAMES: Final = tuple(field.name for field in fields(OutcomeCounts))
"""Names of the counts in an event."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """What the process reported when its run finished."""

    status: int | None
    counts: OutcomeCounts
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class EventStream:
    """Parser of the events of one run. Stores the events about the end of the run."""

    end: RunEnd | None = None
    interruption: Interruption | None = None
    error: RunError | None = None
    _rest: bytes = b""
    _is_skipping: bool = False
    status: int | None = None
    """Exit status of a process that was retained instead of exiting."""
    retained: Mapping[str, Any] | None = None
    """What a retained process reports about the failure. See `read_retained_failure`."""
    why_not_retained: str = ""

    def feed(self, data: bytes) -> list[Event]:
        """Return the events in the next bytes of the file."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_EVENT_BYTES:
            self._rest, self._is_skipping = b"", True
        events: list[Event] = []
        for line in lines:
            if self._is_skipping:
                self._is_skipping = False
                continue
            event = self._event(line)
            if event is not None:
                events.append(event)
        return events

    def _event(self, line: bytes) -> Event | None:
        """Return the event on a line, or None if the line is not an event or only concerns the end of the run."""
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(found, dict):
            return None
        match found.get("event"):
            case "collected":
                names = tuple(_text(item) for item in _list(found.get("nodeids")))
                return Collected(_number(found.get("count")), _number(found.get("deselected")), names)
            case "started":
                return TestStarted(_text(found.get("nodeid")))
            case "test":
                return _finished(found)
            case "recorded":
                return Recorded(_text(found.get("recorder")), found.get("data"), _text(found.get("problem")))
            case "secrets":
                pairs = [item for item in _list(found.get("named")) if isinstance(item, list) and len(item) == 2]
                return SecretsFound(tuple((_text(name), _text(value)) for name, value in pairs))
            case _:
                self._note(found)
        return None

    def _note(self, found: Mapping[str, Any]) -> None:
        """Store an event about the end of the run."""
        match found.get("event"):
            case "interrupted":
                frames = _frames(found.get("frames"))
                self.interruption = Interruption(_text(found.get("nodeid")), frames, _text(found.get("reason")))
            case "problem":
                if self.error is None:
                    self.error = _run_error(found)
            case "finished":
                warnings = tuple(_text(item) for item in _list(found.get("warnings")))
                status = found.get("status")
                self.end = RunEnd(status if isinstance(status, int) else None, _counts(found.get("counts")), warnings)
            case "status":
                status = found.get("status")
                self.status = status if isinstance(status, int) else None
            case "kept":
                self.retained = found
            case "not-kept":
                self.why_not_retained = _text(found.get("reason"))


def read_retained_failure(found: Mapping[str, Any]) -> tuple[str, tuple[FailureFrame, ...]]:
    """Return the id of the test whose failure a process retains, and the frames of the failure."""
    return _text(found.get("nodeid")), _frames(found.get("frames"))


def _finished(found: Mapping[str, Any]) -> TestFinished | None:
    """Return the finished test that an event describes, or None if its outcome is unknown."""
    outcome = _OUTCOMES.get(_text(found.get("outcome")))
    if outcome is None:
        return None
    line = found.get("line")
    return TestFinished(
        nodeid=_text(found.get("nodeid")),
        outcome=outcome,
        seconds=_seconds(found.get("seconds")),
        failures=tuple(_failure(item) for item in _list(found.get("failures")) if isinstance(item, dict)),
        reason=_text(found.get("reason")),
        file=_text(found.get("file")) or None,
        line=line if isinstance(line, int) else None,
        is_collector=found.get("collector") is True,
        worker=_text(found.get("worker")),
        reruns=_number(found.get("reruns")),
    )


def _failure(found: Mapping[str, Any]) -> TestFailure:
    """Return the failure that a map in an event describes."""
    chain = [_linked(item) for item in _list(found.get("chain")) if isinstance(item, dict)]
    sections = [item for item in _list(found.get("sections")) if isinstance(item, list) and len(item) == 2]
    return TestFailure(
        phase=_PHASES.get(_text(found.get("phase")), "call"),
        type=_text(found.get("type")),
        message=_COLOR_CODE_PATTERN.sub("", _text(found.get("message"))),
        text=_COLOR_CODE_PATTERN.sub("", _text(found.get("text"))),
        frames=_frames(found.get("frames")),
        sections=tuple((_text(title), _text(text)) for title, text in sections),
        chain=tuple(chain),
        part=_text(found.get("part")),
        called=_frames(found.get("called")),
        assigned=_frames(found.get("assigned")),
    )


def _linked(found: Mapping[str, Any]) -> LinkedError:
    """Return the error behind a failure that a map in an event describes."""
    relation, kind, message = (_text(found.get(key)) for key in ("relation", "type", "message"))
    return LinkedError(relation, kind, message, _frames(found.get("frames")))


def _frames(found: object) -> tuple[FailureFrame, ...]:
    """Return the frames that a list in an event describes, or none if the value is not a list."""
    return tuple(
        FailureFrame(
            _text(item.get("file")),
            _number(item.get("line")),
            _text(item.get("function")),
            _strings(item.get("locals")),
        )
        for item in _list(found)
        if isinstance(item, dict)
    )


def _run_error(found: Mapping[str, Any]) -> RunError:
    """Return the error of a run that an event describes."""
    kind = _ERROR_KINDS.get(_text(found.get("kind")), "internal")
    failure = found.get("failure")
    return RunError(
        kind,
        _text(found.get("message")),
        _text(found.get("hint")),
        _failure(failure) if isinstance(failure, dict) else None,
    )


def _counts(found: object) -> OutcomeCounts:
    """Return the counts that a map in an event has, with zeros for missing ones."""
    known = found if isinstance(found, dict) else {}
    return OutcomeCounts(**{name: _number(known.get(name)) for name in _COUNT_NAMES})


def _strings(found: object) -> dict[str, str]:
    """Return the strings of a map, or an empty map for any other value."""
    return {str(key): _text(item) for key, item in found.items()} if isinstance(found, dict) else {}


def _list(found: object) -> Sequence[Any]:
    """Return the value if it is a list, or else an empty sequence."""
    return found if isinstance(found, list) else ()


def _text(found: object) -> str:
    """Return the value if it is a string, or else an empty string."""
    return found if isinstance(found, str) else ""


def _number(found: object) -> int:
    """Return the value if it is an integer, or else 0."""
    return found if isinstance(found, int) else 0


def _seconds(found: object) -> float:
    """Return the value as a float if it is a number, or else 0."""
    return float(found) if isinstance(found, int | float) else 0.0
