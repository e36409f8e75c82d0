"""The security promises and the table of faults: each names tests that exist and where they run."""

import ast
import functools
import re
from pathlib import Path

import needs
import pytest

TESTS = Path(__file__).parents[1]
PAGE = (TESTS / "trust" / "README.md").read_text()
SETTINGS = (TESTS.parent / "docs" / "reference" / "settings.md").read_text()
SECURITY = (TESTS.parent / "SECURITY.md").read_text()
MAX_LINES = 150
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`(?:\s+(\([^()]+\)))?")
"""A test, and the words in brackets on where it runs."""
SKIPPED = re.compile(
    r"pytest\.skip\(|skipif|importorskip|\bneeds[._]|do_without|real_kernels|real_repls|jupyter_servers"
)
"""The text of a test, or of what it is given, that may be skipped where something is missing."""


def between(text, start, end):
    return text.partition(start)[2].partition(end)[0]


def rows(table):
    """Return the rows of a table without its head."""
    lines = [line.strip("| ").split(" | ") for line in table.strip().splitlines() if line.startswith("| ")]
    return [line for line in lines[1:] if set(line[0]) != {"-"}]


FAULTS = rows(between(PAGE, "<!-- reliability -->", "<!-- /reliability -->"))
WHO = rows(between(PAGE, "## Who can do what", "## What is promised"))
PROMISES = re.split(r"\n(?=- )", PAGE.partition("## What is promised\n")[2].strip())[1:]


@functools.cache
def module(file):
    """Return a module of tests as a mapping of its top-level names."""
    found = {}
    for node in ast.parse((TESTS / file).read_text()).body:
        names = [node.name] if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else []
        if isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        for inner in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                found[inner.name] = inner
        found |= dict.fromkeys(names, node)
    return found


def is_skipped_somewhere(file, name):
    """Return whether a test may be skipped, judging by its source and that of what it uses in its module."""
    found, seen, todo = module(file), set(), [name, "pytestmark"]
    while todo:
        if (item := todo.pop()) in seen or item not in found:
            continue
        seen.add(item)
        if SKIPPED.search(ast.unparse(found[item])):
            return True
        todo += [node.id for node in ast.walk(found[item]) if isinstance(node, ast.Name)]
        todo += [node.arg for node in ast.walk(found[item]) if isinstance(node, ast.arg)]
    return False


def check(text, where=""):
    """Check that a text names existing tests, and says where each that may be skipped does run."""
    named = NAMED.findall(text)
    assert named, f"it names no test: {text}"
    for file, name, words in named:
        assert name.startswith("test_")
        assert name in module(file), f"{file} has no {name}"
        if is_skipped_somewhere(file, name):
            assert re.match(r"\((as root|where|on)\b", words or where), f"say where {file}::{name} runs: {text}"


def test_every_row_of_the_fault_table_describes_the_behaviour_and_names_a_test():
    assert len(FAULTS) > 30
    for row in FAULTS:
        assert len(row) == 3, row
        assert all(row), row


@pytest.mark.parametrize("row", FAULTS, ids=lambda row: row[0])
def test_each_fault_names_an_existing_test_and_where_it_runs(row):
    check(row[2], where="".join(re.findall(r"\([^()]+\)$", row[1])))


@pytest.mark.parametrize("row", WHO, ids=lambda row: row[0])
def test_each_permission_row_except_root_names_existing_tests(row):
    needs.every_feature()
    if row[0] != "Root":
        check(row[3], where="".join(re.findall(r"\([^()]+\)$", row[3])))


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise[2:50])
def test_each_promise_names_existing_tests_and_where_they_run(promise):
    needs.every_feature()
    before, displayed, named = " ".join(promise.split()).partition(" Shown by ")
    assert displayed, f"no test is named: {before}"
    assert "tests/" not in before, "tests stand at the end"
    assert re.fullmatch(r"(?:`[^`]+`(?: \([^()]+\))?(?:, |\.$))+", named), named
    check(named)


def test_every_promise_on_the_page_is_checked():
    """A page in an unexpected format is not mistaken for one without promises."""
    section = PAGE.partition("## What is promised")[2]
    assert len(PROMISES) == section.count("\n- ")
    assert len(PROMISES) > 40


@pytest.mark.parametrize("setting", ["requireToken", "enableMcpReplEvaluation"])
def test_a_setting_named_by_the_security_page_exists(setting):
    assert f"`{setting}" in SECURITY
    assert f"| `{setting}` |" in SETTINGS


def test_the_security_page_is_short_and_links_to_the_promises():
    assert len(SECURITY.splitlines()) <= MAX_LINES
    assert "(tests/trust/README.md)" in SECURITY
