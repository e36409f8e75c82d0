"""Filters that select recorded events by their fields."""

from __future__ import annotations

from .recording import CAUSE, EVENT, FRAME, HANDLER, ID, NAME, OP, ORIGIN, SOURCE, TIME, origin_who, seam
from .values import ACCESSOR_FAILED_REASON, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .recording import Event, Json

EVENT_FIELDS = ("id", "time", "opType", "operation", "frame", "eventId", "handlerId", "source", "origin", "dispatchId",
                "ms", "tags")  # fmt: skip
"""The names of an event's fields, in order."""
EQUALITY_FILTERS = {"opType": OP, "operation": NAME, "frame": FRAME, "eventId": EVENT, "handlerId": HANDLER,
                    "source": SOURCE, "dispatchId": CAUSE}  # fmt: skip
"""Filters that compare a field for equality, each with the index of the field."""
FILTER_NAMES = (*EQUALITY_FILTERS, "severity", "origin", "since", "sinceMs", "between", "pred")
"""The names of all filters."""
SEVERITIES = ("error", "warning", "info")


def make_event_filter(request: Json) -> Callable[[Event], bool]:
    """Return a function that checks whether an event matches all fields of a filter.

    Raises:
        Refusal: the filter has an unknown field, or names an unknown predicate.
    """
    if strange := [name for name in request if name not in FILTER_NAMES]:
        raise Refusal(
            ACCESSOR_FAILED_REASON, f"there is no filter {strange[0]!r}. The filters are {', '.join(FILTER_NAMES)}"
        )
    if request.get("severity", SEVERITIES[0]) not in SEVERITIES:
        raise Refusal(ACCESSOR_FAILED_REASON, f"severity must be one of {', '.join(SEVERITIES)}")
    equal = [(EQUALITY_FILTERS[name], request[name]) for name in EQUALITY_FILTERS if name in request]
    equal += [(OP, request["severity"])] if "severity" in request else []
    tests: list[Callable[[Event], Any]] = [
        lambda event, index=index, expected=expected: event[index] == expected  # type: ignore[misc]  # bound early
        for index, expected in equal
    ]
    tests += [_FILTER_TESTS[name](value) for name, value in request.items() if name in _FILTER_TESTS]
    return lambda event: all(test(event) for test in tests)


def _origin_test(expected: Any) -> Callable[[Event], Any]:
    """Return a function that checks whether an event was caused by this caller or evaluation."""
    return lambda event: expected in (origin_who(event[ORIGIN]), (event[ORIGIN] or {}).get("evaluation"))


def _since_test(number: Any) -> Callable[[Event], Any]:
    """Return a function that checks whether an event is newer than the event with this number."""
    return lambda event: event[ID] > number


def _since_ms_test(epoch_ms: Any) -> Callable[[Event], Any]:
    """Return a function that checks whether an event is newer than a time in milliseconds since the Unix epoch."""
    return lambda event: event[TIME] * 1000 > epoch_ms


def _between_test(times: Any) -> Callable[[Event], Any]:
    """Return a function that checks whether an event occurred between two times.

    The times are in milliseconds since the Unix epoch.
    """
    first, last = times
    return lambda event: first <= event[TIME] * 1000 <= last


def _predicate_test(name: Any) -> Callable[[Event], Any]:
    """Return a function that checks events with the registered predicate of this name.

    Raises:
        Refusal: no predicate has this name.
    """
    test = seam.predicates.get(name)
    if test is None:
        raise Refusal(
            "no-such-predicate",
            f"there is no predicate {name!r}. The registered predicates are: {', '.join(seam.predicates) or 'none'}",
        )
    registered = test
    return lambda event: registered(event_fields(event))


_FILTER_TESTS = {
    "origin": _origin_test,
    "since": _since_test,
    "sinceMs": _since_ms_test,
    "between": _between_test,
    "pred": _predicate_test,
}
"""The functions that create the tests for filters other than `EQUALITY_FILTERS`, by the name of the filter."""


def event_fields(event: Event) -> Json:
    """Convert an event to a mapping of its fields, omitting those that are None."""
    return {name: value for name, value in zip(EVENT_FIELDS, event) if value is not None}
