"""Read a test process's events from the file that it writes.

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
    UnawaitedCoroutine,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_EVENT_BYTES: Final = 2**26
"""Maximum size of an event, in bytes. A record of all functions that 20,000 tests execute is smaller."""
_OUTCOMES: Final[Mapping[str, Outcome]] = {argument: argument for argument in get_args(Outcome)}
"""Test outcomes, by their names in events."""
_PHASES: Final[Mapping[str, Phase]] = {argument: argument for argument in get_args(Phase)}
"""Test phases, by their names in events."""
_ERROR_KINDS: Final[Mapping[str, RunErrorKind]] = {argument: argument for argument in get_args(RunErrorKind)}
"""Kinds of run errors, by their names in events."""
_UNAWAITED_FIELDS: Final = 3
"""Number of fields of a coroutine that was never awaited in an event: message, file and line."""
_COLOR_CODE_PATTERN: Final = re.compile(r"\x1b\[[0-9;]*m")
"""Matches a color code, as pytest writes them into comparisons with the option `--color=yes`."""
_COUNT_NAMES: Final = tuple(field.name for field in fields(OutcomeCounts))
"""Names of the counts in an event."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The summary that the test process wrote when its run finished."""

    status: int | None
    counts: OutcomeCounts
    unawaited: tuple[UnawaitedCoroutine, ...] = ()


