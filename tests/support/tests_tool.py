"""Calls of the `run_tests` tool for its tests."""

from all_tools import BY_NAME
from jsonschema import validate

PLAIN = "[pytest]\naddopts = -p no:hypothesispytest -p no:xdist -p no:pytest_cov -p no:anyio\n"
"""A `pytest.ini` that disables the plugins in the tests' environment, which take half the time of a short run."""


def run_tests(client, **arguments):
    """Return the answer, which must match its output schema."""
    answer = client.call("run_tests", **arguments)
    validate(answer, BY_NAME["run_tests"].output)
    return answer


def counts(answer):
    """Return the number of tests and of each outcome."""
    assert "tests" in answer, answer
    return tuple(answer[key] for key in ("tests", "passed", "failed", "errors"))
