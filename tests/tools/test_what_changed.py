"""Drift as agents see it: where loaded Python code differs from its files, and which old objects survive."""

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


def differences(client):
    answer = client.call("what_changed")
    validate(answer, BY_NAME["what_changed"].output)
    assert answer["count"] == len(answer["differences"])
    return answer["differences"]


@pytest.fixture(autouse=True)
def modules(live, client):
    """Return modules that no other test uses, because what a REPL has loaded stays loaded."""
    number = len(list(live.workspace.glob("low*.py")))
    low, high = f"low{number}", f"high{number}"
    write(live, **{low: LOW, high: HIGH.replace("low", low)})
    load(client, high)
    yield low, high
    restored = f"for name in {[low, high, 'test_total', 'test_rate']}: sys.modules.pop(name, None)"
    client.call("evaluate_code", code=f"import gc, sys\n{restored}\ngc.collect()")


def test_an_unchanged_workspace_reports_no_differences(client):
    assert differences(client) == []


def test_edits_redefinitions_and_old_objects_are_reported_with_their_caller(live, client, modules):
    low, high = modules
    write(live, **{low: LOW.replace("x * 2", "x * 3") + "def new(): pass\n"})
    assert differences(client) == [f"{low}: edited in the file since the load: rate; only in the file: new"]
    client.call("evaluate_code", code=f"import {low}\nkept = {low}.rate")
    answer = client.call("evaluate_code", code="def rate(x):\n    return 5", namespace=low, who="ann")
    by = f"(ann, {answer['evaluationId']})"
    both = f"{low}: edited in the file since the load: rate; redefined in the REPL: rate {by}; only in the file: new"
    assert both in differences(client)
    assert f"{high}.rate is still the old {low}.rate: load {high} as well" in differences(client)
    assert f"__main__.kept is still the old {low}.rate: bind it again" in differences(client)
    client.call("evaluate_code", code="del kept")


def test_a_repeated_load_without_output_is_not_noted_as_the_same_result(live, client):
    (live.workspace / "quiet.py").write_text("x = 1\n")
    assert client.call("load_file", filePath="quiet.py")["notes"] == []
    nothing = "quiet has not changed since its load, so nothing ran. To run the whole module again, pass whole: true"
    assert client.call("load_file", filePath="quiet.py")["notes"] == [nothing]


def test_a_load_updates_references_in_other_modules_and_reports_this(live, client, modules):
    low, high = modules
    write(live, **{low: LOW.replace("x * 2", "x * 3")})
    assert "notes" not in load(client, low, detail=False), "the functions that live have the new code"
    assert client.call("evaluate_code", code=f"import {high}; {high}.total()")["result"] == "3"
    [note] = load(client, low, detail=False, whole=True)["notes"]
    assert note.startswith("also updated: ")
    assert all(name in note for name in (f"{high}.rate", f"{high}.Shape", f"1 of {low}.Shape"))
    [note] = load(client, low)["notes"]
    assert (
        note == f"{low} has not changed since its load, so nothing ran. To run the whole module again, pass whole: true"
    )
    code = f"import {low}, {high}; ({high}.total(), isinstance({high}.made, {low}.Shape))"
    assert client.call("evaluate_code", code=code)["result"] == "(3, True)"
    assert differences(client) == []
    assert not any("renewed" in note for note in load(client, high)["notes"])


def test_objects_that_a_load_cannot_update_are_reported(live, client, modules):
    low, _ = modules
    slotted = LOW.replace("class Shape: pass", "class Shape: __slots__ = ('a',)")
    write(live, **{low: slotted})
    load(client, low)
    client.call("evaluate_code", code=f"import {low}; slotted_made = {low}.Shape()")
    write(live, **{low: slotted.replace("('a',)", "('a', 'b')")})
    lives_on = f"1 of the old class {low}.Shape still exists, referenced by __main__.slotted_made"
    assert lives_on in load(client, low)["notes"]
    client.call("evaluate_code", code="del slotted_made")


def test_an_edit_names_old_objects_and_what_refers_to_them(live, client, modules):
    low, high = modules
    slotted = LOW.replace("class Shape: pass", "class Shape: __slots__ = ('a',)")
    write(live, **{low: slotted})
    load(client, low)
    code = f"import {low}, {high}\n{high}.store = {{'first': [{low}.Shape()]}}\n"
    code += f"class Desk: pass\ndesk = Desk()\ndesk.top = {low}.Shape()"
    assert client.call("evaluate_code", code=code)["ok"]
    line = slotted.splitlines()[0]
    item = {"filePath": f"{low}.py", "type": "text", "oldText": line, "newText": line.replace("('a',)", "('a', 'b')")}
    answer = client.call("edit_files", edits=[item], load=True)
    assert answer["ok"], answer
    [lives_on] = [note for note in answer["files"][0]["load"]["notes"] if "old class" in note]
    assert lives_on.startswith(f"2 of the old class {low}.Shape still exist, referenced by ")
    holders = lives_on.partition("referenced by ")[2].split(", ")
    assert {f"{high}.store['first'][...]", "__main__.desk.top"} == set(holders)
    client.call("evaluate_code", code=f"del {high}.store, desk, Desk")


