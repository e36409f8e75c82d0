"""The table of faults: each test that it names is there, and is run."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = (TESTS / "trust" / "README.md").read_text()
SETTINGS = (TESTS.parent / "server" / "SETTINGS.md").read_text()
TABLE = PAGE.partition("<!-- reliability -->")[2].partition("<!-- /reliability -->")[0]
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


@pytest.mark.parametrize("setting", ["requireToken", "enableMcpReplEvaluation"])
def test_a_setting_that_the_security_page_names_is_there(setting):
    assert f"`{setting}" in (TESTS.parent / "SECURITY.md").read_text()
    assert f"| `{setting}` |" in SETTINGS
