import gc
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codriver_lisp.errors import TooManyFormsError
from codriver_lisp.reader import Unbalanced, check_balance, read_forms, tokens, top_level_forms


def forms(text):
    return [text[span.start : span.end] for span in top_level_forms(text)]


def walk(some):
    pending = list(some)
    while pending:
        form = pending.pop()
        yield form
        pending.extend(form.children)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(a) [b] {c d} e", ["(a)", "[b]", "{c d}", "e"]),
        ('"a \\" (" x', ['"a \\" ("', "x"]),
        ('#"a\\"[" x', ['#"a\\"["', "x"]),
        ('"a\nb" c', ['"a\nb"', "c"]),
        ('#[[a ( ] ] [[ "]] x', ['#[[a ( ] ] [[ "]]', "x"]),
        ("#[f-x[ ]] ]f-] ]f-x]y", ["#[f-x[ ]] ]f-] ]f-x]", "y"]),
        ('\\( \\newline \\u0041 \\; \\" x', ["\\(", "\\newline", "\\u0041", "\\;", '\\"', "x"]),
        ("[\\]] x", ["[\\]]", "x"]),
        ("a\\b", ["a", "\\b"]),
        ('#inst "2020" #my/tag {:a 1} #js [1]', ['#inst "2020"', "#my/tag {:a 1}", "#js [1]"]),
        ('#b "x" #py (1 2)', ['#b "x"', "#py (1 2)"]),
        ("^:a ^{:b 1} c d", ["^:a ^{:b 1} c", "d"]),
        ("#^String c d", ["#^String c", "d"]),
        ("#_a b", ["b"]),
        ("#_ #_ a b c", ["c"]),
        ("#_ ^:x a b", ["b"]),
        ("^:a #_x b c", ["^:a #_x b", "c"]),
        ("'#_x y z", ["'#_x y", "z"]),
        ("#:a{:b 1} #::{:c 2} #::d {:e 3} x", ["#:a{:b 1}", "#::{:c 2}", "#::d {:e 3}", "x"]),
        ("#(inc %) #{1 2} x", ["#(inc %)", "#{1 2}", "x"]),
        ("#?(:clj 1 :cljs 2) #?@(:clj [1]) x", ["#?(:clj 1 :cljs 2)", "#?@(:clj [1])", "x"]),
        ("#=(+ 1 2) ##Inf #'a @b ~c ~@d `e", ["#=(+ 1 2)", "##Inf", "#'a", "@b", "~c", "~@d", "`e"]),
        ("; (a\n(b) ;)\n#! (\nc", ["(b)", "c"]),
        ("a, b,,c", ["a", "b", "c"]),
        ("a' b# c%d :e ::f :g/h -1/2 1e3M", ["a'", "b#", "c%d", ":e", "::f", ":g/h", "-1/2", "1e3M"]),
        ("' (a)", ["' (a)"]),
        ("a;b\rc", ["a", "c"]),
        ("a;b\r\nc", ["a", "c"]),
        ("(comment (a))", ["(comment (a))"]),
        ("", []),
        (" ,\n; only a comment", []),
        ("#_(all gone)", []),
    ],
)
def test_top_level_forms_are_those_a_reader_would_read(text, expected):
    assert check_balance(text) is None
    assert forms(text) == expected


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_positions_count_every_kind_of_line_ending(end):
    text = f"(a){end}  (b{end}c) d"
    assert [(span.line, span.column) for span in top_level_forms(text)] == [(1, 1), (2, 3), (3, 4)]


@pytest.mark.parametrize(
    "text",
    [
        "(foo\n  bar\n)",
        "(foo\n\tbar)",
        "(a ; )\n )",
        '(str \\) \\( \\")',
        "[1 2\n      ]",
        '(re-find #"\\(" s)',
        "(^ a b)",
        "(map ~ x)",
        "#!/usr/bin/env bb\n(a)",
        "\ufeff(a)",
    ],
)
def test_balanced_code_has_no_error(text):
    assert check_balance(text) is None


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("(a", "the `(` at line 1 is never closed", 1, 1),
        ("\n#(a", "the `#(` at line 2 is never closed", 2, 1),
        (
            "(defn a []\n  (b\n\n(defn c [])",
            "the `(` at line 2 is never closed. Its form seems to end before line 4",
            2,
            3,
        ),
        (
            "(defn a []\n  (let [x 1]\n    (b x)\n  (c))\n\n(defn d [])\n",
            (
                "the `(` at line 1 is never closed; going by the indentation, "
                "it is the `(` at line 2 that lacks its `)` before line 4"
            ),
            2,
            3,
        ),
        ("(a))", "the `)` at line 1 closes nothing: the form before it, from line 1, is already closed", 1, 4),
        ("\n ]", "the `]` at line 2 closes nothing", 2, 2),
        ("(let [a 1\n  (b))", "the `[` at line 1 needs `]`, and `)` at line 2 was found instead", 2, 6),
        ('(a "b)', "the string that starts at line 1 is never closed", 1, 4),
        ('(a #"b)', "the string that starts at line 1 is never closed", 1, 4),
        (
            '(a "b)\n(c "d" "e")',
            (
                "the string that starts at line 2 is never closed. "
                "The string that starts at line 1 seems to lack its closing quote"
            ),
            1,
            4,
        ),
        ("(a #[b[c]]\n)", "the string that starts at line 1 is never closed", 1, 4),
        ('"\\', "the string that starts at line 1 is never closed", 1, 1),
        ("a '", "the `'` at line 1 has no form after it", 1, 3),
        ("a\n#_", "the `#_` at line 2 has no form after it", 2, 1),
        ("(a) \\", "the `\\` at line 1 has no character after it", 1, 5),
        ("^:a", "the `^` at line 1 has no form after it", 1, 1),
        ("#inst", "the `#inst` at line 1 has no form after it", 1, 1),
    ],
)
def test_unbalanced_code_is_explained_with_its_position(text, message, line, column):
    assert check_balance(text) == Unbalanced(message, line, column)