@dataclass(slots=True)
class EventStream:
    """An incremental parser for the events that a test process writes. Stores the events about the end of the run."""

    end: RunEnd | None = None
    interruption: Interruption | None = None
    error: RunError | None = None
    _rest: bytes = b""
    _is_skipping: bool = False
    status: int | None = None
    """Exit status of a process that was retained instead of exiting."""
    retained: Mapping[str, Any] | None = None
    """The failure as reported by a retained process. See `read_retained_failure`."""
    why_not_retained: str = ""

    def feed(self, data: bytes) -> list[Event]:
        """Parse the next bytes of the file, and return the events that they complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_EVENT_BYTES:
            self._rest, self._is_skipping = b"", True
        events: list[Event] = []
        for line in lines:
            if self._is_skipping:
                self._is_skipping = False
                continue
            event = self._parse_event(line)
            if event is not None:
                events.append(event)
        return events

    def _parse_event(self, line: bytes) -> Event | None:
        """Parse a line. Return None if it is not a valid event or only concerns the end of the run."""
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(found, dict):
            return None
        match found.get("event"):
            case "collected":
                names = tuple(_text_or_empty(item) for item in _list_or_empty(found.get("nodeids")))
                return Collected(_int_or_zero(found.get("count")), _int_or_zero(found.get("deselected")), names)
            case "started":
                return TestStarted(_text_or_empty(found.get("nodeid")))
            case "test":
                return _parse_finished_test(found)
            case "recorded":
                return Recorded(
                    _text_or_empty(found.get("recorder")), found.get("data"), _text_or_empty(found.get("problem"))
                )
            case "secrets":
                pairs = [
                    item for item in _list_or_empty(found.get("named")) if isinstance(item, list) and len(item) == 2
                ]
                return SecretsFound(tuple((_text_or_empty(name), _text_or_empty(value)) for name, value in pairs))
            case _:
                self._store_end_event(found)
        return None

    def _store_end_event(self, fields: Mapping[str, Any]) -> None:
        """Store an event that concerns the end of the run."""
        match fields.get("event"):
            case "interrupted":
                frames = _parse_frames(fields.get("frames"))
                self.interruption = Interruption(
                    _text_or_empty(fields.get("nodeid")), frames, _text_or_empty(fields.get("reason"))
                )
            case "problem":
                if self.error is None:
                    self.error = _parse_run_error(fields)
            case "finished":
                unawaited = tuple(
                    UnawaitedCoroutine(_text_or_empty(item[0]), _text_or_empty(item[1]), _int_or_zero(item[2]))
                    for item in _list_or_empty(fields.get("unawaited"))
                    if isinstance(item, list) and len(item) == _UNAWAITED_FIELDS
                )
                status = fields.get("status")
                self.end = RunEnd(
                    status if isinstance(status, int) else None, _parse_counts(fields.get("counts")), unawaited
                )
            case "status":
                status = fields.get("status")
                self.status = status if isinstance(status, int) else None
            case "kept":
                self.retained = fields
            case "not-kept":
                self.why_not_retained = _text_or_empty(fields.get("reason"))


def read_retained_failure(fields: Mapping[str, Any]) -> tuple[str, tuple[FailureFrame, ...]]:
    """Return the id of the test that failed in a retained process, and the frames of the failure."""
    return _text_or_empty(fields.get("nodeid")), _parse_frames(fields.get("frames"))


def _parse_finished_test(fields: Mapping[str, Any]) -> TestFinished | None:
    """Parse the event of a finished test. Return None if its outcome is unknown."""
    outcome = _OUTCOMES.get(_text_or_empty(fields.get("outcome")))
    if outcome is None:
        return None
    line = fields.get("line")
    return TestFinished(
        nodeid=_text_or_empty(fields.get("nodeid")),
        outcome=outcome,
        seconds=_float_or_zero(fields.get("seconds")),
        failures=tuple(
            _parse_failure(item) for item in _list_or_empty(fields.get("failures")) if isinstance(item, dict)
        ),
        reason=_text_or_empty(fields.get("reason")),
        file=_text_or_empty(fields.get("file")) or None,
        line=line if isinstance(line, int) else None,
        is_collector=fields.get("collector") is True,
        worker=_text_or_empty(fields.get("worker")),
        reruns=_int_or_zero(fields.get("reruns")),
    )


def _parse_failure(fields: Mapping[str, Any]) -> TestFailure:
    chain = [_parse_linked_error(item) for item in _list_or_empty(fields.get("chain")) if isinstance(item, dict)]
    sections = [item for item in _list_or_empty(fields.get("sections")) if isinstance(item, list) and len(item) == 2]
    return TestFailure(
        phase=_PHASES.get(_text_or_empty(fields.get("phase")), "call"),
        type=_text_or_empty(fields.get("type")),
        message=_COLOR_CODE_PATTERN.sub("", _text_or_empty(fields.get("message"))),
        text=_COLOR_CODE_PATTERN.sub("", _text_or_empty(fields.get("text"))),
        frames=_parse_frames(fields.get("frames")),
        sections=tuple((_text_or_empty(title), _text_or_empty(text)) for title, text in sections),
        chain=tuple(chain),
        part=_text_or_empty(fields.get("part")),
        called=_parse_frames(fields.get("called")),
        assigned=_parse_frames(fields.get("assigned")),
    )


def _parse_linked_error(fields: Mapping[str, Any]) -> LinkedError:
    """Parse an error that is linked to a failure, such as its cause."""
    relation, kind, message = (_text_or_empty(fields.get(key)) for key in ("relation", "type", "message"))
    return LinkedError(relation, kind, message, _parse_frames(fields.get("frames")))


def _parse_frames(value: object) -> tuple[FailureFrame, ...]:
    """Parse a list of frames. Return an empty tuple for any other value."""
    return tuple(
        FailureFrame(
            _text_or_empty(item.get("file")),
            _int_or_zero(item.get("line")),
            _text_or_empty(item.get("function")),
            _strings_or_empty(item.get("locals")),
        )
        for item in _list_or_empty(value)
        if isinstance(item, dict)
    )


def _parse_run_error(fields: Mapping[str, Any]) -> RunError:
    kind = _ERROR_KINDS.get(_text_or_empty(fields.get("kind")), "internal")
    failure = fields.get("failure")
    return RunError(
        kind,
        _text_or_empty(fields.get("message")),
        _text_or_empty(fields.get("hint")),
        _parse_failure(failure) if isinstance(failure, dict) else None,
    )


def _parse_counts(value: object) -> OutcomeCounts:
    """Parse the counts of outcomes. Missing counts are 0."""
    known = value if isinstance(value, dict) else {}
    return OutcomeCounts(**{name: _int_or_zero(known.get(name)) for name in _COUNT_NAMES})


def _strings_or_empty(value: object) -> dict[str, str]:
    return {str(key): _text_or_empty(item) for key, item in value.items()} if isinstance(value, dict) else {}


def _list_or_empty(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _text_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""


def _int_or_zero(value: object) -> int:
    return value if isinstance(value, int) else 0


def _float_or_zero(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
