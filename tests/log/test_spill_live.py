"""Long texts of evaluations on the disk of a real server: whole, redacted, bounded, and removed in the end."""

import base64
import contextlib
import random
import sys
from pathlib import Path

import posix_only
import pytest
from live_server import Live, serving, until

from codriver.log.growing_text import PART_CHARACTERS, RETAINED_TAIL_CHARACTERS

SECRET = "sk-Tr4vel5-0f-a-s3cret"
MIB = 2**20
AT_REST = PART_CHARACTERS + RETAINED_TAIL_CHARACTERS + 1000
"""More than one long text of ASCII has in memory when nothing of it waits to be written; the rest is small texts."""


def spill_files(folder):
    return sorted(path for path in (folder / "state").rglob("spill/*/*") if path.is_file())


def bytes_on_disk(folder):
    """Return the size of all spill files; a file removed meanwhile does not count."""
    total = 0
    for path in spill_files(folder):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def await_files(live, answer, *parts):
    """Wait until each of these parts of an evaluation is partly on disk, and return its files."""

    def written_files():
        files = [path for path in spill_files(live.folder) if path.name.startswith(f"{answer['evaluationId']}.")]
        written = {path.name.split(".")[1] for path in files if path.stat().st_size}
        return files if written >= set(parts) else None

    return until(written_files, f"{' and '.join(parts)} to be on disk")


def health(client):
    return client.call("server_health")["evaluations"]


def resource(client, uri):
    return client.request("resources/read", {"uri": uri})["result"]["contents"][0]["text"]


def resident_mib(live, key="VmRSS"):
    for line in Path(f"/proc/{live.process.pid}/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the server is gone")


def print_numbers(count, end="\n"):
    return f"for number in range({count}): print(number, end={end!r})\nNone"


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRIP_TOKEN", SECRET)
        with serving(tmp_path_factory.mktemp("spill"), "--repl", "python") as running:
            yield running


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc, which only Linux has")
def test_two_hundred_mb_of_output_are_available_without_growing_the_server(client, live):
    before = resident_mib(live)
    code = "import sys\nfor n in range(3200): sys.stdout.write(f'{n:07}\\n' * 8192); sys.stdout.flush()\nNone"
    answer = client.call("evaluate_code", code=code, timeoutMs=120_000)
    [note] = [note for note in answer["notes"] if note.startswith("stdout")]
    uri = f"codriver://evaluation/{answer['evaluationId']}/stdout"
    assert uri in note
    assert "dropped" not in note
    assert answer["stdout"].endswith("0003199\n")
    until(lambda: health(client)["spilledBytes"] > 199 * MIB, "the output to be on disk")
    assert health(client)["spilledBytes"] <= 200 * MIB
    assert health(client)["keptBytes"] < MIB
    chosen = random.Random(1)
    for _ in range(50):
        place = chosen.randrange(3200 * 8192)
        number = f"{place // 8192:07}\n"
        assert resource(client, f"{uri}?offset={8 * place}&limit=8") == number
        requested = {"part": "stdout", "from": 8 * place, "length": 8}
        assert client.call("get_evaluation", evaluationId=answer["evaluationId"], **requested)["text"] == number
    written_files = client.call("get_evaluation", evaluationId=answer["evaluationId"], grep="0001234")
    assert written_files["count"] == 8192
    assert written_files["matches"][0] == {"part": "stdout", "line": 1234 * 8192 + 1, "text": "0001234"}
    # What remains depends on the allocator: 100 to 140 MiB of buffers that are no longer referenced.
    assert resident_mib(live, "VmHWM") < before + 200


def test_no_secret_is_written_to_disk(client, live):
    # It is printed in pieces, alone and at the ends of blocks and writes, over some MiB, and is in the value too.
    code = """
import os, sys
token = os.environ["TRIP_TOKEN"]
for number in range(40):
    sys.stdout.write("x" * (2**16 - 10 + number))
    sys.stdout.flush()
    sys.stdout.write(token[:7])
    sys.stdout.flush()
    sys.stdout.write(token[7:])
sys.stderr.write((token + "é") * 40_000)
token * 50_000
"""
    answer = client.call("evaluate_code", code=code, timeoutMs=60_000)
    kept = [path.read_bytes() for path in await_files(live, answer, "stdout", "stderr", "result")]
    assert len(kept) == 3
    for content in kept:
        assert SECRET.encode() not in content
        assert SECRET[:7].encode() not in content
        assert b"<<redacted:TRIP_TOKEN>>" in content
    for path in (live.folder / "state").rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path


def test_an_image_in_a_long_value_is_still_an_image(client, live):
    picture = base64.b64encode(random.Random(1).randbytes(MIB)).decode()
    code = repr(f"data:image/png;base64,{picture}")
    answer = client.answer(client.begin_call("evaluate_code", code=code, timeoutMs=60_000))["result"]
    assert [part["data"] for part in answer["content"] if part["type"] == "image"] == [picture]
    await_files(live, answer["structuredContent"], "result")
    requested = {"evaluationId": answer["structuredContent"]["evaluationId"], "maxImages": 1}
    again = client.answer(client.begin_call("get_evaluation", **requested))["result"]
    assert [part["data"] for part in again["content"] if part["type"] == "image"] == [picture]
    assert again["structuredContent"]["result"] == "'<<image-1>>'"


