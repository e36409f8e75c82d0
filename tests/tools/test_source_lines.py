"""The source that an answer shows around a line."""

import argparse
import ast
import inspect
import statistics
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
    [
        (1, None),
        (5, (4, 21)),
        (7, (7, 19)),
        (8, (7, 19)),
        (9, (7, 19)),
        (13, (7, 19)),
        (17, (7, 19)),
        (21, (21, 21)),
        (25, (24, 25)),
        (28, None),
    ],
)
def test_the_innermost_function_is_found_by_indentation(line, bounds):
    assert around(line) == bounds


def test_a_short_function_is_displayed_whole_with_the_line_marked():
    text = excerpt(SHOP, 15)
    assert text.splitlines()[0] == "  7     @property"
    assert [line for line in text.splitlines() if line.startswith(">")] == [">15             return sum("]
    assert text.splitlines()[-1] == " 19         return 0"


def test_only_the_lines_near_the_statement_are_included_for_a_long_function():
    lines = ["def f():", *(f"    x = {number}" for number in range(100))]
    text = excerpt(lines, 50)
    assert [int(line[1:].split()[0]) for line in text.splitlines()] == list(range(45, 56))
    assert excerpt(lines, 101).splitlines()[-1].startswith(">101")


@pytest.mark.parametrize("line", [0, -3, 29])
def test_a_line_out_of_range_has_no_excerpt(line):
    assert excerpt(SHOP, line) == ""


def test_a_long_line_is_truncated_and_tabs_become_spaces():
    displayed = excerpt(["\tx = '" + "y" * 500], 1)
    assert (displayed[:12], displayed[-1], len(displayed)) == (">1     x = '", "…", 163)


def test_functions_found_by_indentation_match_the_parser():
    """Compared with the parser of this Python on existing modules."""
    files = [*Path(codriver.__file__).parent.glob("core/*.py"), Path(inspect.__file__), Path(ast.__file__)]
    wrong = []
    count = 0
    for file in files:
        text = file.read_text()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
                count += 1
                if function_around(text.splitlines(), node.lineno) != (first, node.end_lineno):
                    wrong.append((file.name, node.name, node.lineno))
    assert count > 300
    assert len(wrong) <= count // 100, wrong  # multi-line strings without indentation mislead it


DOCUMENTED = [
    "class Shop:",
    "    @cached",
    "    def price(",
    "        self,",
    "        count=1,  # a comment: with a colon",
    "    ):",
    '        r"""Return the price.',
    *("        Prices depend on: the count." for _ in range(40)),
    '        """',
    *(f"        count += {number}" for number in range(9)),
    "        return count",
]


@pytest.mark.parametrize("line", [2, 3, 50, 58])
def test_the_docstring_of_a_long_function_is_replaced_by_its_line_numbers(line):
    displayed = excerpt(DOCUMENTED, line).splitlines()
    numbers = [text[1:].split()[0] for text in displayed]
    assert numbers == ["2", "3", "4", "5", "6", "7-48", *map(str, range(49, 59))]
    assert displayed[5] == " 7-48 (docstring)"
    assert [text[1:].split()[0] for text in displayed if text.startswith(">")] == [str(line)]


def test_a_line_in_a_docstring_is_displayed():
    displayed = excerpt(DOCUMENTED, 30).splitlines()
    assert [int(text[1:].split()[0]) for text in displayed] == list(range(25, 36))


def test_the_docstring_is_left_out_of_the_lines_around_a_statement():
    lines = [*DOCUMENTED, *(f"        count -= {number}" for number in range(60))]
    displayed = excerpt(lines, 50).splitlines()
    assert [text[1:].split()[0] for text in displayed] == [
        "3", "4", "5", "6", "7-48", *map(str, range(49, 56))
    ]  # fmt: skip


def test_a_long_function_is_displayed_from_its_signature_on():
    lines = [*DOCUMENTED, *(f"        count -= {number}" for number in range(60)), "", "", "x = 1"]
    displayed = excerpt(lines, 2, is_marked=False).splitlines()
    numbers = [text[1:].split()[0] for text in displayed]
    assert numbers == ["2", "3", "4", "5", "6", "7-48", *map(str, range(49, 69)), "69-118"]
    assert displayed[-1] == " 69-118 …"


@pytest.mark.parametrize(
    "body",
    [
        ['    """One line."""'],
        ["    # a comment"],
        ['    x = """', *(["    text"] * 30), '    """'],
        ['    f"""', *(["    text"] * 30), '    """'],
        ["    if True:", "        '''", *(["        text"] * 30), "        '''"],
    ],
)
def test_short_docstrings_and_other_strings_are_displayed_as_code(body):
    lines = ["def f(", '    name="x:",', "):", *body, *(f"    x = {number}" for number in range(30))]
    assert "(docstring)" not in excerpt(lines, 1)


def test_docstrings_of_real_modules_are_found_as_the_parser_finds_them():
    """Compare with the parser of this Python, over the standard library's own modules."""
    wrong, count = [], 0
    for file in (Path(inspect.__file__), Path(ast.__file__), Path(argparse.__file__), Path(statistics.__file__)):
        lines = file.read_text().splitlines()
        for node in ast.walk(ast.parse("\n".join(lines))):
            if not isinstance(node, ast.FunctionDef) or (node.end_lineno or 0) - node.lineno < 25:
                continue
            has_docstring = ast.get_docstring(node) is not None
            first, last = node.body[0].lineno, node.body[0].end_lineno or 0
            expected = f"{first}-{last} (docstring)" if has_docstring and last > first else "none"
            found = [text.strip() for text in excerpt(lines, node.lineno).splitlines() if text.endswith("(docstring)")]
            count += 1
            if found != [expected] and (found or expected != "none"):
                wrong.append((file.name, node.name, expected, found))
    assert count > 50
    assert wrong == []


@pytest.mark.parametrize("quote", ['"""', "'''", '"', "'"])
def test_an_unterminated_string_of_many_backslashes_is_read_in_linear_time(quote):
    # Trying each backslash alone and as part of an escape would take 2**200 steps.
    lines = ["def escapes():", f"    text = {quote}" + r"\x1b" * 200, f"{quote}", "    return text"]
    assert excerpt(lines, 4).splitlines()[0].endswith("def escapes():")
