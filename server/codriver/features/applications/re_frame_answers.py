"""Convert data from re-frame applications to answers in the format of the seam."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

Fields = Mapping[str, Any]


def convert_answer(accessor: str, answer: object) -> Fields:
    """Convert the data that a form returned to the result of its accessor."""
    if not isinstance(answer, dict):
        return {"ok": False, "reason": "accessor-failed", "hint": f"the application returned {str(answer)[:200]!r}"}
    if not answer.get("ok"):
        return _convert_refusal(answer)
    reader = _READERS_BY_ACCESSOR.get(accessor)
    return {
        "ok": True,
        **(reader(answer) if reader else {key: value for key, value in answer.items() if value is not None}),
    }


REASONS_BY_ERROR: Final[Mapping[str, str]] = {
    "during-drain": "during-drain",
    "unknown-epoch": "unknown-epoch",
    "non-ok-record": "non-ok-record",
    "schema-mismatch": "schema-mismatch",
    "missing-handler": "missing-handler",
    "version-mismatch": "version-mismatch",
    "no-such-handler": "no-such-frame",
}
"""Reasons for refusals, by the last part of the error's name in the trace.

Source: the failure modes in the docstrings of the framework's `restore-epoch` and `reset-frame-db!`.
"""


def _convert_refusal(answer: Fields) -> Fields:
    """Return a refusal with its cause, even if only the framework's trace records the cause."""
    cause = answer.get("cause")
    if not cause:
        others = {key: value for key, value in answer.items() if value is not None and key not in ("cause", "details")}
        return {**others, "hint": escape_invisible_characters(str(answer.get("hint", "")))}
    reason = next((reason for end, reason in REASONS_BY_ERROR.items() if cause.endswith(end)), "accessor-failed")
    details = " ".join([f"{name}={value}" for name, value in sorted((answer.get("details") or {}).items())])
    return {"ok": False, "reason": reason, "hint": escape_invisible_characters(f"{cause} {details}".strip())}


ROLES_BY_BAND: Final[Mapping[str, tuple[str, ...]]] = {
    "inspect": ("frames", "db"),
    "trace": ("trace",),
    "epochs": ("epochs",),
    "mutate": ("dispatch", "dispatch-sync"),
    "restore": ("restore",),
    "reset": ("reset",),
    "handlers": ("handlers",),
    "machines": ("machines",),
    "sensitive": ("sensitive",),
}
"""Maps each band, which is a group of accessors, to the roles (functions of the framework) that it requires."""


def _bands(answer: Fields) -> dict[str, object]:
    has, words = answer["has"], answer.get("missing") or {}
    bands: dict[str, object] = {"stream": words["stream"]}
    for band, roles in ROLES_BY_BAND.items():
        lacking = [role for role in roles if not has.get(role)]
        bands[band] = (
            "; ".join(
                [words.get(role) or f"this version of the framework has no function for {role}" for role in lacking]
            )
            or True
        )
    if not answer["enabled"]:
        bands = dict.fromkeys(bands, "the framework was built or started without its debug mode")
    if bands["machines"] is True and not answer["machines"]:
        bands["machines"] = "no machine is registered"
    if bands["sensitive"] is True and not answer["declared"]:
        bands["sensitive"] = "no path is marked as sensitive, so nothing is hidden"
    return bands


def _health(answer: Fields) -> Fields:
    keys = ("sessionId", "language", "enabled", "frames", "ambiguousFrame", "pid", "lastId", "events", "handlers",
            "coordAnnotation")  # fmt: skip
    return {"contract": 1, **{key: answer[key] for key in keys if answer.get(key) is not None}, "bands": _bands(answer)}


def _epochs(answer: Fields) -> Fields:
    return {**answer, "epochs": [{**row, "origin": row.get("origin") or "?"} for row in answer["epochs"]]}


def escape_invisible_characters(text: str) -> str:
    """Escape invisible characters in a string, because it may come from users of the application."""
    return (
        text
        if text.isprintable()
        else "".join([character if character.isprintable() else ascii(character)[1:-1] for character in text])
    )


_REDUNDANT_TAGS: Final = frozenset(
    {"event", "trace-id", "rf/dispatch-origin", "failing-id", "exception-message", "sync?"}
)
"""Tags to omit from a line because its other parts contain the same information."""


def format_event(row: Fields, *, with_position: bool = False) -> str:
    """Format an event as one line.

    The line contains the id, op-type, operation, frame, event, dispatch, time, origin, failure and tags.
    """
    words = [row["id"], row["opType"], row["operation"]]
    if row.get("frame") or row.get("eventId"):
        words += [row.get("frame") or "-", *([row["eventId"]] if row.get("eventId") else [])]
    words += [f"d{row['dispatchId']}"] if row.get("dispatchId") is not None else []
    words += [f"{row['ms']:.3g}ms"] if row.get("ms") is not None else []
    words += [f"by={row['origin']}"] if row.get("origin") not in (None, "app") else []
    words += [row["failure"]] if row.get("failure") else []
    words += [f"at {row['place']}"] if with_position and row.get("place") else []
    words += [f"{name}={value}" for name, value in sorted(row["tags"].items()) if name not in _REDUNDANT_TAGS]
    return escape_invisible_characters(" ".join(map(str, words)))


def _trace(answer: Fields) -> Fields:
    others = {key: value for key, value in answer.items() if key != "events"}
    return {**others, "lines": [format_event(row) for row in answer["events"]]}


def _times(line: str, times: int) -> str:
    return f"{line} \N{MULTIPLICATION SIGN}{times}" if times > 1 else line


def _grouped(rows: list[Fields], key: Callable[[Fields], object]) -> list[list[Fields]]:
    groups: dict[object, list[Fields]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return list(groups.values())


def _issue_lines(answer: Fields) -> Fields:
    """Return a line for each distinct error, followed by a line for each warning."""
    errors = [row for row in answer["events"] if row["opType"] != "warning"]
    warnings = [row for row in answer["events"] if row["opType"] == "warning"]
    lines = [
        _times(format_event(rows[-1], with_position=True), len(rows))
        for rows in _grouped(errors, lambda row: (row["operation"], row["frame"], row["eventId"], row["failure"]))
    ]
    lines += [
        _times(format_event(rows[-1], with_position=True), len(rows))
        for rows in _grouped(warnings, lambda row: row["operation"])
    ]
    return {"lines": lines, "count": len(lines), "total": answer["total"], "lastId": answer["lastId"]}


def _changed(answer: Fields) -> Fields:
    unknown = answer.get("unknown")
    others = {key: value for key, value in answer.items() if value not in (None, 0) and key != "unknown"}
    return {**others, "notes": [f"unknown: {unknown}"]} if unknown else others


_READERS_BY_ACCESSOR: Final[Mapping[str, Callable[[Fields], Fields]]] = {
    "health": _health,
    "epochs": _epochs,
    "trace": _trace,
    "issues": _issue_lines,
    "dispatch": _changed,
}
"""Functions that convert the results of the forms to the format of the seam, by accessor."""
