"""How the tests of `run_tests` ask it."""

from all_tools import BY_NAME
from jsonschema import validate

PLAIN = "[pytest]\naddopts = -p no:hypothesispytest -p no:xdist -p no:pytest_cov -p no:anyio\n"
"""A `pytest.ini` that leaves out the plugins of our own environment, which take half the time of a short run."""


def ask(client, **arguments):
    """The answer, which fits its output schema."""
    answer = client.call("run_tests", **arguments)
    validate(answer, BY_NAME["run_tests"].output)
    return answer


def counts(answer):
    """How many tests there were, and how they ended."""
    assert "tests" in answer, answer
    return tuple(answer[key] for key in ("tests", "passed", "failed", "errors"))
