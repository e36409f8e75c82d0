"""An evaluation is in the history file unless its answer says otherwise, whatever the disk does."""

import random
import sys
import threading
import time
from pathlib import Path

import pytest
from alike import rounds
from live_server import Live, until

from codriver.log.history import MAX_ENTRIES, read_history

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the disk is told from others by /proc"),
]

SERVER = Path(__file__).parents[1] / "support" / "slow_disk_server.py"
KILLS = rounds(100, 5)
NEWEST = MAX_ENTRIES // 2
"""Number of the newest evaluations that the history still has, as it evicts older ones."""


class OnSlowDisk(Live):
    """A server whose disk syncs slowly while `slow` exists, and blocks writes while `blocked` exists."""

    def __init__(self, folder):
        self.slow, self.blocked = folder / "slow", folder / "blocked"
        for file in (self.slow, self.blocked):
            file.unlink(missing_ok=True)
        super().__init__(folder, "--repl", "python")

    def command(self, name, *options):
        return [sys.executable, str(SERVER), name, "--workspace", str(self.workspace), *options]

    def history(self):
        """Return the code in the file."""
        (file,) = (self.folder / "state").rglob("eval-history.transit.json")
        return [entry.text for entry in read_history(file)]


@pytest.fixture
def on_slow_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("DISK", str(tmp_path))
    started = []

    def start():
        started.append(OnSlowDisk(tmp_path))
        return started[-1]

    yield start
    for live in started:
        live.slow.unlink(missing_ok=True)
        live.blocked.unlink(missing_ok=True)
        live.stop()


def evaluate_until_the_end(client, name, recorded):
    """Evaluate different code repeatedly, and note what was reported as recorded."""
    number = 0
    try:
        while True:
            number += 1
            code = f"'{name} {number}'"
            if client.call("evaluate_code", code=code).get("recorded") is not False:
                recorded.append(code)
    except (OSError, ValueError):  # the server was killed
        return


def test_killing_the_server_loses_no_evaluation_reported_as_recorded(on_slow_disk):
    recorded = []
    for number in range(KILLS):
        live = on_slow_disk()
        client = live.client()
        code = f"'first {number}'"
        if client.call("evaluate_code", code=code, timeoutMs=60_000).get("recorded") is not False:
            recorded.append(code)
        live.slow.touch()
        others = [live.client() for _ in range(2)]
        threads = [
            threading.Thread(target=evaluate_until_the_end, args=(other, f"{number} {at}", recorded))
            for at, other in enumerate(others)
        ]
        for thread in threads:
            thread.start()
        time.sleep(random.random() * 0.5)
        live.process.kill()
        live.process.wait()
        for thread in threads:
            thread.join()
        for item in (client, *others):
            item.close()
        in_file = set(live.history())
        assert [code for code in recorded[-NEWEST:] if code not in in_file] == []
    assert len(recorded) > 3 * KILLS  # the servers did work before they were killed


def test_a_blocking_disk_delays_no_other_client_and_is_reported(on_slow_disk):
    live = on_slow_disk()
    with live.client() as item, live.client() as other:
        assert "recorded" not in item.call("evaluate_code", code="'before'", timeoutMs=60_000)
        assert "recorded" not in other.call("evaluate_code", code="0")
        live.blocked.touch()
        answer = item.call("evaluate_code", code="'during'")
        assert (answer["result"], answer["recorded"]) == ("'during'", False)
        for _ in range(20):  # each call would wait for the disk if the event loop did
            assert "recorded" not in other.call("list_sessions")
        assert other.call("evaluate_code", code="'other'")["recorded"] is False
        assert item.call("get_evaluation", evaluationId=answer["evaluationId"])["recorded"] is False
        assert live.history() == ["'before'", "0"]
        live.blocked.unlink()
        until(lambda: len(live.history()) == 4, "the history's file")
        assert "recorded" not in item.call("get_evaluation", evaluationId=answer["evaluationId"])
        assert "recorded" not in item.call("evaluate_code", code="'after'")
        assert live.history() == ["'before'", "0", "'during'", "'other'", "'after'"]
