"""Code left running by a client that disconnected: it blocks nobody, and anyone can fetch its result."""

import pytest
from live_server import serving, until


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gone")
    workspace = folder / "workspace"
    workspace.mkdir()
    (workspace / "codriver.toml").write_text("goneClientGraceMs = 300\n")
    with serving(folder, "--repl", "python") as running:
        with running.client() as client:
            assert client.call("evaluate_code", code="1", timeoutMs=60_000)["ok"]
        yield running


@pytest.fixture
def client(live):
    with live.client(name="here") as connected:
        yield connected


def start_and_disconnect(live, code, status="running"):
    """Return the id of an evaluation whose client got an answer and disconnected."""
    with live.client(name="gone") as gone:
        # Where input is wanted it answers at once.
        answer = gone.call("evaluate_code", code=code, timeoutMs=1000 if status == "running" else 60_000)
        assert answer["status"] == status
        return answer["evaluationId"]


def test_code_of_a_disconnected_client_ends_when_another_client_needs_its_session(live, client):
    endless = start_and_disconnect(live, "while True: pass")
    answer = client.call("evaluate_code", code="'free'", timeoutMs=60_000)
    assert (answer["status"], answer["result"]) == ("done", "'free'")
    ended = client.call("get_evaluation", evaluationId=endless)
    assert ended["status"] == "interrupted"
    assert "the code was interrupted: its client disconnected, and here is waiting for the session" in ended["notes"]


def test_code_ends_when_its_client_disconnects_during_the_call(live):
    pending, ended = live.workspace / "begun", live.workspace / "ended"
    code = f"""
import pathlib, time
try:
    pathlib.Path({str(pending)!r}).touch()
    time.sleep(600)
finally:
    pathlib.Path({str(ended)!r}).touch()
"""
    with live.client(name="gone") as gone:
        gone.begin_call("evaluate_code", code=code, timeoutMs=600_000)
        until(pending.exists, "the code to start")
    until(ended.exists, "the code to be interrupted, although nobody waits for its session")


@pytest.mark.parametrize("code", ["input('? ')", "breakpoint()", "import pdb\npdb.Pdb().set_trace()"])
def test_code_waiting_for_input_ends_with_its_client(live, client, code):
    reading = start_and_disconnect(live, code, "needs-input")
    ended = client.call("get_evaluation", evaluationId=reading, waitMs=60_000)
    if ended["status"] == "needs-input":  # it answers at once when input is wanted
        until(lambda: client.call("get_evaluation", evaluationId=reading)["status"] != "needs-input", "its end")
        ended = client.call("get_evaluation", evaluationId=reading, waitMs=60_000)
    assert ended["status"] == "interrupted"
    assert any("is waiting for input, but its client has disconnected" in note for note in ended["notes"])


def test_code_that_blocks_no_other_client_continues_and_anyone_can_fetch_its_result(live, client):
    mark = live.workspace / "mark"
    code = f"import os, time\nwhile not os.path.exists({str(mark)!r}): time.sleep(0.01)\n'fetched'"
    running = start_and_disconnect(live, code)
    answer = client.call("wait_for", query='[:find ?e :where [?e :output/text "never"]]', timeoutMs=1000)
    assert not answer.get("rows"), "the grace is over, and nobody waited for the session"
    assert client.call("get_evaluation", evaluationId=running)["status"] == "running"
    mark.write_text("")
    fetched = client.call("get_evaluation", evaluationId=running, waitMs=60_000)
    assert (fetched["status"], fetched["result"]) == ("done", "'fetched'")
