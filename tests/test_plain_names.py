"""Names use the words that everybody uses.

`plain_names.toml` lists words that are vague in a name, or that the standard library and well-known packages do not use
in this sense. A name in one of its packages has none of them, unless it is listed there with the reason.
"""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RULES = tomllib.loads((ROOT / "tests" / "plain_names.toml").read_text(encoding="utf-8"))
WORDS = frozenset(RULES["words"])
EXCEPTIONS = RULES["exceptions"]


def defined_names(tree):
    """Yield every name that a module defines: classes, functions, parameters, variables and attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.MatchAs(name=str(name)) | ast.ExceptHandler(name=str(name)):
                yield name


def words_of(name):
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


@cache
def names_with_listed_words(package):
    return {
        name
        for path in sorted((ROOT / package).rglob("*.py"))
        for name in defined_names(ast.parse(path.read_text(encoding="utf-8")))
        if words_of(name) & WORDS
    }


@pytest.mark.parametrize("package", RULES["packages"])
def test_names_contain_none_of_the_listed_words(package):
    assert list((ROOT / package).rglob("*.py")), "this package does not exist"
    assert names_with_listed_words(package) - EXCEPTIONS.keys() == set()


def test_every_exception_from_the_listed_words_is_needed():
    found = set().union(*map(names_with_listed_words, RULES["packages"]))
    assert EXCEPTIONS.keys() - found == set()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def tell(self): ...", "tell"),
        ("class Told: ...", "Told"),
        ("def report(*, wanted): ...", "wanted"),
        ("asked_port = 1", "asked_port"),
        ("self._held = 1", "_held"),
        ("MAX_KEPT: int = 1", "MAX_KEPT"),
        ("match 1:\n    case said: ...", "said"),
        ("try: ...\nexcept OSError as fault: ...", "fault"),
        ("[place for place in ()]", "place"),
    ],
)
def test_listed_words_are_found_in_every_kind_of_name(source, found):
    assert {name for name in defined_names(ast.parse(source)) if words_of(name) & WORDS} == {found}
