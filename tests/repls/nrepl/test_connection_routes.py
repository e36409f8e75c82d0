"""Which connection serves a session of an nREPL server."""

import pytest

from codriver.core.requests import TEST_SESSION
from codriver.repls.nrepl.connection_routes import TOOL_SESSION, Route, choose_route

CALLERS = "s1"


@pytest.mark.parametrize(
    ("name", "keeps_apart", "shares_names", "has_joining", "expected"),
    [
        (CALLERS, "none", False, False, Route.REFUSED),
        (CALLERS, "none", True, True, Route.REFUSED),
        (TOOL_SESSION, "none", False, False, Route.MAIN),
        (TEST_SESSION, "none", False, False, Route.MAIN),
        (CALLERS, "connection", False, False, Route.SEPARATE_CONNECTION),
        (CALLERS, "connection", True, True, Route.SEPARATE_CONNECTION),
        (TOOL_SESSION, "connection", False, False, Route.SEPARATE_CONNECTION),
        (CALLERS, "session", False, False, Route.CLONE_APART),
        (CALLERS, "session", False, True, Route.CLONE_APART),
        (CALLERS, "session", True, True, Route.CLONE_JOINED),
        (CALLERS, "session", True, False, Route.CLONE),
        (TOOL_SESSION, "session", False, True, Route.CLONE),
        (CALLERS, None, False, False, Route.CLONE_APART),
        (TEST_SESSION, None, False, False, Route.CLONE),
    ],
)
def test_a_session_uses_the_connection_that_isolates_its_names(name, keeps_apart, shares_names, has_joining, expected):
    assert choose_route(name, keeps_apart, shares_names=shares_names, has_joining=has_joining) is expected
