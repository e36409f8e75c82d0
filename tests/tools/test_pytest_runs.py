"""Tests of a Python project, run by its own pytest within the REPL, and without pytest where the project has none."""

import json

import pytest
from live_server import serving, until
from mcp_versions import speaking
from python_projects import project
from tests_tool import ask, counts

SHOP = "def price(n):\n    return n * 2\n"
CONFTEST = """
import pytest

@pytest.fixture
def basket(tmp_path):
    print("basket made")
    return {"folder": tmp_path}
"""
ORDERS = """import pytest
import shop

@pytest.fixture
def broken():
    raise OSError("no shop")

@pytest.mark.parametrize("n, expected", [(1, 2), (2, 4), (3, 7)])
def test_price(n, expected):
    print("pricing", n)
    assert shop.price(n) == expected

def test_basket(basket):
    assert basket["folder"].is_dir()

class TestMore:
    def test_broken(self, broken):
        pass

    def test_missing(self, nosuch):
        pass

@pytest.mark.skip(reason="later")
def test_skipped():
    pass

@pytest.mark.xfail(reason="known")
def test_known():
    assert shop.price(1) == 5
"""


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pytest-runs")
    project(folder, has_pytest=True)
    with serving(folder, "--repl", "python") as running:
        with running.client() as client:
            value(client, "1")
        yield running


@pytest.fixture
def write(live):
    """Write files of the workspace, which are gone after the test, as are the modules that they were."""
    written = []

    def write(**texts):
        for name, text in texts.items():
            path = live.workspace / f"{name}.py"
            path.write_text(text)
            written.append(path)

    yield write
    for path in written:
        path.unlink(missing_ok=True)
    with live.client() as client:
        names = [path.stem for path in written]
        code = f"import sys\nfor name in {names}: sys.modules.pop(name, None)"
        assert client.call("evaluate_code", code=code)["ok"]


def value(client, code):
    answer = client.call("evaluate_code", code=code)
    assert answer["ok"], answer
    return answer.get("result")


def test_fixtures_parameters_and_conftest_work(live, client, write):
    write(shop=SHOP, conftest=CONFTEST, test_orders=ORDERS)
    answer = ask(client, namespace="test_orders", passed=True)
    assert counts(answer) == (8, 5, 1, 2), answer
    rows = {row["test"]: row for row in answer["results"]}
    assert [row["outcome"] for row in answer["results"]] == ["error", "error", "fail", *["pass"] * 5]
    wrong = rows["test_price[3-7]"]
    assert (wrong["file"], wrong["line"], wrong["ns"]) == (str(live.workspace / "test_orders.py"), 11, "test_orders")
    assert "assert 6 == 7" in wrong["actual"]
    assert (rows["TestMore.test_broken"]["message"], rows["TestMore.test_broken"]["line"]) == ("in its setup", 6)
    assert rows["TestMore.test_broken"]["actual"] == "OSError: no shop"
    assert "fixture 'nosuch' not found" in rows["TestMore.test_missing"]["actual"]
    assert rows["test_skipped"]["message"] == "skipped: later"
    assert rows["test_known"]["message"] == "failed as expected"


def test_only_what_failing_tests_printed_is_shown(client, write):
    good, bad = "def test_good(): print('good noise')", "def test_bad():\n    print('bad ' * 200)\n    assert 0"
    write(test_noise=f"{good}\n\n{bad}\n")
    said = ask(client, namespace="test_noise")["stdout"]
    assert "good noise" not in said
    assert said.startswith("--- test_bad: Captured stdout call ---")
    assert said.split().count("bad") == 200


@pytest.mark.parametrize(("wanted", "count"), [
    ("test_price", 3), ("test_price[2-4]", 1), ("TestMore", 2), ("TestMore.test_broken", 1),
    ("TestMore::test_broken", 1),
])  # fmt: skip
def test_one_test_of_many_is_run(client, write, wanted, count):
    write(shop=SHOP, conftest=CONFTEST, test_orders=ORDERS)
    assert ask(client, namespace="test_orders", test=wanted)["tests"] == count


