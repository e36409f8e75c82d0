"""What tests need: anything that may not be installed is skipped and reported, in one way."""

import re
from pathlib import Path
from types import SimpleNamespace

import needs
import pytest

TESTS = Path(__file__).parents[1]
OTHER_WAYS = re.compile(r"importorskip\(|(pytest\.skip|skipif|pytest\.fail)\([^\n]*install")


def test_tests_check_for_missing_requirements_only_through_one_helper():
    for path in TESTS.rglob("*.py"):
        is_installed = {"node_modules", ".venv", "out"} & set(path.relative_to(TESTS).parts)
        if path.name not in ("needs.py", Path(__file__).name) and not is_installed:
            found = OTHER_WAYS.search(path.read_text())
            assert found is None, f"{path.relative_to(TESTS)}: {found and found[0]}: see tests/support/needs.py"


def starts_a_repl(serving):
    return serving("--repl", "nbb")


def evaluates(client):
    return client.call("evaluate_code", code="1")


@pytest.mark.parametrize(
    ("function", "given", "fixtures", "is_asking"),
    [
        (evaluates, [], [], False),
        (starts_a_repl, [], [], True),
        (evaluates, [], [starts_a_repl], True),
        (evaluates, ["deps.edn"], [], True),
        (evaluates, ["jvm"], [starts_a_repl], True),
        (evaluates, ["basilisp"], [starts_a_repl], False),
    ],
)
def test_the_run_without_optional_dependencies_includes_every_test_that_may_need_one(
    function, given, fixtures, is_asking
):
    defined = {fixture.__name__: [SimpleNamespace(func=fixture)] for fixture in fixtures}
    item = SimpleNamespace(
        function=function, callspec=SimpleNamespace(params=dict(enumerate(given))), get_closest_marker=lambda _: None,
        _fixtureinfo=SimpleNamespace(name2fixturedefs=defined),
    )  # fmt: skip
    assert needs.may_lack_something(item) is is_asking
