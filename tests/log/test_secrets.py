"""A secret that a program prints in chunks neither leaves the server nor enters the log, wherever it is split."""

import itertools
import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from live_server import Live

from codriver.log.evaluation_transcripts import RedactedStream, SpillStore, Transcripts
from codriver.log.redaction import Redactor

SECRET = "sk-Tr4vel-light-0042"
MARK = "<<redacted:TRIP_TOKEN>>"
UNTIDY = 'p@ss"wo\\rd é1'
SLUG = "sk-slug-like-77"
KEY_LINES = (
    "MIIBOgIBAAJBAKj34GkxFhD90vcNLYLInFEX6Ppy1tPf9Cnzj4p4WGeKLs1Pt8Qu",
    "KUpRKfFLfRYC9AIKjbJTWit+CqvjWYzvQwECAw==",
)
PEM = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *KEY_LINES, "-----END RSA PRIVATE KEY-----", ""])
redactor = Redactor.from_environment({"TRIP_TOKEN": SECRET, "OTHER_KEY": "light-0042-and-more"})


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    environ = {"TRIP_TOKEN": SECRET, "DB_PASSWORD": UNTIDY, "SLUG_TOKEN": SLUG, "DEPLOY_KEY": PEM}
    os.environ.update(environ)
    running = Live(tmp_path_factory.mktemp("secrets"), "--repl", "python")
    yield running
    running.stop()
    for name in environ:
        del os.environ[name]


@pytest.fixture(scope="module")
def client(live):
    with live.client(name="agent") as connected:
        yield connected


def chunks(text, cuts):
    places = sorted({0, len(text), *cuts})
    return [text[start:end] for start, end in itertools.pairwise(places)]


TEXTS = st.lists(st.sampled_from([SECRET, "plain ", "sk-Tr4vel", "\n", "light-0042", "light-0042-and-more", "s"])).map(
    "".join
)


@given(TEXTS, st.data())
def test_a_split_stream_is_redacted_like_the_whole_text(text, data):
    cuts = data.draw(st.sets(st.integers(0, len(text))))
    stream = RedactedStream(SpillStore(2**20), "stdout", 0, redactor)
    seen = [stream.append(piece) for piece in chunks(text, cuts)] + [stream.end()]
    assert "".join(seen) == stream.read_all() == redactor(text)
    assert SECRET not in stream.read_all()


@given(st.integers(1, len(SECRET) - 1), st.integers(1, 40))
def test_the_part_of_a_secret_before_a_split_is_never_visible(cut, room):
    stream = RedactedStream(SpillStore(room), "stdout", 0, redactor)
    assert stream.append("token: " + SECRET[:cut]) == "token: "
    assert stream.append(SECRET[cut:]) == MARK


def test_a_transcript_is_redacted_before_it_is_truncated():
    transcripts = Transcripts(stored=2, max_bytes=2**20, max_stream_bytes=2**20, redactor=redactor)
    transcript = transcripts.open("e1")
    transcript.out.append("x" * 10 + SECRET)
    transcript.out.end()
    assert transcript.out.read_all()[10:] == MARK


def test_every_part_of_a_transcript_is_redacted():
    transcripts = Transcripts(stored=2, max_bytes=2**20, max_stream_bytes=2**20, redactor=redactor)
    transcript = transcripts.open("e1", code=f"(log {SECRET})")
    transcript.store_stacks(f"main: {SECRET}\n own: {SECRET}", f"own: {SECRET}")
    assert transcript.add_value(f"[{SECRET}]") == transcript.result.read_all() == f"[{MARK}]"
    assert transcript.head == f"(log {MARK})"
    assert (transcript.stacks, transcript.user_stacks) == (f"main: {MARK}\n own: {MARK}", f"own: {MARK}")


