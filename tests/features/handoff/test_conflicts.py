"""Conflicts between callers: a caller that uses or replaces what another redefined is notified once, and nobody
else.
"""

import re
from types import MappingProxyType

import pytest

from codriver.core.evaluations import Evaluation
from codriver.core.state import Client, State
from codriver.features.handoff.conflict_ledger import (
    MAX_CODE_CHARACTERS,
    MAX_SUBMISSIONS,
    ReplHistory,
    Submission,
    find_conflicts,
)
from codriver.tools.ledgers.delivered_notes import DeliveredNotes

AGO = re.compile(r"\d+ s ago")
FILE = "(ns shop.core)\n(def price 43)\n(defn total [n] (* n price))"


class SharedRepl:
    """Callers at one REPL whose code is recorded in the order in which it was sent."""

    def __init__(self, language="lisp", space="shop.core"):
        self.history = ReplHistory(1)
        self.language, self.space = language, space
        self.clients, self.evaluations = {}, {}

    def connect(self, *who):
        for item in who:
            self.clients[item] = Client(item, since=len(self.history.submissions))

    def evaluate(self, who, code, *, space=None, is_file=False, status="done"):
        if who not in self.clients:
            self.connect(who)
        number = len(self.history.submissions) + 1
        submission = Submission(
            f"e{number}", number, who, who, 1000 * number, code, self.language, space or self.space, is_file=is_file
        )
        self.evaluations[submission.evaluation] = Evaluation(
            submission.evaluation, number, "r", "main", who, who, None, code[:20], status
        )
        self.history.add(submission)
        state = State(clients=self.clients, evaluations=MappingProxyType(self.evaluations))
        return [conflict.description(20_000) for conflict in find_conflicts(state, self.history, submission)]


@pytest.fixture
def repl():
    repl = SharedRepl()
    repl.connect("claude", "copilot")
    repl.evaluate("claude", FILE, is_file=True)
    return repl


REDEFINED = "copilot redefined `shop.core/price` 18 s ago (eval e2, 43 → 100)"


def test_a_caller_that_uses_a_name_redefined_by_another_is_notified(repl):
    assert repl.evaluate("copilot", "(def price 100)") == []
    assert repl.evaluate("claude", "(total price)") == [REDEFINED]


def test_a_caller_that_replaces_a_redefinition_is_notified_with_the_difference(repl):
    repl.evaluate("copilot", "(def price 100)")
    note = f"{REDEFINED}, and this code replaces it:\n-(def price 100)\n+(def price 50)"
    assert repl.evaluate("claude", "(def price 50)") == [note]


def test_a_caller_that_loads_an_unchanged_file_is_notified_of_redefinitions_that_it_reverts(repl):
    repl.evaluate("copilot", "(def price 100)")
    (note,) = repl.evaluate("claude", FILE, is_file=True)
    assert note.startswith(REDEFINED)
    assert note.endswith("-(def price 100)\n+(def price 43)")


@pytest.mark.parametrize(
    "code",
    [
        "(alter-var-root #'price (constantly 100))",
        "(alter-var-root #'shop.core/price inc)",
        "(alter-var-root (var price) inc)",
        "(intern 'shop.core 'price 100)",
    ],
)
def test_a_load_that_reverts_a_changed_var_root_is_noted(repl, code):
    repl.evaluate("copilot", code)
    (note,) = repl.evaluate("claude", FILE, is_file=True)
    assert note.startswith("copilot redefined `shop.core/price` 18 s ago (eval e2")
    assert note.endswith(f"and this code replaces it:\n-{code}\n+(def price 43)")


@pytest.mark.parametrize(
    "code",
    ["(total 1)", "(let [price 1] price)", "(def other 1)", "(def price 100)", "(other/price)", ":price", "(inc 1)"],
)
def test_a_caller_that_runs_unrelated_code_is_not_notified(repl, code):
    repl.evaluate("copilot", "(def price 100)")
    assert repl.evaluate("claude", code) == []


@pytest.mark.parametrize("other", ["(in-ns (quote other.ns))", "(in-ns (symbol name))"])
def test_defining_the_name_in_another_namespace_is_not_a_conflict(repl, other):
    repl.evaluate("copilot", "(in-ns (quote foo.bar)) (def zz 1)", space="user")
    assert repl.evaluate("claude", f"{other} (def zz 3)", space="user") == []


