"""The memory stores recent runs and small documents: bounded, private, redacted, and read only on request."""

import asyncio
import json
import stat
import threading

import anyio
import pytest
from live_server import Live

from codriver.log import run_recorder
from codriver.log.log_entries import UNASSIGNED_LINE, Entry
from codriver.log.memory import MAX_DOCUMENTS, MAX_RUN_BYTES, Document, Memory
from codriver.log.output_log import OutputLog
from codriver.log.run_recorder import MAX_WRITE_PAUSE_S, EarlierRuns, RunRecorder, pause_after_write_s

OUT = "evaluationOutput"


def recorded(folder, number, *texts, keep=5, next_line=None, ended=99):
    """Return a run that began `number` minutes after the epoch and printed these texts."""
    log = OutputLog(next_line=next_line or number * 100)
    recorder = RunRecorder(
        Memory(folder), log, session=f"s{number}", started_ms=number * 60_000, max_runs=lambda: keep
    )  # fmt: skip
    for text in texts:
        log.append(Entry(UNASSIGNED_LINE, OUT, text, number, who="ann"))
    recorder.close(ended)
    return recorder


def run_files(folder):
    return sorted((folder / "runs").glob("*.json"))


def texts_in(memory):
    return [record[2] for record in memory.snapshot().records]


def test_a_stored_run_is_listed_and_each_of_its_entries_names_the_run(tmp_path):
    run = recorded(tmp_path, 1, "one", "two").started.id
    memory = Memory(tmp_path)
    assert run == "1970-01-01T00-01-00-000"
    (found,) = memory.runs()
    assert (found.id, found.session, found.started, found.finished, found.entries) == (run, "s1", 60_000, 99, 2)
    assert [(e.line, e.text, e.who, e.run) for e in memory.entries(run)] == [
        (100, "one", "ann", run), (101, "two", "ann", run),
    ]  # fmt: skip


def test_only_the_latest_runs_are_kept(tmp_path):
    for number in range(1, 8):
        recorded(tmp_path, number, f"run {number}", keep=3)
    assert texts_in(Memory(tmp_path)) == ["run 5", "run 6", "run 7"]


def test_no_run_is_kept_if_the_limit_is_zero(tmp_path):
    recorded(tmp_path, 1, "one")
    recorder = recorded(tmp_path, 2, "two", keep=0)
    recorder._start()
    assert run_files(tmp_path) == []


def test_an_empty_run_is_not_stored(tmp_path):
    recorded(tmp_path, 1)
    assert not (tmp_path / "runs").exists()


def test_only_the_newest_entries_of_a_long_run_are_stored_newest_first(tmp_path):
    recorded(tmp_path, 1, *(f"{number} " + "ü" * 20_000 for number in range(200)), "x" * 3 * MAX_RUN_BYTES, "end")
    (file,) = run_files(tmp_path)
    size = file.stat().st_size
    assert MAX_RUN_BYTES - 100_000 < size <= MAX_RUN_BYTES
    lines = [int(line) for line in json.loads(file.read_bytes())["output"]]
    assert lines == sorted(lines, reverse=True)
    assert lines[0] == 301
    entries = Memory(tmp_path).entries("1970-01-01T00-01-00-000")
    assert entries[-1].text == "end"
    assert "are left out here" in entries[-2].text
    assert [entry.line for entry in entries] == lines[::-1]


