"""Printed values: cut to limits like Python's own collections, with a note on each cut, and retained."""

import pytest
from worker_client import texts

LIMITS = {"nrepl.middleware.print/options": {"default-length": 3, "default-level": 2}}
RECORDS = """
import array, collections, types
from dataclasses import dataclass, field
@dataclass
class Point:
    x: object
    y: int = 2
    hidden: int = field(default=0, repr=False)
@dataclass
class Own(Point):
    def __repr__(self): return 'mine'
class Items(list): pass
class Pairs(dict): pass
Named = collections.namedtuple('Named', 'a b')
"""


def printed(repl, code, **fields):
    """Return the last value of code as text, and what was cut of it."""
    messages = [message for message in repl.evaluate(code, **{**LIMITS, **fields}) if "value" in message]
    return messages[-1]["value"], messages[-1].get("codriver/cut")


@pytest.mark.parametrize(
    ("code", "text", "cut"),
    [
        ("list(range(1000))", "[0, 1, 2, ...]", "997 of 1000 elements"),
        ("Items(range(4))", "[0, 1, 2, ...]", "1 of 4 elements"),
        ("Pairs.fromkeys(range(4))", "{0: None, 1: None, 2: None, ...}", "1 of 4 elements"),
        ("frozenset(range(4))", "frozenset({0, 1, 2, ...})", "1 of 4 elements"),
        ("collections.deque(range(4), 5)", "deque([0, 1, 2, ...], maxlen=5)", "1 of 4 elements"),
        ("collections.Counter('abcd')", "Counter({'a': 1, 'b': 1, 'c': 1, ...})", "1 of 4 elements"),
        (
            "collections.defaultdict(int, dict.fromkeys('abcd'))",
            "defaultdict(<class 'int'>, {'a': None, 'b': None, 'c': None, ...})",
            "1 of 4 elements",
        ),
        ("collections.UserList(range(4))", "[0, 1, 2, ...]", "1 of 4 elements"),
        ("types.MappingProxyType(dict.fromkeys('abcd'))", None, "1 of 4 elements"),
        ("dict.fromkeys('abcd').keys()", "dict_keys(['a', 'b', 'c', ...])", "1 of 4 elements"),
        ("array.array('i', range(4))", "array('i', [0, 1, 2, ...])", "1 of 4 elements"),
        ("Point(list(range(5)))", "Point(x=[0, 1, 2, ...], y=2)", '2 of 5 elements at ["x"]'),
        ("Named(list(range(5)), ())", "Named(a=[0, 1, 2, ...], b=())", '2 of 5 elements at ["a"]'),
        ("Own(list(range(5)))", "mine", None),
        ("(1,)", "(1,)", None),
        ("{(1, 2): [[[1]]]}", "{(1, 2): [<list of 1>]}", 'levels below 2 at ["(1, 2)", 0]'),
        ("a = [1]; a.append(a)\na", "[1, [...]]", None),
        ("['x' * 3000]", None, "2000 of 3000 characters at [0]"),
        ("[list(range(5)), list(range(9))]", None, "2 of 5 elements at [0], and in 1 more place"),
    ],
)
def test_a_collection_is_truncated_like_its_builtin_base_class_with_a_note(python, code, text, cut):
    python.evaluate(RECORDS)
    displayed = printed(python, code)
    assert (displayed[0] if text else None, displayed[1]) == (text, cut)


@pytest.mark.parametrize(
    "code", ["list(range(3))", "collections.OrderedDict(a=1)", "Point(1)", "Named(1, 2)", "Items()", "set()", "()"]
)
def test_values_that_fit_the_limit_are_not_truncated(python, code):
    python.evaluate(RECORDS)
    (whole,) = texts(python.evaluate(f"repr({code})"), "value")
    text, cut = printed(python, code)
    assert (repr(text), cut) == (whole, None)


def test_the_fields_of_an_attrs_record_are_truncated(python):
    made = printed(python, "import importlib.util\nimportlib.util.find_spec('attr') is not None")[0]
    assert made == "True", "Basilisp brings it along"
    text, cut = printed(python, "import attr\nR = attr.make_class('R', ['x'])\nR(list(range(5)))")
    assert (text, cut) == ("R(x=[0, 1, 2, ...])", '2 of 5 elements at ["x"]')


def test_printing_an_iterator_does_not_advance_it(python):
    assert printed(python, "i = iter(range(100))\ni\nnext(i)") == ("0", None)


def test_requested_limits_override_defaults(python):
    options = {"nrepl.middleware.print/options": {"default-length": 3, "print-length": 5}}
    assert printed(python, "list(range(9))", **options)[0] == "[0, 1, 2, 3, 4, ...]"


def part(repl, evaluation, path=(), **fields):
    """Return a part of a retained value and what was cut of it, or why there is none."""
    for message in repl.ask("codriver/value", evaluation=evaluation, path=list(path), **{**LIMITS, **fields}):
        if "value" in message:
            return message["value"], message.get("codriver/cut")
        if "codriver/missing" in message:
            return message["codriver/missing"]
    return None


