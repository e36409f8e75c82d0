"""Output is reported once: each caller gets each byte of an evaluation's streams once, with its position."""

import json

import pytest
from tools_in_memory import serving
from untimed import untimed

from codriver.log.evaluation_transcripts import MAX_CALLERS, ReportedPositions

READING = "the code is waiting for standard input"
NOTHING_NEW = "nothing new was printed"
STEPS = '(dotimes n {} (println (str "step " n)) (read-line)) (println "over") "value"'
"""Code that prints a line each time before it waits for one."""


pytestmark = pytest.mark.served("memory")


def get_evaluation(client, evaluation, **arguments):
    return client.call("get_evaluation", evaluationId=evaluation, **{"detail": False} | arguments)


def give(client, evaluation, **arguments):
    return client.call("send_input", evaluationId=evaluation, text="", **{"detail": False} | arguments)


@pytest.fixture
def steps(client):
    """Return an evaluation that printed its first line and waits for input, and the answer that reported this."""
    answer = client.call("evaluate_code", code=STEPS.format(3), detail=False)
    yield answer["evaluationId"], answer
    client.call("interrupt_evaluation", evaluationId=answer["evaluationId"])


def end(client, evaluation):
    while (reported := give(client, evaluation)).get("status") == "needs-input":
        pass
    return reported


def test_each_answer_includes_only_new_output_with_its_position(client, steps):
    evaluation, first = steps
    assert (first["stdout"], first.get("from")) == ("step 0\n", None)
    second = give(client, evaluation)
    assert (second["stdout"], second["from"]) == ("step 1\n", len("step 0\n"))
    assert untimed(second) == {"ok": True, "status": "needs-input", "stdout": "step 1\n", "from": 7}
    assert untimed(get_evaluation(client, evaluation)) == {
        "ok": True, "status": "needs-input", "from": 14, "notes": [NOTHING_NEW],
    }  # fmt: skip


def test_the_final_answer_includes_only_new_output_but_always_the_value(client, steps):
    evaluation, _ = steps
    last = end(client, evaluation)
    assert (last["stdout"], last["result"], last["from"]) == ("over\n", '"value"', 21)
    again = get_evaluation(client, evaluation)
    assert (again["result"], again["status"], again["notes"]) == ('"value"', "done", [NOTHING_NEW])
    assert "stdout" not in again


def test_the_error_is_in_every_answer_about_its_evaluation(client):
    answer = client.call("evaluate_code", code='(println "before") (read-line) (/ 1 0)', detail=False)
    failed = give(client, answer["evaluationId"])
    again = get_evaluation(client, answer["evaluationId"])
    assert failed["error"] == again["error"]
    assert again["error"]["class"] == "ZeroDivisionError"
    assert again["reason"] == "evaluation-failed"


def test_stdout_and_stderr_have_separate_positions(client):
    code = '(dotimes n 2 (println "out") (write "err" "err\\n") (read-line))'
    answer = client.call("evaluate_code", code=code, detail=False)
    next_one = give(client, answer["evaluationId"])
    assert (next_one["stdout"], next_one["from"]) == ("out\n", 4)
    assert (next_one["stderr"], next_one["stderrFrom"]) == ("err\n", 4)
    give(client, answer["evaluationId"])


def test_another_connection_gets_output_from_the_first_byte(live, client, steps):
    evaluation, _ = steps
    give(client, evaluation)
    with live.client() as other:
        reported = get_evaluation(other, evaluation)
        assert (reported["stdout"], "from" in reported) == ("step 0\nstep 1\n", False)
        assert get_evaluation(other, evaluation)["notes"] == [NOTHING_NEW]
    assert get_evaluation(client, evaluation)["notes"] == [NOTHING_NEW]


def test_named_callers_on_one_connection_have_separate_positions(client, steps):
    evaluation, _ = steps
    assert get_evaluation(client, evaluation, who="ann")["stdout"] == "step 0\n"
    assert get_evaluation(client, evaluation, who="bob")["stdout"] == "step 0\n"
    assert "stdout" not in get_evaluation(client, evaluation, who="ann")
    assert "stdout" not in get_evaluation(client, evaluation)


def test_conversations_named_by_a_client_have_separate_positions(client, steps):
    evaluation, _ = steps

    def stdout_of(conversation):
        params = {"name": "get_evaluation", "arguments": {"evaluationId": evaluation}}
        answer = client.request("tools/call", params | {"_meta": {"sessionId": conversation}})
        return json.loads(answer["result"]["content"][0]["text"]).get("stdout")

    assert [stdout_of("one"), stdout_of("two"), stdout_of("one"), stdout_of("two")] == [
        "step 0\n",
        "step 0\n",
        None,
        None,
    ]


