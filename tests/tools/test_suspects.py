"""A failed test includes the functions that passing tests did not execute, so that the fault is among them."""

import pytest
from live_server import serving
from needs import interpreter
from python_projects import project
from tests_tool import PLAIN

ENGINE = """\
class Filter:
    def apply(self, text):
        words = text.split()
        return self.joined([self.changed(word) for word in words])

    def joined(self, words):
        return " ".join(words)


class Upper(Filter):
    def changed(self, word):
        return word.upper()


class Short(Filter):
    def changed(self, word):
        return word[:4]


def long(value):
{filler}
    return value + 1


def apply(name, text):
    return {"upper": Upper, "short": Short}[name]().apply(text)
""".replace("{filler}", "\n".join("    value += 0" for number in range(90)))
"""A module with one entry point. Only the record of executed functions leads to the function with the fault."""
ENGINE_TESTS = """\
from engine import apply, long
from tests.helper import check


def test_upper():
    assert apply("upper", "a b") == "A B"


def test_short():
    assert apply("short", "abcdef b") == "abc b"


def test_short_by_helper():
    check("short", "abcdef", "abc")


def test_long():
    assert long(1) == 1
"""
HELPER = """\
from engine import apply


def check(name, text, result):
    assert apply(name, text) == result
"""


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suspects")
    workspace = project(folder, has_pytest=True, python=interpreter("python3.12"))
    (workspace / "pytest.ini").write_text(PLAIN)
    (workspace / "engine.py").write_text(ENGINE)
    (workspace / "tests").mkdir()
    (workspace / "tests" / "__init__.py").touch()
    (workspace / "tests" / "helper.py").write_text(HELPER)
    (workspace / "tests" / "test_engine.py").write_text(ENGINE_TESTS)
    with serving(folder, "--repl", "python") as running:
        yield running


def failures(client, *paths):
    answer = client.call("run_tests", paths=list(paths), timeoutMs=60_000, detail=False)
    return {row["test"].rpartition("::")[2]: row for row in answer["results"]}


def engine_failures(client, *tests):
    return failures(client, *(f"tests/test_engine.py::{test}" for test in tests))


def test_recorded_calls_of_passing_tests_identify_the_faulty_function(client):
    row = engine_failures(client, "test_upper", "test_short")["test_short"]
    assert row["source"].splitlines() == [
        "engine.py:16 in Short.changed",
        "    def changed(self, word):",
        "        return word[:4]",
        "engine.py:2 in Filter.apply",
        "    def apply(self, text):",
        "        words = text.split()",
        "        return self.joined([self.changed(word) for word in words])",
        "engine.py:114 in apply",
        "def apply(name, text):",
        '    return {"upper": Upper, "short": Short}[name]().apply(text)',
        "engine.py:6 in Filter.joined",
        "    def joined(self, words):",
        '        return " ".join(words)',
    ]
    assert "suspects" not in row


def test_the_source_of_a_test_helper_is_not_displayed(client):
    row = engine_failures(client, "test_upper", "test_short_by_helper")["test_short_by_helper"]
    assert row["source"].startswith("engine.py:16 in Short.changed\n")
    assert row["frames"] == ["tests/helper.py:5 in check"]


def test_a_long_function_is_displayed_in_full_if_it_certainly_is_the_cause(client):
    row = engine_failures(client, "test_upper", "test_long")["test_long"]
    lines = row["source"].splitlines()
    assert (lines[0], lines[1], lines[-1]) == (
        "engine.py:20 in long", "def long(value):", "    return value + 1",
    )  # fmt: skip
    assert "suspects" not in row


def test_a_function_that_exceeds_the_budget_is_only_named(live, client):
    (live.workspace / "many.py").write_text(
        "def large():\n    value = 1\n" + "    value = value + 0\n" * 300 + "    return value\n\n\n"
        "def small():\n    return 1\n\n\n"
        "def entry(name):\n    return globals()[name]()\n"
    )
    (live.workspace / "test_many.py").write_text(
        "import many\n\n\ndef test_large():\n    assert many.entry('large') == 2\n\n\n"
        "def test_small():\n    assert many.entry('small') == 1\n"
    )
    row = failures(client, "test_many.py")["test_large"]
    assert row["suspects"] == ["many.py:1 in large"]
    assert [line for line in row["source"].splitlines() if " in " in line] == ["many.py:310 in entry"]


