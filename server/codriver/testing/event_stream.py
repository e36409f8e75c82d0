"""The events of a test process, read from the file that it writes.

The process runs the project's code, so nothing is taken on trust: lines that are no events are passed over.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, get_args

from codriver.testing.runs import (
    Collected,
    Counts,
    Event,
    FailureFrame,
    Interruption,
    LinkedError,
    Outcome,
    Phase,
    ProblemKind,
    Recorded,
    RunProblem,
    SecretsSeen,
    TestFailure,
    TestFinished,
    TestStarted,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_LINE_BYTES: Final = 2**26
"""The longest event. A record of all functions that twenty thousand tests executed is shorter."""
_OUTCOMES: Final[Mapping[str, Outcome]] = {one: one for one in get_args(Outcome)}
_PHASES: Final[Mapping[str, Phase]] = {one: one for one in get_args(Phase)}
_PROBLEMS: Final[Mapping[str, ProblemKind]] = {one: one for one in get_args(ProblemKind)}
_COUNTS: Final = tuple(one.name for one in fields(Counts))


@dataclass(frozen=True, slots=True)
class End:
    """What the process itself reported at the end of its run."""

    status: int | None
    counts: Counts
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class EventStream:
    """Reads the events of one run, and keeps what belongs to its end."""

    end: End | None = None
    interruption: Interruption | None = None
    problem: RunProblem | None = None
    _rest: bytes = b""
    _is_skipping: bool = False
    status: int | None = None
    """The exit status of a process that is kept, and does not exit."""
    kept: Mapping[str, Any] | None = None
    """What a process that is kept reports of the failure: see `read_kept`."""
    not_kept: str = ""

    def feed(self, data: bytes) -> list[Event]:
        """Return the events in the next bytes of the file."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MOST_LINE_BYTES:
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
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(found, dict):
            return None
        match found.get("event"):
            case "collected":
                names = tuple(_text(one) for one in _list(found.get("nodeids")))
                return Collected(_number(found.get("count")), _number(found.get("deselected")), names)
            case "started":
                return TestStarted(_text(found.get("nodeid")))
            case "test":
                return _finished(found)
            case "recorded":
                return Recorded(_text(found.get("recorder")), found.get("data"), _text(found.get("problem")))
            case "secrets":
                pairs = [one for one in _list(found.get("named")) if isinstance(one, list) and len(one) == 2]
                return SecretsSeen(tuple((_text(name), _text(value)) for name, value in pairs))
            case _:
                self._note(found)
        return None

    def _note(self, found: Mapping[str, Any]) -> None:
        """Keep what belongs to the end of the run."""
        match found.get("event"):
            case "interrupted":
                frames = _frames(found.get("frames"))
                self.interruption = Interruption(_text(found.get("nodeid")), frames, _text(found.get("reason")))
            case "problem":
                if self.problem is None:
                    self.problem = _problem(found)
            case "finished":
                warnings = tuple(_text(one) for one in _list(found.get("warnings")))
                status = found.get("status")
                self.end = End(status if isinstance(status, int) else None, _counts(found.get("counts")), warnings)
            case "status":
                status = found.get("status")
                self.status = status if isinstance(status, int) else None
            case "kept":
                self.kept = found
            case "not-kept":
                self.not_kept = _text(found.get("reason"))


def read_kept(found: Mapping[str, Any]) -> tuple[str, tuple[FailureFrame, ...]]:
    """Return the test whose failure a process keeps, and its frames."""
    return _text(found.get("nodeid")), _frames(found.get("frames"))


def _finished(found: Mapping[str, Any]) -> TestFinished | None:
    outcome = _OUTCOMES.get(_text(found.get("outcome")))
    if outcome is None:
        return None
    line = found.get("line")
    return TestFinished(
        nodeid=_text(found.get("nodeid")),
        outcome=outcome,
        seconds=_seconds(found.get("seconds")),
        failures=tuple(_failure(one) for one in _list(found.get("failures")) if isinstance(one, dict)),
        reason=_text(found.get("reason")),
        file=_text(found.get("file")) or None,
        line=line if isinstance(line, int) else None,
        is_collector=found.get("collector") is True,
        worker=_text(found.get("worker")),
        reruns=_number(found.get("reruns")),
    )


def _failure(found: Mapping[str, Any]) -> TestFailure:
    chain = [_linked(one) for one in _list(found.get("chain")) if isinstance(one, dict)]
    sections = [one for one in _list(found.get("sections")) if isinstance(one, list) and len(one) == 2]
    return TestFailure(
        phase=_PHASES.get(_text(found.get("phase")), "call"),
        type=_text(found.get("type")),
        message=_text(found.get("message")),
        text=_text(found.get("text")),
        frames=_frames(found.get("frames")),
        sections=tuple((_text(title), _text(text)) for title, text in sections),
        chain=tuple(chain),
        part=_text(found.get("part")),
        called=_frames(found.get("called")),
    )


def _linked(found: Mapping[str, Any]) -> LinkedError:
    relation, kind, message = (_text(found.get(key)) for key in ("relation", "type", "message"))
    return LinkedError(relation, kind, message, _frames(found.get("frames")))


def _frames(found: object) -> tuple[FailureFrame, ...]:
    return tuple(
        FailureFrame(
            _text(one.get("file")), _number(one.get("line")), _text(one.get("function")), _texts(one.get("locals"))
        )
        for one in _list(found)
        if isinstance(one, dict)
    )


def _problem(found: Mapping[str, Any]) -> RunProblem:
    kind = _PROBLEMS.get(_text(found.get("kind")), "internal")
    failure = found.get("failure")
    return RunProblem(
        kind,
        _text(found.get("message")),
        _text(found.get("hint")),
        _failure(failure) if isinstance(failure, dict) else None,
    )


def _counts(found: object) -> Counts:
    known = found if isinstance(found, dict) else {}
    return Counts(**{name: _number(known.get(name)) for name in _COUNTS})


def _texts(found: object) -> dict[str, str]:
    return {str(key): _text(one) for key, one in found.items()} if isinstance(found, dict) else {}


def _list(found: object) -> Sequence[Any]:
    return found if isinstance(found, list) else ()


def _text(found: object) -> str:
    return found if isinstance(found, str) else ""


def _number(found: object) -> int:
    return found if isinstance(found, int) else 0


def _seconds(found: object) -> float:
    return float(found) if isinstance(found, int | float) else 0.0