def test_a_deleted_function_still_in_a_registry_is_not_reported_as_removed(live, client):
    text = "def keep(f): return f\n@keep\ndef one(): pass\ndef two(): pass\n"
    write(live, registry=text)
    load(client, "registry")
    client.call("evaluate_code", code="import registry\nown = {'one': registry.one}")
    write(live, registry=text.partition("@keep")[0])
    notes = load(client, "registry")["notes"]
    assert "removed, because the file no longer defines it: registry.two" in notes
    assert "no longer in the file, but still referenced: registry.one by __main__.own['one']" in notes
    client.call("evaluate_code", code="del own")


def test_an_edit_names_values_it_could_not_update(live, client):
    text = "import sys\nLIMIT = 3\nsys.stderr.write(str(LIMIT))\n"
    write(live, unrenewed=text)
    load(client, "unrenewed")
    item = {"filePath": "unrenewed.py", "type": "text", "oldText": "LIMIT = 3", "newText": "LIMIT = 4"}
    answer = client.call("edit_files", edits=[item], load=True)
    [note] = answer["files"][0]["load"]["notes"]
    assert note.startswith("not updated: unrenewed.sys.stderr.write(str(LIMIT)), line 3: ")


def test_a_module_and_its_importers_are_reloaded_and_old_objects_are_listed(live, client):
    write(
        live,
        whole_low="TABLE = {'a': 1}\nclass Shape: __slots__ = ('a',)\n",
        whole_mid="import whole_low\nfrom whole_low import TABLE\nSIZE = len(TABLE)\n",
        whole_top="import whole_mid\nDOUBLE = eval('whole_mid.SIZE * 2')\n",
    )
    load(client, "whole_top")
    code = "import whole_low\nkept = [whole_low.TABLE]\nshape = whole_low.Shape()"
    client.call("evaluate_code", code=code)
    write(live, whole_low="TABLE = {'a': 1, 'b': 2}\nclass Shape: __slots__ = ('a', 'b')\n")
    refused = load(client, "whole_low", dependents=True)
    assert (refused["reason"], refused["hint"].partition(" to ")[0]) == ("bad-arguments", "Add `whole: true`")
    notes = load(client, "whole_low", whole=True, dependents=True)["notes"]
    assert notes[0] == "also loaded: whole_mid, whole_top"
    assert "not updated: whole_low.TABLE, the previous dict is still referenced by __main__.kept[...]" in notes
    assert "1 of the old class whole_low.Shape still exists, referenced by __main__.shape" in notes
    code = "import whole_mid, whole_top\n(whole_mid.SIZE, whole_top.DOUBLE)"
    assert client.call("evaluate_code", code=code)["result"] == "(2, 4)"
    client.call("evaluate_code", code="del kept, shape")


def test_a_renamed_function_fails_the_tests_that_import_it(live, client, modules):
    low, high = modules
    write(live, test_rate=f"from {low} import rate\ndef test_rate(): assert rate(1) == 2\n")
    assert client.call("run_tests", namespace="test_rate.py", timeoutMs=60_000)["ok"]
    write(live, **{low: LOW.replace("def rate", "def price")})
    assert f"removed, because the file no longer defines it: {low}.rate" in load(client, low)["notes"]
    assert not client.call("run_tests", namespace="test_rate.py", timeoutMs=60_000)["ok"]
    added = client.call("evaluate_code", code="def extra(): pass", namespace=low, who="ann")
    load(client, low)
    lost = f"{high}.rate comes from {low}.rate, which no longer exists, so the import would fail in a new process"
    assert differences(client) == [f"{low}: only in the REPL: extra (ann, {added['evaluationId']})", lost]


def test_the_drift_command_reports_the_same_with_an_exit_status(live, client, modules):
    low, _ = modules
    same = live.run("drift")
    assert (same.returncode, same.stdout, same.stderr) == (0, "the loaded code matches the files\n", "")
    write(live, **{low: LOW.replace("x * 2", "x * 3")})
    other = live.run("drift")
    assert (other.returncode, other.stdout) == (1, f"{low}: edited in the file since the load: rate\n")
    as_json = live.run("drift", "--json")
    assert (as_json.returncode, json.loads(as_json.stdout)["count"]) == (1, 1)
    wrong = live.run("drift", "--session", "nobody")
    assert wrong.returncode == 1
    assert "there is no REPL session 'nobody'" in wrong.stderr


def test_a_value_computed_from_an_edited_module_is_reported_with_the_fresh_option(live, client):
    """No load updates this kind of value: it was computed by code that runs at import and leaves no trace."""
    write(live, fresh_low="LIMIT = 3\n", fresh_high="import fresh_low\nDOUBLE = eval('fresh_low.LIMIT * 2')\n")
    load(client, "fresh_low", "fresh_high")
    write(live, fresh_low="LIMIT = 4\n")
    notes = [*load(client, "fresh_low").get("notes", ())]
    line = "fresh_high.DOUBLE is still 6; a fresh import has 8"
    while line not in notes:  # the comparison may end after the load's answer
        notes += client.call("evaluate_code", code="1").get("notes", ())
    answer = client.call("what_changed", fresh=True)
    validate(answer, BY_NAME["what_changed"].output)
    assert line in answer["differences"]
    assert line not in differences(client)
