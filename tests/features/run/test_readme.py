"""The list of promises in the README names only existing tests and benchmarks."""

import ast
import re
from pathlib import Path

import needs
import pytest

TESTS = Path(__file__).parents[2]
PAGE = Path(__file__).with_name("README.md").read_text()
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ") and "`" in line]
NAMED = re.compile(r"`([\w/]+\.py)(?:::(test_\w+))?`")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_promise_in_the_readme_names_existing_tests(row):
    needs.every_feature()
    promise, tests = row
    assert promise
    assert re.fullmatch(rf"(?:{NAMED.pattern}(?:, |$))+", tests)
    for file, name in NAMED.findall(tests):
        tree = ast.parse((TESTS / file).read_text())
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in functions if name else file.startswith("bench/")


def test_every_row_of_the_readme_tables_is_checked():
    heads = sum(line.startswith("| ---") for line in PAGE.splitlines())
    assert len(ROWS) == sum(line.startswith("| ") for line in PAGE.splitlines()) - 2 * heads
