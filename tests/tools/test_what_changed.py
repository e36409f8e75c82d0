"""Where loaded code differs from its files, and what of a former load lives on, as agents are told of it."""

import json

import pytest
from all_tools import BY_NAME
from jsonschema import validate

LOW = "class Shape: pass\ndef rate(x):\n    return x * 2\n"
HIGH = "from low import rate, Shape\nmade = Shape()\ndef total():\n    return rate(1)\n"


def write(live, **texts):
    for name, text in texts.items():
        (live.workspace / f"{name}.py").write_text(text)


def load(client, *names, **arguments):
    return [client.call("load_file", filePath=f"{name}.py", **arguments) for name in names][-1]


def ask(client):
    answer = client.call("what_changed")
    validate(answer, BY_NAME["what_changed"].output)
    assert answer["count"] == len(answer["differences"])
    return answer["differences"]


@pytest.fixture(autouse=True)
def own_modules(live, client):
    """Modules that no other test has: what a REPL has loaded stays."""
    number = len(list(live.workspace.glob("low*.py")))
    low, high = f"low{number}", f"high{number}"
    write(live, **{low: LOW, high: HIGH.replace("low", low)})
    load(client, high)
    yield low, high
    restored = f"for name in {[low, high, 'test_total', 'test_rate']}: sys.modules.pop(name, None)"
    client.call("evaluate_code", code=f"import gc, sys\n{restored}\ngc.collect()")


def test_nothing_is_told_where_nothing_differs(client):
    assert ask(client) == []


def test_an_edit_a_redefinition_and_an_old_object_are_told_with_who_did_it(live, client, own_modules):
    low, high = own_modules
    write(live, **{low: LOW.replace("x * 2", "x * 3") + "def new(): pass\n"})
    assert ask(client) == [f"{low}: edited in the file since: rate; only in the file: new"]
    client.call("evaluate_code", code=f"import {low}\nkept = {low}.rate")
    answer = client.call("evaluate_code", code="def rate(x):\n    return 5", namespace=low, who="ann")
    by = f"(ann, {answer['evaluationId']})"
    both = f"{low}: edited in the file since: rate; redefined in the REPL: rate {by}; only in the file: new"
    assert both in ask(client)
    assert f"{high}.rate is still the old {low}.rate: load {high}, too" in ask(client)
    assert f"__main__.kept is still the old {low}.rate: bind it anew" in ask(client)
    client.call("evaluate_code", code="del kept")


def test_a_load_that_prints_nothing_is_not_said_to_be_the_same(live, client):
    (live.workspace / "quiet.py").write_text("x = 1\n")
    assert client.call("load_file", filePath="quiet.py")["notes"] == []
    nothing = "nothing of quiet changed since its load, so nothing ran: whole: true runs it"
    assert client.call("load_file", filePath="quiet.py")["notes"] == [nothing]


def test_a_load_renews_what_others_hold_and_says_so(live, client, own_modules):
    low, high = own_modules
    write(live, **{low: LOW.replace("x * 2", "x * 3")})
    assert "notes" not in load(client, low, detail=False), "the functions that live have the new code"
    assert client.call("evaluate_code", code=f"import {high}; {high}.total()")["result"] == "3"
    [note] = load(client, low, detail=False, whole=True)["notes"]
    assert note.startswith("renewed elsewhere: ")
    assert all(name in note for name in (f"{high}.rate", f"{high}.Shape", f"1 of {low}.Shape"))
    [note] = load(client, low)["notes"]
    assert note == f"nothing of {low} changed since its load, so nothing ran: whole: true runs it"
    code = f"import {low}, {high}; ({high}.total(), isinstance({high}.made, {low}.Shape))"
    assert client.call("evaluate_code", code=code)["result"] == "(3, True)"
    assert ask(client) == []
    assert not any("renewed" in note for note in load(client, high)["notes"])


def test_what_a_load_cannot_renew_is_told_with_it(live, client, own_modules):
    low, _ = own_modules
    slotted = LOW.replace("class Shape: pass", "class Shape: __slots__ = ('a',)")
    write(live, **{low: slotted})
    load(client, low)
    client.call("evaluate_code", code=f"import {low}; slotted_made = {low}.Shape()")
    write(live, **{low: slotted.replace("('a',)", "('a', 'b')")})
    assert f"1 of the former class {low}.Shape lives on" in load(client, low)["notes"]
    client.call("evaluate_code", code="del slotted_made")


def test_a_renamed_function_does_not_stay_green(live, client, own_modules):
    low, high = own_modules
    write(live, test_rate=f"from {low} import rate\ndef test_rate(): assert rate(1) == 2\n")
    assert client.call("run_tests", namespace="test_rate.py", timeoutMs=60_000)["ok"]
    write(live, **{low: LOW.replace("def rate", "def price")})
    assert f"removed, as the file has it no more: {low}.rate" in load(client, low)["notes"]
    assert not client.call("run_tests", namespace="test_rate.py", timeoutMs=60_000)["ok"]
    added = client.call("evaluate_code", code="def extra(): pass", namespace=low, who="ann")
    load(client, low)
    lost = f"{high}.rate is of {low}.rate, which is gone: the import fails in a new process"
    assert ask(client) == [f"{low}: only in the REPL: extra (ann, {added['evaluationId']})", lost]


def test_the_command_tells_the_same_and_ends_with_a_status(live, client, own_modules):
    low, _ = own_modules
    same = live.run("drift")
    assert (same.returncode, same.stdout, same.stderr) == (0, "what is loaded is what the files say\n", "")
    write(live, **{low: LOW.replace("x * 2", "x * 3")})
    other = live.run("drift")
    assert (other.returncode, other.stdout) == (1, f"{low}: edited in the file since: rate\n")
    as_json = live.run("drift", "--json")
    assert (as_json.returncode, json.loads(as_json.stdout)["count"]) == (1, 1)
    wrong = live.run("drift", "--session", "nobody")
    assert wrong.returncode == 1
    assert "there is no REPL session 'nobody'" in wrong.stderr


def test_a_value_that_another_module_computed_from_an_edited_one_is_reported_beside_a_fresh_import(live, client):
    """The kind of value that no load renews: it went through code that runs at import and leaves no trace of it."""
    write(live, fresh_low="LIMIT = 3\n", fresh_high="import fresh_low\nDOUBLE = eval('fresh_low.LIMIT * 2')\n")
    load(client, "fresh_low", "fresh_high")
    write(live, fresh_low="LIMIT = 4\n")
    notes = [*load(client, "fresh_low").get("notes", ())]
    line = "fresh_high.DOUBLE is still 6, a fresh import has 8"
    while line not in notes:  # the comparison may end after the load's answer
        notes += client.call("evaluate_code", code="1").get("notes", ())
    answer = client.call("what_changed", fresh=True)
    validate(answer, BY_NAME["what_changed"].output)
    assert line in answer["differences"]
    assert line not in ask(client)
