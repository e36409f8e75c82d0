"""Code whose output is filtered, or that reads input, in one call."""

import pytest

pytestmark = pytest.mark.served("python")


def evaluate(client, code, **arguments):
    return client.call("evaluate_code", code=code, replSessionKey="py", timeoutMs=60_000, detail=False, **arguments)


def test_only_matching_lines_of_the_output_are_returned(client):
    code = "import sys\nfor number in range(5000): print('line', number)\nprint('an error', file=sys.stderr)\nnumber"
    answer = evaluate(client, code, grep="9[89]7$|error")
    assert answer["stdout"].split() == [word for n in (987, 997) for word in ("line", str(n))] + [
        word for thousand in range(1, 5) for n in (987, 997) for word in ("line", str(1000 * thousand + n))
    ]
    assert (answer["stderr"], answer["result"]) == ("an error\n", "4999")
    assert not any("left out" in note for note in answer.get("notes", ()))


def test_matching_lines_that_do_not_fit_are_counted(client):
    answer = evaluate(client, "for number in range(5000): print('line', number)", grep="line")
    [note] = [note for note in answer["notes"] if "more lines of the output match" in note]
    assert int(note.split()[0]) + answer["stdout"].count("\n") == 5000


def test_output_without_a_matching_line_is_left_out_with_a_note(client):
    answer = evaluate(client, "print('a')\n2", grep="b")
    assert (answer["result"], "stdout" in answer) == ("2", False)
    assert "no line of the output matches grep" in answer["notes"]


def test_a_failure_is_reported_with_the_matching_lines(client):
    answer = evaluate(client, "print('a')\nprint('b')\n1/0", grep="b")
    assert (answer["reason"], answer["stdout"]) == ("evaluation-failed", "b\n")
    assert answer["error"]["class"] == "ZeroDivisionError"


def test_code_reads_input_from_the_lines_of_the_stdin_argument(client):
    answer = evaluate(client, "first, second = input('a? '), input('b? ')\n(first, second)", stdin="1\n\n")
    assert answer["result"] == "('1', '')"


def test_too_few_lines_of_stdin_leave_code_waiting_and_unread_lines_are_counted(client):
    waiting = evaluate(client, "(input(), input())", stdin="1")
    assert waiting["status"] == "needs-input"
    assert any("pass stdin" in note for note in waiting["notes"])
    assert client.call("send_input", text="2")["result"] == "('1', '2')"
    answer = evaluate(client, "input()", stdin="1\n2\n3")
    assert (answer["result"], "the code has not read 2 lines of stdin" in answer["notes"]) == ("'1'", True)
