import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codriver_lisp.parinfer import ERROR_MESSAGES, BalancedText, ParinferError, balance_by_indentation, indent_mode
from codriver_lisp.reader import check_balance, tokens


def result_of(text):
    """Return our result in the format of parinfer.js."""
    result = indent_mode(text)
    if result.error is None:
        return {"text": result.text, "error": None}
    error = result.error
    message = {"name": error.name, "message": error.message, "lineNo": error.line, "x": error.x}
    if error.opener is not None:
        message["extra"] = {"name": "unmatched-open-paren", "lineNo": error.opener[0], "x": error.opener[1]}
    return {"text": result.text, "error": message}


INDENT_CASES = {
    "closers come where indentation ends": ("(defn f [x]\n  (g x\n\n(h", "(defn f [x]\n  (g x))\n\n(h)"),
    "dedenting closes": ("(a (b\n  c)", "(a (b)\n  c)"),
    "indenting opens": ("(a (b)\n      c)", "(a (b\n      c))"),
    "closers of another kind are put right": ("(a [b {c)", "(a [b {c}])"),
    "surplus closers go": ("(a))]", "(a)"),
    "blank lines and comments decide nothing": ("(a\n\n; x\n    ; y\n  b", "(a\n\n; x\n    ; y\n  b)"),
    "closers stand before a comment": ("(a ; x\n  b ; y", "(a ; x\n  b) ; y"),
    "strings are not looked into": ('(a "(\n)\n  b"\n  c', '(a "(\n)\n  b"\n  c)'),
    "characters are not looked into": ("(a \\( \\)", "(a \\( \\))"),
    "a closer alone on a line moves up": ("(a\n  b\n  )", "(a\n  b)\n  "),
    "sound text stays": ("(a\n  [b\n   c]\n  d)", "(a\n  [b\n   c]\n  d)"),
    "a tab becomes two spaces": ("(a\tb)", "(a  b)"),
    "line endings stay": ("(a\r\n  b", "(a\r\n  b)"),
    "columns are UTF-16 code units": ("(\U0001f600 (a\n   b", "(\U0001f600 (a)\n   b)"),
    "nothing stays nothing": ("", ""),
}

ERRORS = {
    '(a "b': ParinferError("unclosed-quote", 0, 3),
    "(a \\": ParinferError("eol-backslash", 0, 3),
    '; "\n(a)': ParinferError("quote-danger", 0, 2),
    '(a ; "\n  b)': ParinferError("quote-danger", 0, 5),
    "(a\n  ) b": ParinferError("leading-close-paren", 1, 2),
    "(a ] b)": ParinferError("unmatched-close-paren", 0, 3, (0, 0)),
    "a ) b": ParinferError("unmatched-close-paren", 0, 2),
}


@pytest.mark.parametrize("name", INDENT_CASES)
def test_indent_mode_infers_brackets_from_indentation(name):
    text, expected = INDENT_CASES[name]
    assert indent_mode(text).error is None
    assert indent_mode(text).text == expected


@pytest.mark.parametrize("text", ERRORS)
def test_text_with_an_error_is_unchanged_and_the_error_has_a_name_and_position(text):
    result = indent_mode(text)
    assert result.text == text
    assert result.error == ERRORS[text]


def test_every_error_has_a_test_case():
    assert {error.name for error in ERRORS.values()} == set(ERROR_MESSAGES)


def test_every_test_case_has_the_same_result_as_in_parinfer_js(parinfer_js):
    texts = [text for text, _ in INDENT_CASES.values()] + list(ERRORS)
    for text in texts:
        assert result_of(text) == parinfer_js.run(text), text


@pytest.mark.parametrize(
    "text", ["\t\t\t(a\n\t\t\t\tbc", "(f\n\t(g\n\t\th)\n\t\ti", "\t(a\n\t\t; b\n  c", "\t\t\t(a)\n\t\t\t\t; b"]
)
def test_tabs_are_handled_as_in_parinfer_js_including_its_errors(parinfer_js, text):
    assert result_of(text) == parinfer_js.run(text)


def test_real_code_matches_parinfer_js(parinfer_js, sources):
    for name, text in sources.items():
        assert result_of(text) == parinfer_js.run(text), name


def test_random_text_matches_parinfer_js(parinfer_js):
    seeded = random.Random(313)
    alphabets = [
        "()[]{} \n",
        '()[]{} \n";\\ab',
        "()[]  \n\n  a\t",
        '((()\n   \t\t a)];"',
        '(){} \n";\\a\t\r,\U0001f600',
    ]
    accepted = 0
    for _ in range(6000):
        text = "".join(seeded.choices(seeded.choice(alphabets), k=seeded.randint(0, 40)))
        reported = parinfer_js.run(text)
        assert result_of(text) == reported, text
        accepted += reported["error"] is None
    assert accepted > 1000


