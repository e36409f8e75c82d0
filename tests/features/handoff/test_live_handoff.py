"""The handoff of a real server: for a client, a hook and a command, and after the server's end."""

import pytest
from live_server import serving, until

from codriver.features.handoff.report import MAX_HANDOFF_BYTES


def read(client, uri):
    return client.request("resources/read", {"uri": uri})["result"]["contents"][0]["text"]


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("handoff")
    (folder / "workspace").mkdir()
    (folder / "workspace" / "low.py").write_text("def rate():\n    return 2\n")
    with serving(folder, "--repl", "python") as running:
        with running.client(name="claude-code") as client:
            work(client)
        yield running


def work(client):
    """Run a session that leaves something of each kind."""
    calls = [
        ("find out why prices are wrong", "def price(x):\n    return 2 * x"),
        ("checkpoint: price is found", "price(3)"),
        (None, "def rate():\n    return 3"),
        (None, "price()"),
    ]
    for description, code in calls:
        described = {} if description is None else {"description": description}
        assert client.call("evaluate_code", code=code, who="claude", **described)["ok"] is (code != "price()")


def check(message):
    """Check what a handoff for anybody contains about that session."""
    assert len(message.encode()) <= MAX_HANDOFF_BYTES
    assert "Goals: find out why prices are wrong (claude)" in message
    assert "Checkpoints: price is found: by claude in py (" in message
    assert "TypeError: price() missing 1 required positional argument: 'x'; not resolved" in message
    assert ": price (" in message
    assert ": rate (" not in message, "a file has it"


def test_a_client_can_read_the_handoff_for_itself_or_for_another_client(live, client):
    # The checkpoint is on the disk within a moment.
    until(lambda: "Checkpoints: " in read(client, "codriver://handoff"), "the checkpoint")
    answer = read(client, "codriver://handoff")
    check(answer)
    assert answer.startswith("Codriver, for bare, from log lines 1 to ")
    assert "Defined but not in any file: price (" in answer
    assert client.call("evaluate_code", code="1", who="other", replSessionKey="py")["ok"]
    assert "Others since your last call (" in read(client, "codriver://handoff?who=claude")
    listed = [row["uri"] for row in client.request("resources/list")["result"]["resources"]]
    assert "codriver://handoff" in listed


def test_a_person_can_choose_the_handoff_as_a_prompt(live, client):
    result = client.request("prompts/get", {"name": "handoff", "arguments": {"who": "claude"}})["result"]
    text = result["messages"][0]["content"]["text"]
    assert "Codriver, for claude, from log lines" in text
    check(text.partition("\n\n")[2].rpartition("\n\n")[0])


def test_a_hook_gets_a_short_handoff_at_session_start_and_the_whole_one_after_a_compaction(live, client):
    for number in range(40):
        why = f"goal {number}: {'because of that ' * 10}"
        assert client.call("evaluate_code", code=f"def only_here_{number}(): pass", description=why)["ok"]
    short = client.call("note_edit", event="started", source="startup", waitMs=20_000)["context"]
    whole = client.call("note_edit", event="started", source="compact", waitMs=20_000)["context"]
    assert len(short.encode()) <= 1500
    assert 1500 < len(whole.encode()) <= MAX_HANDOFF_BYTES
    assert short.splitlines()[1] == whole.splitlines()[1]


def test_the_handoff_describes_loaded_code_rather_than_files(live, client):
    file = live.workspace / "shop_drift.py"
    file.write_text("def rate():\n    return 2\ndef total():\n    return rate()\n")
    (live.workspace / "test_shop_drift.py").write_text(
        "import shop_drift\ndef test_it(): assert shop_drift.total() == 3\n"
    )
    assert client.call("load_file", filePath="shop_drift.py", who="claude")["ok"]
    assert client.call("run_tests", namespace="test_shop_drift.py", who="claude", timeoutMs=60_000)["failed"] == 1
    redefined = client.call("evaluate_code", code="def rate(): return 4", namespace="shop_drift", who="claude")
    file.write_text("def rate():\n    return 2\ndef total():\n    return rate() + 1\n")
    answer = read(client, "codriver://handoff")
    by = f"(claude, {redefined['evaluationId']})"
    line = f"shop_drift: edited in the file since the load: total; redefined in the REPL: rate {by}"
    assert f"\nLoaded code that differs from its files: {line}" in answer
    assert "\nFailing tests: test_shop_drift.py::test_it (claude " in answer
    assert "a failure" not in answer.partition("Passing tests")[2].partition("\n")[0]
    assert "loaded code that differs from its files: what_changed" in answer


@pytest.mark.slow
def test_the_handoff_survives_a_server_restart(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client(name="claude-code") as client:
        work(client)
        (live.workspace / "low.py").write_text("def rate():\n    return 2\n")
        reported = live.run("handoff").stdout
        assert "REPLs: py (python, connected, generation 1)" in reported
    reported = live.run("handoff", "--who", "claude")
    assert (reported.returncode, reported.stderr) == (
        0,
        "codriver: no server is running, so this summary is from the records of earlier ones\n",
    )
    check(reported.stdout)
    assert "REPLs: " not in reported.stdout
    with serving(tmp_path, "--repl", "none") as again, again.client() as client:
        reported = read(client, "codriver://handoff?who=claude")
        check(reported)
        assert "Defined before the REPL reconnected and not in any file: price (" in reported
        assert "Others since" not in reported
