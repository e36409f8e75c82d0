"""The source that an answer shows around a line."""

import ast
import inspect
from pathlib import Path

import pytest

import codriver
from codriver.tools.answers.source_lines import excerpt, function_around

SHOP = """\
import math


class Order:
    rate = 1

    @property
    @cached
    def total(
        self,
    ):
        # a comment at the depth of the body
        if self.rate:

            return sum(
                one.price
                for one in self.lines
            )
        return 0

    def other(self): return 1


def after():
    pass


x = 1
""".splitlines()


def around(line):
    return function_around(SHOP, line)


@pytest.mark.parametrize(
    ("line", "bounds"),
    [(1, None), (5, (4, 21)), (9, (7, 19)), (13, (7, 19)), (17, (7, 19)), (21, (21, 21)), (25, (24, 25)), (28, None)],
)
def test_the_innermost_function_is_found_by_indentation(line, bounds):
    assert around(line) == bounds


def test_the_line_is_marked_and_a_short_function_is_whole():
    text = excerpt(SHOP, 15)
    assert text.splitlines()[0] == "  7     @property"
    assert [line for line in text.splitlines() if line.startswith(">")] == [">15             return sum("]
    assert text.splitlines()[-1] == " 19         return 0"


def test_only_the_lines_near_the_statement_are_included_of_a_long_function():
    lines = ["def f():", *(f"    x = {number}" for number in range(100))]
    text = excerpt(lines, 50)
    assert [int(line[1:].split()[0]) for line in text.splitlines()] == list(range(45, 56))
    assert excerpt(lines, 101).splitlines()[-1].startswith(">101")


@pytest.mark.parametrize("line", [0, -3, 29])
def test_a_line_out_of_range_has_no_excerpt(line):
    assert excerpt(SHOP, line) == ""


def test_a_long_line_is_cut_and_tabs_become_spaces():
    shown = excerpt(["\tx = '" + "y" * 500], 1)
    assert (shown[:12], shown[-1], len(shown)) == (">1     x = '", "…", 163)


def test_functions_found_by_indentation_match_the_parser():
    """Held against the parser of this Python, over modules that nobody wrote for this test."""
    files = [*Path(codriver.__file__).parent.glob("core/*.py"), Path(inspect.__file__), Path(ast.__file__)]
    wrong = []
    count = 0
    for file in files:
        text = file.read_text()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                count += 1
                if function_around(text.splitlines(), node.lineno) != (first, node.end_lineno):
                    wrong.append((file.name, node.name, node.lineno))
    assert count > 300
    assert len(wrong) <= count // 100, wrong  # strings of several lines at the margin deceive it
