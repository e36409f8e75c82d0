import json
import os
import subprocess
import sys

import pytest

from codriver.presence import AlreadyRunningError, ServerRecord, claim, install_relay, read_record

ALIVE = ServerRecord(os.getpid(), 1234, "127.0.0.1", "session-a", 1_700_000_000_000, "1.0", "port 1664 was taken")


def nobody(record):
    return False


def test_what_is_published_can_be_read_back(tmp_path):
    with claim(tmp_path / "p", is_alive=nobody) as held:
        held.publish(ALIVE)
        assert (tmp_path / "p" / "port").read_bytes() == b"1234"
        assert read_record(tmp_path / "p") == ALIVE


def test_the_files_are_the_users_own(tmp_path):
    with claim(tmp_path, is_alive=nobody) as held:
        held.demand_token()
        held.publish(ALIVE)
        for name in ("port", "server.json", "token"):
            assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def test_leaving_the_claim_removes_its_files(tmp_path):
    with claim(tmp_path, is_alive=nobody) as held:
        held.demand_token()
        held.publish(ALIVE)
    assert {path.name for path in tmp_path.iterdir()} == {"lock", ".gitignore"}


def test_files_that_another_server_wrote_meanwhile_stay(tmp_path):
    with claim(tmp_path, is_alive=nobody) as held:
        held.publish(ALIVE)
        other = json.loads((tmp_path / "server.json").read_text()) | {"sessionId": "session-b"}
        (tmp_path / "server.json").write_text(json.dumps(other))
    assert (tmp_path / "port").exists()


def test_a_stale_claim_is_replaced(tmp_path):
    with claim(tmp_path, is_alive=nobody) as held:
        held.publish(ALIVE)
        saved = {name: (tmp_path / name).read_text() for name in ("port", "server.json")}
    for name, text in saved.items():
        (tmp_path / name).write_text(text)
    with claim(tmp_path, is_alive=nobody):
        assert not (tmp_path / "port").exists()


def test_a_pid_that_is_somebody_elses_now_is_told_by_the_health_call(tmp_path):
    asked = []
    record = {"pid": 1, "port": 5, "host": "127.0.0.1", "sessionId": "x", "startedAt": "2026-01-01T00:00:00+00:00"}
    (tmp_path / "server.json").write_text(json.dumps(record))
    with claim(tmp_path, is_alive=lambda found: asked.append(found.session_id) or False):
        assert asked == ["x"]


def test_a_live_server_is_left_alone_and_named(tmp_path):
    record = {"pid": 1, "port": 4711, "host": "127.0.0.1", "sessionId": "x", "startedAt": "2026-01-01T00:00:00+00:00"}
    (tmp_path / "server.json").write_text(json.dumps(record))
    with (
        pytest.raises(AlreadyRunningError, match="pid 1 on port 4711"),
        claim(tmp_path, is_alive=lambda found: True),
    ):
        pass
    assert (tmp_path / "server.json").exists()


HOLD = """
import sys, pathlib
from codriver.presence import claim
with claim(pathlib.Path(sys.argv[1]), is_alive=lambda record: False):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_of_two_that_start_at_once_one_is_refused(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(AlreadyRunningError, match="just starting"), claim(tmp_path, is_alive=nobody):
            pass
        holder.kill()
    with claim(tmp_path, is_alive=nobody):
        pass


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"pid": "x"}', '{"pid": 1}', "\udcff"])
def test_a_record_that_says_nothing_usable_is_none(tmp_path, text):
    (tmp_path / "server.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert read_record(tmp_path) is None


def test_the_relay_is_written_only_when_it_differs(tmp_path):
    source, target = tmp_path / "new.py", tmp_path / "there" / "relay.py"
    source.write_text("one")
    install_relay(source, target)
    before = target.stat().st_ino
    install_relay(source, target)
    assert target.stat().st_ino == before
    source.write_text("two")
    install_relay(source, target)
    assert target.read_text() == "two"
