"""The accessors: the queries and changes that agents can request from the seam, by name.

`call` is the entry point for all of them. Arguments and answers are JSON objects. Accessors run on the caller's thread.
Reading causes no events.
"""

from __future__ import annotations

import json

from .changes import CHANGING_ACCESSORS
from .evaluation_origins import watch_cells, watch_hy
from .event_accessors import REFUSAL_SOURCE, issues, trace
from .recording import emit, is_reading, origin, seam
from .state_accessors import diff, epochs, state
from .state_frames import secrets, sensitive
from .status_accessors import handlers, health, machines, probe, reset_for_test
from .streams import STREAMING_ACCESSORS, subscribe
from .values import ACCESSOR_FAILED_REASON, Refusal, ValueFormatter, remove_secrets, safe_message, safe_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .recording import Accessor, Json
    from .streams import Write

SENSITIVE_ACCESSOR = "sensitive"
"""Name of the accessor that returns the values for the server to redact in the results of evaluated code."""
ACCESSORS: Mapping[str, Accessor] = {
    "health": health,
    "state": state,
    "epochs": epochs,
    "diff": diff,
    "trace": trace,
    "issues": issues,
    "handlers": handlers,
    "machines": machines,
    "probe": probe,
    "reset-for-test": reset_for_test,
    **STREAMING_ACCESSORS,
    **CHANGING_ACCESSORS,
}
"""The accessors that agents can use."""


def call(name: str, arguments: str = "{}", held: str = "null", write: Write | None = None) -> str:
    """Call an accessor with arguments in JSON, and return its answer as JSON.

    `held` is the origin of the call, a JSON object with `who` and `evaluation`. `write` receives the frames of a
    subscription. By default, they are written to the current standard output.
    """
    watch_cells()
    watch_hy()
    request, is_change = json.loads(arguments), name in CHANGING_ACCESSORS
    first, second = origin.set(json.loads(held)), is_reading.set(not is_change)
    try:
        answer = _answer(name, request, write)
        # The handler's exception is already an event.
        if is_change and answer.get("reason") not in (None, "handler-failed"):
            source = "change" if answer["reason"] == ACCESSOR_FAILED_REASON else REFUSAL_SOURCE
            emit("error", answer["reason"], frame=request.get("frame"), source=source, message=answer["hint"])
        is_reading.set(True)
        leaving = answer if name == SENSITIVE_ACCESSOR else _redact_and_cut(answer, request)
        return json.dumps(leaving, ensure_ascii=False, default=safe_repr)
    finally:
        is_reading.reset(second)
        origin.reset(first)


def _answer(name: str, request: Json, write: Write | None) -> Json:
    """Call an accessor and return its answer. A refusal is returned as an answer too."""
    function = sensitive if name == SENSITIVE_ACCESSOR else ACCESSORS.get(name)
    if seam.session_id is None:
        return Refusal(
            "not-enabled",
            "the seam is off. The application must call install(True), or be started with CODRIVER_SEAM=1",
        ).answer
    if function is None:
        return Refusal(
            "no-such-accessor", f"there is no accessor {name!r}. The accessors are: {', '.join(ACCESSORS)}"
        ).answer
    try:
        return {"ok": True, **(subscribe(request, write) if function is subscribe else function(request))}
    except Refusal as refusal:
        return refusal.answer
    except Exception as error:  # noqa: BLE001  # getters and predicates are the application's code
        return Refusal(ACCESSOR_FAILED_REASON, f"{type(error).__name__}: {safe_message(error)}").answer


def _redact_and_cut(answer: Json, request: Json) -> Json:
    """Remove secrets from an answer, then truncate its value to the requested range.

    This order prevents a secret from being cut in two and overlooked.
    """
    includes_sensitive = bool(request.get("includeSensitive"))
    clean: Json = answer if includes_sensitive else remove_secrets(answer, secrets())
    start, most = int(request.get("from") or 0), request.get("maxChars")
    value = clean.get("value")
    if isinstance(value, str) and (start or (most and len(value) > most)):
        clean = {**clean, "value": value[start : start + int(most or len(value))], "from": start, "total": len(value)}
    return clean


def show(value: Any, frame: str | None = None) -> str:
    """Format a value as accessors do, without secrets. `frame` names the frame that the value belongs to.

    This is for code whose results do not pass through `call`.
    """
    found = seam.frames.get(frame) if frame else None
    return str(remove_secrets(ValueFormatter(found.sensitive if found else ()).show(value), secrets()))
