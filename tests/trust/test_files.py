"""Disks that are full or read-only, and workspaces that disappear: reported and survived."""

import contextlib
import json
import shutil
import subprocess
import sys

import forked
import posix_only
import pytest
from live_server import Live, environ, serving, until
from needs import program

from codriver.log.transit_format import EntryDecoder
from relay.relay_process import RelayProcess, request

SIZE_KIB = 512


@contextlib.contextmanager
def small_disk(folder):
    """Mount a separate disk at `folder`, small enough to be filled."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = program("mount", install="apt-get install mount", is_expected=sys.platform == "linux")
    command = [mount, "-t", "tmpfs", "-o", f"size={SIZE_KIB}k", "codriver-test", str(folder)]
    if sys.platform != "linux" or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here: run as root on Linux to include this test")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder):
    """Fill the disk of a directory, and return what fills it."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (4096, 1):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size):
                    pass
    return filler


@contextlib.contextmanager
def read_only(disk):
    """Make a disk read-only, even for root."""
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)


def history_file(live):
    return next((live.folder / "state").rglob("eval-history.transit.json"), None)


def history_texts(live):
    file = history_file(live)
    return [entry.text for entry in EntryDecoder([file.read_bytes()]).decode_entries()] if file else []


def refused_start(folder, *options):
    """Return the output of a server that cannot start."""
    live = Live(folder, *options)
    output = live.greeting + live.process.stdout.read()
    live.stop()
    assert live.process.returncode == 1
    assert "Traceback" not in output
    return output


# Full disks


def test_a_full_disk_fails_no_evaluation_and_history_is_written_later(tmp_path):
    with small_disk(tmp_path / "state") as disk, serving(tmp_path, "--repl", "python") as live, live.client() as client:
        assert client.call("evaluate_code", code="'before'", timeoutMs=60_000)["ok"]
        until(lambda: "'before'" in history_texts(live), "the history to be written")
        filler = fill(disk)
        code = f"'{'x' * 60_000}'"
        assert client.call("evaluate_code", code=code)["ok"]
        until(lambda: "the history cannot be written" in live.process.stdout.readline(), "the server to say so")
        assert history_texts(live) == ["'before'"]
        assert client.call("evaluate_code", code="'meanwhile'")["result"] == "'meanwhile'"
        filler.unlink()
        until(lambda: history_texts(live)[-2:] == [code, "'meanwhile'"], "the history to be written in the end")


def test_a_server_killed_on_a_full_disk_leaves_a_readable_history(tmp_path):
    with small_disk(tmp_path / "state") as disk:
        live = Live(tmp_path, "--repl", "python")
        with live.client() as client:
            assert client.call("evaluate_code", code="'before'", timeoutMs=60_000)["ok"]
            until(lambda: "'before'" in history_texts(live), "the history to be written")
            filler = fill(disk)
            for number in range(20):
                assert client.call("evaluate_code", code=f"'{number}{'x' * 5000}'")["ok"]
            live.stop(posix_only.KILL)
        filler.unlink()
        with serving(tmp_path, "--repl", "none") as again, again.client() as client:
            query = "[:find [?t ...] :in $ $history :where [$history _ :output/text ?t]]"
            assert "'before'" in client.call("repl_output_log", query=query)["result"]
            answer = client.call("repl_output_log")["result"]
            assert not any("could not be read" in entry["text"] for entry in answer)


def test_a_history_larger_than_the_disk_fails_no_evaluation(tmp_path):
    with small_disk(tmp_path / "state"), serving(tmp_path, "--repl", "python") as live, live.client() as client:
        for number in range(12):
            code = f"'{number}{'x' * 60_000}'"
            assert client.call("evaluate_code", code=code, timeoutMs=60_000)["ok"]
        until(lambda: live.process.stdout.readline().startswith("codriver: the history cannot"), "the server to say so")
        assert client.call("evaluate_code", code="6 * 7")["result"] == "42"


def test_a_workspace_on_a_full_disk_is_refused_without_leaving_partial_files(tmp_path):
    with small_disk(tmp_path / "workspace") as disk:
        (disk / ".calva" / "mcp-server").mkdir(parents=True)
        fill(disk)
        refusal = refused_start(tmp_path, "--repl", "none")
        assert "No space left on device" in refusal
        assert "a writable folder of yours that contains no links, or choose another --workspace" in refusal
        left = {path.name for path in (disk / ".calva" / "mcp-server").iterdir()}
        assert left <= {".gitignore", "lock"}


def test_an_edit_on_a_full_disk_is_refused_and_leaves_the_file_intact(tmp_path):
    with (
        small_disk(tmp_path / "workspace") as disk,
        serving(tmp_path, "--repl", "none") as live,
        live.client() as client,
    ):
        source = disk / "core.clj"
        source.write_text("(def a 1)\n")
        filler = fill(disk)
        edit = {"type": "replace", "filePath": "core.clj", "line": 1, "targetLineText": "(def a 1)"}
        edit["newForm"] = f'(def a "{"x" * 150_000}")'
        before = sorted(path.name for path in disk.iterdir())
        answer = client.call("edit_files", edits=[edit])
        assert not answer["ok"], answer
        assert "No space left on device" in json.dumps(answer)
        assert source.read_text() == "(def a 1)\n"
        assert sorted(path.name for path in disk.iterdir()) == before
        filler.unlink()
        assert client.call("edit_files", edits=[edit])["ok"]
        assert source.read_text() == edit["newForm"] + "\n"