def test_a_redefinition_that_only_changes_layout_is_not_a_conflict(repl):
    repl.evaluate("copilot", "(def  price ; cents\n  43)")
    assert repl.evaluate("claude", "price") == []


def test_a_reverted_redefinition_is_not_a_conflict(repl):
    repl.evaluate("copilot", "(def price 100)")
    repl.evaluate("copilot", "(def price 43)")
    assert repl.evaluate("claude", "price") == []


def test_several_redefinitions_are_reported_as_one_change(repl):
    repl.evaluate("copilot", "(def price 100)")
    repl.evaluate("copilot", "(def price 200)")
    assert repl.evaluate("claude", "price") == ["copilot redefined `shop.core/price` 17 s ago (eval e3, 43 → 200)"]


@pytest.mark.parametrize("status", ["failed", "interrupted", "lost", "queued"])
def test_code_that_did_not_complete_does_not_count_as_a_redefinition(repl, status):
    repl.evaluate("copilot", "(def price 100)", status=status)
    assert repl.evaluate("claude", "price") == []


def test_a_later_caller_is_notified_only_when_replacing_a_redefinition(repl):
    repl.evaluate("copilot", "(def price 100)")
    assert repl.evaluate("late", "price") == []
    assert len(repl.evaluate("late", "(def price 50)")) == 1


def test_a_callers_own_redefinitions_are_not_reported_even_after_a_reconnect(repl):
    repl.evaluate("copilot", "(def price 100)")
    del repl.clients["copilot"]
    repl.connect("copilot-again")
    again = Submission("e9", 9, "copilot", "copilot-again", 9000, "(def price 1)", "lisp", "shop.core")
    repl.history.add(again)
    assert (
        find_conflicts(State(clients=repl.clients, evaluations=MappingProxyType(repl.evaluations)), repl.history, again)
        == []
    )


def test_a_name_used_before_its_definition_was_logged_counts_as_redefined():
    repl = SharedRepl()
    repl.evaluate("claude", "(inc price)")
    repl.connect("copilot")
    repl.evaluate("copilot", "(def price 100)")
    assert repl.evaluate("claude", "(dec price)") == ["copilot redefined `shop.core/price` 18 s ago (eval e2)"]


def test_a_new_definition_is_reported_only_when_it_is_replaced(repl):
    repl.evaluate("copilot", "(def discount 5)")
    assert repl.evaluate("claude", "(- price discount)") == []
    (note,) = repl.evaluate("claude", "(def discount 6)")
    assert note.startswith("copilot defined `shop.core/discount` 18 s ago (eval e2), and this code replaces it")


def test_a_defonce_does_not_count_as_a_redefinition(repl):
    repl.evaluate("claude", "(defonce state 1)")
    repl.evaluate("copilot", "(defonce state 2)")
    assert repl.evaluate("claude", "state") == []


def test_an_aliased_name_of_a_required_namespace_counts_as_used(repl):
    repl.evaluate("claude", "(ns app (:require [shop.core :as c]))", space="user")
    repl.evaluate("copilot", "(def price 100)")
    assert len(repl.evaluate("claude", "(* 2 c/price)", space="app")) == 1


def test_python_code_is_parsed_as_python():
    repl = SharedRepl("python", "__main__")
    repl.connect("claude", "copilot")
    repl.evaluate("claude", "def price():\n    return 43")
    repl.evaluate("copilot", "def price():\n    return 100")
    assert repl.evaluate("claude", "price() + 1") == ["copilot redefined `price` 18 s ago (eval e2, 43 → 100)"]
    assert repl.evaluate("claude", "def f(price): return price") == []


def test_only_a_limited_number_of_submissions_is_recorded(repl):
    for _ in range(MAX_SUBMISSIONS + 10):
        repl.history.add(
            Submission("e", len(repl.history.submissions) + 5000, "a", "a", 0, "(def x 1)", "lisp", "user")
        )
    assert len(repl.history.submissions) == MAX_SUBMISSIONS
    repl.history.add(Submission("e", 10_000, "a", "a", 0, " " * MAX_CODE_CHARACTERS, "lisp", "user"))
    assert repl.history.characters <= MAX_CODE_CHARACTERS
    assert not any(repl.history.by_name.values())


