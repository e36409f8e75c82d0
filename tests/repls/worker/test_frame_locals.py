"""Locals of an error's frames: plain values, without running user code, revealing secrets or keeping references."""

import pytest
from worker_client import texts

RISKY = """
ran = []
class Meta(type):
    def __getattribute__(self, name):
        ran.append(name)
        return super().__getattribute__(name)
class Risky(metaclass=Meta):
    def __repr__(self): ran.append("repr"); raise SystemExit
    __str__ = __len__ = __iter__ = __hash__ = __repr__
    def __getattribute__(self, name):
        ran.append(name)
        return object.__getattribute__(self, name)
class Text(str):
    __repr__ = Risky.__repr__
"""


def locals_of_frames(repl, code, **fields):
    """Return what is reported of each frame, by its function, innermost first."""
    repl.evaluate(code)
    ((found),) = texts(repl.ask("codriver/locals", **fields), "locals")
    return [(item["error"], item["frame"].partition(" ")[0], item["locals"]) for item in found]


def values(repl, *lines):
    """Return the locals of a function that fails after these lines."""
    body = "".join(f"    {line}\n" for line in lines)
    ((_, _, found),) = locals_of_frames(repl, f"def f():\n{body}    1 / 0\nf()")
    return found


def seen(repl, code):
    """Return the locals that are reported with an error."""
    return next(item["codriver/error"].get("locals", []) for item in repl.evaluate(code) if "codriver/error" in item)


def test_plain_values_of_locals_are_printed(python):
    found = values(python, "n, x, t, b, none = 1, 2.5, 'it', b'x', None", "parts = [1, ('a',), {'k': None}]")
    assert found == {
        "n": "1", "x": "2.5", "t": "'it'", "b": "b'x'", "none": "None", "parts": "[1, ('a',), {'k': None}]"
    }  # fmt: skip


def test_printing_locals_runs_no_user_code(python):
    python.evaluate(RISKY)
    found = values(python, "risky, text = Risky(), Text('x')", "within = [risky, {1: risky}]", "ran.clear()")
    assert found == {"risky": "<Risky>", "text": "<Text>", "within": "[<Risky>, {1: <Risky>}]"}
    assert texts(python.evaluate("ran"), "value") == ["[]"]


def test_long_values_of_locals_are_described_by_their_size(python):
    found = values(
        python,
        "numbers, deep, big = list(range(1000)), [[[[1]]]], 10 ** 500",
        "long, within = 'x' * 5000, ['y' * 5000]",
        "import collections",
        "queue = collections.deque(range(11))",
        "del collections",
    )
    assert found == {
        "numbers": "list of 1000",
        "deep": "[[list of 1]]",
        "big": "int of 1661 bits",
        "long": "'" + "x" * 119,
        "within": "[str of 5000]",
        "queue": "deque of 11",
    }


def test_short_values_of_standard_library_types_are_printed(python):
    found = values(
        python,
        "import collections as c, re, types",
        "queue, count, ordered = c.deque([1, 2]), c.Counter('aab'), c.OrderedDict(a=1)",
        "steps, raw, space = range(3), bytearray(b'ab'), types.SimpleNamespace(a=1)",
        "pattern, match = re.compile('a+'), re.match('a', 'ab')",
        "del c, re, types",
    )
    assert found == {
        "queue": "deque([1, 2])", "count": "Counter({'a': 2, 'b': 1})", "ordered": "OrderedDict({'a': 1})",
        "steps": "range(0, 3)", "raw": "bytearray(b'ab')", "space": "namespace(a=1)", "pattern": "re.compile('a+')",
        "match": "<re.Match object; span=(0, 1), match='a'>",
    }  # fmt: skip


def test_exceptions_dataclasses_and_named_tuples_are_printed_with_their_plain_parts(python):
    python.evaluate(RISKY)
    python.evaluate(
        "import collections, dataclasses\n"
        "@dataclasses.dataclass\nclass Point:\n    x: int\n    y: object = None\n    password: str = 'p'\n"
        "    cache: dict = dataclasses.field(default_factory=dict, repr=False)\n"
        "@dataclasses.dataclass\nclass Slotted:\n    __slots__ = ('x',)\n    x: int\n"
        "@dataclasses.dataclass\nclass Custom:\n    x: int = 1\n    def __repr__(self): ran.append('repr')\n"
        "Pair = collections.namedtuple('Pair', 'left right')\n"
        "class Failed(Exception):\n    def __str__(self): ran.append('str')\n"
    )
    found = values(
        python,
        "point, slotted, custom, pair = Point(1, [2]), Slotted(3), Custom(), Pair('a', Risky())",
        "error, failed, large = ValueError('bad', 1), Failed('it'), Point('x' * 500)",
        "ran.clear()",
    )
    assert found == {
        "point": "Point(x=1, y=[2], password=<not shown>)", "slotted": "Slotted(x=3)", "custom": "<Custom>",
        "pair": "Pair(left='a', right=<Risky>)", "error": "ValueError('bad', 1)", "failed": "Failed('it')",
        "large": "Point(x=str of 500, y=None, password=<not shown>)",
    }  # fmt: skip
    assert texts(python.evaluate("ran"), "value") == ["[]"]


