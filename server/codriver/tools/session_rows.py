"""Describe REPLs and sessions in an answer, with one object for each."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from codriver.core.evaluations import OCCUPYING_STATUSES
from codriver.core.state import first_answer_warnings, outside_workspace_warning
from codriver.repls.contract.capabilities import CAPABILITIES

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from codriver.core.evaluations import Evaluation
    from codriver.core.profiles import Profile
    from codriver.core.state import Repl, Session, State


def running_field(running: Evaluation | None) -> dict[str, object]:
    """Return a field of an answer about the evaluation running in a session, or no field if there is none."""
    if running is None:
        return {}
    return {"running": {"evaluationId": running.id, "who": running.who, "code": running.head}}


def format_iso_time(epoch_ms: int) -> str:
    """Format a time as ISO 8601 in UTC, without fractions of seconds."""
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="seconds")


def repl_row(repl: Repl) -> dict[str, object]:
    """Return the main properties of a REPL as a JSON object for an answer."""
    row: dict[str, object] = {
        "key": repl.key,
        "phase": repl.phase,
        "origin": repl.origin.text,
        "kind": repl.origin.kind,
        "dialect": repl.dialect,
        "generation": repl.generation,
    }
    if repl.address:
        row["address"] = repl.address
    if repl.note:
        row["note"] = repl.note
    return row


def session_row(state: State, repl: Repl, session: Session, names: Sequence[str] = CAPABILITIES) -> dict[str, object]:
    """Describe a session in a JSON object, with its REPL's capabilities and the reasons why others are missing."""
    row = {**repl_row(repl), "key": repl.session_key(session.name)}
    if session.namespace:
        row["ns"] = session.namespace
    if session.last_activity:
        row["lastActivity"] = format_iso_time(session.last_activity)
    if session.who:
        row["who"] = session.who
    if session.is_leaving:
        row["note"] = "the session's client has disconnected, and the session ends when its code finishes"
    row |= running_field(running_evaluation(state, repl, session))
    if repl.profile is not None:
        row |= _profile_fields(repl, repl.profile, names, state.rare)
        if outside_workspace_warning(state, repl):
            row["elsewhere"] = True
        notes = [*first_answer_warnings(state, repl), *([repl.remark] if repl.remark else []), *repl.profile.notes]
        if notes:
            row["notes"] = notes
    return row


def _profile_fields(repl: Repl, profile: Profile, names: Sequence[str], rare: Collection[str]) -> dict[str, object]:
    """Return the fields about a session that the REPL reported when it connected."""
    capabilities: dict[str, dict[str, object]] = {}
    for name in names:
        if name == "restart" and repl.is_owned:
            capabilities[name] = {"support": "native", "op": "codriver"}
        elif name in profile.capabilities:
            support = profile.capabilities[name]
            capabilities[name] = {"support": "adapted" if support.adapted else "native", "op": support.op}
    row: dict[str, object] = {
        "capabilities": capabilities,
        "versions": dict(profile.versions),
        "isolation": profile.isolation,
    }
    # A caller that needs a rare capability gets the reason why it is missing.
    missing = {name: how for name, how in profile.missing.items() if name not in capabilities and name not in rare}
    if missing:
        row["missing"] = missing
    if profile.process_id:
        row["processId"] = profile.process_id
    if profile.project_root:
        row["projectRoot"] = profile.project_root
    return row


def running_evaluation(state: State, repl: Repl, session: Session) -> Evaluation | None:
    """Return the evaluation running in a session, or None."""
    for evaluation in state.unfinished():
        if evaluation.status in OCCUPYING_STATUSES and (evaluation.repl, evaluation.session) == (repl.id, session.name):
            return evaluation
    return None
