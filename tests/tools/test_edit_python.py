"""`edit_files` in a Python project: it changes definitions in the file and loads only those."""

import pytest
from live_server import serving, until_connected, user_settings_file

SHOP = """\
from __future__ import annotations

import datetime

sold = 0


def rate(order: Missing) -> int:
    return 2


class Order:
    def total(self):
        return rate(self)
"""


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    user_settings_file(folder).write_text("evaluateTimeoutMs = 8000\n")
    with serving(folder, "--repl", "python") as running:
        yield running


@pytest.fixture
def shop(live, client, request):
    name = f"shop_{abs(hash(request.node.name))}"
    file = live.workspace / f"{name}.py"
    file.write_text(SHOP)
    assert client.call("load_file", filePath=str(file))["ok"]
    assert client.call("evaluate_code", code=f"import {name} as shop\nshop.sold = 7\norder = shop.Order()")["ok"]
    return file


def edit(client, file, *edits, **arguments):
    return client.call(
        "edit_files", edits=[{"filePath": file.name, **item} for item in edits], detail=False, **arguments
    )


def evaluate(client, code):
    answer = client.call("evaluate_code", code=code)
    assert answer["ok"], answer
    return answer["result"]


RATE = {"type": "replace_def", "name": "rate", "code": "def rate(order: Missing) -> int:\n    return 3"}
HALF = {"type": "insert_def", "name": "Order", "side": "in", "code": "def half(self):\n    return self.total() / 2"}


def test_only_changed_definitions_are_loaded_and_module_state_survives(live, client, shop):
    answer = edit(client, shop, RATE, HALF, load=True)
    assert answer["ok"], answer
    assert (
        shop.read_text()
        == SHOP.replace("return 2", "return 3") + "\n    def half(self):\n        return self.total() / 2\n"
    )
    assert evaluate(client, "shop.sold, order.total(), order.half(), shop.rate.__annotations__['order']") == (
        "(7, 3, 1.5, 'Missing')"
    )
    assert client.call("undo_edit")["ok"]
    assert shop.read_text() == SHOP


@pytest.mark.parametrize("undo", ["undo_edit", "edit_files"])
def test_undoing_a_loaded_edit_loads_the_previous_code(client, shop, undo):
    assert edit(client, shop, RATE, HALF, load=True)["ok"]
    answer = client.call("undo_edit") if undo == "undo_edit" else edit(client, shop, {"type": "undo"})
    assert answer["ok"], answer
    assert not {"note", "notes"} & answer.keys(), answer
    assert evaluate(client, "shop.rate(1), shop.sold, hasattr(order, 'half')") == "(2, 7, False)"


def test_undoing_an_edit_that_was_not_loaded_loads_nothing(client, shop):
    assert edit(client, shop, RATE)["ok"]
    assert client.call("evaluate_code", code="shop.rate = lambda order: 9")["ok"]
    assert "note" not in client.call("undo_edit"), "it was never loaded"
    assert evaluate(client, "shop.rate(1)") == "9"
    assert edit(client, shop, RATE)["ok"]
    assert client.call("load_file", filePath=shop.name)["ok"]
    assert client.call("undo_edit")["note"] == f"py still runs the edited code: load_file {shop.name}"
    assert evaluate(client, "shop.rate(1)") == "3"


def test_an_undo_does_not_load_into_a_process_that_started_after_the_edit(client, shop):
    assert edit(client, shop, RATE, load=True)["ok"]
    assert client.call("restart_repl", replSessionKey="py")["ok"]
    until_connected(client)
    answer = client.call("undo_edit")
    assert (answer["ok"], answer["files"][0].keys() & {"load", "notLoaded"}) == (True, set()), answer
    assert evaluate(client, f"{shop.stem!r} in __import__('sys').modules") == "False"


