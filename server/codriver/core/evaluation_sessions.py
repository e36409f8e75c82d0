"""Find the sessions that an evaluation belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.requests import MAIN_SESSION

if TYPE_CHECKING:
    from codriver.core.evaluations import Evaluation
    from codriver.core.state import State


def session_keys(state: State, evaluation: Evaluation, interpreter_session: str | None = None) -> tuple[str, ...]:
    """Return the keys of all sessions to which an evaluation belongs, even if their REPL has been dropped.

    1. Code belongs to the session that it was sent to.
    2. Tests in a REPL that were started in a lane belong to the lane, and to the main session, where they run.
    3. A test run in its own process belongs to `interpreter_session`, the session whose interpreter it uses, if that is
       known, and to `tests`. Code in a frame of a failed test belongs to `tests`.
    """
    key = state.evaluation_session_key(evaluation)
    if evaluation.is_job:
        return (key,) if interpreter_session is None else (interpreter_session, key)
    repl = state.repls.get(evaluation.repl)
    session = repl.sessions.get(evaluation.session) if repl is not None else None
    if repl is not None and session is not None and session.lane is not None and evaluation.kind == "run-tests":
        return key, repl.session_key(MAIN_SESSION)
    return (key,)


def is_session_or_lane(session: str, key: str) -> bool:
    """Return whether a session has the key `key`, or is a lane in the REPL with this key."""
    return session == key or session.startswith(f"{key}/")