def test_an_unknown_test_is_refused(client, write):
    write(test_few="def test_it(tmp_path): pass\n")
    answer = ask(client, namespace="test_few", test="nosuch")
    assert answer["reason"] == "evaluation-failed"
    assert "no test nosuch in test_few" in answer["message"]


def test_an_edited_test_is_read_again_at_once(client, write):
    for number in range(1, 4):
        write(conftest=f"import pytest\n\n@pytest.fixture\ndef one(): return {number}\n")
        write(test_edited=f"def test_it(one): assert (one, 0) == ({number}, 1)\n")
        rows = ask(client, namespace="test_edited")["results"]
        assert f"assert ({number}, 0) == ({number}, 1)" in rows[0]["actual"]


def test_the_code_under_test_is_the_live_one(client, write):
    write(shop=SHOP, test_live="import shop\n\ndef test_it(tmp_path): assert shop.price(1) == 100\n")
    assert ask(client, namespace="test_live")["failed"] == 1
    value(client, "import shop\nshop.price = lambda n: 100")
    assert ask(client, namespace="test_live")["ok"]
    assert value(client, "shop.price(7)") == "100"


def test_a_run_leaves_the_repl_as_it_was(client, write):
    write(
        conftest=CONFTEST, test_tidy="import sys\nsys.path.append('/nowhere')\nseen = []\n\ndef test_it(basket): pass\n"
    )
    value(client, "import sys, test_tidy\ntest_tidy.seen.append(1)\nheld = test_tidy")
    state = (
        "(len(sys.path), sys.meta_path, sys.stdout, sys.excepthook, sys.dont_write_bytecode, 'conftest' in sys.modules)"
    )
    before = value(client, state)
    assert ask(client, namespace="test_tidy")["ok"]
    assert value(client, "test_tidy is held is sys.modules['test_tidy'], test_tidy.seen") == "(True, [1])"
    assert value(client, state) == before
    assert client.call("evaluate_code", code="print('still heard')")["stdout"] == "still heard\n"


@pytest.mark.parametrize("fresh", [False, True])
def test_code_that_went_to_another_folder_has_the_projects_tests_run_all_the_same(client, write, tmp_path, fresh):
    """Else a `chdir("/")` has every test of the machine looked for, and another project's told as this one's."""
    (tmp_path / "test_elsewhere.py").write_text("def test_elsewhere(): assert 0\n")
    write(test_home="import os\n\ndef test_home(): os.chdir('..')\n")
    before = value(client, "import os; home = os.getcwd(); home")
    value(client, f"os.chdir({str(tmp_path)!r})")
    try:
        for asked in ({}, {"namespace": "test_home.py"}, {"namespace": "test_home"}):
            answer = ask(client, passed=True, fresh=fresh, **asked)
            assert [row["test"] for row in answer["results"]] == ["test_home"], answer
        assert value(client, "os.getcwd()") == repr(str(tmp_path))
    finally:
        assert value(client, "os.chdir(home); os.getcwd()") == before


def test_without_a_namespace_the_loaded_tests_run_whoever_runs_them(client, write):
    write(test_saved="def test_saved(tmp_path): pass\n", plain="x = 1\n")
    value(client, "import test_saved, plain\ndef test_said(): pass")
    try:
        answer = ask(client, passed=True)
        assert {(row["ns"], row["test"]) for row in answer["results"]} == {
            ("test_saved", "test_saved"),
            ("user", "test_said"),
        }
    finally:
        value(client, "del test_said")


def test_one_file_that_cannot_be_read_does_not_keep_others_from_running(live, client, write):
    write(test_sound="def test_it(tmp_path): pass\n", test_unsound="def test_it(tmp_path): pass\n")
    value(client, "import test_sound, test_unsound")
    write(test_unsound="import no_such_thing\n")
    answer = ask(client)
    assert counts(answer) == (1, 1, 0, 1)
    assert "no_such_thing" in answer["results"][0]["actual"]
    assert answer["results"][0]["file"] == str(live.workspace / "test_unsound.py")