def printed(client, evaluation, count):
    """Return what an evaluation printed, read in parts."""
    requested = {"evaluationId": evaluation, "part": "stdout"}
    places = [{"from": start, "length": 15_000} for start in range(0, count, 15_000)]
    return "".join(client.call("get_evaluation", **requested, **place)["text"] for place in places)


def test_output_that_does_not_fit_on_the_disk_is_retained_in_memory(tmp_path):
    with small_disk(tmp_path / "state") as disk, serving(tmp_path, "--repl", "python") as live, live.client() as client:
        assert client.call("evaluate_code", code="1", timeoutMs=60_000)["ok"]
        filler = fill(disk)
        code = "import sys\nfor number in range(60): sys.stdout.write(f'{number:05}' * 1000); sys.stdout.flush()\nNone"
        whole = "".join(f"{number:05}" * 1000 for number in range(60))
        answer = client.call("evaluate_code", code=code)
        assert answer["ok"]
        trouble = until(lambda: client.call("server_health")["evaluations"].get("spillTrouble"), "the server to say so")
        assert "No space left on device" in trouble
        assert printed(client, answer["evaluationId"], len(whole)) == whole
        assert [path for path in disk.rglob("spill/*/*") if path.stat().st_size] == []
        filler.unlink()
        again = client.call("evaluate_code", code=code)
        until(lambda: client.call("server_health")["evaluations"]["spilledBytes"], "the output to be written")
        assert "spillTrouble" not in client.call("server_health")["evaluations"]
        assert printed(client, again["evaluationId"], len(whole)) == whole
        assert printed(client, answer["evaluationId"], len(whole)) == whole


def test_output_that_fits_neither_disk_nor_memory_is_truncated_at_its_start_with_a_note(tmp_path):
    with small_disk(tmp_path / "state"), serving(tmp_path, "--repl", "python") as live, live.client() as client:
        code = "import sys\nfor n in range(640): sys.stdout.write(f'{n:07}\\n' * 8192); sys.stdout.flush()\nNone"
        answer = client.call("evaluate_code", code=code, timeoutMs=60_000)
        assert answer["ok"]
        assert answer["stdout"].endswith("0000639\n")
        until(lambda: client.call("server_health")["evaluations"].get("spillTrouble"), "the disk to be full")
        with live.client() as other:  # who was told nothing of it
            answer = other.call("get_evaluation", evaluationId=answer["evaluationId"])
        [note] = [note for note in answer["notes"] if note.startswith("stdout")]
        assert "because only the newest are kept in memory while the disk cannot be written" in note, note
        assert "(No space left on device)" in note
        requested = {"evaluationId": answer["evaluationId"], "part": "stdout", "length": 8}
        part = client.call("get_evaluation", **requested)
        assert 0 < part["droppedCharacters"] <= 9 * 2**20
        last = client.call("get_evaluation", **requested, **{"from": part["totalCharacters"] - 8})
        assert last["text"] == "0000639\n"


# Folders that cannot be written


def test_init_in_a_read_only_directory_fails_without_printing_next_steps(tmp_path):
    with small_disk(tmp_path / "workspace") as disk, read_only(disk):
        done = forked.run(["init", "--client", "claude-code"], cwd=disk, env=environ(tmp_path))
    assert done.returncode == 1
    assert ".mcp.json cannot be written: Read-only file system" in done.stdout
    assert "start claude" not in done.stdout


def refused_by_relay(tmp_path, workspace):
    """Return the message of a relay that cannot start a server."""
    relay = RelayProcess("--workspace", workspace, "--start", environment={"XDG_STATE_HOME": str(tmp_path / "state")})
    with contextlib.closing(relay):
        relay.send(request(1))
        return relay.receive()["error"]["message"]


def test_a_relay_reports_a_read_only_workspace_and_a_full_disk(tmp_path):
    with small_disk(tmp_path / "workspace") as disk:
        with read_only(disk):
            refusal = refused_by_relay(tmp_path, disk)
            assert "Read-only file system. To fix this, make it a writable folder of yours" in refusal
        fill(disk)
        refusal = refused_by_relay(tmp_path, disk)
        assert "free some space" in refusal.lower()
        done = forked.run(["eval", "1", "--start"], cwd=disk, env=environ(tmp_path))
        assert done.returncode == 3
        assert "free some space" in done.stderr.lower()