@pytest.mark.parametrize("before", range(180, 201))
def test_the_head_of_a_transcript_is_truncated_after_redaction(before):
    transcripts = Transcripts(stored=2, max_bytes=2**20, max_stream_bytes=2**20, redactor=redactor)
    transcript = transcripts.open("e1", code="#" * before + SECRET)
    assert transcript.head == ("#" * before + MARK)[:200]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(st.integers(1, len(SECRET) - 1), max_size=4))
def test_a_real_program_printing_a_secret_in_chunks_is_redacted_everywhere(client, cuts):
    # The program reads the secret from its environment, because the code must not contain it either.
    places = sorted({0, len(SECRET), *cuts})
    writes = [
        f"sys.stdout.write(token[{start}:{end}]); sys.stdout.flush(); time.sleep(0.003)"
        for start, end in itertools.pairwise(places)
    ]
    code = "\n".join(
        ["import os, sys, time", "token = os.environ['TRIP_TOKEN']", *writes, "sys.stdout.write('|')", "None"]
    )
    answer = client.call("evaluate_code", code=code)
    assert answer["stdout"] == f"{MARK}|"
    logged = client.call("repl_output_log", category=["evaluationOutput"], limit=len(places) + 1)["result"]
    texts = "".join(entry["text"] for entry in logged if entry["evaluation"] == answer["evaluationId"])
    assert texts == f"{MARK}|"
    uri = f"codriver://evaluation/{answer['evaluationId']}/stdout?offset=3&limit=100"
    assert client.request("resources/read", {"uri": uri})["result"]["contents"][0]["text"] == f"{MARK}|"[3:]


def test_text_that_only_looked_like_the_start_of_a_secret_is_released_at_the_end(client):
    answer = client.call("evaluate_code", code="import sys\nsys.stdout.write('ends with sk-Tr4')\nNone")
    assert answer["stdout"] == "ends with sk-Tr4"
    query = "[:find [?t ...] :in $ ?id :where [?e :output/evaluation ?id] [?e :output/category ?c] [?e :output/text ?t]"
    query += ' [(= ?c "evaluationOutput")]]'
    texts = client.call("repl_output_log", query=query, inputs=[answer["evaluationId"]])["result"]
    assert "".join(texts) == "ends with sk-Tr4"


def test_reading_a_result_in_parts_reveals_no_part_of_a_secret(client):
    answer = client.call("evaluate_code", code="import os\n'xxxxxxxxxx' + os.environ['TRIP_TOKEN'] + 'yyyy'")
    assert answer["result"] == f"'xxxxxxxxxx{MARK}yyyy'"
    texts = [
        client.call("get_evaluation", evaluationId=answer["evaluationId"], **{"from": start, "length": 9})["text"]
        for start in range(0, 60, 9)
    ]
    assert "".join(texts).endswith(f"xxxxxxxxxx{MARK}yyyy'")


@pytest.mark.parametrize("before", range(190, 206, 3))
def test_the_head_of_code_is_truncated_after_redaction(live, client, before):
    client.call("evaluate_code", code=f"'told {before}'")
    with live.client(name="careless") as careless:
        careless.call("evaluate_code", code="#" * before + SECRET + "\n1")
        running = careless.begin_call("evaluate_code", code="#" * before + SECRET + "\nimport time\ntime.sleep(1)")
        sessions = client.call("list_sessions")["sessions"]
        notes = client.call("evaluate_code", code=f"'told again {before}'")["notes"]
        careless.answer(running)
    assert notes
    assert SECRET[:6] not in str((sessions, notes))


PRINTED = """
import json, os, urllib.parse
secret = os.environ["DB_PASSWORD"]
for text in (repr(secret), ascii(secret), repr(secret.encode()), json.dumps(secret), json.dumps([secret]),
             repr(json.dumps(secret)), urllib.parse.quote(secret)):
    print(text)
{value}
"""


