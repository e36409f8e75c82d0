"""A failed test includes the code that caused it, so that the next call can be the edit."""

import threading
from types import SimpleNamespace

import anyio
import pytest
from live_server import serving

from codriver.net.fair_threads import FairThreads
from codriver.tools.execution import failure_sources as failure_sources_module
from codriver.tools.execution.failure_sources import failure_sources

SHOP = """\
RATE = 0.2


def price(item, count):
    net = item["price"] * count
    return discounted(net, count)


def discounted(net, count):
    if count > 10:
        return net * 0.9
    return net


def total(items):
    return sum(price(item, item["count"]) for item in items)


def report(value):
{filler}
    raise ValueError(value)
""".replace("{filler}", "\n".join(f"    value += {number}" for number in range(160)))
TESTS = """\
from shop import price, report, total


def test_price():
    assert price({"price": 10}, 10) == 90


def test_total():
    result = total([{"price": 10, "count": 1}])
    assert result == 11


def test_missing():
    assert total([{"price": 10}]) == 10


def test_report():
    report(1)


def test_plain():
    assert 1 + 1 == 3
"""


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("failure-sources")
    (folder / "workspace").mkdir()
    (folder / "workspace" / "shop.py").write_text(SHOP)
    (folder / "workspace" / "test_shop.py").write_text(TESTS)
    with serving(folder, "--repl", "python") as running:
        yield running


def failure(client, test, file="test_shop.py"):
    answer = client.call("run_tests", paths=[f"{file}::{test}"], timeoutMs=60_000, detail=False)
    (row,) = answer["results"]
    return row


def test_a_failed_comparison_includes_the_source_of_the_functions_that_computed_the_value(client):
    assert failure(client, "test_price")["source"] == (
        "shop.py:4 in price\n"
        "def price(item, count):\n"
        '    net = item["price"] * count\n'
        "    return discounted(net, count)\n"
        "shop.py:9 in discounted\n"
        "def discounted(net, count):\n"
        "    if count > 10:\n"
        "        return net * 0.9\n"
        "    return net"
    )
    assert failure(client, "test_total")["source"].startswith("shop.py:15 in total\n")


def test_an_error_in_the_project_includes_the_source_of_the_raising_function(client):
    row = failure(client, "test_missing")
    assert row["source"].splitlines() == [
        "shop.py:16 in <genexpr>",
        "def total(items):",
        '>   return sum(price(item, item["count"]) for item in items)',
    ]
    assert "item={'price': 10}" in row["locals"]


def test_only_the_lines_near_the_statement_are_included_for_a_long_function(client):
    lines = failure(client, "test_report")["source"].splitlines()
    assert (lines[-1], len(lines)) == (">   raise ValueError(value)", 7)


def test_a_missing_await_is_reported_with_its_line(live, client):
    (live.workspace / "jobs.py").write_text(
        "async def is_due(job):\n    return job > 1\n\n\n"
        "async def due(jobs):\n    return [job for job in jobs if is_due(job)]\n"
    )
    (live.workspace / "test_jobs.py").write_text(
        "import asyncio, jobs\n\n\ndef test_due():\n    assert asyncio.run(jobs.due([1, 2])) == [2]\n"
    )
    answer = client.call("run_tests", paths=["test_jobs.py"], timeoutMs=60_000, detail=False)
    assert answer["notes"] == ["jobs.py:6: coroutine 'is_due' was never awaited"]
    (live.workspace / "test_jobs.py").write_text(
        "import asyncio, jobs\n\n\ndef test_due():\n    assert asyncio.run(jobs.due([1, 2])) == [1, 2]\n"
    )
    assert "notes" not in client.call("run_tests", paths=["test_jobs.py"], timeoutMs=60_000, detail=False)


def test_a_failure_without_project_code_includes_no_source(client):
    assert "source" not in failure(client, "test_plain")


