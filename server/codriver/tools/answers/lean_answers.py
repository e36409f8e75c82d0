"""Lean answers: of the full description of an evaluation, only what its reader cannot know.

The rule, and the only place where it is kept. An answer leaves out
`status` where it is `done`, or the reason says that the evaluation failed; `evaluationId` where the reader gave it, or
the evaluation is done and there is no note on it but that it is the same again; `sessionKey` where the reader named it,
or would get that session without naming any; `who` where that is the reader; `generation` and `ns` where they are those
of the reader's last answer of this session, or the namespace it gave; no `notes`; `elapsedMs` under 100, and of what is
not over where the answer goes on from one before; `outputLines` of what is not cut, where it printed nothing or the
answer goes on from one before; Python's `None` as `result` and among `values`; of an error `form` 1, frames
that are not the project's, and the report of it in `stderr`; the hint of `evaluation-failed`, but at the second
failure of the same code. With `detail: true`
nothing is left out, nor of what the command line asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from codriver.core import activity
from codriver.core.records import dataclass
from codriver.core.values import LIVE
from codriver.errors import RefusedError
from codriver.tools.answers.error_reports import shortened, without_report
from codriver.tools.calls.base import UNLISTED, Arguments
from codriver.tools.calls.client_traits import traits_of
from codriver.tools.calls.session_choice import own

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.state import Seen
    from codriver.core.values import Evaluation
    from codriver.tools.calls.base import Call

FAILED_AGAIN = (
    "it failed a second time: trace tells its calls, stacktrace numbers frames, evaluate_code with frame looks in one"
)
"""The hint at the second failure of the same code or test, which is never left out."""
AND_TRACE = '; trace: "true" records the calls of the next run'
"""Its end where calls can be recorded."""
AT_ONCE_MS = 100
"""An evaluation that takes less took no time for its reader."""


class Evaluating(Arguments):
    """The arguments that all tools share whose answers describe an evaluation."""

    detail: bool | None = Field(None, json_schema_extra={UNLISTED: True})
    """Whether every field is wanted; left to who asks if None. Listed with `evaluate_code`, taken by all."""
    asks_status: ClassVar[bool] = False
    """Whether the question is how an evaluation stands, so that the answer always says so."""


@dataclass(frozen=True, slots=True)
class Reader:
    """The knowledge of an answer's reader, before it reads: what it asked, and what its last answer said."""

    who: str
    session_key: str | None = None
    """The session it named, or gets without naming any."""
    namespace: str | None = None
    """The one it named."""
    evaluation: str | None = None
    """The one it named."""
    seen: Seen | None = None
    """The standing of this session by its last answer."""
    asks_status: bool = False
    workspace: str = ""
    reads_python: bool = False

    @property
    def namespace_seen(self) -> str | None:
        """The namespace of the session by its last answer."""
        return self.seen.namespace if self.seen else None


def wants_detail(call: Call, arguments: Evaluating) -> bool:
    """Whether nothing is to be left out."""
    return traits_of(call.client_name).wants_detail if arguments.detail is None else arguments.detail


def reader_of(
    call: Call, arguments: Evaluating, who: str, evaluation: Evaluation, session: str, own_session: str | None = None
) -> Reader:
    """The reader of an answer to these arguments, the caller `who`, about this evaluation in this session.

    `own_session`: the key of the one that it gets where it names none, if that is known.
    """
    state = call.services.core.state
    repl, told = state.repls.get(evaluation.repl), activity.told_to(state, call.client, who)
    seen = told.seen.get(session) if told else None
    reads_python = repl is not None and repl.dialect == "python"
    return reader_with(call, arguments, who, seen, reads_python=reads_python, own_session=own_session)


def reader_with(
    call: Call,
    arguments: Evaluating,
    who: str,
    seen: Seen | None = None,
    *,
    reads_python: bool = False,
    own_session: str | None = None,
) -> Reader:
    """The reader of an answer to these arguments, the caller `who`, as far as they and what it has `seen` tell."""
    given = arguments.__dict__
    return Reader(
        who=who,
        session_key=given.get("repl_session_key") or own_session or _only_session(call, who),
        namespace=given.get("namespace"),
        evaluation=given.get("evaluation_id"),
        seen=seen,
        asks_status=arguments.asks_status,
        workspace=str(call.services.workspace),
        reads_python=reads_python,
    )


def _only_session(call: Call, who: str) -> str | None:
    try:
        return own(call, None, who).key
    except RefusedError:
        return None


def lean(
    fields: Mapping[str, object], reader: Reader, *, is_cut: bool = False, is_named: bool = True
) -> dict[str, object]:
    """The fields of a full description that this reader cannot know.

    `is_cut`: some of its text is left out. `is_named`: of the notes on it some may ask for its id.
    """
    if "error" in fields:
        fields = _with_short_error(fields, reader.workspace)
    is_known = _known(fields, reader, is_cut=is_cut, is_named=is_named)
    kept = {key: value for key, value in fields.items() if key not in is_known or not is_known[key]}
    if reader.reads_python:
        _leave_out_none(kept)
    return kept


def _with_short_error(fields: Mapping[str, object], workspace: str) -> Mapping[str, object]:
    """The fields with the error in few words, and no report of it at the end of what was printed."""
    error, stderr = fields.get("error"), fields.get("stderr")
    if not isinstance(error, dict):
        return fields
    short: dict[str, object] = shortened(error, workspace)
    changed = {**fields, "error": short}
    if isinstance(stderr, str):
        rest, causes = without_report(stderr, error, workspace)
        changed["stderr"] = rest
        if causes:
            short["causes"] = causes
    return {key: value for key, value in changed.items() if key != "stderr" or value}


def _known(fields: Mapping[str, object], reader: Reader, *, is_cut: bool, is_named: bool) -> Mapping[str, bool]:
    """Whether the reader knows a field, by its name; it knows none of those that are not here."""
    get, seen = fields.get, reader.seen
    is_done, has_failed = get("status") == "done", get("reason") == "evaluation-failed"
    elapsed, namespace, notes = get("elapsedMs"), get("ns"), get("notes")
    goes_on = "from" in fields or "stderrFrom" in fields
    return {
        "status": (is_done or has_failed) and not reader.asks_status,
        "evaluationId": get("evaluationId") == reader.evaluation or (is_done and not (notes and is_named)),
        "sessionKey": get("sessionKey") == reader.session_key,
        "who": get("who") == reader.who,
        "generation": seen is not None and get("generation") == seen.generation,
        "ns": namespace == reader.namespace or (seen is not None and namespace == seen.namespace),
        "notes": not notes,
        "elapsedMs": (type(elapsed) is int and elapsed < AT_ONCE_MS) or (goes_on and get("status") in LIVE),
        "outputLines": not is_cut and (goes_on or not (get("stdout") or get("stderr"))),
        "hint": has_failed and not str(get("hint")).startswith(FAILED_AGAIN),
    }


def _leave_out_none(fields: dict[str, object]) -> None:
    """Take `None` out of the values, as Python's own prompt does, and the values where the result is all of them."""
    result, values = fields.get("result"), fields.get("values")
    if result == "None":
        del fields["result"]
    if isinstance(values, list):
        told = [value for value in values if value != "None"]
        if told in ([], [result]):
            del fields["values"]
        else:
            fields["values"] = told