def test_files_are_private_and_replaced_atomically(tmp_path):
    recorded(tmp_path, 1, "one")
    memory = Memory(tmp_path)
    memory.remember(Document("given up", "clj", 5, "why"))
    for path in (*run_files(tmp_path), tmp_path / "memory.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "runs").stat().st_mode) == 0o700
    before = (tmp_path / "memory.json").stat().st_ino
    with (tmp_path / "memory.json").open("rb") as old:
        memory.remember(Document("given up", "bb", 6))
        assert list(json.load(old)["given up"]) == ["1"]
    assert (tmp_path / "memory.json").stat().st_ino != before
    assert not list(tmp_path.rglob("*.tmp"))


def test_temporary_files_left_by_a_crash_are_removed(tmp_path):
    recorded(tmp_path, 1, "one")
    left = tmp_path / "runs" / ".1970.json.0123.tmp"
    left.write_text("half")
    recorded(tmp_path, 2, "two")._start()
    assert not left.exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff", b"[]", b'{"run":{}}', b'{"run":{"1":{"id":"other"}}}', b'{"output":{"x":{}}}', b"[" * 9999,
     b" " * (MAX_RUN_BYTES + 1)],
    ids=range(9),
)  # fmt: skip
def test_a_damaged_run_file_is_set_aside_with_a_report_and_does_not_affect_other_runs(tmp_path, content):
    recorded(tmp_path, 1, "one")
    recorded(tmp_path, 2, "two")
    broken = run_files(tmp_path)[0]
    broken.write_bytes(content)
    received = []
    looking = Memory(tmp_path, is_repairing=False, report=received.append)
    assert texts_in(looking) == ["two"]
    assert broken.read_bytes() == content
    assert texts_in(Memory(tmp_path, report=received.append)) == ["two"]
    assert len(received) == 2
    assert all(str(broken) in problem for problem in received)
    (aside,) = (tmp_path / "runs").glob("*.unreadable-*")
    assert aside.read_bytes() == content
    assert str(aside) in received[1]


def test_a_run_with_a_malformed_entry_is_treated_as_damaged(tmp_path):
    recorded(tmp_path, 1, "one")
    (file,) = run_files(tmp_path)
    document = json.loads(file.read_bytes())
    document["output"]["100"]["timestamp"] = "now"
    file.write_text(json.dumps(document))
    assert texts_in(Memory(tmp_path, report=lambda _: None)) == []


def test_a_link_in_place_of_a_file_is_not_followed(tmp_path):
    recorded(tmp_path / "state", 1, "one")
    (file,) = run_files(tmp_path / "state")
    (tmp_path / "elsewhere").write_bytes(file.read_bytes())
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    received = []
    assert texts_in(Memory(tmp_path / "state", is_repairing=False, report=received.append)) == []
    assert "link" in received[0]


def test_broken_documents_are_set_aside_when_the_next_is_stored(tmp_path):
    received = []
    memory = Memory(tmp_path, report=received.append)
    (tmp_path / "memory.json").write_text("{")
    memory.remember(Document("given up", "clj", 5, "why"))
    assert memory.documents() == (Document("given up", "clj", 5, "why"),)
    assert len(received) == 1
    assert len(list(tmp_path.glob("memory.json.unreadable-*"))) == 1


def test_documents_are_unique_by_kind_and_name_and_can_be_deleted_by_kind(tmp_path):
    memory = Memory(tmp_path)
    for document in (Document("a", "x", 1), Document("b", "x", 2), Document("a", "x", 3, "new"), Document("a", "y", 0)):
        memory.remember(document)
    assert memory.documents() == (Document("a", "y", 0), Document("b", "x", 2), Document("a", "x", 3, "new"))
    assert memory.documents("b") == (Document("b", "x", 2),)
    memory.delete_documents("a")
    assert Memory(tmp_path).documents() == (Document("b", "x", 2),)


def test_the_oldest_documents_are_evicted(tmp_path):
    memory = Memory(tmp_path)
    memory.remember(Document("a", "first", 0))
    table = {str(n): {"name": str(n), "time": n, "text": ""} for n in range(1, MAX_DOCUMENTS + 1)}
    (tmp_path / "memory.json").write_text(json.dumps({"a": table}))
    memory.remember(Document("b", "new", 10**6, "ü" * 10**5))
    assert len(memory.documents()) == MAX_DOCUMENTS
    assert memory.documents()[0].name == "2"
    assert len(memory.documents("b")[0].text) == 2000


def test_documents_are_redacted(tmp_path):
    memory = Memory(tmp_path, redact=lambda text: text.replace("secret", "***"))
    memory.remember(Document("given up", "a secret", 5, "the secret"))
    assert memory.documents() == (Document("given up", "a ***", 5, "the ***"),)
    assert b"secret" not in (tmp_path / "memory.json").read_bytes()