def test_a_small_function_that_returned_last_does_not_hide_a_more_suspicious_one(live, client):
    (live.workspace / "shifts.py").write_text(
        "def shift(value):\n" + "    value = (value * 1 + 0 - 0) * 1\n" * 70 + "    return value\n\n\n"
        "def clip(value):\n    return max(value, 0)\n\n\ndef other():\n    return 1\n"
    )
    (live.workspace / "test_shifts.py").write_text(
        "import shifts\n\n\ndef test_clip():\n    assert shifts.clip(shifts.shift(1)) == 2\n\n\n"
        "def test_other():\n    assert shifts.other() == 1\n"
    )
    row = failures(client, "test_shifts.py")["test_clip"]
    assert [line for line in row["source"].splitlines() if " in " in line] == [
        "shifts.py:1 in shift",
        "shifts.py:75 in clip",
    ]


def test_functions_that_only_ran_during_an_import_are_neither_displayed_nor_named(live, client):
    (live.workspace / "registry.py").write_text(
        "NAMES = {}\n\n\ndef register(function):\n    NAMES[function.__name__] = function\n    return function\n\n\n"
        "@register\ndef first():\n    return 1\n\n\n@register\ndef second():\n    return 1\n\n\n"
        "def entry(name):\n    return NAMES[name]()\n"
    )
    (live.workspace / "test_registry.py").write_text(
        "import registry\n\n\ndef test_first():\n    assert registry.entry('first') == 1\n\n\n"
        "def test_second():\n    assert registry.entry('second') == 2\n"
    )
    row = failures(client, "test_registry.py")["test_second"]
    assert [line for line in row["source"].splitlines() if " in " in line] == [
        "registry.py:14 in second",
        "registry.py:19 in entry",
    ]
    assert "suspects" not in row


def test_functions_are_displayed_if_they_are_likely_enough_for_their_size(live, client):
    body = "    value = value + 0\n" * 70 + "    return value\n\n\n"
    (live.workspace / "likely.py").write_text(
        "def wrong(value):\n    if value == 1:\n        value = 3\n    return value\n\n\n"
        f"def usual(value):\n{body}"
        "def small(value):\n    return value\n"
    )
    (live.workspace / "test_likely.py").write_text(
        "import pytest\nfrom likely import small, usual, wrong\n\n\n@pytest.mark.parametrize('value', [0, 1, 2])\n"
        "def test_value(value):\n    assert small(usual(wrong(value))) == value\n"
    )
    row = failures(client, "test_likely.py")["test_value[1]"]
    titles = [line for line in row["source"].splitlines() if " in " in line]
    assert titles == ["likely.py:1 in wrong", "likely.py:81 in small"]
    assert row["suspects"] == ["likely.py:7 in usual"]


def test_a_function_that_contains_a_suspicious_function_is_displayed_once(live, client):
    (live.workspace / "nested.py").write_text(
        "def outer(value):\n    def inner():\n        return value * 2 if value == 2 else value\n\n    return inner()\n"
    )
    (live.workspace / "test_nested.py").write_text(
        "import nested\n\n\ndef test_one():\n    assert nested.outer(1) == 1\n\n\n"
        "def test_two():\n    assert nested.outer(2) == 2\n"
    )
    row = failures(client, "test_nested.py")["test_two"]
    assert [line for line in row["source"].splitlines() if " in " in line] == ["nested.py:1 in outer"]
    assert "suspects" not in row


@pytest.mark.parametrize(("lines", "displayed", "named"), [
    (190, ["large"], ["entry", "small_0", "small_1"]),
    (300, ["entry", "small_0", "small_1", "small_2"], ["large", "small_3"]),
])  # fmt: skip
def test_the_most_suspicious_functions_that_fit_are_displayed(live, client, lines, displayed, named):
    large = "def large(value):\n" + "    value = value + 0\n" * lines + "    return value\n\n\n"
    body = "    value = value + 0\n" * 4 + "    return value\n\n\n"
    small = "".join(f"def small_{number}(value):\n{body}" for number in range(4))
    steps = "large, small_0, small_1, small_2, small_3"
    (live.workspace / f"steps_{lines}.py").write_text(
        f"{large}{small}def entry(value, *names):\n    for name in names:\n        value = globals()[name](value)\n"
        "    return value\n"
    )
    (live.workspace / f"test_steps_{lines}.py").write_text(
        f"import steps_{lines} as steps\n\n\n"
        f"def test_all():\n    assert steps.entry(1, *'{steps}'.split(', ')) == 2\n\n\n"
        "def test_none():\n    assert steps.entry(1) == 1\n"
    )
    row = failures(client, f"test_steps_{lines}.py")["test_all"]
    titles = [line for line in row["source"].splitlines() if line.startswith("steps_")]
    assert [title.partition(" in ")[2] for title in titles] == displayed
    assert [title.partition(" in ")[2] for title in row["suspects"]] == named