def test_the_answer_about_one_failure_has_at_most_1500_bytes(client):
    for test in ("test_price", "test_total", "test_missing", "test_report", "test_plain"):
        assert len(str(failure(client, test)).encode()) <= 1500


def test_the_failed_line_is_included_unless_the_message_contains_its_calls(client):
    assert "statement" not in failure(client, "test_price")
    assert failure(client, "test_missing")["statement"] == 'assert total([{"price": 10}]) == 10'


def test_functions_in_an_assertion_are_displayed_by_name_instead_of_address(live, client):
    (live.workspace / "test_objects.py").write_text(
        "import shop\n\n\ndef test_function():\n    assert shop.discounted(1, 1) == 3\n\n\n"
        "def test_method():\n    text = 'a'\n    assert text.upper().lower() == 'b'\n"
    )
    assert failure(client, "test_function", "test_objects.py")["message"] == (
        "assert 1 == 3\n +  where 1 = shop.discounted(1, 1)"
    )
    assert "0x" not in failure(client, "test_method", "test_objects.py")["message"]


def test_variables_without_an_informative_value_are_left_out(live, client):
    (live.workspace / "test_locals.py").write_text(
        "import dataclasses\n\n\n@dataclasses.dataclass\nclass Point:\n    x: int\n\n\nclass Other:\n    pass\n\n\n"
        "def test_locals():\n    function, other, kind, point = print, Other(), Other, Point(1)\n"
        "    error, numbers = ValueError('no price'), [1, 2]\n    assert other is None\n"
    )
    assert failure(client, "test_locals", "test_locals.py")["locals"] == (
        "point=Point(x=1), error=ValueError('no price'), numbers=[1, 2]"
    )


def test_explanations_that_only_repeat_two_compared_strings_are_left_out(live, client):
    (live.workspace / "test_strings.py").write_text(
        "def test_one():\n    assert 'a b'.replace(' ', '-') == 'a_b'\n\n\n"
        "def test_lines():\n    assert 'a\\nb' == 'a\\nc'\n\n\n"
        "def test_shortened():\n    assert 'a' * 900 + 'b' == 'a' * 900 + 'c'\n"
    )
    answer = client.call("run_tests", paths=["test_strings.py"], args=["--color=yes"], timeoutMs=60_000, detail=False)
    item, _lines, shortened = [row["message"] for row in answer["results"]]
    assert item == "assert 'a-b' == 'a_b'"
    assert "\n  - " in shortened
    assert "\x1b" not in str(answer)


def test_a_comparison_of_strings_by_unittest_is_left_out_unless_it_adds_something(live, client):
    (live.workspace / "test_units.py").write_text(
        "import unittest\n\n\nclass Tests(unittest.TestCase):\n"
        "    def test_one(self):\n        self.assertEqual('a-b', 'a_b')\n\n"
        "    def test_shortened(self):\n        self.assertEqual('a' * 100 + 'b', 'a' * 100 + 'c')\n\n"
        "    def test_explained(self):\n        self.assertEqual('x', 'y', 'why')\n"
    )
    answer = client.call("run_tests", paths=["test_units.py"], timeoutMs=60_000, detail=False)
    messages = {row["test"].rpartition("::")[2]: row["message"] for row in answer["results"]}
    assert messages["test_one"] == "AssertionError: 'a-b' != 'a_b'"
    assert "\n- " in messages["test_shortened"]
    assert "chars]" in messages["test_shortened"]
    assert messages["test_explained"].endswith(" : why")


def test_the_first_failures_are_not_truncated_for_the_sake_of_others(live, client):
    (live.workspace / "test_crowd.py").write_text(
        "import shop\n"
        + "".join(
            f"\n\ndef test_crowd_{number}():\n"
            f"    assert shop.price({{'price': {number}}}, 1) == -1, 'a long message about it'\n"
            for number in range(90)
        )
    )
    answer = client.call("run_tests", paths=["test_crowd.py"], timeoutMs=60_000, detail=False)
    rows = answer["results"]
    assert rows[0]["source"].startswith("shop.py:4 in price\n")
    assert answer["omitted"] == 90 - len(rows) > 0
    assert "notes" not in answer


