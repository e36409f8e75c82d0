"""Parsing while other threads parse."""

import ast

import pytest

from codriver import python_syntax


def test_parsing_is_retried_after_a_collision_with_another_thread(monkeypatch):
    real, failures = ast.parse, [SystemError("AST constructor recursion depth mismatch (before=63, after=60)")] * 2

    def parse(text):
        if failures:
            raise failures.pop()
        return real(text)

    monkeypatch.setattr(ast, "parse", parse)
    assert ast.dump(python_syntax.parse_source("x = 1")) == ast.dump(real("x = 1"))
    assert not failures


def test_syntax_errors_are_raised_without_a_retry():
    with pytest.raises(SyntaxError):
        python_syntax.parse_source("x =")


def test_a_parser_error_that_persists_is_raised(monkeypatch):
    def parse(_text):
        raise SystemError("broken")

    monkeypatch.setattr(ast, "parse", parse)
    with pytest.raises(SystemError, match="broken"):
        python_syntax.parse_source("x = 1")