def test_files_that_cannot_be_imported_say_the_reason_first_and_where(live, client, write):
    write(broken_part="x = 1\nimport no_such_thing\n")
    write(test_one="import broken_part\n", test_two="def test_it(:\n", test_three="\n1 / 0\n")
    (live.workspace / "test_none.py").write_text("import pytest\npytest.skip('not here', allow_module_level=True)\n")
    answer = ask(client)
    (live.workspace / "test_none.py").unlink()
    assert counts(answer) == (0, 0, 0, 3)
    rows = {row["ns"]: row for row in answer["results"]}
    one = rows["test_one.py"]
    assert (one["actual"], one["line"]) == ("ModuleNotFoundError: No module named 'no_such_thing'", 1)
    assert one["frames"] == ["broken_part.py:2 in <module>", "test_one.py:1 in <module>"]
    assert (rows["test_three.py"]["actual"], rows["test_three.py"]["line"]) == (
        "ZeroDivisionError: division by zero",
        2,
    )
    assert 'test_two.py", line 1' in rows["test_two.py"]["actual"]
    assert "SyntaxError: invalid syntax" in rows["test_two.py"]["actual"]


@pytest.mark.parametrize(("text", "words"), [
    ("import no_such_thing\n", "no_such_thing"),
    ("def test_it(:\n", "invalid syntax"),
    ("1 / 0\n", "division by zero"),
])  # fmt: skip
def test_a_file_that_cannot_be_read_says_why(client, write, text, words):
    write(test_unread=text)
    answer = ask(client, namespace="test_unread")
    assert (answer["reason"], counts(answer)) == ("tests-failed", (0, 0, 0, 1))
    assert words in answer["results"][0]["actual"]


def test_a_broken_conftest_says_why(client, write):
    write(conftest="import no_such_thing\n", test_it="def test_it(): pass\n")
    answer = ask(client, namespace="test_it")
    assert answer["reason"] == "evaluation-failed"
    assert "no_such_thing" in answer["message"]
    assert "stdout" not in answer  # it would say the same once more


def test_a_hook_that_fails_is_told_by_its_last_lines(client, write):
    write(conftest="def pytest_collection_modifyitems(items):\n    raise OSError('no shop')\n", test_it="x = 1\n")
    words = ask(client, namespace="test_it.py")["message"]
    assert words.startswith("the test run failed: RuntimeError: pytest could not run:\n")
    assert words.endswith("raise OSError('no shop')\nOSError: no shop")
    assert "conftest.py" in words
    assert len(words) < 1000


def test_a_pytest_that_cannot_be_imported_says_so_in_few_words(client, write):
    write(pytest="raise OSError('broken')\n")
    value(client, "import sys; kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name == 'pytest'}")
    try:
        answer = ask(client)
        assert answer["message"] == "the test run failed: OSError: broken"
        assert len(answer["stdout"]) < 1000
    finally:
        value(client, "sys.modules.update(kept)")


def test_a_file_that_fails_while_it_is_imported_keeps_its_place(live, client, write):
    write(test_unread="print('begun')\n1 / 0\n")
    (row,) = ask(client, namespace="test_unread")["results"]
    assert (row["file"], row["line"]) == (str(live.workspace / "test_unread.py"), 2)


def test_a_repl_whose_folder_is_gone_says_so(tmp_path):
    project(tmp_path, has_pytest=True)
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        value(client, "1")
        value(client, f"import shutil; shutil.rmtree({str(live.workspace)!r})")
        words = f"the test run failed: FileNotFoundError: the REPL's folder {live.workspace} is gone"
        assert ask(client)["message"] == words


def test_a_run_that_takes_too_long_is_interrupted_and_the_repl_goes_on(live, client, write):
    loop = "def test_forever(tmp_path):\n    open({!r}, 'w').close()\n    while True: pass\n"
    mark = live.folder / "mark"
    write(test_slow=loop.format(str(mark)))
    call = client.begin_call("run_tests", namespace="test_slow", timeoutMs=600_000)
    until(mark.exists, "the test to run")
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}})
    assert value(client, "1 + 1") == "2"
    assert client.call("evaluate_code", code="print('heard')")["stdout"] == "heard\n"