@pytest.mark.slow
def test_every_file_round_trips_byte_for_byte(sources):
    for name, text in sources.items():
        assert "".join(token[0] for token in tokens(text)) == text, name
        assert check_balance(text) is None, name
        assert forms_and_gaps(text) == text, name


def test_real_hy_code_is_balanced(hy_sources):
    for name, text in hy_sources.items():
        assert check_balance(text) is None, name
        assert forms_and_gaps(text) == text, name


def forms_and_gaps(text):
    """Return the text assembled from its forms, asserting that only space and comments are between them."""
    kinds = {token.start(): token.lastgroup for token in tokens(text)}

    def gap(start, end):
        assert {kinds.get(at) for at in range(start, end)} <= {None, "space", "comment"}
        return text[start:end]

    parts, end = [], 0
    for form in read_forms(text).forms:
        parts += [gap(end, form.start), text[form.start : form.end]]
        end = form.end
    return "".join([*parts, gap(end, len(text))])


@pytest.mark.slow
def test_a_form_is_inside_its_parent_and_after_its_sibling(sources):
    for text in sources.values():
        for form in walk(read_forms(text).forms):
            end = form.start
            for child in form.children:
                assert end <= child.start < child.end <= form.end
                end = child.end


@pytest.mark.slow
def test_text_missing_one_bracket_always_has_an_error(sources):
    seeded = random.Random(5)
    text = sources["clojure/zip.clj"]
    brackets = [token.start() for token in tokens(text) if token.lastgroup in ("open", "close")]
    for at in seeded.sample(brackets, 100):
        start = at + (text[at] == "#")
        assert check_balance(text[:start] + text[start + 1 :]) is not None


@given(st.text(st.sampled_from("()[]{}\"\\;#_^'`~@?:!a1 ,\n\r"), max_size=60))
def test_reading_arbitrary_text_never_fails(text):
    assert "".join(token[0] for token in tokens(text)) == text
    end = 0
    for form in read_forms(text).forms:
        assert end <= form.start < form.end <= len(text)
        end = form.end
    complaint = check_balance(text)
    if complaint is not None:
        assert complaint.line >= 1
        assert complaint.column >= 1


@given(st.text(st.sampled_from("()[]{}\"\\;#_^'`~@?:!a1 ,\n\r"), max_size=30))
def test_balanced_text_wrapped_in_brackets_is_one_balanced_form(text):
    if check_balance(text) is None:
        assert check_balance(f"(\n{text}\n)") is None
        assert len(read_forms(f"(\n{text}\n)").forms) == 1


def test_reading_stops_at_the_maximum_number_of_forms():
    assert len(read_forms("(a b) c", most_forms=4).forms) == 2
    with pytest.raises(TooManyFormsError, match="3"):
        read_forms("(a b) c", most_forms=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["(" * 50_000 + ")" * 50_000, "(" * 50_000 + "]" * 50_000, "'" * 50_000, "[(" * 50_000]
)
def test_the_nesting_depth_is_unlimited(text):
    assert read_forms(text).forms
    check_balance(text)


def test_the_number_of_garbage_collections_does_not_grow_with_the_text():
    def collections(size):
        text = f"({'(f [a {:b 1}] #?(:clj 1)) ^:x [y] ' * size})"
        gc.collect()
        pending = []
        gc.callbacks.append(lambda phase, _: pending.append(phase))
        try:
            before = len(gc.get_objects())
            reading = read_forms(text)
            retained = len(gc.get_objects()) - before
        finally:
            gc.callbacks.pop()
        assert reading.imbalance is None
        return len(pending), retained

    few, many = collections(10), collections(5000)
    assert many[0] <= few[0] + 2
    assert many[1] <= few[1] + 20
