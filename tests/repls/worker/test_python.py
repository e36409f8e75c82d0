"""Python in the worker: values, modules, files, names."""

import pytest
from worker_client import text, texts


def test_every_form_returns_its_value_in_order(python):
    assert texts(python.evaluate("1\nx = 2\nx + 1\n'hé 😀'"), "value") == ["1", "3", "'hé 😀'"]


def test_nothing_runs_if_code_cannot_be_parsed(python):
    messages = python.evaluate("ran = 1\n)")
    assert texts(messages, "codriver/error")[0]["phase"] == "read"
    assert texts(python.evaluate("ran"), "ex") == ["NameError"]


def test_text_with_null_bytes_is_a_read_error(python):
    (parts,) = texts(python.evaluate("1\0"), "codriver/error")
    assert (parts["phase"], parts["trace"], parts.get("file", "<eval")[:5]) == ("read", [], "<eval")


def test_await_works_at_the_top_level(python):
    assert texts(python.evaluate("import asyncio\nawait asyncio.sleep(0, 'slept')"), "value") == ["'slept'"]


def test_code_can_be_evaluated_in_a_module_by_name(python):
    python.evaluate("import json")
    assert texts(python.evaluate("__name__", ns="json"), "value") == ["'json'"]
    assert "namespace-not-found" in python.evaluate("1", ns="no.such")[-1]["status"]


def test_evaluating_code_in_a_module_imports_it_first(python):
    (python.folder / "stall.py").write_text("price = 3\n")
    (python.folder / "broken_stall.py").write_text("import no_such_supplier\n")
    python.evaluate(f"import sys; sys.path.insert(0, {str(python.folder)!r})")
    assert texts(python.evaluate("price", ns="stall"), "value") == ["3"]
    assert "namespace-not-found" in python.evaluate("1", ns="stall.shelf")[-1]["status"]
    assert "namespace-not-found" in python.evaluate("1", ns="..stall")[-1]["status"]
    assert texts(python.evaluate("1", ns="broken_stall"), "ex") == ["ModuleNotFoundError"]
    assert texts(python.evaluate(")", ns="email.mime.audio"), "codriver/error")[0]["phase"] == "read"
    assert texts(python.evaluate("'email.mime.audio' in sys.modules"), "value") == ["False"]


def test_a_future_import_applies_to_later_evaluations(python):
    python.evaluate("from __future__ import annotations")
    assert texts(python.evaluate("def f(x: unknown): pass\nf.__annotations__"), "value") == ["{'x': 'unknown'}"]


def test_the_last_value_has_a_name_unless_the_user_defines_that_name(python):
    python.evaluate("import json\nlen\n5")
    python.evaluate("6", ns="json")
    assert texts(python.evaluate("_\n7\n_"), "value") == ["5", "7", "7"]
    assert texts(python.evaluate("_ = str.upper\n8\n_('a')"), "value") == ["8", "'A'"]


def test_only_the_last_value_is_kept_alive(python):
    python.evaluate("import gc, weakref\nclass Table: ...\ntable = Table()\nfreed = weakref.ref(table)\ntable")
    assert texts(python.evaluate("del table\nfreed() is None"), "value") == ["False"]
    assert texts(python.evaluate("n = gc.collect()\nfreed() is None"), "value") == ["True"]


def test_a_file_is_loaded_into_its_module(python):
    package = python.folder / "src" / "parcel"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "thing.py").write_text("value = 1\n")
    python.evaluate(f"import sys; sys.path.insert(0, {str(python.folder / 'src')!r})")
    assert texts(python.evaluate("import parcel.thing\nparcel.thing.value"), "value") == ["1"]
    loaded = python.ask("load-file", **{"file": "value = 2\nvalue * 2", "file-path": str(package / "thing.py")})
    assert texts(loaded, "value") == ["4"]
    assert texts(python.evaluate("parcel.thing.value"), "value") == ["2"]
    (package / "new.py").write_text("")
    python.ask("load-file", **{"file": "named = __name__", "file-path": str(package / "new.py")})
    assert texts(python.evaluate("parcel.new.named"), "value") == ["'parcel.new'"]


def test_a_very_long_file_is_compiled_whole_and_returns_its_module(python):
    long = "\n" * 2**20
    place = {"file-path": str(python.folder / "long.py")}
    (value,) = texts(python.ask("load-file", file=f"kept = 1\ndef gone(): pass{long}kept + 1", **place), "value")
    assert value.startswith("<module 'long' from ")
    python.ask("load-file", file=f"kept = 3\nif kept: import json{long}", **place)
    retained = python.evaluate("import long\nlong.kept, 'gone' in dir(long), 'json' in dir(long)")
    assert texts(retained, "value") == ["(3, False, True)"]
    failed = python.ask("load-file", file=f"kept = 2\n{long}1 / 0", **place)
    (failure,) = texts(failed, "codriver/error")
    assert (failure["type"], failure["line"]) == ("ZeroDivisionError", 2**20 + 2)