def test_a_file_in_the_encoding_that_it_declares_can_be_loaded(live, client):
    file = live.workspace / "latin.py"
    text = "# -*- coding: latin-1 -*-\nname = 'caf\xe9'\n\n\ndef shout():\n    return name + '!'\n"
    file.write_bytes(text.encode("latin-1"))
    answer = client.call("load_file", filePath=file.name)
    assert answer["ok"], answer
    assert evaluate(client, "import latin; latin.shout()") == "'caf\xe9!'"
    exclaim = {"type": "text", "oldText": "name + '!'", "newText": "'\xa1' + name + '!'"}
    assert edit(client, file, exclaim, load=True)["ok"]
    assert evaluate(client, "latin.shout()") == "'\xa1caf\xe9!'"
    answer = client.call("undo_edit")
    assert "return '\xa1' + name" in answer["files"][0]["diff"], answer
    assert (evaluate(client, "latin.shout()"), file.read_bytes()) == ("'caf\xe9!'", text.encode("latin-1"))
    assert "caf\xe9" in client.call("symbol_info", symbol="latin.py:2")["source"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"name = 'caf\xe9'\n", "the file's encoding cannot be determined"),
        (b"# coding: nonsense\n", "unknown encoding: nonsense"),
        (b"# coding: ascii\nname = 'caf\xe9'\n", "the file is not valid ascii: the byte at offset 27 is invalid"),
        (b"# coding: hex\n", "which is not a text encoding"),
    ],
)
def test_a_file_that_is_not_in_its_declared_encoding_is_refused(live, client, content, reason):
    (live.workspace / "wrong.py").write_bytes(content)
    answer = client.call("load_file", filePath="wrong.py")
    assert (answer["reason"], reason in answer["message"]) == ("file-unreadable", True), answer


def test_lines_are_counted_as_python_counts_them(live, client):
    file = live.workspace / "paged.py"
    file.write_bytes(b"a = 1\n\x0c\nb = '\xe2\x80\xa8'\nc = 3\n")
    assert "c = 3" in client.call("symbol_info", symbol="paged.py:4")["source"].splitlines()[-1]


def test_repeating_an_edit_adds_no_repetition_note(client, shop):
    for number in (3, 2, 3):
        answer = edit(client, shop, {**RATE, "code": RATE["code"].replace("3", str(number))}, load=True)
        assert "notes" not in answer["files"][0]["load"], answer


def test_a_changed_comment_loads_nothing(client, shop):
    answer = edit(
        client, shop, {**RATE, "code": "def rate(order: Missing) -> int:\n    # two\n    return 2"}, load=True
    )
    assert answer["files"][0]["notLoaded"] == "the file's code did not change"


def test_a_variable_is_replaced_by_name_and_loaded(client, shop):
    value = {"type": "replace_def", "name": "Order.limit", "code": "limit = 2"}
    text = SHOP + "    limit = 1  # orders\n"
    shop.write_text(text)
    assert client.call("load_file", filePath=str(shop))["ok"]
    assert edit(client, shop, value, load=True)["ok"]
    assert shop.read_text() == text.replace("limit = 1", "limit = 2")
    assert evaluate(client, "shop.Order.limit, order.limit, shop.sold") == "(2, 2, 7)"


def test_a_definition_removed_from_the_file_is_removed_from_the_module(client, shop):
    assert edit(client, shop, {"type": "replace_def", "name": "Order", "code": ""}, load=True)["ok"]
    assert evaluate(client, "hasattr(shop, 'Order'), shop.rate(1)") == "(False, 2)"


def test_the_answer_names_decorators_that_were_removed_with_a_definition(client, shop):
    shop.write_text(SHOP.replace("def rate", "@staticmethod\n@callable\ndef rate"))
    answer = edit(client, shop, RATE)
    note = "rate no longer has @staticmethod, @callable, because the new code has no decorators"
    assert answer["notes"] == [note]
    assert "notes" not in edit(client, shop, {**RATE, "code": "@callable\ndef rate(order):\n    return 4"})


def test_a_refused_edit_lists_valid_names_and_changes_nothing(client, shop):
    refused = edit(client, shop, RATE, {**HALF, "name": "Ordr"}, load=True)
    assert refused["reason"] == "edits-refused"
    assert "there is no definition named Ordr; there is Order" in refused["message"]
    assert shop.read_text() == SHOP
    bound = edit(client, shop, {**RATE, "name": "datetime"})
    assert "datetime is not a function, class or simple assignment. Replace its text" in bound["message"]
    for wrong in (
        {**RATE, "newForm": "x"},
        {**HALF, "side": "below"},
        {"type": "insert_def", "side": "in", "code": "x"},
    ):
        answer = edit(client, shop, wrong)
        assert answer["reason"] == "bad-arguments"
        assert "Value error" not in str(answer)