def test_the_rest_of_a_truncated_value_can_be_requested(python):
    printed(python, "{'a': list(range(9)), (1, 2): {'b': [[[7]]]}}", **{"codriver/keep": "e"})
    assert part(python, "e", ["a"], **{"from": 3}) == ("[..., 3, 4, 5, ...]", '6 of 9 elements at ["a"]')
    assert part(python, "e", ["a", 8]) == ("8", None)
    assert part(python, "e", ["(1, 2)", "b", 0]) == ("[[7]]", None)
    assert "the next step of the path" in part(python, "e", ["a", 9])
    assert "the next step of the path" in part(python, "e", ["nowhere"])


def test_each_of_several_truncated_values_can_be_read_by_its_number(python):
    printed(python, "list(range(9))\n1\nlist(range(20, 29))", **{"codriver/keep": "several"})
    assert part(python, "several", [8]) == ("28", None)
    assert part(python, "several", ["$1", 8]) == ("8", None)
    assert "only the values [1, 3] of this evaluation are stored" in part(python, "several", ["$2"])


def test_only_the_newest_truncated_values_are_kept_alive(python):
    python.evaluate("import gc, weakref\nclass Items(list): pass\nalive = weakref.WeakSet()\nheld = []")
    code = "i = Items(range(9)); i.__class__.__hash__ = object.__hash__; alive.add(i)\ni"
    for number in range(20):
        printed(python, code, **{"codriver/keep": f"e{number}"})
    # Three are also `*1` to `*3`, and one is named `i` and `_`.
    assert int(printed(python, "del i\ngc.collect(); _ = None\nlen(alive)")[0]) <= 9
    assert "no longer has the value" in part(python, "e0")
    assert part(python, "e19", [8]) == ("8", None)


def test_a_truncated_value_that_the_program_still_references_stays_available(python):
    python.evaluate("class Items(list): pass\nmine = Items(range(9))")
    printed(python, "mine", **{"codriver/keep": "first"})
    for number in range(9):
        printed(python, "list(range(9))", **{"codriver/keep": f"e{number}"})
    assert part(python, "first", [8]) == ("8", None)


def test_a_closed_session_releases_its_values(python):
    printed(python, "list(range(9))", **{"codriver/keep": "own"})
    python.ask("close")
    python.session = None
    assert "no longer has the value" in part(python, "own")


PAGE = "class Page:\n    def _repr_html_(self): return '<b>' + 'ж' * 3 + '</b>'\n"


def test_the_html_of_a_value_is_rendered_on_request(python):
    printed(python, f"{PAGE}Page()\n[Page()]", **{"codriver/keep": "shown"})
    assert part(python, "shown", ["$1", "text/html"]) == ("<b>жжж</b>", None)
    assert part(python, "shown", ["$1", "text/html"], **{"from": 3}) == ("жжж</b>", None)
    for name in ("markdown", "latex"):
        printed(python, f"class Words:\n    def _repr_{name}_(self): return '*a*'\nWords()", **{"codriver/keep": name})
        assert part(python, name, [f"text/{name}"]) == ("*a*", None)
        assert "text/html" in part(python, name, ["text/html"])
    printed(python, "{'text/html': list(range(9))}", **{"codriver/keep": "key"})
    assert part(python, "key", ["text/html", 8]) == ("8", None)
    printed(python, "class Bad:\n    def _repr_html_(self): 1/0\nBad()", **{"codriver/keep": "fails"})
    assert "ZeroDivisionError" in part(python, "fails", ["text/html"])


LISP = {"nrepl.middleware.print/options": {"default-length": 3, "default-level": 2}}


@pytest.mark.parametrize(
    ("code", "text", "cut"),
    [
        ("(vec (range 100))", "[0 1 2 ...]", "97 of 100 elements"),
        ("(map inc (range))", "(1 2 3 ...)", "more than 3"),
        ("{:a [[[1]]]}", "{:a [#]}", 'levels below 2 at [":a", 0]'),
        ('{:a "... and #"}', '{:a "... and #"}', None),
    ],
)
def test_lisp_values_are_printed_with_a_note_on_what_was_omitted(lisp, code, text, cut):
    assert printed(lisp, code) == (text, cut)


def test_a_lazy_sequence_is_realized_only_as_far_as_printed(lisp):
    lisp.evaluate("(def seen (atom 0))")
    printed(lisp, "(map (fn [x] (reset! seen x)) (iterate inc 0))", **{"codriver/keep": "lazy"})
    assert printed(lisp, "@seen") == ("3", None), "one more tells that there is more"
    assert part(lisp, "lazy", **{"from": 3}) == ("[3 4 5 ...]", "more than 6")
    assert printed(lisp, "@seen") == ("6", None)


def test_the_users_own_print_limits_override_the_default(lisp):
    lisp.evaluate("(set! *print-length* 5)")
    assert printed(lisp, "(vec (range 9))") == ("[0 1 2 3 4 ...]", "4 of 9 elements")
    requested = {"nrepl.middleware.print/options": {"print-length": 1}}
    assert printed(lisp, "(vec (range 9))", **requested) == ("[0 ...]", "8 of 9 elements")


def test_parts_of_lisp_values_are_found_by_their_keys_as_printed(lisp):
    printed(lisp, '{:a {"b" (vec (range 9))}}', **{"codriver/keep": "map"})
    assert part(lisp, "map", [":a", "b", 8]) == ("8", None)
    assert "the next step of the path" in part(lisp, "map", [":c"])
