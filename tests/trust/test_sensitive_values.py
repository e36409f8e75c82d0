"""Values at sensitive paths of an application's state never leave the server and are in none of its files."""

import json

import pytest
from live_server import serving, until

APP = """
import pathlib, secrets, threading
import codriver_seam as seam
told = pathlib.Path(%r)
made = []


def renew():
    # A quote and a letter beyond ASCII: printed in many ways.
    made.append(f"{secrets.token_hex(8)}'\\"\\u00e9{secrets.token_hex(8)}")
    told.write_text("\\n".join(made), "utf-8")
    return made[-1]


seam.install(True)
state = {"user": {"name": "Ada", "token": renew()}, "count": 0}
seam.frame("shop", lambda: state, sensitive=[("user", "token")], snapshot="none")


def rotate():
    global state
    state = {**state, "user": {**state["user"], "token": renew()}}
    return state


def charge():
    card = state["user"]["token"]
    rotate()
    raise ValueError(f"cannot charge {card}")
"""
MARK = "<<redacted:shop user.token>>"


class Recorded:
    """A client's file that records everything received."""

    def __init__(self, file):
        self._file = file
        self.lines = []

    def readline(self):
        line = self._file.readline()
        self.lines.append(line)
        return line

    def close(self):
        self._file.close()


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sensitive")
    with serving(folder, "--repl", "python") as running:
        (running.workspace / "shop.py").write_text(APP % str(folder / "told.txt"))
        yield running


@pytest.fixture
def client(live):
    with live.client() as connected:
        connected.file = Recorded(connected.file)
        assert connected.call("evaluate_code", code="import json, shop")["ok"]
        yield connected
        reported = secrets_of(live)
        sent = b"".join(connected.file.lines).decode()
        assert reported
        for secret in reported:
            assert not [form for form in forms_of(secret) if form in sent]


def secrets_of(live):
    return (live.folder / "told.txt").read_text("utf-8").split("\n")


def forms_of(secret):
    """Return its alphanumeric halves, which every way of printing leaves unchanged."""
    return secret[:16], secret[-16:]


def value(client, code, **arguments):
    answer = client.call("evaluate_code", code=code, **arguments)
    assert answer["ok"], answer
    return answer["result"]


def test_sensitive_text_in_a_result_is_replaced_by_a_marker(client):
    assert value(client, "shop.state['user']['token']") == f"'{MARK}'"
    assert f'"token": "{MARK}"}}, "count": 0}}' in value(client, "json.dumps(shop.state)")


@pytest.mark.parametrize(
    "code",
    [
        "shop.rotate()",
        "print(shop.rotate()['user']['token'])",
        "print(shop.rotate(), flush=True); print(shop.rotate(), flush=True)",
        "import sys; sys.stderr.write(str(shop.rotate()))",
        "shop.rotate(); [shop.made[-1]]",
        "shop.rotate(); raise KeyError(shop.state['user']['token'])",
        "shop.charge()",
        "import os; shop.rotate(); os.write(1, shop.made[-1].encode()); None",
        "for letter in str(shop.state): print(letter, end='', flush=True)",
    ],
)
def test_values_that_become_sensitive_while_code_runs_are_redacted_in_its_answers(client, code):
    client.call("evaluate_code", code=code, detail=True)
    client.call("stacktrace", locals=True)
    client.call("repl_output_log", limit=50)


def test_later_thread_output_is_redacted(client):
    code = "import threading\ndef late():\n    shop.rotate()\n    print('late', shop.state, flush=True)"
    client.call("evaluate_code", code=f"{code}\nt = threading.Thread(target=late)\nt.start(); t.join()")
    query = '[:find [?t ...] :where [?e :output/text ?t] [?e :output/category "evaluationOutput"]]'
    answer = until(lambda: [t for t in client.call("repl_output_log", query=query)["result"] if "late" in t], "a print")
    assert MARK in answer[0]


def test_looked_up_names_contain_no_sensitive_value(client):
    client.call("evaluate_code", code="card = shop.rotate()['user']['token']; state = shop.state")
    for symbol in ("card", "state", "shop.state"):
        client.call("symbol_info", symbol=symbol)


def test_resources_and_later_requests_are_redacted(client):
    answer = client.call("evaluate_code", code="print(shop.state); shop.rotate()", detail=True)
    identity = answer["evaluationId"]
    assert MARK in client.call("get_evaluation", evaluationId=identity)["result"]
    uri = f"codriver://evaluation/{identity}/stdout?offset=0&limit=100"
    assert MARK in json.dumps(client.request("resources/read", {"uri": uri}))


def test_a_secret_printed_in_chunks_is_redacted_as_a_whole(client):
    code = "import sys\nfor letter in shop.state['user']['token']:\n    sys.stdout.write(letter); sys.stdout.flush()"
    answer = client.call("evaluate_code", code=code)
    assert answer["stdout"] == MARK


def test_short_or_symbol_only_values_are_not_treated_as_secrets(client):
    client.call("evaluate_code", code="kept = shop.state; shop.state = {'user': {'token': '-' * 20}}")
    assert value(client, "'-' * 20") == repr("-" * 20)
    client.call("evaluate_code", code="shop.state = {'user': {'token': 'short'}}")
    assert value(client, "'short'") == "'short'"
    client.call("evaluate_code", code="shop.state = kept; None")


def test_a_state_getter_that_fails_or_prints_does_not_affect_evaluations(client):
    code = "def get():\n    print('looked')\n    raise OSError('no state')\n"
    code += "shop.seam.frame('bad', get, sensitive=[('x',)])\n"
    code += "shop.seam.frame('self', lambda: (print(1), {})[1], sensitive=[('x',)])"
    assert client.call("evaluate_code", code=code)["ok"]
    assert value(client, "1 + 1") == "2"
    client.call("evaluate_code", code="for name in ('bad', 'self'): del shop.seam.seam.frames[name]")


def test_sensitive_values_are_forgotten_on_restart_and_stored_in_no_file(tmp_path):
    with serving(tmp_path, "--repl", "python") as live:
        (live.workspace / "shop.py").write_text(APP % str(tmp_path / "told.txt"))
        with live.client() as client:
            client.file = Recorded(client.file)
            client.call("evaluate_code", code="import shop")
            failed = client.call("evaluate_code", code="shop.charge()", detail=True)
            client.call("evaluate_code", code="print(shop.state, 'x' * 300_000); shop.state")
            reported = secrets_of(live)
            client.call("restart_repl", replSessionKey="py")
            client.call("get_evaluation", evaluationId=failed["evaluationId"])
            client.call("repl_output_log", limit=100)
            sent = b"".join(client.file.lines).decode()
            assert not [form for secret in reported for form in forms_of(secret) if form in sent]
            answer = client.call("evaluate_code", code=f"{reported[0]!r}")
            assert reported[0][:16] in answer["result"], "what was forgotten is shown like any text"
    for file in tmp_path.rglob("*"):
        if file.is_file() and file.name != "told.txt":
            text = file.read_bytes().decode("utf-8", "replace")
            assert reported[1][:16] not in text, file
