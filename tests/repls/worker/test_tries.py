"""Candidates that are tried in forks of the worker: nothing of them is left in it."""

import contextlib
import json
import sys
import textwrap

import pytest
from hostile_tries import AT_ONCE, EXPECTED, HARM, KINDS
from worker_client import WORKER, Repl, texts

from codriver.repls.dialects.server_dialect import program_of_tests

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks of a live Python are tried on Linux alone")

WITHOUT_NAMESPACES = textwrap.dedent("""
    import ctypes, os, sys
    user, group = os.getuid(), os.getgid()
    assert ctypes.CDLL(None).unshare(0x10000000) == 0, "no user namespace can be made"
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open("/proc/self/" + name, "w") as file:
            file.write(text)
    with open("/proc/sys/user/max_user_namespaces", "w") as file:
        file.write("0")
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
""")
"""A program that starts another one which can make no user namespace."""
SHOP = "rate = 1\n\n\ndef price(n):\n    return n + rate\n"
TEST = "import shop\n\n\ndef test_price():\n    assert shop.price(4) == 8\n"


def attempt(repl, *candidates, check="", tests=(), wall_ms=30_000):
    """What the worker tells of candidates."""
    asked = {
        "candidates": [{"label": "a", "files": [], "code": "", **one} for one in candidates],
        "check": check,
        "program": program_of_tests() if tests else "",
        "tests": [[name, "", "", [], [], "", str(repl.folder)] for name in tests],
        "folders": [str(repl.folder)],
        "wallMs": wall_ms,
    }
    (told,) = texts(repl.ask("codriver/try", code=json.dumps(asked)), "value")
    return json.loads(told)


def edited(repl, text, name="shop.py"):
    return {"path": str(repl.folder / name), "data": text, "text": text, "lines": None}


@contextlib.contextmanager
def worker(folder, *options, **more):
    with contextlib.closing(Repl(folder, *options, **more)) as repl, repl.fresh_session():
        yield repl


@pytest.fixture(scope="module")
def shielded(tmp_path_factory):
    """A worker that can shield files."""
    with contextlib.closing(Repl(tmp_path_factory.mktemp("tries"))) as repl:
        with repl.fresh_session():
            if why := attempt(repl, {"code": "1"}).get("notShielded"):
                pytest.skip(f"files cannot be shielded here: {why}")
        yield repl


@pytest.fixture
def repl(shielded):
    with shielded.fresh_session():
        yield shielded


def test_the_parent_is_the_same_after_each_kind_of_harm(tmp_path):
    with worker(tmp_path) as repl:
        first = attempt(repl, {"code": "1"})
        if "notShielded" in first:
            pytest.skip(f"files cannot be shielded here: {first['notShielded']}")
        repl.evaluate(HARM % str(tmp_path))
        for start in range(0, len(KINDS), AT_ONCE):
            kinds = KINDS[start : start + AT_ONCE]
            before = texts(repl.evaluate("view()"), "value")
            told = attempt(repl, *({"code": f"{kind}()"} for kind in kinds), wall_ms=700)
            assert len(told["told"]) == len(kinds), told
            assert texts(repl.evaluate("view()"), "value") == before, kinds
        assert texts(repl.evaluate("still_works()"), "value") == [EXPECTED]