def test_each_conflict_is_reported_once():
    notes = DeliveredNotes()
    assert [notes.claim("claude", ("e1", "price")) for _ in range(2)] == [True, False]


@pytest.mark.slow
def test_each_caller_of_a_real_server_is_notified_once(live):
    with live.client(name="claude") as claude, live.client(name="copilot") as copilot:
        claude.call("evaluate_code", code="def price():\n    return 43")
        alone = claude.call("evaluate_code", code="price()", detail=False)
        copilot.call("evaluate_code", code="def price():\n    return 100")
        notes = claude.call("evaluate_code", code="price()")["notes"]
        assert [note for note in notes if note.startswith("copilot redefined `price` ")]
        assert not [note for note in claude.call("evaluate_code", code="price()")["notes"] if "redefined" in note]
        assert "notes" not in alone
        claude.call("evaluate_code", code="price = 50", isolate=True)
        assert not [note for note in copilot.call("evaluate_code", code="price()")["notes"] if "redefined" in note]


@pytest.mark.slow
@pytest.mark.parametrize("uses_it_first", [False, True])
def test_loading_an_unchanged_file_names_the_caller_whose_redefinition_is_undone(live, uses_it_first):
    name, number = f"undone_{uses_it_first}".lower(), int(uses_it_first)
    (live.workspace / f"{name}.py").write_text("def price(x):\n    return x\n")
    with live.client(name=f"ann{number}") as ann, live.client(name=f"bob{number}") as bob:
        bob.call("load_file", filePath=f"{name}.py")
        ann.call("evaluate_code", code="def price(x):\n    return 2 * x", namespace=name)
        if uses_it_first:
            used = bob.call("evaluate_code", code="price(3)", namespace=name)
            assert any(note.startswith(f"ann{number} redefined `{name}.price`") for note in used["notes"])
        notes = bob.call("load_file", filePath=f"{name}.py")["notes"]
        (note,) = [note for note in notes if note.startswith(f"ann{number} redefined `{name}.price`")]
        assert "and this code replaces it:\n-    return 2 * x\n+    return x" in note
        assert bob.call("evaluate_code", code="price(3)", namespace=name)["result"] == "3"
        again = bob.call("load_file", filePath=f"{name}.py")
        assert not [note for note in again.get("notes", ()) if "redefined" in note]


@pytest.mark.slow
def test_the_second_of_two_clients_editing_one_file_is_notified(live):
    file = live.workspace / "shop.clj"
    file.write_text("(ns shop)\n\n(def price 43)\n")

    def edited(client, before, after):
        edit = {"type": "replace", "filePath": str(file), "line": 3, "targetLineText": before, "newForm": after}
        answer = client.call("edit_files", edits=[edit])
        assert answer["ok"], answer
        return answer.get("notes", [])

    with live.client(name="claude") as claude, live.client(name="copilot") as copilot:
        assert edited(copilot, "(def price 43)", "(def price 100)") == []
        (note,) = edited(claude, "(def price 100)", "(def price 50)")
        assert AGO.sub("now", note).startswith(
            "copilot redefined `shop/price` now (in shop.clj, 43 → 100), and this code replaces"
        )
        assert edited(claude, "(def price 50)", "(def price 60)") == []
        (note,) = edited(copilot, "(def price 60)", "(def price 60)\n(def other 1)")
        assert AGO.sub("now", note) == "claude edited shop.clj now"


@pytest.mark.slow
def test_the_answer_to_a_hook_names_another_client_that_edited_the_file_once(live):
    file = live.workspace / "notes.py"
    file.write_text("x = 1\n")

    def edited(client, who):
        answer = client.call("note_edit", event="edited", filePath=str(file), who=who)
        return answer.get("context", "")

    with live.client(name="codriver-hook") as item, live.client(name="codriver-hook") as two:
        output = [edited(item, "claude"), edited(item, "claude"), edited(two, "copilot"), edited(two, "copilot")]
    assert [AGO.sub("now", text) for text in output] == ["", "", "claude edited notes.py now", ""]