def test_settings_that_would_run_the_tests_elsewhere_or_refuse_the_rewriting_do_no_harm(live, client, write):
    settings = live.workspace / "pytest.ini"
    settings.write_text("[pytest]\nfilterwarnings = error\naddopts = -q -s --strict-markers -k 'not slow'\n")
    try:
        write(test_strict="import json\n\ndef test_it(tmp_path): pass\n\ndef test_slow(tmp_path): pass\n")
        value(client, "import anyio, hypothesis")
        assert counts(ask(client, namespace="test_strict")) == (1, 1, 0, 0)
        answer = ask(client, namespace="test_strict", test="test_slow")
        assert "settings of pytest deselect it" in answer["message"]
    finally:
        settings.unlink()


def test_packages_of_a_project_with_its_sources_apart_are_themselves(live, client, write):
    for folder in ("src/depot", "tests/unit"):
        (live.workspace / folder).mkdir(parents=True, exist_ok=True)
    write(**{
        "src/depot/__init__": "",
        "src/depot/tax": "rate = 2\n",
        "src/depot/core": "from . import tax\n\ndef price(n): return n * tax.rate\n",
        "tests/__init__": "",
        "tests/unit/__init__": "",
        "tests/conftest": "import pytest\n\n@pytest.fixture\ndef one(): return 1\n",
        "tests/unit/conftest": "import pytest\n\n@pytest.fixture\ndef two(one): return one + 1\n",
        "tests/unit/test_core": "from depot import core\n\ndef test_it(two): assert core.price(two) == 5\n",
    })  # fmt: skip
    settings = live.workspace / "pytest.ini"
    settings.write_text("[pytest]\npythonpath = src\n")
    try:
        answer = ask(client, namespace="tests.unit.test_core")
        assert "assert 4 == 5" in answer["results"][0]["actual"]
        value(client, "import depot.tax\ndepot.tax.rate = 2.5")
        assert ask(client, namespace="tests.unit.test_core")["ok"]
    finally:
        settings.unlink()


def test_tests_in_folders_are_found_by_the_name_the_repl_has_for_them(live, client, write):
    (live.workspace / "checks").mkdir(exist_ok=True)
    write(**{"checks/test_deep": "def test_it(tmp_path): assert 0\n"})
    answer = ask(client, namespace="checks.test_deep")
    assert (answer["results"][0]["ns"], answer["results"][0]["line"]) == ("checks.test_deep", 1)


def test_without_pytest_plain_tests_run_and_the_others_are_named(tmp_path):
    workspace = project(tmp_path, has_pytest=False)
    (workspace / "test_plain.py").write_text("def test_it(): pass\n\ndef test_given(tmp_path): pass\n")
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        value(client, "1")
        answer = ask(client, namespace="test_plain")
        assert counts(answer) == (1, 1, 0, 0)
        assert "test_plain.test_given takes arguments or is async; install pytest" in answer["stdout"]
        words = "pytest 7 or later is not installed in this REPL's environment ("
        assert words in ask(client, namespace="test_plain.py")["message"]
        (workspace / "test_needy.py").write_text("import pytest\n")
        assert words in ask(client, namespace="test_needy")["message"]
        value(client, "import sys; sys.modules.pop('test_plain')")
        assert words in str(ask(client))
        fresh = ask(client, fresh=True)
        assert (fresh["message"], words in fresh["stdout"]) == ("there are no tests in a new process", True)


def test_files_are_loaded_and_tests_are_run_as_tasks(live, write):
    write(loaded_as_task="answer = 42\n", test_as_task="def test_good(): pass\ndef test_bad(): assert False\n")
    with speaking(live, "2025-11-25", capabilities={"tasks": {}}) as client:

        def done(tool, **arguments):
            task = client.ask("tools/call", name=tool, arguments=arguments, task={})["task"]["taskId"]
            told = client.ask("tasks/result", taskId=task)["content"][0]["text"]
            return json.loads(told), client.ask("tasks/get", taskId=task)["status"]

        listed = until(lambda: [t for t in client.ask("tools/list")["tools"] if t["name"] == "run_tests"], "the REPL")
        assert listed[0]["execution"] == {"taskSupport": "optional"}
        loaded, _ = done("load_file", filePath="loaded_as_task.py", detail=True)
        assert loaded["status"] == "done"
        tested, status = done("run_tests", namespace="test_as_task.py")
        assert (tested["reason"], status) == ("tests-failed", "failed")