@pytest.mark.parametrize("value", ["secret", "ascii(secret)", "json.dumps(secret)", "{secret: secret.encode()}"])
def test_an_unusual_secret_is_redacted_in_every_printed_form(live, client, value):
    answer = client.call("evaluate_code", code=PRINTED.format(value=value))
    assert answer["ok"]
    address = f"codriver://evaluation/{answer['evaluationId']}/"
    seen = [
        answer["result"],
        answer["stdout"],
        *(client.request("resources/read", {"uri": address + part})["result"] for part in ("result", "stdout")),
        client.call("repl_output_log", category=["evaluationOutput", "evaluationResults"], limit=20)["result"],
    ]
    for displayed in seen:
        text = json.dumps(displayed)
        assert "<<redacted:DB_PASSWORD>>" in text
        for piece in ("p@ss", "p%40ss", "wo\\\\"):
            assert piece not in text


def test_a_diff_contains_no_line_of_a_multi_line_secret(live, client):
    (live.workspace / "deploy.clj").write_text(f'(def pem "{PEM}")\n(def port 1)\n')
    edit = {"type": "replace", "filePath": "deploy.clj", "line": 6, "targetLineText": "(def port 1)"}
    answer = client.call("edit_files", edits=[{**edit, "newForm": "(def port 2)"}])
    assert answer["ok"], answer
    diff = answer["files"][0]["diff"]
    assert "+(def port 2)" in diff
    assert " <<redacted:DEPLOY_KEY>>\n" in diff
    assert not [line for line in KEY_LINES if line in json.dumps(answer)]


def test_pretty_printed_output_contains_no_line_of_a_multi_line_secret(live, client):
    answer = client.call("evaluate_code", code="import os, pprint\npprint.pprint({'key': os.environ['DEPLOY_KEY']})")
    assert answer["stdout"].count("<<redacted:DEPLOY_KEY>>") == len(KEY_LINES)
    assert not [line for line in KEY_LINES if line in answer["stdout"]]


def log_and_history(client):
    """Return the callers known to the log and the history."""
    query = "[:find [?w ...] :in $ $history :where (or [$ ?e :output/who ?w] [$history ?e :output/who ?w])]"
    answer = client.call("repl_output_log", query=query)
    return answer["result"] if answer["ok"] else pytest.fail(str(answer))


def test_a_secret_caller_name_is_redacted_in_log_and_history(client):
    answer = client.call("evaluate_code", code="1", who=SLUG)
    assert answer["who"] == "<<redacted:SLUG_TOKEN>>"
    assert "<<redacted:SLUG_TOKEN>>" in log_and_history(client)
    assert SLUG not in str(log_and_history(client))
    assert SLUG not in str(client.request("resources/read", {"uri": "codriver://log"}))


def test_a_secret_in_a_client_name_is_redacted(live, client):
    with live.client(name=f"Agent {SECRET}") as careless:
        answer = careless.call("evaluate_code", code="1")
        assert answer["who"] == "agent-redacted-trip-token"
        names = [row["name"] for row in client.call("server_health")["clients"]]
    assert f"Agent {MARK}" in names
    assert not [who for who in log_and_history(client) if "tr4vel" in who]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        (SECRET, {}),
        ("tools/call", {"name": SECRET, "arguments": {}}),
        ("resources/read", {"uri": f"codriver://{SECRET}"}),
        ("resources/read", {"uri": f"codriver://evaluation/{SECRET}/result"}),
        ("resources/read", {"uri": f"skill://{SECRET}"}),
        ("prompts/get", {"name": SECRET}),
        ("tools/call", {"name": [SECRET]}),
    ],
)
def test_an_error_answer_contains_no_secret(client, method, params):
    answer = client.request(method, params)
    assert "error" in answer
    assert SECRET not in str(answer)
    assert "is wrong" in answer["error"]["message"] or MARK in str(answer)


def test_a_requested_prompt_contains_no_secret(client):
    answer = client.request("prompts/get", {"name": "start_repl_session", "arguments": {"topic": SECRET}})
    assert MARK in str(answer["result"])
    assert SECRET not in str(answer)