def test_tests_that_failed_with_the_same_error_are_listed_with_the_first(live, client):
    (live.workspace / "test_alike.py").write_text(
        "import pytest, shop\n\n\n@pytest.mark.parametrize('count', range(9))\n"
        "def test_alike(count):\n    assert shop.price({}, count) == 1\n\n\n"
        "def test_other():\n    assert shop.total([{'price': 1}]) == 1\n"
    )
    answer = client.call("run_tests", paths=["test_alike.py"], timeoutMs=60_000, detail=False)
    first, other = answer["results"]
    names = [f"::test_alike[{count}]" for count in range(1, 6)]
    assert (first["test"], first["alike"]) == ("test_alike.py::test_alike[0]", [*names, "3 more"])
    assert other["test"] == "test_alike.py::test_other"
    assert (answer["failed"], "omitted" in answer) == (10, False)


def test_only_the_first_three_failures_include_source_that_is_not_displayed_yet(client):
    answer = client.call("run_tests", paths=["test_shop.py"], timeoutMs=60_000, detail=False)
    assert [("source" in row) for row in answer["results"]] == [True, True, False, False, False]
    assert answer["results"][1]["source"].startswith("shop.py:15 in total\ndef total(items):\n    return")
    assert answer["results"][2]["frames"][0] == "shop.py:16 in <genexpr>"


def test_a_long_function_that_was_called_is_either_displayed_whole_or_only_named(live, client):
    code = "".join(f"    value += {number}\n" for number in range(60))
    longer = "".join(f"    value += {number}\n" for number in range(400))
    (live.workspace / "sums.py").write_text(
        f"def long(value):\n{code}    return value\n\n\ndef longer(value):\n{longer}    return value\n"
    )
    (live.workspace / "test_sums.py").write_text(
        "import sums\n\n\ndef test_long():\n    assert sums.long(1) == 1\n\n\n"
        "def test_longer():\n    assert sums.longer(1) == 1\n"
    )
    long, longer = client.call("run_tests", paths=["test_sums.py"], timeoutMs=60_000, detail=False)["results"]
    assert (len(long["source"].splitlines()), "…" in long["source"]) == (63, False)
    assert ("source" in longer, longer["suspects"]) == (False, ["sums.py:65 in longer"])


def test_the_name_of_a_long_function_is_displayed_once(live, client):
    code = "".join(f"    value += {number}\n" for number in range(400))
    (live.workspace / "vast.py").write_text(f"def vast(value):\n{code}    return value\n")
    (live.workspace / "test_vast.py").write_text(
        "import vast\n\n\ndef test_one():\n    assert vast.vast(1) == 1\n\n\n"
        "def test_two():\n    assert vast.vast(2) == 1\n"
    )
    answer = client.call("run_tests", paths=["test_vast.py"], timeoutMs=60_000, detail=False)
    assert [row.get("suspects") for row in answer["results"]] == [["vast.py:1 in vast"], None]


def test_a_function_shared_by_several_failures_is_included_once(live, client):
    (live.workspace / "test_twice.py").write_text(
        "import shop\n\n\ndef test_one():\n    assert shop.discounted(1, 1) == 2\n\n\n"
        "def test_two():\n    assert shop.discounted(2, 1) == 3\n\n\n"
        "def test_three():\n    assert shop.price({'price': 2}, 1) == 3\n"
    )
    answer = client.call("run_tests", paths=["test_twice.py"], timeoutMs=60_000, detail=False)
    displayed = [row.get("source", "").partition("\n")[0] for row in answer["results"]]
    assert displayed == ["shop.py:9 in discounted", "", "shop.py:4 in price"]
    assert str(answer["results"]).count("def discounted") == 1


