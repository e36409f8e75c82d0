"""The table of faults: each test that it names is there, and is run."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = (TESTS / "trust" / "README.md").read_text()
SETTINGS = (TESTS.parent / "server" / "SETTINGS.md").read_text()
TABLE = PAGE.partition("<!-- reliability -->")[2].partition("<!-- /reliability -->")[0]
SECURITY = (TESTS.parent / "SECURITY.md").read_text()
WHO = [
    row.strip("| ").split(" | ")
    for row in SECURITY.partition("## Who can do what")[2].partition("## What is promised")[0].splitlines()
    if row.startswith("| ") and not row.startswith(("| who |", "| --- |"))
]
"""The rows of the table of who can do what."""
ROWS = [row.strip("| ").split(" | ") for row in TABLE.strip().splitlines()[2:]]


def test_every_row_says_what_happens_and_names_a_test():
    assert len(ROWS) > 30
    for row in ROWS:
        assert len(row) == 3, row
        assert all(row), row


@pytest.mark.parametrize("named", [row[2] for row in ROWS])
def test_a_test_that_the_table_names_is_there(named):
    file, _, name = named.strip("`").partition("::")
    tree = ast.parse((TESTS / file).read_text())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert name.startswith("test_")
    assert name in {node.name for node in found}


@pytest.mark.parametrize("row", WHO, ids=lambda row: row[0])
def test_who_can_do_what_names_tests_that_are_there_but_of_root(row):
    named = re.findall(r"`(\S+\.py::\w+)`", row[3])
    assert named or row[0] == "Root"
    for one in named:
        test_a_test_that_the_table_names_is_there(one)


def test_rows_whose_tests_need_more_than_python_say_so():
    """A test that is skipped where nobody is root, or no browser is, shows nothing there."""
    for row in ROWS:
        if row[2].startswith(("`trust/test_browser", "`trust/test_kernel_floods", "`trust/test_strange_listeners")):
            assert re.search(r"\((as root on|where|on Linux)[^()]*\)$", row[1]), row


@pytest.mark.parametrize("setting", ["requireToken", "enableMcpReplEvaluation"])
def test_a_setting_that_the_security_page_names_is_there(setting):
    assert f"`{setting}" in (TESTS.parent / "SECURITY.md").read_text()
    assert f"| `{setting}` |" in SETTINGS