def test_datalog_queries_find_runs_and_documents_which_are_read_only_when_needed(tmp_path):
    first = recorded(tmp_path, 1, "one", "both").started.id
    this = recorded(tmp_path, 2, "this run's own").started.id
    memory = Memory(tmp_path)
    memory.remember(Document("given up", "clj", 5, "it is gone"))
    log = OutputLog(next_line=300)
    log.append(Entry(UNASSIGNED_LINE, OUT, "both", 7))

    class Counted(EarlierRuns):
        reads = 0

        def snapshot(self):
            self.reads += 1
            return super().snapshot()

    requested = Counted(memory, this)
    assert log.query("[:find [?l ...] :where [?e :output/line ?l]]", memory=requested).result == [300]
    assert requested.reads == 0
    both = """[:find ?l ?m ?r :in $ $memory
      :where [?e :output/text ?t] [?e :output/line ?l]
             [$memory ?f :output/text ?t] [$memory ?f :output/line ?m] [$memory ?f :output/run ?r]]"""
    assert log.query(both, memory=requested).result == [[300, 101, first]]
    assert requested.reads == 1
    kinds = "[:find ?c ?t :in $ $memory :where [$memory ?e :output/category ?c] [$memory ?e :output/text ?t]]"
    document = ["given up", "clj: it is gone"]
    assert log.query(kinds, memory=requested, until=1).result == [[OUT, "one"], [OUT, "both"], document]
    rules = "[[(said ?t) [?e :output/text ?t]]]"
    by_rule = "[:find [?t ...] :in $ $memory % :where ($memory said ?t)]"
    assert "one" in log.query(by_rule, inputs=[rules], memory=requested).result
    memory.delete_runs([first])
    assert log.query(kinds, memory=requested).result == [["given up", "clj: it is gone"]]


def test_a_failing_disk_loses_no_document(tmp_path, caplog):
    (tmp_path / "state").write_text("no folder")
    log = OutputLog()
    log.append(Entry(UNASSIGNED_LINE, OUT, "x", 0))
    recorder = RunRecorder(Memory(tmp_path / "state"), log, session="s", started_ms=0, max_runs=lambda: 5)
    recorder._pending.append(Document("a", "x", 1))
    recorder.close(1)
    assert caplog.text.count("the log of this run cannot be written") == 1
    (tmp_path / "state").unlink()
    recorder.close(2)
    assert caplog.text.count("the log of this run can be written") == 1
    assert Memory(tmp_path / "state").documents() == (Document("a", "x", 1),)
    assert [run.finished for run in Memory(tmp_path / "state").runs()] == [2]


@pytest.mark.anyio
async def test_entries_are_written_before_the_run_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(run_recorder, "MIN_WRITE_PAUSE_S", 0.05)
    log = OutputLog()
    recorder = RunRecorder(Memory(tmp_path), log, session="s", started_ms=0, max_runs=lambda: 5)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(recorder.run)
        for number in range(3):
            log.append(Entry(UNASSIGNED_LINE, OUT, f"line {number}", number))
            recorder.schedule_write()
            with anyio.fail_after(30):
                while len(texts_in(Memory(tmp_path))) <= number:
                    await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert texts_in(Memory(tmp_path)) == ["line 0", "line 1", "line 2"]


@pytest.mark.anyio
async def test_the_first_entry_is_written_without_a_pause(tmp_path, monkeypatch):
    monkeypatch.setattr(run_recorder, "MIN_WRITE_PAUSE_S", 3600)
    stored, log = Memory(tmp_path), OutputLog()
    recorder = RunRecorder(stored, log, session="s", started_ms=0, max_runs=lambda: 5)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(recorder.run)
        recorder.remember(Document("a", "x", 1))
        with anyio.fail_after(30):
            while not stored.documents():
                await anyio.sleep(0.01)
        log.append(Entry(UNASSIGNED_LINE, OUT, "first", 1))
        recorder.schedule_write()
        with anyio.fail_after(30):
            while not stored.runs():
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert [(run.finished, run.entries) for run in stored.runs()] == [(None, 1)]