def test_reading_a_part_or_a_resource_does_not_move_the_position(client, steps):
    evaluation, _ = steps
    give(client, evaluation)  # reports the second line
    with_more = {"part": "stdout", "from": 0}
    for requested in ({"part": "stdout"}, with_more, {"part": "stdout", "from": 3, "length": 2}, {"grep": "step"},
                  {"diffWith": evaluation}):  # fmt: skip
        get_evaluation(client, evaluation, **requested)
    assert get_evaluation(client, evaluation, **with_more)["text"] == "step 0\nstep 1\n"
    client.request("resources/read", {"uri": f"codriver://evaluation/{evaluation}/stdout"})
    client.call("repl_output_log", query="[:find ?t :where [?e :output/text ?t]]")
    assert give(client, evaluation)["from"] == 14


def test_output_for_a_cancelled_call_is_in_the_next_answer(client, steps):
    evaluation, _ = steps
    identity = client.begin_call("get_evaluation", evaluationId=evaluation, waitMs=60_000)
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": identity}})
    client.request("ping")
    assert give(client, evaluation)["stdout"] == "step 1\n"


def test_concurrent_requests_report_each_byte_once(live, client):
    code = "(dotimes n 40 (println n) (sleep 0.01))"
    reply = client.call("evaluate_code", code=code, timeoutMs=100, detail=False)
    output, status = reply.get("stdout", ""), reply.get("status")
    while status == "running":
        requests = [
            client.begin_call("get_evaluation", evaluationId=reply["evaluationId"], waitMs=30) for _ in range(8)
        ]
        answers = [json.loads(client.answer(item)["result"]["content"][0]["text"]) for item in requests]
        # A call that times out and one that ends with the evaluation are not answered in the order of their requests.
        for item in sorted(answers, key=lambda answer: (answer.get("from", 0), len(answer.get("stdout", "")))):
            assert item.get("from", 0) == (len(output) if output else 0)
            output += item.get("stdout", "")
        status = answers[-1]["status"]
    assert output == "".join(f"{n}\n" for n in range(40))


def test_long_new_output_is_truncated_to_head_and_tail_and_its_middle_is_not_sent_later(client):
    code = '(println "first") (read-line) (print-lines 3000 "") (read-line)'
    answer = client.call("evaluate_code", code=code, detail=False)
    long = give(client, answer["evaluationId"])
    assert long["from"] == len("first\n")
    assert long["stdout"].startswith("0\n1\n")
    assert long["stdout"].endswith("2998\n2999\n")
    [note] = [note for note in long["notes"] if note.startswith("stdout: ")]
    words = note.split()
    place, length = int(words[words.index("from") + 1].strip(",")), int(words[words.index("length") + 1].strip(";"))
    between = get_evaluation(client, answer["evaluationId"], part="stdout", **{"from": place, "length": length})["text"]
    output, _, closing = long["stdout"].partition(f"\n… {length} characters left out …\n")
    assert output + between + closing == "".join(f"{n}\n" for n in range(3000))
    assert get_evaluation(client, answer["evaluationId"])["notes"] == [NOTHING_NEW]
    give(client, answer["evaluationId"])


def test_a_flood_of_lines_is_truncated_to_a_shorter_head_and_tail_than_a_long_text(client):
    def part_lengths(count):
        answer = client.call("evaluate_code", code=f'(println (repeat "x" {count}))', detail=False)
        return [len(part) for part in answer["stdout"].split("\n") if set(part) == {"x"}]

    assert part_lengths(1_000_000) == [1000, 2000 - len("\\n")]
    head, tail = part_lengths(50_000)
    assert 5000 < head + tail <= 6000


def test_later_flood_output_is_limited_to_five_hundred_bytes_except_before_input(
    client,
):
    printed = [f'(println (repeat "x" {count}))' for count in (100_000, 5000, 5000, 5000)]
    code = " (read-line) ".join(printed)
    evaluation = client.call("evaluate_code", code=code, detail=False)["evaluationId"]
    assert len(give(client, evaluation)["stdout"]) == 5001
    assert len(give(client, evaluation)["stdout"]) == 5001
    over = give(client, evaluation)
    assert [len(part) for part in over["stdout"].split("\n") if set(part) == {"x"}] == [100, 400 - len("\\n")]
    assert over["from"] == 110_003


def test_stacks_are_reported_once(client):
    answer = client.call("evaluate_code", code="(wait)", timeoutMs=100)
    ended = client.call("interrupt_evaluation", evaluationId=answer["evaluationId"])
    assert "stacks" in ended
    assert "stacks" not in get_evaluation(client, answer["evaluationId"])
    assert get_evaluation(client, answer["evaluationId"], part="stacks")["text"]


