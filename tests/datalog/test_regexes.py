"""A caller's regular expression has bounded cost. Patterns that could exceed it are refused before they run."""

import pytest
import regex  # type: ignore[import-untyped]  # it has no annotations
from alike import rounds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from regex import _regex_core as library

from codriver_datalog import regexes
from codriver_datalog.errors import InvalidPatternError, OutOfTimeError
from codriver_datalog.regexes import compile_pattern, inspect_pattern

RECURSION = [
    "(?R)",
    "(?0)",
    "a(?1)?(b)",
    "(a(?-1)?)",
    "(?+1)(a)",
    "(?<n>a(?&n)?)",
    "(?P<n>a(?P>n)?)",
    "(?P<n>a(?P&n)?)",
]
FUZZY = [
    "(?:foo){e}",
    "(?:foo){e<=1}",
    "foo{i<2,d<3}",
    "(?:foo){1<=s<=2}",
    "(?:foo){2i+1d<3}",
    "(?x)(?:foo) { e <= 1 }",
    "[!-&&](?:foo){e<=1}",
    "(?x:#[\n)#]\n(?:foo){e<=1}",
]
HARMLESS = [
    "[{e<=1}]",
    r"\{e<=1\}",
    r"\(?R",
    "[(?R)]",
    "[^](?1)]",
    r"[[a-z]--[(?R)]]",
    "(?#(?R {e<=1})a",
    "(?x)a # (?R) {e<=1}",
    r"\p{s}",
    r"\p{Lu}{2,3}",
    "a{2}{",
    "{1d}",
    "(?i)error|warn",
    r"(?<year>\d{4})-\g<year>",
    "(?=a)(?!b)(?<=c)(?<!d)(?>e)(?|f|g)(?:h)",
]


class Plenty:
    """A clock that never runs out."""

    def remaining_s(self):
        return 60.0


@pytest.mark.parametrize("pattern", RECURSION)
def test_recursion_is_refused_with_an_explanation(pattern):
    with pytest.raises(InvalidPatternError, match=r"recursion, \(\?.*write out the group's pattern again"):
        compile_pattern(pattern)


@pytest.mark.parametrize("pattern", FUZZY)
def test_fuzzy_matching_is_refused_with_an_explanation(pattern):
    with pytest.raises(InvalidPatternError, match=r"fuzzy matching, \{.*escape the brace"):
        compile_pattern(pattern)


@pytest.mark.parametrize("pattern", HARMLESS)
def test_patterns_that_only_resemble_refused_constructs_are_accepted(pattern):
    assert compile_pattern(pattern).text == pattern


def test_a_change_of_the_syntax_version_is_refused():
    with pytest.raises(InvalidPatternError, match="change of the syntax version"):
        compile_pattern("(?V0)[[](?R)]")


PIECES = (
    *[
        "(?R)",
        "(?1)",
        "(?-1)",
        "(?&n)",
        "(?P>n)",
        "{e<=1}",
        "{e}",
        "{1<=i<=2}",
        "{2i+1d<3}",
        "{2,3}",
        "{x}",
        "(?<n>",
        "(",
        "(?:",
        ")",
        "[",
        "[^",
        "]",
        "{",
        "}",
        "\\",
        "\\p{s}",
    ],
    *[
        "\\d",
        "\\[",
        "\\]",
        "\\(",
        "(?x)",
        "(?-x)",
        "(?x:",
        "(?#",
        "#",
        "-",
        "--",
        "&&",
        "||",
        "~~",
        "^",
        "[:alpha:]",
        "[:",
        "a",
        "b",
        "*",
        "+",
        "?",
        "|",
        "(?=",
        "(?(1)",
        "(?>",
        ":",
        ",",
        "<",
        "=",
    ],
    *("&", "P", "R", "1", " ", "\n", "\\p", "[]a]", "[a-", "\\N{SPACE}", "(?-x:", "(?V0)"),
)


@pytest.mark.slow
@settings(max_examples=rounds(2000, 600), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(PIECES), max_size=12), st.sampled_from(["", "(?R)", "(?:a){e<=1}", "a{e}]", "(?1))"]))
def test_every_construct_the_library_recognizes_is_detected(pieces, last):
    pattern = "".join(pieces) + last
    found = []
    with pytest.MonkeyPatch.context() as patch:
        for node in (library.CallGroup, library.Fuzzy):
            made = node.__init__
            patch.setattr(
                node, "__init__", lambda *given, _made=made, **named: (found.append(1), _made(*given, **named))[1]
            )
        try:
            regex.compile(pattern, regex.VERSION1, cache_pattern=False)
        except Exception:  # noqa: BLE001  # whatever the library says of what is no pattern
            return
    assert (
        inspect_pattern(pattern).refused
        if found
        else inspect_pattern(pattern).refused is None or "version" in inspect_pattern(pattern).refused.name
    )


@pytest.mark.parametrize("pattern", ["(.)*", "(((.)))*", "(?:a|b)+x", r"(?:\X)+", r"\X*"])
def test_a_long_text_is_not_searched_with_memory_hungry_repetition(pattern):
    compiled = compile_pattern(pattern)
    with pytest.raises(ValueError, match=r"at most [0-9]+ characters. This text has 2097152"):
        regexes.find_first(Plenty(), compiled, "ab" * 2**20)
    assert regexes.find_first(Plenty(), compiled, "abx" * 1000)


def test_a_long_text_can_be_searched_with_any_other_pattern():
    text = "ab" * 2**21 + "Error: 42"
    assert regexes.find_first(Plenty(), compile_pattern(r"(?i)error: (\d+)$"), text) == ("Error: 42", "42")


def test_an_endless_match_stops_at_the_time_limit():
    class Short:
        left = 3

        def remaining_s(self):
            self.left -= 1
            return 0.2

    with pytest.raises(OutOfTimeError):
        regexes.find_first(Short(), compile_pattern("(?:a|a)*c"), "a" * 60 + "bc" * 4000)
