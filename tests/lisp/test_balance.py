import pytest
from hypothesis import given
from hypothesis import strategies as st

from codriver.lisp.parinfer import Balanced, balance
from codriver.lisp.reader import check, tokens


@pytest.mark.parametrize(
    ("text", "balanced"),
    [
        ("(defn f [x]\n  (g x\n", "(defn f [x]\n  (g x))\n"),
        ("(a ]", "(a) "),
        ("(a b c\nd", "(a b c)\nd"),
        ("(a\r\n  b\n  c", "(a\r\n  b\n  c)"),
        ("(a ; c)\r  b\n  c", "(a ; c)\r  b\n  c)"),
        ("\ufeff(a\n b", "\ufeff(a\n b)"),
        ("#!/usr/bin/env bb (\n(a", "#!/usr/bin/env bb (\n(a)"),
        ("(f [x]\n\t(when x\n\t\t(g x)\n\t\t(if y\n\t\t\tz", "(f [x]\n\t(when x\n\t\t(g x)\n\t\t(if y\n\t\t\tz)))"),
        ("\t\t\t(a\n\t\t\t\tbc", "\t\t\t(a\n\t\t\t\tbc)"),
        ("(a #[[x )\n( ]]\n  b", "(a #[[x )\n( ]]\n  b)"),
        ('(a "x\n\t\ty\tz"\n\t(b', '(a "x\n\t\ty\tz"\n\t(b))'),
    ],
)
def test_brackets_follow_indentation_and_nothing_else_changes(text, balanced):
    assert balance(text) == Balanced(balanced, changed=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "(a)\r\n(b)\n",
        '(a #[=[ (]] (]=] "#[[" #[[)]])\n',
        "(f [x]\n\t(when x\n\t\t(g x)))",
        "(a\tb) ; c\t(",
        '; it"s sound\n(a)',
        "(a\n  ) b",
        "#! (\n(a)",
        '[\\( \\"]',
    ],
)
def test_text_that_balances_and_is_well_indented_or_refused_stays(text):
    assert balance(text) == Balanced(text, changed=False)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [('(a "b', 1, 4), ("(a) #[[b", 1, 5), ("(a\n\\", 2, 1), ("a ) b", 1, 3), ("#_", 1, 1), ("(a)\n'", 2, 1)],
)
def test_what_cannot_be_balanced_stays_and_says_why(text, line, column):
    result = balance(text)
    assert (result.text, result.changed) == (text, False)
    assert (result.error.line, result.error.column) == (line, column)


def test_nothing_changes_in_real_code_where_parinfer_js_changes_nothing(parinfer_js, sources):
    untouched = 0
    for name, text in sources.items():
        told = parinfer_js.run(text)
        if told["error"] is not None or told["text"] == text:
            assert balance(text) == Balanced(text, changed=False), name
            untouched += 1
        elif "\t" not in text:
            assert balance(text).text == told["text"], name
    assert untouched > 10


def test_strings_in_brackets_keep_every_character(hy_sources):
    changed = 0
    for name, text in hy_sources.items():
        result = balance(text)
        assert result.error is None, name
        assert substance(result.text) == substance(text), name
        changed += result.changed
    assert changed


def substance(text):
    """The tokens of a text but its closers and space."""
    return [token[0] for token in tokens(text) if token.lastgroup not in ("space", "close")]


def test_real_code_that_lost_closers_gets_them_back_where_indentation_shows(sources):
    sound = balance(sources["clojure/set.clj"]).text
    ends = [at for at in range(len(sound)) if sound.startswith(")\n", at) and sound[at - 1] == ")"]
    assert len(ends) > 20
    for at in ends:
        assert balance(sound[:at] + sound[at + 1 :]).text == sound


@given(st.lists(st.sampled_from(["#[[", "]]", "#[a[", "]a]", *'()[]{}"\\;# \n\tx']), max_size=20).map("".join))
def test_a_text_with_strings_in_brackets_keeps_all_its_code(text):
    result = balance(text)
    assert substance(result.text) == substance(text)
    assert result.changed == (result.text != text)
    assert (result.error is None) == (check(result.text) is None)


@given(st.text(st.sampled_from("()[]{}\"\\;#_'a1 ,\n\r\t"), max_size=60))
def test_a_balanced_text_reads_and_holds_all_its_code(text):
    result = balance(text)
    assert result.changed == (result.text != text)
    if result.error is None:
        assert check(result.text) is None
    else:
        assert result.text == text
        assert check(text) is not None
    assert substance(result.text) == substance(text)
    if check(text) is None:
        assert result.error is None


def test_balancing_again_changes_nothing(sources):
    for name in ("clojure/zip.clj", "clojure/pprint/cl_format.clj", "basilisp/walk.lpy"):
        once = balance(sources[name]).text
        assert balance(once) == Balanced(once, changed=False)