def test_the_hint_for_code_that_runs_or_waits_for_input_is_given_once_per_caller(live):
    with live.client() as client, live.client() as other:
        answer = client.call("evaluate_code", code=STEPS.format(2), detail=False)
        assert any(READING in note for note in answer["notes"])
        assert "notes" not in give(client, answer["evaluationId"])
        assert any(READING in note for note in get_evaluation(other, answer["evaluationId"])["notes"])
        end(client, answer["evaluationId"])
        again = client.call("evaluate_code", code=STEPS.format(1), detail=False)
        assert not any(READING in note for note in again.get("notes", ()))
        end(client, again["evaluationId"])


def test_code_counts_as_repeated_only_within_one_client(live):
    code = "(+ 1200 34)"
    with live.client() as client, live.client() as other:
        client.call("evaluate_code", code=code)
        assert not any("same" in note for note in other.call("evaluate_code", code=code)["notes"])
        assert any("same result" in note for note in client.call("evaluate_code", code=code)["notes"])


def test_the_command_line_gets_all_output_each_time(live):
    with live.client(name="codriver-cli") as command:
        answer = command.call("evaluate_code", code='(println "all") (read-line) (println "of it")')
        assert command.call("send_input", evaluationId=answer["evaluationId"], text="")["stdout"] == "all\nof it\n"
        assert get_evaluation(command, answer["evaluationId"])["stdout"] == "all\nof it\n"


@pytest.mark.parametrize("wait_ms", [0, 100])
def test_a_call_with_a_short_wait_returns_while_the_code_runs(client, wait_ms):
    answer = client.call("evaluate_code", code="(sleep 0.5)", timeoutMs=wait_ms)
    assert answer["status"] == "running"
    assert client.call("get_evaluation", evaluationId=answer["evaluationId"], waitMs=60_000)["status"] == "done"
    assert client.call("evaluate_code", code="1", timeoutMs=-1)["reason"] == "bad-arguments"


def test_a_query_notes_what_was_evicted_from_the_log(tmp_path):
    every_line = "[:find ?l :where [?e :output/line ?l]]"
    with serving(tmp_path, settings={"log_max_entities": 10}) as live, live.client() as client:
        assert "notes" not in client.call("repl_output_log", query=every_line)
        for number in range(20):
            client.call("evaluate_code", code=str(number))
        answer = client.call("repl_output_log", query=every_line)
        [note] = answer["notes"]
        gone = answer["firstLine"] - 1
        assert note.endswith(f"up to line {gone} were evicted from the log. $history still has their code")
        assert client.call("repl_output_log", since=gone - 1)["notes"] == [note]
        assert "notes" not in client.call("repl_output_log", since=gone)
        assert "notes" not in client.call("repl_output_log")
        assert client.call("repl_output_log", by="jupyter")["notes"] == [note]
        assert "notes" not in client.call("repl_output_log", category=["evaluatedCode"], limit=2)


def test_an_answer_about_continued_output_adds_at_most_sixty_bytes(client):
    reply = client.call("evaluate_code", code=STEPS.format(30), detail=False)
    read = 0
    for _ in range(29):
        answer = client.answer(
            client.begin_call("send_input", evaluationId=reply["evaluationId"], text="", detail=False)
        )
        text = answer["result"]["content"][0]["text"]
        assert len(text) - len(json.dumps(json.loads(text)["stdout"])) <= 60
        read += len(text)
    assert read <= 3000
    end(client, reply["evaluationId"])


def test_nine_requests_for_a_printing_loop_stay_within_four_kilobytes(client):
    code = '(dotimes n 90 (println (str "line number " n " of the loop here")) (sleep 0.01)) (read-line)'
    pending = client.begin_call("evaluate_code", code=code, timeoutMs=100, detail=False)
    texts = [client.answer(pending)["result"]["content"][0]["text"]]
    evaluation = json.loads(texts[0])["evaluationId"]
    for _ in range(8):
        request = client.begin_call("get_evaluation", evaluationId=evaluation, waitMs=110, detail=False)
        texts.append(client.answer(request)["result"]["content"][0]["text"])
    end(client, evaluation)
    assert "".join(json.loads(text).get("stdout", "") for text in texts).count("\n") >= 20
    assert sum(map(len, texts)) <= 4000


def test_the_least_recently_served_caller_is_evicted():
    reported = ReportedPositions()
    for caller in range(MAX_CALLERS + 1):
        reported.advance(caller, {"stdout": 5})
    assert (dict(reported.get(0)), dict(reported.get(1))) == ({}, {"stdout": 5})


def test_output_positions_never_move_back():
    reported = ReportedPositions()
    reported.advance("ann", {"stdout": 5})
    reported.advance("ann", {"stdout": 3, "stderr": 2})
    assert reported.get("ann") == {"stdout": 5, "stderr": 2}