ENDS = {
    "killed": ("import os\nos.kill(os.getpid(), 9)", "died", "its process ended by SIGKILL"),
    "left": ("import os\nos._exit(3)", "died", "its process ended with status 3"),
    "spins": ("while True: pass", "timedOut", True),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_candidate_that_tells_nothing_is_told_by_its_end(repl, how):
    code, key, said = ENDS[how]
    (told,) = attempt(repl, {"code": code}, wall_ms=500)["told"]
    assert told[key] == said


def test_a_crash_is_told_with_its_place(repl):
    (told,) = attempt(repl, {"code": "import ctypes\ndef crash():\n    ctypes.string_at(0)\ncrash()"})["told"]
    assert (told["died"], told["at"]) == ("its process ended by SIGSEGV", "<candidate>:3 in crash")


def test_two_equal_candidates_are_equal_with_chance_too(repl):
    repl.evaluate("import random\nrandom.seed(5)")
    (state,) = texts(repl.evaluate("hash(random.getstate())"), "value")
    told = attempt(repl, {"code": "random.random()"}, {"code": "random.random()"})["told"]
    assert told[0]["value"] == told[1]["value"]
    assert texts(repl.evaluate("hash(random.getstate())"), "value") == [state]


def test_a_loop_of_the_session_is_another_one_in_a_candidate(repl):
    repl.evaluate("import asyncio\nawait asyncio.sleep(0)\nx = 0")
    (told,) = attempt(repl, {"code": "await asyncio.sleep(0, 'slept')"})["told"]
    assert told["value"] == "'slept'"
    assert texts(repl.evaluate("await asyncio.sleep(0, 'here')"), "value") == ["'here'"]


def test_files_of_the_workspace_and_the_temporary_folder_are_shielded(repl):
    code = "import pathlib, tempfile\npathlib.Path('made').write_text('x')\n"
    code += "f = tempfile.NamedTemporaryFile(delete=False)\n"
    (told,) = attempt(repl, {"code": code + "pathlib.Path(f.name).exists(), f.name"})["told"]
    made = told["value"].partition("'")[2].rstrip("')")
    assert told["value"].startswith("(True, ")
    assert not (repl.folder / "made").exists()
    assert texts(repl.evaluate(f"import os; os.path.exists({made!r})"), "value") == ["False"]


def test_much_shared_memory_is_refused_by_the_name_of_its_file(repl):
    repl.evaluate("import mmap\nm = mmap.mmap(-1, 600 * 2**20)")
    try:
        told = attempt(repl, {"code": "1"})
    finally:
        repl.evaluate("m.close()")
    assert "bytes of memory are shared" in told["refused"]


def test_basilisp_is_not_forked(tmp_path):
    with worker(tmp_path, "--dialect", "lisp") as repl:
        (ops,) = texts(repl.ask("describe"), "ops")
        assert "codriver/try" not in ops


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A worker where no user namespace may be made."""
    folder = tmp_path_factory.mktemp("bare")
    (folder / "shop.py").write_text(SHOP)
    (folder / "test_shop.py").write_text(TEST)
    try:
        process = Repl(folder, how=("-c", WITHOUT_NAMESPACES, WORKER))
    except (IndexError, ValueError):
        pytest.skip("user namespaces cannot be forbidden here")
    with contextlib.closing(process):
        yield process


@pytest.fixture
def unshielded(bare):
    with bare.fresh_session():
        bare.evaluate("import shop")
        yield bare


def test_without_namespaces_edits_of_loaded_modules_are_tried_and_it_is_said(unshielded):
    before = sorted(unshielded.folder.iterdir())
    good, bad = edited(unshielded, SHOP.replace("n + rate", "n * 2")), edited(unshielded, SHOP)
    told = attempt(unshielded, {"files": [good]}, {"files": [bad]}, tests=["test_shop.py"])
    assert told["notShielded"]
    assert [one["ended"] for one in told["told"]] == [{"test_shop.py/test_price": how} for how in ("pass", "fail")]
    assert sorted(unshielded.folder.iterdir()) == before
    assert (unshielded.folder / "shop.py").read_text() == SHOP
    assert texts(unshielded.evaluate("shop.price(4)"), "value") == ["5"]


def test_without_namespaces_a_file_that_is_not_loaded_is_refused(unshielded):
    told = attempt(unshielded, {"files": [edited(unshielded, TEST, "test_other.py")]}, tests=["test_other.py"])
    assert "only edits of loaded modules" in told["refused"]
    assert not (unshielded.folder / "test_other.py").exists()


def test_without_namespaces_an_open_transaction_is_refused(unshielded):
    unshielded.evaluate("import sqlite3\ndb = sqlite3.connect('open.db')\ndb.execute('create table t(x)')")
    unshielded.evaluate("db.execute('insert into t values (1)')")
    try:
        assert "a transaction may be open in" in attempt(unshielded, {"code": "1"})["refused"]
    finally:
        unshielded.evaluate("db.rollback(); db.close()")


ONCE = """class once:
    known = set()

    def __init__(self, function):
        if function.__name__ in self.known:
            raise KeyError("it is known already")
        self.known.add(function.__name__)
        self.function = function

    def __call__(self, n):
        return self.function(n)


@once
def price(n):
    return n + 1
"""


def test_a_decorator_that_takes_a_function_once_does_not_run_again(repl):
    (repl.folder / "dear.py").write_text(ONCE)
    repl.evaluate("import dear")
    repl.evaluate("1")
    candidate = {"files": [edited(repl, ONCE.replace("n + 1", "n * 2"), "dear.py")], "code": "dear.price(4)"}
    (told,) = attempt(repl, candidate)["told"]
    assert (told.get("error"), told.get("value")) == (None, "8")
    assert texts(repl.evaluate("dear.price(4)"), "value") == ["5"]


ELSEWHERE = """import functools
import keeper


def fee(n):
    return 1


@keeper.keep
@functools.lru_cache
def price(n):
    return n + fee(n)
"""
KEEPER = """import functools
import threading
kept = threading.local()


def keep(function):
    if hasattr(kept, "function"):
        raise KeyError("one is kept already")
    kept.function = functools.partial(lambda inner, n: inner(n), function)
"""


def test_functions_that_other_modules_hold_alone_are_given_the_code_of_a_candidate(repl):
    (repl.folder / "keeper.py").write_text(KEEPER)
    (repl.folder / "far.py").write_text(ELSEWHERE)
    repl.evaluate("import far, keeper\nkeeper.kept.function(4)")
    changed = [ELSEWHERE.replace("n + fee(n)", "n * fee(n)"), ELSEWHERE.replace("n + fee(n)", "n - fee(n)")]
    edits = [edited(repl, text, "far.py") for text in changed]
    told = attempt(repl, *({"files": [one], "code": "keeper.kept.function(4)"} for one in edits))["told"]
    assert [one.get("value", one) for one in told] == ["4", "3"]
    assert texts(repl.evaluate("keeper.kept.function(4)"), "value") == ["5"]


def rerun_of(repl, text):
    """A request for the tests of a file to run again in forks, as things are and with another text of the shop."""
    (repl.folder / "test_shop.py").write_text(TEST)
    former = {**edited(repl, text), "lines": None}
    return json.dumps(
        {
            "candidates": [
                {"label": "now", "files": [], "code": ""},
                {"label": "before", "files": [former], "code": ""},
            ],
            "check": "",
            "program": program_of_tests(),
            "tests": [["", "", "", [], [["test_shop.py", "test_price"]], "", str(repl.folder)]],
            "folders": [str(repl.folder)],
            "wallMs": 60_000,
            "isRecorded": True,
            "sinceMs": 2**62,
            "evaluated": "",
        }
    )


def test_a_rerun_tells_the_calls_of_both_sides_and_the_worker_goes_on(repl):
    (repl.folder / "shop.py").write_text(SHOP)
    repl.evaluate("import shop")
    identity = repl.send("codriver/rerun", code=rerun_of(repl, SHOP.replace("n + rate", "n * 2")))
    (told,) = texts(repl.answer(identity), "told")
    now, before = json.loads(told)["told"]
    assert [set(one["ended"].values()) for one in (now, before)] == [{"fail"}, {"pass"}]
    assert [[call[6] for call in one["run"]["calls"]][-1] for one in (now, before)] == ["5", "8"]
    assert texts(repl.evaluate("shop.price(4)"), "value") == ["5"]


def test_a_rerun_ends_where_something_else_is_evaluated(repl):
    (repl.folder / "shop.py").write_text(SHOP.replace("n + rate", "__import__('time').sleep(60)"))
    repl.evaluate("import importlib, shop\nimportlib.reload(shop)")
    identity = repl.send("codriver/rerun", code=rerun_of(repl, SHOP))
    assert texts(repl.evaluate("6 * 7"), "value") == ["42"]
    (told,) = texts(repl.answer(identity), "told") or ["{}"]
    assert "told" not in json.loads(told)
