"""Files of failures are parsed once for all failures of a run."""

import linecache
from importlib import import_module

import pytest
from _pytest._code.source import Source

from codriver.testing.programs.parsed_files import MAX_FILES, ParsedFiles

code = import_module("_pytest._code.code")
"""pytest's module that prints failures. It exports less than it defines."""


def test_statements_of_a_file_are_parsed_once():
    parsed = ParsedFiles()
    first = parsed.statements("if 1:\n    x = 2\n")
    assert [type(statement).__name__ for statement in first] == ["If", "Assign"]
    assert parsed.statements("if 1:\n    x = 2\n") is first
    assert parsed.statements("if 1:\n    x = 3\n") is not first


def test_only_the_most_recently_parsed_files_are_cached():
    parsed = ParsedFiles()
    first = parsed.statements("0")
    for number in range(MAX_FILES):
        parsed.statements(str(number + 1))
    assert parsed.statements("0") is not first


def test_a_file_that_cannot_be_parsed_is_refused_each_time():
    parsed = ParsedFiles()
    for _ in range(2):
        with pytest.raises(SyntaxError):
            parsed.statements("if")


def test_pytest_reports_the_same_source_lines_from_a_shared_syntax_tree(monkeypatch):
    source = Source(linecache.getlines(code.__file__))
    lines = range(0, len(source.lines), 41)
    plain = [code.getstatementrange_ast(line, source)[1:] for line in lines]
    monkeypatch.setattr(code, "getstatementrange_ast", code.getstatementrange_ast)
    ParsedFiles().share_with_pytest(code)
    shared = [code.getstatementrange_ast(line, Source(list(source.lines))) for line in lines]
    assert [found[1:] for found in shared] == plain
    assert len({id(tree) for tree, *_ in shared}) == 1


def test_a_pytest_version_without_the_patched_function_is_left_unchanged():
    ParsedFiles().share_with_pytest(None)