def test_a_string_at_the_end_of_a_file_is_not_returned_as_the_value(python):
    file = python.folder / "commented.py"
    loaded = python.ask("load-file", **{"file": 'value = 2\n"""\nold = 1\n"""', "file-path": str(file)})
    assert texts(loaded, "value") == [f"<module 'commented' from {str(file)!r}>"]


def test_a_file_that_fails_to_load_leaves_no_module(python):
    file = python.folder / "broken.py"
    python.ask("load-file", **{"file": "1 / 0", "file-path": str(file)})
    assert texts(python.evaluate("import sys\n'broken' in sys.modules"), "value") == ["False"]
    python.evaluate("import json")
    python.ask("load-file", **{"file": "1 / 0", "file-path": str(python.folder / "json.py")})
    assert texts(python.evaluate("sys.modules['json'] is json"), "value") == ["True"]


def test_print_limits_are_applied(python):
    options = {"nrepl.middleware.print/options": {"print-length": 3, "print-level": 2}}
    assert texts(python.evaluate("list(range(10))", **options), "value") == ["[0, 1, 2, ...]"]
    nested = "{'b': (1,), 'a': [[[]]], 'c': {1}, 'd': 0}"
    assert texts(python.evaluate(nested, **options), "value") == ["{'b': (1,), 'a': [<list of 1>], 'c': {1}, ...}"]
    (message,) = [m for m in python.evaluate("'x' * 100", **{"nrepl.middleware.print/quota": 10}) if "value" in m]
    assert (message["value"], message["status"]) == ("'xxxxxxxxx", ["nrepl.middleware.print/truncated"])


def test_completion_and_lookup_call_no_user_code(python):
    python.evaluate("class Trap:\n    @property\n    def sprung(self): raise RuntimeError\ntrap = Trap()\nimport json")
    (found,) = texts(python.ask("completions", prefix="trap.spr"), "completions")
    assert [item["candidate"] for item in found] == ["trap.sprung"]
    (info,) = texts(python.ask("lookup", sym="json.dumps"), "info")
    assert info["file"].endswith("json/__init__.py")
    assert info["arglists-str"].startswith("(obj, *")
    assert "no-info" in python.ask("lookup", sym="no.such")[-1]["status"]


@pytest.mark.parametrize("code", ["40\nx = 2", "40\nfor n in range(3): n", "40\nimport sys", "40\ndef f(): return 1"])
def test_code_that_ends_with_a_statement_returns_no_value(python, code):
    assert texts(python.evaluate(code), "value") == []
    assert texts(python.evaluate("_"), "value") == ["40"], "what was computed is still at hand"


def test_the_users_displayhook_is_used(python):
    try:
        python.evaluate("import sys\nsys.displayhook = lambda value: print('<', value, '>')")
        answer = python.evaluate("1 + 1\nNone")
        assert (text(answer, "out"), texts(answer, "value")) == ("< 2 >\n< None >\n", ["2", "None"])
        assert text(python.evaluate("x = 3"), "out") == ""
        python.evaluate("sys.displayhook = lambda value: 1 / 0")
        (parts,) = texts(python.evaluate("2"), "codriver/error")
        assert (parts["type"], parts["phase"]) == ("ZeroDivisionError", "print")
    finally:
        python.evaluate("sys.displayhook = sys.__displayhook__")
    assert text(python.evaluate("2"), "out") == ""


def test_a_task_of_one_evaluation_can_be_awaited_in_the_next(python):
    python.evaluate("import asyncio\nasync def w():\n    await asyncio.sleep(0)\n    return 7")
    pending = python.evaluate("task = asyncio.create_task(w())\ntask.done()")
    assert texts(pending, "value") == ["False"], "it makes progress only while something awaits"
    assert texts(python.evaluate("await task"), "value") == ["7"]
    assert texts(python.evaluate("both = asyncio.gather(w(), w())\nawait both"), "value")[-1] == "[7, 7]"


def test_asyncio_run_works_alongside_the_event_loop_of_the_session(python):
    python.evaluate("import asyncio\nasync def w(): return asyncio.get_running_loop() is not None")
    assert texts(python.evaluate("await w()\nasyncio.run(w())"), "value") == ["True", "True"]


def test_an_error_on_the_event_loop_of_a_session_is_reported_like_any_other(python):
    python.evaluate("import asyncio")
    (parts,) = texts(python.evaluate("asyncio.create_task(1)"), "codriver/error")
    assert parts["type"] == "TypeError"
    assert texts(python.evaluate("1 + 1"), "value") == ["2"]
