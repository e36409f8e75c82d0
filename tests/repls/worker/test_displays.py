"""Text of values that implement IPython's display protocol, in a REPL other than IPython."""

import pytest

from codriver.repls.worker.basics.displays import displayed_text
from codriver.repls.worker.basics.printing import value_text

ADDRESS = "at 0x"


def displayed(value):
    return displayed_text(value, value_text(value), value_text)


def make(body, name="X"):
    space = {}
    exec(f"class {name}:\n" + "".join(f"    {line}\n" for line in body.splitlines()), space)
    return space[name]()


GROUPED = """
def _repr_pretty_(self, p, cycle):
    with p.group(2, 'X(', ')'):
        p.pretty([1])
        p.breakable()
        p.text('b')
"""
HTML = "<table><tr><td>one</td><td>two &amp; 3</td></tr></table>"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("def _repr_mimebundle_(self, include=None, exclude=None): return {'text/plain': 'plain 7'}", "plain 7"),
        ("def _repr_mimebundle_(self, **_): return ({'text/plain': 'plain 7'}, {})", "plain 7"),
        ("def _repr_mimebundle_(self, **_): return {'text/markdown': '**7**'}", "**7**"),
        ("def _repr_mimebundle_(self, **_): return {'text/latex': '$7$'}", "$7$"),
        ("def _repr_mimebundle_(self, **_): return {'text/html': '<b>7</b>'}", "<X: 7>"),
        ("def _repr_markdown_(self): return '**7**'", "**7**"),
        ("def _repr_markdown_(self): return ('**7**', {'isolated': True})", "**7**"),
        ("def _repr_latex_(self): return r'$\\frac{1}{7}$'", r"$\frac{1}{7}$"),
        (f"def _repr_html_(self): return {HTML!r}", "<X: one two & 3>"),
        ("def _repr_pretty_(self, p, cycle): p.text('pretty 7')", "pretty 7"),
        (GROUPED, "X([1] b)"),
        ("def _repr_pretty_(self, p, cycle): p.text('...') if cycle else p.pretty([self] and self)", "..."),
        ("def _repr_latex_(self): return '$7$'\ndef _repr_markdown_(self): return '**7**'", "**7**"),
        ("def _repr_html_(self): return None\ndef _repr_latex_(self): return '$7$'", "$7$"),
        ("def _repr_markdown_(self): raise ValueError\ndef _repr_latex_(self): return '$7$'", "$7$"),
        ("def _repr_markdown_(self): return '  '\ndef _repr_html_(self): return '<i>7</i>'", "<X: 7>"),
        ("def _repr_mimebundle_(self, **_): raise ValueError\ndef _repr_pretty_(self, p, cycle): p.text('7')", "7"),
        ("def _repr_mimebundle_(self, **_): return {}\ndef _repr_html_(self): return '<i>7</i>'", "<X: 7>"),
        ("def __repr__(self): return 'mine'\ndef _repr_markdown_(self): return '**7**'", "mine"),
        ("def __str__(self): return 'mine'\ndef _repr_markdown_(self): return '**7**'", "mine"),
        ("def __repr__(self): return '<x.X object>'\ndef _repr_markdown_(self): return '**7**'", "**7**"),
    ],
)  # fmt: skip
def test_an_object_without_its_own_repr_is_displayed_by_its_display_methods(body, text):
    assert displayed(make(body)) == text


@pytest.mark.parametrize(
    "body",
    [
        "pass",
        "def _repr_markdown_(self): return None",
        "def _repr_mimebundle_(self): return {'text/plain': 'of another signature'}",
        "def _repr_mimebundle_(self, **_): return None",
        "def _repr_pretty_(self, p, cycle): p.unknown()",
        "def _repr_html_(self): return 7",
        "def __getattr__(self, name): return lambda *_, **__: 'made up'",
    ],
)
def test_an_object_without_display_methods_is_printed_by_its_default_repr(body):
    assert ADDRESS in displayed(make(body))


def test_a_class_itself_is_not_displayed_like_its_instances():
    assert displayed(type(make("def _repr_markdown_(self): return '**7**'"))) == "<class 'X'>"


def test_a_long_display_is_truncated():
    text = displayed(make("def _repr_markdown_(self): return 'x' * 5000"))
    assert text == "x" * 2000 + "... (3000 more characters)"


def test_a_pretty_printer_is_also_used_within_collections():
    value = make("def _repr_pretty_(self, p, cycle): p.text('pretty 7')")
    assert value_text(value) == "pretty 7"
    page = make("def _repr_html_(self): return '<b>7</b>'")
    assert ADDRESS in value_text(page)