def test_an_error_includes_dataclasses_only_if_all_their_parts_are_plain(python):
    python.evaluate(
        "import dataclasses\n@dataclasses.dataclass\nclass Box:\n    part: object\nclass Other: pass\n"
        "def fail(box, other):\n    1 / 0"
    )
    assert seen(python, "fail(Box(1), Box(Other()))") == ["box=Box(part=1)"]


def test_locals_with_names_of_secrets_are_omitted(python):
    found = values(python, "password = api_key = DB_TOKEN = sessionId = 'x'", "config = {'client_secret': 's', 'n': 1}")
    assert found == {"config": "{'client_secret': <not shown>, 'n': 1}"}


def test_locals_of_every_user_frame_of_every_chained_error_are_included(python):
    code = (
        "def low(a):\n    {}[a]\n"
        "def high(b):\n    try:\n        low(b + 1)\n"
        "    except KeyError as error:\n        raise ValueError from error\n"
        "high(1)"
    )
    found = locals_of_frames(python, code)
    assert [(place, name) for place, name, _ in found] == [(0, "high"), (1, "low"), (1, "high")]
    assert (found[0][2]["b"], found[1][2]) == ("1", {"a": "2"})


def test_only_locals_of_the_innermost_recursive_call_are_included(python):
    assert locals_of_frames(python, "def f(n):\n    return f(n - 1) if n else 1 / 0\nf(300)") == [(0, "f", {"n": "0"})]


def test_references_to_locals_are_dropped_with_the_last_error(python):
    python.evaluate(
        "import weakref, gc\nclass Big: pass\ndef f():\n    big = Big()\n    alive.append(weakref.ref(big))\n    1/0"
    )
    assert locals_of_frames(python, "alive = []\nf()") == [(0, "f", {"big": "<Big>"})]
    assert locals_of_frames(python, "1 / 0") == []
    answer = python.evaluate("gc.collect()\n[one() for one in alive]")
    assert texts(answer, "value")[-1:] == ["[None]"]


def test_no_locals_are_returned_for_a_session_without_an_error(python):
    assert locals_of_frames(python, "1") == []


def test_lisp_locals_have_their_source_names(lisp):
    lisp.evaluate(
        "(defn f [some-arg ok? & more]"
        ' (let [v [1 :k "s"] m {:a nil :token 1} l (map inc [1])] (throw (ex-info "x" {}))))'
    )
    (item,) = locals_of_frames(lisp, "(f 1 true 4)")
    assert item[1] == "f"
    found = item[2]
    assert (found["some-arg"], found["ok?"], found["v"], found["l"]) == ("1", "true", '[1 :k "s"]', "<LazySeq>")
    assert found["m"] in ("{:a nil :token <not shown>}", "{:token <not shown> :a nil}")
    assert seen(lisp, "(f 1 true 4)")[:2] == ["some-arg=1", "ok?=true"]


@pytest.mark.parametrize("characters", [5, 40])
def test_a_value_is_truncated_to_the_requested_number_of_characters(python, characters):
    ((_, _, found),) = locals_of_frames(python, "def f(t):\n    1 / 0\nf('x' * 100)", characters=characters)
    assert found == {"t": "'" + "x" * (characters - 1)}


def test_an_error_includes_the_first_plain_locals_of_its_innermost_frame(python):
    code = (
        "def low(amount, rate, note):\n    deep = 1\n    return amount * rate['x']\n"
        "def high(self):\n    low(None, {'y': 2}, 'once')\nhigh(3)"
    )
    assert seen(python, code) == ["amount=None", "rate={'y': 2}", "note='once'"]


def test_an_error_omits_locals_that_are_truncated_secret_or_not_plain(python):
    python.evaluate(RISKY)
    code = (
        "def f(thing, token, long, many, within, deep, ok):\n    1 / 0\n"
        "ran.clear()\n"
        "f(Risky(), 'x', 'y' * 61, list(range(11)), [Risky()], [[[1]]], ['z' * 50])"
    )
    assert seen(python, code) == [f"ok=['{'z' * 50}']"]
    assert texts(python.evaluate("ran"), "value") == ["[]"]


def test_an_error_at_the_top_level_includes_no_locals(python):
    assert seen(python, "x = 3\n1 / 0") == []


def test_an_error_in_a_library_includes_the_locals_of_its_caller(python):
    assert seen(python, "import json\ndef read(text):\n    return json.loads(text)\nread('{')") == ["text='{'"]
