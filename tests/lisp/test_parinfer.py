import random

import pytest

from codriver.lisp.parinfer import MESSAGES, ParinferError, indent_mode


def ours(text):
    """Our result in the words of parinfer.js."""
    result = indent_mode(text)
    if result.error is None:
        return {"text": result.text, "error": None}
    error = result.error
    told = {"name": error.name, "message": error.message, "lineNo": error.line, "x": error.x}
    if error.opener is not None:
        told["extra"] = {"name": "unmatched-open-paren", "lineNo": error.opener[0], "x": error.opener[1]}
    return {"text": result.text, "error": told}


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
def test_in_indent_mode(name):
    text, expected = INDENT_CASES[name]
    assert indent_mode(text).error is None
    assert indent_mode(text).text == expected


@pytest.mark.parametrize("text", ERRORS)
def test_an_error_has_its_name_and_place_and_leaves_the_text(text):
    result = indent_mode(text)
    assert result.text == text
    assert result.error == ERRORS[text]


def test_every_error_is_shown_by_a_case():
    assert {error.name for error in ERRORS.values()} == set(MESSAGES)


def test_every_case_is_as_parinfer_js_has_it(parinfer_js):
    texts = [text for text, _ in INDENT_CASES.values()] + list(ERRORS)
    for text in texts:
        assert ours(text) == parinfer_js.run(text), text


@pytest.mark.parametrize(
    "text", ["\t\t\t(a\n\t\t\t\tbc", "(f\n\t(g\n\t\th)\n\t\ti", "\t(a\n\t\t; b\n  c", "\t\t\t(a)\n\t\t\t\t; b"]
)
def test_below_tabs_it_goes_as_wrong_as_parinfer_js(parinfer_js, text):
    assert ours(text) == parinfer_js.run(text)


def test_real_code_gives_what_parinfer_js_gives(parinfer_js, sources):
    for name, text in sources.items():
        assert ours(text) == parinfer_js.run(text), name


def test_random_text_gives_what_parinfer_js_gives(parinfer_js):
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
        told = parinfer_js.run(text)
        assert ours(text) == told, text
        accepted += told["error"] is None
    assert accepted > 1000


def test_damaged_real_code_gives_what_parinfer_js_gives(parinfer_js, sources):
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
        assert ours(damaged) == parinfer_js.run(damaged), damaged