def test_a_file_changed_since_the_run_is_not_included(live, client):
    """The lines of the file are no longer those that ran."""
    file = live.workspace / "shop.py"
    (live.workspace / "test_changing.py").write_text(
        "import pathlib, shop\n\n\ndef test_changing():\n"
        "    path = pathlib.Path(shop.__file__)\n"
        "    path.write_text('# new\\n' + path.read_text())\n"
        "    assert shop.price({'price': 1}, 1) == 2\n"
    )
    answer = client.call("run_tests", paths=["test_changing.py"], timeoutMs=60_000, detail=False)
    file.write_text(SHOP)
    (row,) = answer["results"]
    assert answer["changedDuring"] == ["shop.py"]
    assert "source" not in row


def test_an_exception_includes_the_lines_that_raised_it(live, client):
    (live.workspace / "store.py").write_text(SHOP)
    error = client.call("evaluate_code", code="import store; store.total([{'price': 10}])", detail=False)["error"]
    assert error["source"].splitlines()[-1] == '>16     return sum(price(item, item["count"]) for item in items)'
    long = client.call("evaluate_code", code="store.report(1)", detail=False)["error"]["source"]
    assert long.splitlines()[-1] == ">180     raise ValueError(value)"
    assert len(long.splitlines()) == 3
    sent = client.call("evaluate_code", code="1 / 0", detail=False)["error"]
    assert "source" not in sent


def test_an_exception_in_a_file_edited_since_its_load_includes_no_source(live, client):
    file = live.workspace / "stale.py"
    file.write_text("def fail():\n    raise ValueError('old')\n")
    assert "source" in client.call("evaluate_code", code="import stale; stale.fail()", detail=False)["error"]
    file.write_text("\n\n\ndef fail():\n    raise ValueError('new')\n")
    answer = client.call("evaluate_code", code="stale.fail()", detail=False)
    assert "old" in answer["error"]["message"]
    assert "source" not in answer["error"]


def test_the_first_error_of_a_chain_is_included_with_its_location(live, client):
    (live.workspace / "chain.py").write_text(
        "def convert(text):\n    part = text[1:]\n    return part + 1\n\n\n"
        "def parse(text):\n    try:\n        return convert(text)\n    except TypeError as error:\n"
        "        raise ValueError('cannot parse') from error\n\n\n"
        "def look_up(names, name):\n    try:\n        return names[name]\n    except KeyError:\n"
        "        raise LookupError(name)\n"
    )
    (live.workspace / "test_chain.py").write_text(
        "import chain\n\n\ndef test_parse():\n    assert chain.parse('a1') == 2\n\n\n"
        "def test_look_up():\n    assert chain.look_up({}, 'a') == 2\n"
    )
    answer = client.call("run_tests", paths=["test_chain.py"], timeoutMs=60_000, detail=False)
    parse, look_up = answer["results"]
    heads = [line for line in parse["source"].splitlines() if line.startswith("chain.py")]
    assert heads == ["chain.py:3 in convert", "chain.py:10 in parse"]
    assert ">   return part + 1" in parse["source"]
    assert parse["locals"] == "text='a1', part='1'"
    assert parse["causes"][0].endswith("(chain.py:3 in convert)")
    assert look_up["source"].splitlines()[0] == "chain.py:17 in look_up"
    assert len(str(parse).encode()) <= 1500


