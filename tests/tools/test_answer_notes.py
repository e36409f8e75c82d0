"""Notes in answers: repeated code, and actions of other callers since the last call."""

import re

import pytest
from live_server import until
from untimed import untimed

pytestmark = pytest.mark.served("memory", client="ann", other="bob")


def repeated(client, code, **arguments):
    """Return the id of the first evaluation, and the notes of the second."""
    first = client.call("evaluate_code", code=code, **arguments)
    second = client.call("evaluate_code", code=code, **arguments)
    return first["evaluationId"], second["notes"]


def test_a_repeated_result_is_noted_in_one_line(client):
    first, notes = repeated(client, '(str "only " "once")')
    assert notes == [f"same result as {first}"]


def test_the_codriver_command_gets_no_note_about_repeated_code(live):
    for _ in range(2):
        with live.client(name="codriver-cli") as command:
            assert command.call("evaluate_code", code='(str "of a" " person")')["notes"] == []


def test_repeated_output_is_also_noted(client):
    first, notes = repeated(client, '(println "said") "and given"')
    assert notes == [f"same result and output as {first}"]


def test_output_lines_that_differ_are_counted(client):
    code = '(dotimes line 7 (println line)) (println (next turn)) (println (next turn)) "fixed"'
    first, notes = repeated(client, code)
    assert notes == [f"same result as {first}, other output in 2 lines"]


def test_lines_of_a_result_that_differ_are_counted(client):
    first, notes = repeated(client, '(raw (str "a\\nb\\n" (next nth)))')
    assert notes == [f"same as {first} except 1 line"]


def test_a_lean_answer_includes_the_evaluation_id_only_when_results_differ(client):
    first = client.call("evaluate_code", code="(range 3)")["evaluationId"]
    lean = client.call("evaluate_code", code="(range 3)", detail=False)
    assert untimed(lean) == {"ok": True, "result": "(0 1 2)", "notes": [f"same result as {first}"]}
    client.call("evaluate_code", code="(next count)")
    assert "evaluationId" in client.call("evaluate_code", code="(next count)", detail=False)


def test_a_different_result_for_the_same_code_is_noted(client):
    first, notes = repeated(client, "(next total)")
    assert notes == [f"not the same result as {first}"]


def test_a_repeated_failure_is_noted(client):
    first, notes = repeated(client, "no-such-name-at-all")
    assert notes == [f"same failure as {first}"]


def test_a_different_outcome_names_the_previous_outcome(client):
    first, _ = repeated(client, "(+ late-name 1)")
    client.call("evaluate_code", code="(def late-name 1)")
    notes = client.call("evaluate_code", code="(+ late-name 1)")["notes"]
    assert len(notes) == 1
    assert notes[0].startswith("the same code ended with status failed in ")
    assert not notes[0].endswith(first), "the newest evaluation before is the one to compare with"


def test_the_same_code_in_another_session_does_not_count_as_repeated(client):
    client.call("evaluate_code", code='"here or there"')
    client.call("evaluate_code", code="0", who="loner", isolate=True)
    assert client.call("evaluate_code", code='"here or there"', who="loner", isolate=True)["notes"] == []


def test_a_reloaded_file_is_compared_by_its_contents(live, client):
    (live.workspace / "twice.clj").write_text("(println 1)\n")
    first = client.call("load_file", filePath="twice.clj")["evaluationId"]
    again = client.call("load_file", filePath="twice.clj", whole=True)
    assert again["notes"] == [f"same result and output as {first}"]
    (live.workspace / "twice.clj").write_text("(println 2)\n")
    other = client.call("load_file", filePath="twice.clj")["notes"]
    assert not [note for note in other if note.startswith("same")]


def test_the_answer_to_the_first_call_includes_no_notes_about_other_callers(client, other):
    other.call("evaluate_code", code='"long ago"')
    assert client.call("evaluate_code", code='"first call"')["notes"] == []


def test_each_action_of_another_caller_since_the_last_call_is_noted_once(client, other):
    client.call("evaluate_code", code='"mark 1"')
    done = other.call("evaluate_code", code="(def price\n   (+ 1 2))")["evaluationId"]
    failed = other.call("evaluate_code", code="(/ 1 0)", who="carl")["evaluationId"]
    assert client.call("evaluate_code", code='"mark 2"')["notes"] == [
        f"meanwhile bob in mem: (def price (+ 1 2)) ({done}, done)",
        f"meanwhile carl in mem: (/ 1 0) ({failed}, failed: ZeroDivisionError)",
    ]
    assert client.call("evaluate_code", code='"mark 3"')["notes"] == []


