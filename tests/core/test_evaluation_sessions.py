"""Which sessions an evaluation belongs to, for tools that list, choose and interrupt the evaluations of a session."""

import pytest

from codriver.core.evaluation_sessions import is_session_or_lane, session_keys
from codriver.core.evaluations import TEST_JOBS_REPL, Evaluation, Lane
from codriver.core.state import Lifecycle, Origin, Repl, Session, State

SESSIONS = [Session("main"), Session("agent", lane=Lane("agent", "agent", "")), Session("opened")]
REPL = Repl("r1", "py", Origin("address", "x:1"), "x:1", sessions={session.name: session for session in SESSIONS})
STATE = State(lifecycle=Lifecycle(phase="started", session_id="abcdef"), repls={"r1": REPL})
CASES = {
    "code in the main session": ("r1", "main", "evaluate", None, ("py",)),
    "code in a lane": ("r1", "agent", "evaluate", None, ("py/agent",)),
    "code in a session that was opened": ("r1", "opened", "evaluate", None, ("py/opened",)),
    "tests in the main session": ("r1", "main", "run-tests", None, ("py",)),
    "tests that were started in a lane": ("r1", "agent", "run-tests", None, ("py/agent", "py")),
    "tests in a session that was opened": ("r1", "opened", "run-tests", None, ("py/opened",)),
    "tests in a session that has been closed": ("r1", "closed", "run-tests", None, ("py/closed",)),
    "code in a REPL that is no longer known": ("r9", "main", "evaluate", None, ("r9",)),
    "a test run in its own process": (TEST_JOBS_REPL, "main", "run-tests", "py", ("py", "tests")),
    "a test run that has not started": (TEST_JOBS_REPL, "main", "run-tests", None, ("tests",)),
    "code in a frame of a failed test": (TEST_JOBS_REPL, "main", "evaluate", None, ("tests",)),
}


@pytest.mark.parametrize("case", CASES)
def test_an_evaluation_belongs_to_the_sessions_that_it_uses(case):
    repl, session, kind, interpreter_session, keys = CASES[case]
    evaluation = Evaluation("e1", 1, repl, session, "agent", "c1", None, "1", "running", kind=kind)
    assert session_keys(STATE, evaluation, interpreter_session) == keys


@pytest.mark.parametrize(
    ("session", "key", "is_included"),
    [
        ("py", "py", True),
        ("py/agent", "py", True),
        ("py/agent", "py/agent", True),
        ("py", "py/agent", False),
        ("py2", "py", False),
    ],
)
def test_the_key_of_a_repl_includes_its_lanes(session, key, is_included):
    assert is_session_or_lane(session, key) is is_included
