import zipfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codriver.lisp.reader import check, tokens, top_level_forms

BALANCED = [
    "",
    "(+ 1 2)",
    "(f\n\t)\n",
    "(f \\( \\) \\newline \\space)",
    '"(" #"[\\"(]" ; (\n',
    "#_(a b) c",
    "#?(:clj 1 :cljs 2) #?@(:clj [1])",
    "#:a{:x 1} #::{:y 2} #(+ % 1) #{1} ^{:a 1} x 'y `(z ~@w) @v #'u",
    "(a)\r\n(b)\r\n",
    "#! /usr/bin/env bb\n(a)",
    "(defn ! [x'] x')",
]


@pytest.mark.parametrize("text", BALANCED)
def test_text_that_balances_has_nothing_to_complain_of(text):
    assert check(text) is None


@pytest.mark.parametrize(
    ("text", "words", "line", "column"),
    [
        ("(a", "the `(` at line 1 is never closed", 1, 1),
        ("a\n)", "the `)` at line 2 closes nothing", 2, 1),
        ("(a\n ]", "the `(` at line 1 is closed by `]` at line 2", 2, 2),
        ('(f\n "x', "the string that begins at line 2 is never closed", 2, 2),
        ('#"x', "the string that begins at line 1 is never closed", 1, 1),
        ("#{1", "the `#{` at line 1 is never closed", 1, 1),
        ("\n(defn f []\n  (g\n\n(defn h [])", "its form seems to end before line 5", 3, 3),
        ('(str "\\")', "the string that begins at line 1 is never closed", 1, 6),
    ],
)
def test_what_is_wrong_is_said_in_words_with_its_place(text, words, line, column):
    found = check(text)
    assert words in found.message
    assert (found.line, found.column) == (line, column)


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("1 (a) [b]", ["1", "(a)", "[b]"]),
        ("#_ a b", ["b"]),
        ("#_ #_ a b c", ["c"]),
        ("#_(a) ; c\n", []),
        ("^:private ^String x y", ["^:private ^String x", "y"]),
        ("'a #'b @c #inst \"d\" #?(:clj e) `(f)", ["'a", "#'b", "@c", '#inst "d"', "#?(:clj e)", "`(f)"]),
        ('"a b" :c/d ::e/f 1.5M \\a \\space #"re"', ['"a b"', ":c/d", "::e/f", "1.5M", "\\a", "\\space", '#"re"']),
        ("a,b", ["a", "b"]),
        ("##Inf", ["##Inf"]),
    ],
)
def test_top_level_forms_come_in_order(text, forms):
    assert [text[span.start : span.end] for span in top_level_forms(text)] == forms


def test_a_form_knows_its_line_and_column():
    (span,) = top_level_forms("\n\n  (a\n b)")
    assert (span.line, span.column) == (3, 3)


@given(st.text(alphabet="()[]{}\"\\;#_^'`~@ \n\ra1:?!,"))
def test_every_character_belongs_to_a_token_whatever_the_text(text):
    assert "".join(token[0] for token in tokens(text)) == text
    check(text)
    spans = top_level_forms(text)
    assert all(a.end <= b.start for a, b in pairwise(spans))


def sources():
    jar = Path("/usr/share/java/clojure.jar")
    if jar.exists():
        with zipfile.ZipFile(jar) as opened:
            for name in opened.namelist():
                if name.endswith(".clj"):
                    yield name, opened.read(name).decode()
    basilisp = pytest.importorskip("basilisp")
    for path in Path(basilisp.__file__).parent.rglob("*.lpy"):
        yield path.name, path.read_text()


def test_real_code_reads_whole_and_balances():
    seen = 0
    for name, text in sources():
        assert check(text) is None, name
        assert "".join(token[0] for token in tokens(text)) == text, name
        assert top_level_forms(text), name
        seen += 1
    assert seen > 10