def test_damaged_real_code_matches_parinfer_js(parinfer_js, sources):
    seeded = random.Random(3131)
    texts = list(sources.values())
    pieces = ["", "(", ")", "]", "[", '"', " ", "  ", "\t", "\n", ";", "\\", "}", "{"]
    for _ in range(1500):
        text = seeded.choice(texts)
        start = seeded.randrange(len(text) - 50)
        characters = list(text[start : start + seeded.randint(50, 1500)])
        for _ in range(seeded.randint(0, 5)):
            at = seeded.randrange(len(characters) - 10)
            characters[at : at + seeded.randint(0, 3)] = seeded.choice(pieces)
        damaged = "".join(characters)
        assert result_of(damaged) == parinfer_js.run(damaged), damaged


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
    assert balance_by_indentation(text) == BalancedText(balanced, changed=True)


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
def test_balanced_or_refused_text_is_unchanged(text):
    assert balance_by_indentation(text) == BalancedText(text, changed=False)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [('(a "b', 1, 4), ("(a) #[[b", 1, 5), ("(a\n\\", 2, 1), ("a ) b", 1, 3), ("#_", 1, 1), ("(a)\n'", 2, 1)],
)
def test_text_that_cannot_be_balanced_is_unchanged_with_a_reason(text, line, column):
    result = balance_by_indentation(text)
    assert (result.text, result.changed) == (text, False)
    assert (result.error.line, result.error.column) == (line, column)


POORLY_INDENTED = [
    ('(setq m\n\t      \'("    "\n\t\t(:eval (case s\n\t\t\t (\'n "N")\n\t\t\t (\'i "I")))\n\t\t" %-"))\n', None),
    ("(let [y 1\n      z 2]\n(+ y z))\n", 2),
    ("(f [x]\n(g x)\n)\n", 1),
    ("(a\n\t\t(b)\n        (c))", None),
    ("(a (b\n     c)\n\td)\n", 2),
    ("[1\r\n2]\r\n", 1),
    ("(a) (b\n c) d\n", None),
]


@pytest.mark.parametrize(("text", "line"), POORLY_INDENTED)
def test_balanced_text_with_suspicious_indentation_is_unchanged_and_reported(text, line):
    assert balance_by_indentation(text) == BalancedText(text, changed=False, doubtful_line=line)


def test_real_code_is_never_changed_and_is_reported_only_where_parinfer_js_would_change_it(parinfer_js, sources):
    doubted = 0
    for name, text in sources.items():
        result = balance_by_indentation(text)
        assert (result.text, result.changed, result.error) == (text, False, None), name
        reported = parinfer_js.run(text)
        if "\t" not in text:
            assert (result.doubtful_line is None) == (reported["error"] is not None or reported["text"] == text), name
        doubted += result.doubtful_line is not None
    assert 0 < doubted < len(sources)


def test_balancing_text_with_hy_bracket_strings_keeps_every_character(hy_sources):
    changed = 0
    for name, text in hy_sources.items():
        broken = text.rstrip()
        broken = broken[:-1] if broken.endswith(")") else f"({text}"
        result = balance_by_indentation(broken)
        assert substance(result.text) == substance(broken), name
        changed += result.changed
    assert changed


def substance(text):
    """Return the tokens of a text except closing brackets and space."""
    return [token[0] for token in tokens(text) if token.lastgroup not in ("space", "close")]


def test_missing_closing_brackets_are_restored_from_indentation(sources):
    sound = indent_mode(sources["clojure/set.clj"]).text
    ends = [at for at in range(len(sound)) if sound.startswith(")\n", at) and sound[at - 1] == ")"]
    assert len(ends) > 20
    for at in ends:
        assert balance_by_indentation(sound[:at] + sound[at + 1 :]).text == sound


@given(st.lists(st.sampled_from(["#[[", "]]", "#[a[", "]a]", *'()[]{}"\\;# \n\tx']), max_size=20).map("".join))
def test_text_with_bracket_strings_keeps_all_its_code(text):
    result = balance_by_indentation(text)
    assert substance(result.text) == substance(text)
    assert result.changed == (result.text != text)
    assert (result.error is None) == (check_balance(result.text) is None)


@given(st.text(st.sampled_from("()[]{}\"\\;#_'a1 ,\n\r\t"), max_size=60))
def test_balanced_text_is_readable_and_keeps_all_its_code(text):
    result = balance_by_indentation(text)
    assert result.changed == (result.text != text)
    if result.error is None:
        assert check_balance(result.text) is None
    else:
        assert result.text == text
        assert check_balance(text) is not None
    assert substance(result.text) == substance(text)
    if check_balance(text) is None:
        assert (result.text, result.error) == (text, None)


def test_balancing_text_a_second_time_changes_nothing(sources):
    for name in ("clojure/zip.clj", "clojure/pprint/cl_format.clj", "basilisp/walk.lpy"):
        once = balance_by_indentation(sources[name]).text
        assert balance_by_indentation(once) == BalancedText(
            once, changed=False, doubtful_line=balance_by_indentation(once).doubtful_line
        )