@pytest.mark.anyio
async def test_the_recorder_of_a_silent_server_is_never_woken(tmp_path, monkeypatch):
    monkeypatch.setattr(run_recorder, "MIN_WRITE_PAUSE_S", 0.01)
    monkeypatch.setattr(run_recorder, "WRITE_PAUSE_FACTOR", 0)
    log, timers, loop = OutputLog(), [], asyncio.get_running_loop()
    call_later = loop.call_later
    recorder = RunRecorder(Memory(tmp_path), log, session="s", started_ms=0, max_runs=lambda: 5)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(recorder.run)
        log.append(Entry(UNASSIGNED_LINE, OUT, "said", 0))
        with anyio.fail_after(30):
            while not texts_in(Memory(tmp_path)):
                recorder.schedule_write()
                await anyio.sleep(0.01)
        monkeypatch.setattr(loop, "call_later", lambda *args: timers.append(args) or call_later(*args))
        await anyio.to_thread.run_sync(threading.Event().wait, 0.05)
        tasks.cancel_scope.cancel()
    assert timers == []


def test_unwritable_documents_are_reported_once(tmp_path, caplog, monkeypatch):
    log, memory = OutputLog(), Memory(tmp_path)
    monkeypatch.setattr(memory, "remember", lambda _: (tmp_path / "gone" / "lock").touch())
    recorder = RunRecorder(memory, log, session="s", started_ms=0, max_runs=lambda: 5)
    recorder._pending.append(Document("a", "x", 1))
    for number in range(3):
        log.append(Entry(UNASSIGNED_LINE, OUT, f"line {number}", number))
        recorder._write_documents()
        recorder._write_run(None)
    assert [record.levelname for record in caplog.records].count("WARNING") == 1, caplog.text
    assert "the list of checkpoints and failed REPLs cannot be written" in caplog.text
    assert texts_in(Memory(tmp_path)) == ["line 0", "line 1", "line 2"]


@pytest.mark.parametrize(("elapsed_s", "rests_s"), [(0.0, 2.0), (0.04, 2.0), (0.1, 5.0), (3.0, 30.0)])
def test_the_pause_between_writes_is_longer_on_a_slow_disk(elapsed_s, rests_s):
    assert pause_after_write_s(elapsed_s) == rests_s


def output_of(live, *arguments):
    done = live.run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_earlier_runs_can_be_queried_and_forgotten(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIP_TOKEN", "sk-Tr4vel-light-0042")
    for number in (1, 2):
        server = Live(tmp_path, "--repl", "python")
        with server.client(name="agent") as client:
            client.call("evaluate_code", code=f"import os\nprint('run {number}', os.environ['TRIP_TOKEN'])")
            if number == 2:
                query = "[:find [?t ...] :in $ $memory :where [$memory ?e :output/run ?r] [$memory ?e :output/text ?t]]"
                texts = client.call("repl_output_log", query=query)["result"]
                assert any("run 1" in text for text in texts)
                assert not any("run 2" in text for text in texts)
                assert "run 1" in output_of(server, "log", "--run", "-1")
        server.stop()
    listed = output_of(server, "runs").splitlines()
    assert [line.split()[0] for line in listed] == ["-2", "-1"]
    last, before = (output_of(server, "log", "--run", run) for run in ("-1", "-2"))
    assert "run 2 <<redacted:TRIP_TOKEN>>" in last
    assert "run 1" not in last
    assert before.count("run 1 <<redacted:TRIP_TOKEN>>") == 1
    assert output_of(server, "forget") == "runs: 2\nhistory: 2 evaluations\n"
    assert output_of(server, "forget", "runs") == "forgotten: runs\n"
    assert output_of(server, "runs") == ""
    output = server.run("runs").stderr
    assert "no run of this workspace is stored yet" in output
    assert f"within {MAX_WRITE_PAUSE_S:g} s" in output