def test_files_loaded_by_other_callers_are_noted_in_one_line(live, client, other):
    for name in ("one", "two"):
        (live.workspace / f"{name}.clj").write_text('(println "a long text that nobody needs to read")\n' * 9)
    (live.workspace / "bad.clj").write_text("(/ 1 0)\n")
    client.call("evaluate_code", code='"mark 6"')
    loads = [other.call("load_file", filePath=f"{name}.clj")["evaluationId"] for name in ("one", "two", "one", "bad")]
    assert client.call("evaluate_code", code='"mark 7"')["notes"] == [
        f"meanwhile bob in mem loaded one.clj, two.clj ({loads[2]}, done)",
        f"meanwhile bob in mem loaded bad.clj ({loads[3]}, failed: ZeroDivisionError)",
    ]


def test_only_the_five_newest_actions_are_noted_and_the_rest_counted(client, other):
    client.call("evaluate_code", code='"mark 4"')
    for number in range(8):
        other.call("evaluate_code", code=f'"by bob {number}"')
    notes = client.call("evaluate_code", code='"mark 5"')["notes"]
    assert [note.split('"')[1] for note in notes[:5]] == [f"by bob {number}" for number in range(3, 8)]
    assert notes[5:] == ["and 3 earlier evaluations by others: see repl_output_log"]


def test_a_callers_own_actions_are_not_noted(client):
    client.call("evaluate_code", code='"mark 6"')
    client.call("evaluate_code", code='"mine"')
    assert client.call("evaluate_code", code='"mark 7"')["notes"] == []


def test_an_evaluation_noted_as_running_is_noted_again_when_it_ends(live, client, other):
    mine = client.call("evaluate_code", code='"mark 8"')["evaluationId"]
    code = f'(await-file "{(live.workspace / "end").as_posix()}")'
    running = other.call("evaluate_code", code=code, timeoutMs=1000)["evaluationId"]
    [pending] = client.call("get_evaluation", evaluationId=mine)["notes"]
    assert client.call("get_evaluation", evaluationId=mine)["notes"] == []
    (live.workspace / "end").touch()
    until(lambda: other.call("get_evaluation", evaluationId=running)["status"] == "done", "the loop to end")
    [ended] = client.call("get_evaluation", evaluationId=mine)["notes"]
    assert pending.endswith(f"({running}, running)")
    assert ended.endswith(f"({running}, done)")


def printed_late(live, client, text, last):
    """Return the id of a finished evaluation that printed `text` late. Wait for its last line, `last`."""
    gate = live.workspace / "gate"
    gate.unlink(missing_ok=True)
    code = f'(print-after "{gate.as_posix()}" {text})'
    evaluation = client.call("evaluate_code", code=code)["evaluationId"]
    gate.touch()
    until(lambda: client.call("get_evaluation", evaluationId=evaluation, grep=last)["count"], last)
    return evaluation


def test_late_thread_output_is_noted_once_with_a_way_to_read_it(live, client, other):
    other.call("evaluate_code", code='"mark 9"')
    evaluation = printed_late(live, client, '"tick 1\\ntock 2"', "tock 2")
    [note] = client.call("evaluate_code", code='"mark 10"')["notes"]
    reported = re.fullmatch(
        rf"2 new lines from evaluation {evaluation}: tick 1 tock 2 \((\w+) with since (\d+)\)", note
    )
    rows = client.call(reported[1], since=int(reported[2]), limit=100)["result"]
    assert "".join(row["text"] for row in rows if row.get("evaluation") == evaluation) == "tick 1\ntock 2\n"
    assert client.call("evaluate_code", code='"mark 11"')["notes"] == []
    assert note in other.call("evaluate_code", code='"mark 12"')["notes"]
    with live.client(name="eve") as new:
        assert new.call("evaluate_code", code='"mark 13"')["notes"] == []


def test_a_large_thread_output_is_noted_in_one_short_line(live, client):
    text = f'(str (repeat "{"é" * 200}\\n" 1000) "the end 1")'
    evaluation = printed_late(live, client, text, "the end 1")
    [note] = client.call("evaluate_code", code='"mark 14"')["notes"]
    assert note.startswith(f"1001 new lines from evaluation {evaluation}: ééé")
    assert len(note) < 200


def test_late_output_included_in_the_answer_is_not_noted_as_well(live, client):
    evaluation = printed_late(live, client, '"only here"', "only here")
    answer = client.call("get_evaluation", evaluationId=evaluation)
    assert answer["stdout"] == "only here\n"
    assert answer["notes"] == []
    assert client.call("evaluate_code", code='"mark 15"')["notes"] == []