def test_output_for_a_read_only_directory_is_retained_in_memory(tmp_path):
    with (
        small_disk(tmp_path / "state") as disk,
        read_only(disk),
        serving(tmp_path, "--repl", "python") as live,
        live.client() as client,
    ):
        answer = client.call("evaluate_code", code="for _ in range(60): print('x' * 9_999)", timeoutMs=60_000)
        assert answer["ok"]
        assert printed(client, answer["evaluationId"], 600_000) == ("x" * 9_999 + "\n") * 60
        trouble = until(lambda: client.call("server_health")["evaluations"].get("spillTrouble"), "the server to say so")
        assert "Read-only file system" in trouble
        assert client.call("server_health")["evaluations"]["spilledBytes"] == 0


def errors_of(client):
    """Return the texts of the errors that the server knows of, by code."""
    return {error["code"]: error["message"] for error in client.call("server_health")["errors"]}


LARGER_THAN_A_PAGE = f"len('{'x' * 20_000}')"
"""Code that the history cannot append to a full disk: a shorter one fits into the last page of its file."""


def test_an_unwritable_history_is_an_error_until_it_can_be_written(tmp_path):
    with small_disk(tmp_path / "state") as disk, serving(tmp_path, "--repl", "python") as live, live.client() as client:
        assert client.call("evaluate_code", code="1", timeoutMs=60_000)["ok"]
        assert errors_of(client) == {}
        filler = fill(disk)
        assert client.call("evaluate_code", code=LARGER_THAN_A_PAGE)["ok"]
        words = until(lambda: errors_of(client).get("history-unwritable"), "the server to say so")
        assert "No space left on device" in words
        assert "Free some space on this disk" in words
        assert [row["text"] for row in client.call("repl_output_log")["result"]].count(words) == 1
        filler.unlink()
        until(lambda: not errors_of(client), "the history to be written")


def test_stopping_warns_that_the_last_code_may_be_lost(tmp_path):
    with small_disk(tmp_path / "state") as disk, serving(tmp_path, "--repl", "python") as live, live.client() as client:
        assert client.call("evaluate_code", code="1", timeoutMs=60_000)["ok"]
        fill(disk)
        assert client.call("evaluate_code", code=LARGER_THAN_A_PAGE)["ok"]
        until(lambda: errors_of(client), "the server to say so")
        done = live.run("stop")
        assert done.returncode == 0
        assert "the most recently evaluated code may not be stored: the history cannot be written" in done.stderr


def test_an_unwritable_history_stays_in_memory_and_is_reported(tmp_path):
    with (
        small_disk(tmp_path / "state") as disk,
        read_only(disk),
        serving(tmp_path, "--repl", "python") as live,
        live.client() as client,
    ):
        assert client.call("evaluate_code", code="'x'", timeoutMs=60_000)["ok"]
        log = [row["text"] for row in client.call("repl_output_log")["result"]]
        (output,) = [text for text in log if "this run's history is only in memory" in text]
        assert "(Read-only file system)" in output
        assert "Errno" not in output
        assert output.endswith("or set XDG_STATE_HOME")
        query = "[:find [?t ...] :in $ $history :where [$history _ :output/text ?t]]"
        assert client.call("repl_output_log", query=query)["result"] == ["'x'"]


def test_a_read_only_workspace_is_refused_with_an_explanation(tmp_path):
    with small_disk(tmp_path / "workspace") as disk, read_only(disk):
        refusal = refused_start(tmp_path, "--repl", "none")
        assert "Read-only file system" in refusal
        assert "a writable folder of yours that contains no links, or choose another --workspace" in refusal


def test_a_relay_that_cannot_be_installed_is_reported_and_the_server_still_serves(tmp_path):
    with small_disk(tmp_path / "config") as disk, read_only(disk), serving(tmp_path, "--repl", "none") as live:
        output = live.greeting + live.process.stdout.readline()
        assert "codriver listens on" in output
        assert "cannot install the relay" in output
        assert "XDG_CONFIG_HOME" in output


# A workspace that disappears


def test_the_server_and_its_clients_survive_a_deleted_workspace(tmp_path):
    live = Live(tmp_path, "--repl", "python")
    with live.client() as client:
        assert client.call("evaluate_code", code="kept = 1", timeoutMs=60_000)["ok"]
        shutil.rmtree(live.workspace)
        assert client.call("evaluate_code", code="kept")["result"] == "1"
        refused = client.call("load_file", filePath="gone.py")
        assert refused["reason"] == "file-unreadable"
        assert refused["hint"]
        assert client.call("server_health")["ok"]
        assert client.request("resources/list")["result"]["resources"]
        # A REPL that dies now cannot be started again there: that is said, and is not the server's end.
        killed = client.call("evaluate_code", code="import os\nos._exit(1)")
        assert killed["reason"] == "repl-disconnected"
        row = until(lambda: _waiting(client), "the REPL to be given up for now")
        assert str(live.workspace) in row["note"] or "No such file" in row["note"]
        live.workspace.mkdir()
        back = client.call("evaluate_code", code="'back'", timeoutMs=60_000)
        assert back["result"] == "'back'"
        shutil.rmtree(live.workspace)
    live.stop()
    assert live.process.returncode == 0
    assert not live.workspace.exists()


def _waiting(client):
    (row,) = client.call("server_health")["repls"]
    return row if row["phase"] in ("waiting", "stopped") and "could not be started" in row.get("note", "") else None