def test_many_failures_do_not_truncate_the_source_of_the_first_failure(live, client):
    text = "\n\ndef test_{0}():\n    assert shop.price({{'price': 1}}, {0}) == 'a value that is never returned {1}'\n"
    tests = "".join(text.format(count, "x" * 300) for count in range(70))
    (live.workspace / "test_many.py").write_text(f"import shop\n{tests}")
    answer = client.call("run_tests", paths=["test_many.py"], timeoutMs=60_000, detail=False)
    assert (answer["failed"], len(answer["results"]), answer["omitted"]) == (70, 8, 62)
    assert answer["results"][0]["source"].endswith("\n    return net")
    assert len(str(answer).encode()) < 6000


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        ({"args": ["--no-such"]}, "unrecognized arguments: --no-such", "Correct args."),
        ({"args": ["--count=5"]}, "unrecognized arguments: --count=5", "Not installed: pytest-repeat. Correct args."),
        ({"args": ["--reruns=5"]}, "unrecognized arguments: --reruns=5", "Not installed: pytest-rerunfailures. "),
        (
            {"paths": ["test_shop.py::test_none"]},
            "there is no test test_none in test_shop.py",
            "Correct the name of the test",
        ),
        ({"paths": ["test_none.py"]}, "file or directory not found: test_none.py", "Correct paths"),
    ],
)
def test_arguments_that_pytest_refuses_are_explained_once(client, arguments, message, hint):
    answer = client.call("run_tests", **arguments, timeoutMs=60_000, detail=False)
    assert (answer["reason"], answer["message"]) == ("bad-arguments", message)
    assert answer["hint"].startswith(hint)
    assert "stdout" not in answer


def test_the_refusal_of_an_edit_names_a_missing_test(live, client):
    edit = {"type": "create", "filePath": "new_code.py", "content": "A = 1\n"}
    answer = client.call("edit_files", edits=[edit], test=["test_shop.py::test_none"], onFailure="restore")
    assert (answer["ok"], answer["reason"]) == (False, "no-tests")
    assert answer["message"] == "there is no test test_none in test_shop.py: the edit is kept, but not tested"
    assert answer["hint"].startswith("Correct the name of the test")
    assert (live.workspace / "new_code.py").exists()


BASKET = (
    "class Basket:\n    def __init__(self, owner):\n        self.owner = owner\n        self.reset()\n\n"
    "    def reset(self):\n        self.code = None\n\n    def label(self):\n        return self.code.upper()\n\n"
    "    def sum(self):\n        return self.cents + 1\n\n    def price(self):\n        self.cents = 5\n"
)


@pytest.mark.parametrize(
    ("called", "raised", "assigned"),
    [
        ("label", "basket.py:10 in label", "basket.py:6 in reset"),
        ("sum", "basket.py:13 in sum", "basket.py:15 in price"),
    ],
)
def test_an_attribute_error_includes_the_methods_that_assign_the_attribute(live, client, called, raised, assigned):
    (live.workspace / "basket.py").write_text(BASKET)
    (live.workspace / "test_basket.py").write_text(
        f"import basket\n\n\ndef test_it():\n    assert basket.Basket('a').{called}() == 'A'\n"
    )
    row = failure(client, "test_it", "test_basket.py")
    heads = [line for line in row["source"].splitlines() if line.startswith("basket.py")]
    assert heads == [raised, assigned], row


def test_an_answer_does_not_wait_for_files_that_cannot_be_read(monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(failure_sources_module, "SOURCES_TIMEOUT_S", 0.01)
    monkeypatch.setattr(failure_sources_module, "_Sources", lambda *_: released.wait())
    call = SimpleNamespace(client="one", services=SimpleNamespace(work=SimpleNamespace(files=FairThreads(1))))

    async def find():
        try:
            return await failure_sources(call, None, [])
        finally:
            released.set()

    assert anyio.run(find) == {}


def test_long_strings_that_begin_alike_are_displayed_where_they_differ(live, client):
    (live.workspace / "test_long.py").write_text(
        "import unittest\n\n\nclass Tests(unittest.TestCase):\n    def test_page(self):\n"
        "        begin = ''.join(f'<p>{number}</p>' for number in range(90))\n"
        "        page, expected = begin + '<b>one</b>' + begin, begin + '<i>one</i>' + begin\n"
        "        self.assertMultiLineEqual(page, expected)\n"
    )
    displayed = failure(client, "Tests::test_page", "test_long.py")["locals"]
    assert "page=from character 781 of 1610: '><p>88</p><p>89</p><b>one</b>" in displayed, displayed
    assert "expected=from character" in displayed
    assert "<i>one</i>" in displayed