def test_long_texts_are_compared_with_those_of_an_earlier_run_of_the_same_code(client, live):
    code = print_numbers(200_000) + "\n'x' * 1_000_000"
    first = client.call("evaluate_code", code=code, timeoutMs=60_000)
    await_files(live, first, "stdout", "result")
    again = client.call("evaluate_code", code=code, timeoutMs=60_000)
    assert f"same result and output as {first['evaluationId']}" in again["notes"]
    both = {"evaluationId": again["evaluationId"], "diffWith": first["evaluationId"]}
    assert client.call("get_evaluation", **both)["same"]


def test_concurrent_evaluations_each_return_their_long_output_whole(live):
    clients = [live.client() for _ in range(4)]
    requests = []
    for number, item in enumerate(clients):
        code = print_numbers(150_000, end=f" of {number}\n")
        requests.append((item, number, item.begin_call("evaluate_code", code=code, isolate=True, timeoutMs=120_000)))
    for item, number, pending in requests:
        answer = item.answer(pending)["result"]["structuredContent"]
        whole = "".join(f"{line} of {number}\n" for line in range(150_000))
        uri = f"codriver://evaluation/{answer['evaluationId']}/stdout"
        read = ""
        while len(read) < len(whole):
            read += resource(item, f"{uri}?offset={len(read)}&limit=500000")
        assert read == whole
        item.close()


def test_output_beyond_a_quarter_of_the_disk_limit_is_dropped_with_a_note(tmp_path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "codriver.toml").write_text(f"spillMaxBytes = {32 * MIB}\n")
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        code = "import sys\nfor n in range(192): sys.stdout.write(f'{n:07}\\n' * 8192); sys.stdout.flush()\nNone"
        first = client.call("evaluate_code", code=code, timeoutMs=60_000)
        until(lambda: health(client)["keptBytes"] < AT_REST, "the text to be on disk")
        part = client.call("get_evaluation", evaluationId=first["evaluationId"], part="stdout", length=8)
        assert 3 * MIB < part["droppedCharacters"] <= 5 * MIB
        uri = f"codriver://evaluation/{first['evaluationId']}/stdout"
        _, note = client.request("resources/read", {"uri": f"{uri}?limit=4"})["result"]["contents"]
        dropped = part["droppedCharacters"]
        assert note["text"] == f"characters 0 to {dropped} were dropped because only the newest are kept"
        assert resource(client, f"{uri}?offset={12 * MIB - 8}") == "0000191\n"
        for number in range(5):
            client.call("evaluate_code", code=f"{code}\n{number}", timeoutMs=60_000)
        until(lambda: health(client)["keptBytes"] < 3 * MIB, "the texts to be on disk")
        # What is written pushes the oldest out only then, and its files go last.
        until(lambda: health(client)["spilledBytes"] <= 32 * MIB, "the oldest text to be dropped")
        until(lambda: bytes_on_disk(tmp_path) <= 32 * MIB, "its files to be removed")
        with live.client() as other:  # which was not notified of it
            again = other.call("get_evaluation", evaluationId=first["evaluationId"])
        [note] = [note for note in again["notes"] if note.startswith("stdout")]
        assert "older ones were dropped because only the newest are kept" in note
        assert again["stdout"].endswith("0000191\n")


def test_a_clean_stop_leaves_no_spilled_text(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        client.call("evaluate_code", code=print_numbers(200_000), timeoutMs=60_000)
        until(lambda: spill_files(tmp_path), "the text to be on disk")
    assert list((tmp_path / "state").rglob("spill/*")) == []
    assert live.process.returncode == 0


def test_the_next_server_sweeps_only_files_of_killed_servers(tmp_path):
    killed = Live(tmp_path / "first", "--repl", "python")
    # Another workspace, whose state is in the same directory of the user.
    neighbour = Live(tmp_path / "second", "--repl", "python")
    try:
        with killed.client() as client:
            client.call("evaluate_code", code=print_numbers(200_000), timeoutMs=60_000)
            until(lambda: spill_files(killed.folder), "the text to be on disk")
        killed.stop(posix_only.KILL)
        left = spill_files(killed.folder)
        assert left
        with neighbour.client() as client:
            answer = client.call("evaluate_code", code=print_numbers(200_000), timeoutMs=60_000)
            until(lambda: spill_files(neighbour.folder), "the text to be on disk")
            with serving(killed.folder, "--repl", "none"):
                until(lambda: not any(path.exists() for path in left), "the sweep")
            assert spill_files(killed.folder) == []
            uri = f"codriver://evaluation/{answer['evaluationId']}/stdout"
            assert resource(client, f"{uri}?limit=20").startswith("0\n1\n2\n")
    finally:
        neighbour.stop()