class TestRollback:
    """With `test` and `onFailure` a change that breaks a test is rolled back, and no other change is."""

    @pytest.fixture
    def tests(self, shop):
        file = shop.parent / f"test_{shop.name}"
        file.write_text(
            f"from {shop.stem} import rate\n\n\ndef test_rate():\n    assert rate(None) > 1\n"
            "\n\ndef test_more():\n    assert rate(None) < 9\n"
        )
        yield file
        file.unlink()

    @pytest.fixture
    def picture(self, client, shop):
        """Record the state that must be restored, and return a function that tests whether it is as recorded."""
        code = (
            "import sys\nif 'then' not in vars(): then = {}\n"
            "now = shop.rate, shop.Order, type(order), shop.rate.__code__, sorted(vars(shop))\n"
            f"then.setdefault({shop.stem!r}, now) == now"
        )
        assert evaluate(client, code) == "True"
        return lambda: (evaluate(client, code), shop.read_text(), evaluate(client, "shop.sold")) == ("True", SHOP, "7")

    @pytest.fixture
    def definitions(self, client, shop):
        """Record the definitions in the REPL, and return a function that tests whether they are unchanged."""
        code = "shop.rate, shop.Order, type(order), shop.rate.__code__, sorted(vars(shop))"
        evaluate(client, f"before = {code}\n1")
        return lambda: evaluate(client, f"({code}) == before") == "True"

    @pytest.mark.parametrize("name", ["affected", "file", "node"])
    def test_an_edit_whose_tests_pass_is_kept_and_reports_their_number(self, client, shop, tests, name):
        chosen = {"affected": "affected", "file": tests.name, "node": f"{tests.name}::test_rate"}[name]
        answer = edit(client, shop, RATE, load=True, test=[chosen], onFailure="restore")
        assert answer["ok"], answer
        assert answer["tests"] == {"passed": 1 if name == "node" else 2, "failed": 0, "unfinished": 0}
        assert answer.keys() - {"chosen"} == {"ok", "tests"}
        assert evaluate(client, "order.total(), shop.sold") == "(3, 7)"
        assert client.call("undo_edit")["ok"]

    def test_failing_tests_are_reported_once_and_everything_is_restored(self, client, shop, tests, picture):
        wrong = {**RATE, "code": "def rate(order):\n    return 0\n\n\nadded = 1"}
        answer = edit(client, shop, wrong, HALF, load=True, test=["affected"], onFailure="restore")
        assert (answer["ok"], answer["reason"]) == (False, "tests-failed")
        assert answer["tests"] == {"passed": 1, "failed": 1, "unfinished": 0}
        assert [row["test"] for row in answer["results"]] == [f"{tests.name}::test_rate"]
        assert answer["files"] == [{"filePath": shop.name, "applied": False}]
        assert answer["restored"].startswith("files and definitions are as before. Other effects of the load")
        assert picture()
        assert client.call("undo_edit")["reason"] == "nothing-to-undo"

    def test_failures_of_a_rolled_back_edit_are_logged_for_the_caller_but_not_in_the_handoff(self, client, shop, tests):
        assert client.call("evaluate_code", code="1", who="carol")["ok"]
        wrong = {**RATE, "code": "def rate(order):\n    return 0"}
        answer = edit(client, shop, wrong, load=True, test=["affected"], onFailure="restore", who="carol")
        assert "restored" in answer
        assert "otherWhosSinceLast" not in client.call("evaluate_code", code="1", who="carol")
        query = '[:find ?text :where [?e :output/who "carol"] [?e :output/text ?text]]'
        assert f"carol ran pytest {tests.name}: 2 tests, " in str(client.call("repl_output_log", query=query))
        resource = client.request("resources/read", {"uri": "codriver://handoff"})
        reported = resource["result"]["contents"][0]["text"]
        assert f"{tests.name}::test_rate" not in reported

    def test_a_failing_edit_is_kept_without_the_restore_option(self, client, shop, tests):
        answer = edit(client, shop, {**RATE, "code": "def rate(order): return 0"}, load=True, test=[tests.name])
        assert (answer["reason"], "restored" in answer, answer["files"][0]["applied"]) == ("tests-failed", False, True)
        assert "return 0" in shop.read_text()

    @pytest.mark.parametrize(
        ("code", "reason"),
        [
            ("made = 1\n\n\nrate = made / 0", "evaluation-failed"),
            ("import time\nwhile True:\n    rate = time.sleep(0.01)", "timed-out"),
        ],
    )
    def test_a_failed_or_endless_load_keeps_the_file_and_restores_definitions(
        self, client, shop, definitions, code, reason
    ):
        answer = edit(client, shop, {**RATE, "code": code}, HALF, load=True, onFailure="restore")
        assert (answer["ok"], answer["reason"]) == (False, reason), answer
        assert answer["kept"].startswith("the edit is kept although its load failed")
        assert ("restored" in answer, answer["files"][0]["applied"]) == (False, True)
        assert code in shop.read_text()
        assert definitions()

    def test_a_load_failure_in_the_repl_does_not_roll_back_an_edit_whose_tests_pass(self, client, shop, tests):
        code = "import sys\nif 'then' in vars(sys.modules['__main__']): 1 / 0\n\n\ndef rate(order):\n    return 3"
        evaluate(client, "then = 1\nthen")
        answer = edit(client, shop, {**RATE, "code": code}, load=True, test=["affected"], onFailure="restore")
        evaluate(client, "del then\n1")
        assert (answer["ok"], answer["reason"], answer["tests"]["passed"]) == (False, "evaluation-failed", 2), answer
        assert code in shop.read_text()

    @pytest.mark.parametrize("how", ["keep", "restore"])
    def test_an_edit_without_matching_tests_is_kept(self, client, shop, how):
        kept = edit(client, shop, RATE, load=True, test=["affected"], onFailure=how)
        assert (
            kept["notTested"]
            == f"no test runs, imports or is named after {shop.name}. Name the tests, or call run_tests"
        )
        assert (kept["ok"], "tests" in kept, "return 3" in shop.read_text()) == (True, False, True)

    def test_a_new_module_that_fails_to_load_is_removed_from_the_repl(self, client, shop, definitions):
        new = {"type": "create", "filePath": "fresh_one.py", "content": "value = 1\n1 / 0\n"}
        answer = edit(client, shop, RATE, new, load=True, onFailure="restore")
        assert answer["error"]["class"] == "ZeroDivisionError"
        assert definitions()
        (shop.parent / "fresh_one.py").unlink()
        assert evaluate(client, "import sys; 'fresh_one' in sys.modules") == "False"

    def test_earlier_failures_and_newly_added_tests_do_not_roll_back_an_edit(self, client, shop, tests):
        tests.write_text(f"{tests.read_text()}\n\ndef test_wrong():\n    assert rate(None) == 8\n")
        assert client.call("run_tests", paths=[tests.name], timeoutMs=60_000)["failed"] == 1
        added = {"type": "append", "filePath": tests.name, "code": "def test_added():\n    assert rate(None) == 9\n"}
        answer = edit(client, shop, RATE, added, load=True, test=["affected"], onFailure="restore")
        assert (answer["failedBefore"], answer["tests"]) == (
            [f"{tests.name}::test_wrong"], {"passed": 2, "failed": 2, "unfinished": 0},
        ), answer  # fmt: skip
        assert (answer["ok"], "restored" in answer, "return 3" in shop.read_text()) == (False, False, True)
        assert [row["test"] for row in answer["results"]] == [f"{tests.name}::test_added"]

    def test_a_flaky_test_does_not_roll_back_an_edit(self, client, shop, tests):
        flag = shop.parent / "flag.txt"
        tests.write_text(
            f"import os\nfrom {shop.stem} import rate\n\n\ndef test_rate():\n    if rate(None) == 3:\n"
            f"        assert os.path.exists({str(flag)!r}) or open({str(flag)!r}, 'w').close()\n"
        )
        answer = edit(client, shop, RATE, load=True, test=["affected"], onFailure="restore")
        assert (answer["ok"], answer["flaky"]) == (True, [f"{tests.name}::test_rate"]), answer
        assert "return 3" in shop.read_text()

    def test_an_edit_that_breaks_tests_in_files_of_the_same_name_is_reverted(self, client, shop, tests):
        text = f"from {shop.stem} import rate\n\n\ndef test_rate():\n    assert rate(None) == 2\n"
        names = [f"{package}_{shop.stem}/test_same.py" for package in ("one", "two")]
        for file in map(shop.parent.joinpath, names):
            file.parent.mkdir()
            file.with_name("pytest.ini").write_text("[pytest]\n")
            file.write_text(text)
        answer = edit(client, shop, RATE, load=True, test=["affected"], onFailure="restore")
        assert (answer["ok"], answer["tests"]["failed"], "restored" in answer) == (False, 2, True), answer
        assert {row["test"] for row in answer["results"]} >= {f"{name}::test_rate" for name in names}, answer
        assert shop.read_text() == SHOP

    @pytest.mark.parametrize("how", ["keep", "restore"])
    def test_an_edit_is_not_ok_while_a_chosen_test_fails(self, client, shop, tests, how):
        tests.write_text(f"{tests.read_text()}\n\ndef test_wrong():\n    assert rate(None) == 8\n")
        wrong = f"{tests.name}::test_wrong"
        assert client.call("run_tests", paths=[wrong], timeoutMs=60_000)["failed"] == 1
        answer = edit(client, shop, RATE, load=True, test=[wrong], onFailure=how)
        assert (answer["ok"], answer["reason"], answer["tests"]["failed"]) == (False, "tests-failed", 1), answer
        assert ("restored" in answer, "return 3" in shop.read_text()) == (False, True)
        assert answer.get("failedBefore") == ([wrong] if how == "restore" else None)

    @pytest.mark.parametrize("how", ["keep", "restore"])
    def test_a_test_file_that_does_not_exist_is_refused_before_anything_is_written(self, client, shop, tests, how):
        before = shop.read_text()
        missing = ["tests/test_nothing.py", "test_nothing.py::test_it"]
        answer = edit(client, shop, RATE, load=True, test=[tests.name, *missing], onFailure=how)
        assert (answer["ok"], answer["reason"]) == (False, "no-tests"), answer
        assert answer["message"] == f"`test` names {', '.join(missing)}, which does not exist, so nothing was written"
        assert shop.read_text() == before

    def test_a_test_file_that_the_edits_create_is_run(self, client, shop, tests):
        text = f"from {shop.stem} import rate\n\n\ndef test_new():\n    assert rate(None) == 3\n"
        new = {"type": "create", "filePath": f"test_new_{shop.name}", "content": text}
        answer = edit(client, shop, RATE, new, load=True, test=[f"test_new_{shop.name}"], onFailure="restore")
        assert (answer["ok"], answer["tests"]["passed"]) == (True, 1), answer

    def test_the_answer_names_a_test_that_is_missing_from_its_file(self, client, shop, tests):
        answer = edit(client, shop, RATE, load=True, test=[f"{tests.name}::test_nothing"], onFailure="restore")
        assert (answer["ok"], answer["reason"]) == (False, "no-tests"), answer
        assert "test_nothing" in answer["message"]

    def test_an_edit_that_restores_the_loaded_code_adds_no_note_about_the_load(self, client, shop, tests):
        shop.write_text(SHOP.replace("return 2", "return 1"))
        answer = edit(client, shop, {"oldText": "return 1", "newText": "return 2"}, load=True, test=["affected"])
        assert (answer["ok"], "files" in answer, "notes" in answer) == (True, False, False), answer

    def test_unfinished_tests_do_not_roll_back_an_edit(self, client, shop, tests):
        tests.write_text(f"{tests.read_text()}\n\ndef test_slow():\n    import time\n    time.sleep(600)\n")
        answer = edit(client, shop, RATE, load=True, test=["affected"], onFailure="restore", limitMs=4000)
        assert (answer["ok"], answer["reason"]) == (False, "timed-out"), answer
        assert answer["message"] == (
            f"the edit is kept, but 1 test has not finished within 4 s: {tests.name}::test_slow was running"
        )
        assert (answer["tests"], answer["notFinished"]) == (
            {"passed": 2, "failed": 0, "unfinished": 1}, [tests.name],
        )  # fmt: skip
        assert "return 3" in shop.read_text()
        assert client.call("server_health")["evaluations"]["running"] == 0

    def test_the_restore_option_is_refused_before_writing_if_there_is_no_repl(self, live, client, shop):
        form = {"type": "create", "filePath": "a.clj", "content": "(ns a)\n"}
        refused = client.call("edit_files", edits=[form], load=True, onFailure="restore")
        assert (refused["reason"], "nothing was written" in refused["message"]) == ("no-repl", True)
        assert not (live.workspace / "a.clj").exists()

    @pytest.mark.parametrize(
        "code", ["globals()['__builtins__'] = {}", "import sys\nsys.modules[__name__] = None", "del __builtins__"]
    )
    def test_a_file_whose_load_broke_its_module_can_be_loaded_again(self, client, shop, definitions, code):
        answer = edit(client, shop, {**RATE, "code": f"{code}\n1 / 0"}, load=True, onFailure="restore")
        assert (answer["ok"], "leftAsNewer" in answer) == (False, False), answer
        assert definitions()
        assert client.call("undo_edit")["ok"]
        assert client.call("load_file", filePath=shop.name)["ok"]

    @pytest.mark.parametrize("failing", ["load", "test"])
    def test_a_class_added_by_a_failed_edit_is_no_longer_listed_as_a_subclass(
        self, client, shop, tests, picture, failing
    ):
        assert evaluate(client, "shop.Order.__subclasses__()") == "[]"
        special = {"type": "insert_def", "code": "class Special(Order):\n    pass\n\n\nmade = Special()"}
        wrong = {"load": {**RATE, "code": "rate = 1 / 0"}, "test": {**RATE, "code": "def rate(order):\n    return 0"}}
        answer = edit(client, shop, special, wrong[failing], load=True, test=["affected"], onFailure="restore")
        assert answer["reason"] == {"load": "evaluation-failed", "test": "tests-failed"}[failing]
        assert answer.get("leftAsNewer") is None
        assert evaluate(client, "shop.Order.__subclasses__()") == "[]"
        assert picture()

    def test_a_failed_load_of_a_non_module_file_restores_the_session_names(self, live, client):
        file = live.workspace / "no-module.py"
        file.write_text("def cost():\n    return 1\n")
        assert client.call("load_file", filePath=file.name)["ok"]
        wrong = {"type": "replace_def", "name": "cost", "code": "def cost():\n    return 2\n\n\nadded = 1\n1 / 0"}
        answer = edit(client, file, wrong, load=True, onFailure="restore")
        assert (answer["ok"], "restored" in answer) == (False, False), answer
        assert evaluate(client, "cost(), 'added' in globals()") == "(1, False)"

    def test_a_class_with_live_instances_is_reported_as_not_removed(self, client, shop):
        assert evaluate(client, "held = []\nheld") == "[]"
        code = "class Special(Order):\n    pass\n\n\nsys.modules['__main__'].held.append(Special())\n1 / 0"
        append = {"type": "insert_def", "code": f"import sys\n\n\n{code}"}
        answer = edit(client, shop, append, load=True, onFailure="restore")
        assert answer["leftAsNewer"] == [f"{shop.stem}.Special"], answer
        assert evaluate(client, "isinstance(held[0], shop.Order)") == "True"

    def test_the_answer_names_a_repl_that_dies_during_a_load(self, client, shop):
        dying = {**RATE, "code": "import os\nos._exit(3)"}
        answer = edit(client, shop, dying, load=True, onFailure="restore")
        assert not answer["ok"]
        assert "except that the REPL py" in answer["kept"], answer
        assert client.call("undo_edit")["ok"]
        client.call("restart_repl")
        until_connected(client)