@pytest.mark.parametrize(("sent", "how"), [
    ({"code": "def price():\n    return 100", "namespace": "shop_i"}, "43 → 100"),
    ({"code": "import shop_i\nshop_i.price = lambda: 100"}, ""),
])  # fmt: skip
def test_redefining_an_imported_name_is_reported_as_a_conflict(live, sent, how):
    (live.workspace / "shop_i.py").write_text("def price():\n    return 43\n")
    with live.client(name="claude") as claude, live.client(name="copilot") as copilot:
        assert claude.call("evaluate_code", code="import shop_i\nshop_i.price()", who="claude")["ok"]
        assert copilot.call("evaluate_code", code="import shop_i", who="copilot")["ok"]
        assert copilot.call("evaluate_code", **sent, who="copilot")["ok"]
        answer = claude.call("evaluate_code", code="shop_i.price()", who="claude")
        (note,) = [note for note in answer["notes"] if "redefined" in note]
        assert "copilot redefined `shop_i.price`" in note
        assert how in note
        again = claude.call("evaluate_code", code="shop_i.price()", who="claude")
        assert not [note for note in again.get("notes", ()) if "redefined" in note]
        claude.call("evaluate_code", code="import sys; del sys.modules['shop_i'], shop_i")


def test_another_callers_loaded_edit_of_an_imported_module_is_reported(live):
    (live.workspace / "shop_e.py").write_text("def price():\n    return 43\n")
    with live.client(name="claude") as claude, live.client(name="copilot") as copilot:
        assert claude.call("evaluate_code", code="import shop_e\nshop_e.price()", who="claude")["ok"]
        edit = {"filePath": "shop_e.py", "oldText": "43", "newText": "100"}
        assert copilot.call("edit_files", edits=[edit], load=True, who="copilot")["ok"]
        answer = claude.call("evaluate_code", code="shop_e.price()", who="claude")
        (note,) = [note for note in answer["notes"] if "redefined" in note]
        assert "copilot redefined `shop_e.price`" in note
        assert "43 → 100" in note


def test_a_loaded_edit_by_another_caller_is_reported_once_unless_it_was_undone(live):
    (live.workspace / "shop_k.py").write_text("def price():\n    return 43\n")

    def edited(client, who, before, after, **more):
        answer = client.call(
            "edit_files", edits=[{"filePath": "shop_k.py", "oldText": before, "newText": after}], who=who, **more
        )
        return [note for note in answer.get("notes", ()) if "redefined" in note]

    with live.client(name="claude") as claude, live.client(name="copilot") as copilot:
        assert claude.call("load_file", filePath="shop_k.py", who="claude")["ok"]
        edited(copilot, "copilot", "43", "100", load=True)
        (note,) = edited(claude, "claude", "100", "50")
        assert "copilot redefined `shop_k.price`" in note
        edited(copilot, "copilot", "50", "7")
        assert copilot.call("undo_edit", who="copilot")["ok"]
        assert edited(claude, "claude", "50", "8") == []


def of_file(answer):
    return [note for note in answer.get("notes", ()) if "since its load" in note]


def test_using_a_file_edited_after_its_load_is_noted(live):
    file = live.workspace / "shop_u.py"
    file.write_text("RATE = 2\ndef price():\n    return 43\n")
    with live.client(name="claude") as claude:
        assert claude.call("evaluate_code", code="import shop_u\nshop_u.price()", who="claude")["ok"]
        file.write_text("RATE = 2\ndef price():\n    return 100\n")
        assert of_file(claude.call("evaluate_code", code="len([1])", who="claude")) == []
        answer = claude.call("evaluate_code", code="shop_u.price()", who="claude")
        assert answer["result"] == "43"
        assert of_file(answer) == ["shop_u was edited since its load (price): load_file it"]
        assert of_file(claude.call("evaluate_code", code="shop_u.price() + 1", who="claude")) == []
        edit = {"filePath": "shop_u.py", "oldText": "RATE = 2", "newText": "RATE = 3"}
        with live.client(name="copilot") as copilot:
            assert copilot.call("edit_files", edits=[edit], who="ann")["ok"]
        (note,) = of_file(claude.call("evaluate_code", code="shop_u.RATE", who="claude"))
        assert note == "shop_u was edited since its load (RATE, price, by ann): load_file it"
