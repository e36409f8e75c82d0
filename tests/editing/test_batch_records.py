"""Batches whose server is killed: the next one rolls them back, except for what was changed since."""

import contextlib
import json
import os
import random
import subprocess
import sys
import traceback
from pathlib import Path

import anyio
import posix_only
import pytest
from alike import rounds
from live_server import serving

from codriver.editing import BatchRecords, CreateFile, Editor, EditRequest, SearchLimits
from codriver.editing.atomic_batch import UNFINISHED_MARK
from codriver.editing.file_changes import Change, read_snapshot
from codriver.files.codriver_paths import workspace_state_directory
from codriver.systems.file_system import HAS_DESCRIPTORS
from codriver_lisp.edit import Append

OLD = "(ns a)\n"
KILLED = """
import os, signal, sys
from pathlib import Path
from codriver.editing import file_changes
from codriver.editing.atomic_batch import commit_changes
from codriver.editing.atomic_batch import BatchRecords
from codriver.files import DirectoryEntry

folder, steps = Path(sys.argv[1]), int(sys.argv[2])

def counted(name):
    real = getattr(DirectoryEntry, name)
    def step(place, *args, **options):
        global steps
        done = real(place, *args, **options)
        if place.path.is_relative_to(folder):
            steps -= 1
            if not steps:
                os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
        return done
    setattr(DirectoryEntry, name, step)

for name in ("stage", "publish", "publish_new", "remove"):
    counted(name)
paths = [folder / name for name in ("a.clj", "b.clj", "gone.clj", "new/deep/c.clj", "d.clj")]
changes = [
    file_changes.Change(path, file_changes.read_snapshot(path, folder), None if path.stem == "gone" else b"(new)\\n")
    for path in paths
]
commit_changes(changes, folder, BatchRecords(Path(sys.argv[3]), folder))
"""


@pytest.fixture
def workspace(tmp_path):
    workspace = tmp_path.resolve() / "workspace"
    workspace.mkdir()
    for name in ("a", "b", "gone", "d"):
        (workspace / f"{name}.clj").write_bytes(OLD.encode())
    (workspace / "a.clj").chmod(0o751)
    return workspace


@pytest.fixture
def records(workspace):
    return BatchRecords(workspace.parent / "records", workspace)


def everything(workspace):
    return {path: path.read_bytes() if path.is_file() else None for path in workspace.rglob("*")}


def run(script, *arguments):
    """Run a script, forked if possible; return its exit status and output.

    The forked process has imported everything it needs, which takes most of the time of a new process.
    """
    words = [*map(str, arguments)]
    if not hasattr(os, "fork"):
        command = [sys.executable, "-c", script, *words]
        done = subprocess.run(
            command, timeout=60, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return done.returncode, done.stdout
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        _be(script, words, theirs)
    os.close(theirs)
    with os.fdopen(ours) as output:
        text = output.read()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text


def _be(script, words, output):
    """Run a script as the process of `python -c` does, and exit."""
    status = 1
    try:
        for number in (1, 2):
            os.dup2(output, number)
        sys.stdout = sys.stderr = os.fdopen(output, "w")
        sys.argv = ["-c", *words]
        exec(script, {"__name__": "__main__"})
        status = 0
    except BaseException:  # noqa: BLE001  # it is told, as the interpreter does
        traceback.print_exc()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    os._exit(status)


def run_killed(workspace, steps, records=None):
    return run(KILLED, workspace, steps, records or workspace.parent / "records")[0]


def stored_records(workspace):
    return list((workspace.parent / "records").iterdir())


@pytest.mark.parametrize("steps", range(1, 10))
def test_a_batch_interrupted_at_any_step_is_rolled_back_by_the_next_server(workspace, records, steps):
    before = everything(workspace)
    assert posix_only.was_killed(run_killed(workspace, steps))
    assert everything(workspace) != before
    reported = records.recover()
    assert everything(workspace) == before
    assert posix_only.has_mode(workspace / "a.clj", 0o751)
    assert [words.startswith("a batch of edits was interrupted") for words in reported] == [True] * (steps > 4)
    assert stored_records(workspace) == []
    assert records.recover() == []


def test_a_completed_batch_leaves_no_record(workspace, records):
    assert run_killed(workspace, 100) == 0
    after = everything(workspace)
    assert stored_records(workspace) == []
    assert records.recover() == []
    assert everything(workspace) == after


def test_a_record_is_private_and_contains_files_up_to_a_limit(workspace):
    for name in ("a.clj", "b.clj"):
        (workspace / name).write_bytes(b";" * 100_000)
    assert posix_only.was_killed(run_killed(workspace, 6))
    [record] = stored_records(workspace)
    assert record.stat().st_size > 200_000
    assert posix_only.has_mode(record, 0o600)
    assert posix_only.has_mode(record.parent, 0o700)
    for name in ("a.clj", "b.clj"):
        (workspace / name).write_bytes(b";" * 40 * 2**20)
    both = [
        Change(workspace / name, read_snapshot(workspace / name, workspace, max_bytes=2**30), b"")
        for name in ("a.clj", "b.clj")
    ]
    again = BatchRecords(workspace.parent / "more", workspace)
    with again.record(both, {change.path: ".a.0123456789ab.tmp" for change in both}):
        assert [path.stat().st_size < 1000 for path in (workspace.parent / "more").iterdir()] == [True]


def test_a_rollback_keeps_and_reports_files_changed_since_the_batch(workspace, records):
    assert posix_only.was_killed(run_killed(workspace, 9))
    (workspace / "a.clj").write_bytes(b"(saved by the user)\n")
    (workspace / "gone.clj").write_bytes(b"(made again)\n")
    (workspace / ".mine.clj.0123456789ab.tmp").write_text("not ours")
    [reported] = records.recover()
    assert "restored: b.clj, new/deep/c.clj, d.clj" in reported
    assert reported.endswith("because they have changed since then or cannot be written: a.clj, gone.clj")
    assert {path.name: data for path, data in everything(workspace).items()} == {
        "a.clj": b"(saved by the user)\n",
        "b.clj": OLD.encode(),
        "gone.clj": b"(made again)\n",
        "d.clj": OLD.encode(),
        ".mine.clj.0123456789ab.tmp": b"not ours",
    }


def test_a_running_batch_is_left_alone(workspace, records):
    changes, before = (), everything(workspace)
    with records.record(changes, {}):
        assert records.recover() == []
        assert len(stored_records(workspace)) == 1
    assert (stored_records(workspace), everything(workspace)) == ([], before)


def test_a_completed_edit_is_not_rolled_back_if_its_record_cannot_be_removed(workspace, records):
    changes = [
        Change(workspace / name, read_snapshot(workspace / name, workspace), b"(new)\n") for name in ("a.clj", "b.clj")
    ]
    left = workspace.parent / "records" / "0123456789ab.json"
    with records.record(changes, {change.path: "x" for change in changes}):
        [record] = stored_records(workspace)
        left.hardlink_to(record)
        for change in changes:
            change.path.write_bytes(change.after)
    assert stored_records(workspace) == [left]
    assert records.recover() == []
    assert [change.path.read_bytes() for change in changes] == [change.after for change in changes]
    assert stored_records(workspace) == []


def test_a_record_is_closed_before_it_is_removed(workspace, records):
    events = []
    sys.addaudithook(lambda event, given: event == "os.remove" and events.append((given, _open_files())))
    with records.record((), {}):
        [record] = stored_records(workspace)
        assert str(record) in _open_files()
    assert [str(record) in opened for given, opened in events if str(given[0]).endswith(record.name)] == [False]


def _open_files():
    found = []
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(str(path.readlink()))
    return found


LIVES = """
import os, signal, sys
from pathlib import Path
from codriver.editing import file_changes
from codriver.editing.atomic_batch import commit_changes
from codriver.editing.atomic_batch import BatchRecords

folder, first, last, steps, keeps_open_files = Path(sys.argv[1]), *map(int, sys.argv[2:6])
unlink = os.unlink

def unlink_as_windows(path, **options):
    name = os.path.basename(path)
    if any(os.path.basename(file) == name for file in open_files()):
        raise PermissionError(13, "it is open", name)
    unlink(path, **options)

def open_files():
    for one in os.listdir("/proc/self/fd"):
        try:
            yield os.readlink("/proc/self/fd/" + one)
        except OSError:
            pass

if keeps_open_files:
    os.unlink = unlink_as_windows
records = BatchRecords(folder.parent / "records", folder)

def counted(name):
    real = getattr(os, name)
    def step(*args, **options):
        global steps
        steps -= 1
        if not steps:
            os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
        return real(*args, **options)
    setattr(os, name, step)

for name in ("open", "write", "fsync", "replace", "unlink", "close", "lseek"):
    counted(name)
print("told", *records.recover(), flush=True)
for number in range(first, last):
    text = b"(def n %d)" % number
    paths = [folder / "a.clj", folder / "b.clj"]
    changes = [file_changes.Change(path, file_changes.read_snapshot(path, folder), text) for path in paths]
    commit_changes(changes, folder, records)
    print(number, flush=True)
print("over")
"""


EDITS = rounds(100, 50) if HAS_DESCRIPTORS else 30  # where `tests/windows` has whole servers for as many as are wanted
MAX_STEPS = 700 if HAS_DESCRIPTORS else 250
"""Within which a server is killed. One edit takes some 80, and 25 where no folders are opened on the way."""
KEEPS_OPEN = {"": False, **({"as-windows": True} if sys.platform == "linux" else {})}  # which tells what is open


@pytest.mark.parametrize("keeps_open_files", KEEPS_OPEN.values(), ids=KEEPS_OPEN)
def test_an_acknowledged_edit_survives_whenever_its_server_is_killed(workspace, records, keeps_open_files):
    """Two files are edited in servers that are killed at random steps: in edits, at their ends and in recoveries."""
    dice = random.Random(31)
    acknowledged, kills, number = [], 0, 1
    for name in ("a", "b"):
        (workspace / f"{name}.clj").write_text("(def n 0)")
    while len(acknowledged) < EDITS:
        given = [number, number + dice.randint(1, 12), dice.randint(1, MAX_STEPS), int(keeps_open_files)]
        status, output = run(LIVES, workspace, *given)
        is_over = output.endswith("over\n")
        assert is_over or posix_only.was_killed(status), output
        kills += not is_over
        reported = output.removesuffix("over\n").splitlines()[1:]
        acknowledged += reported
        records.recover()
        [text] = {(workspace / f"{name}.clj").read_text() for name in ("a", "b")}
        now = int(text.removeprefix("(def n ").removesuffix(")"))
        # The last may be written and not be told any more.
        assert now - number + 1 in (len(reported), len(reported) + 1)
        assert (stored_records(workspace), list(workspace.glob(".*"))) == ([], [])
        number = now + 1
    assert kills > EDITS // 10


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"files": [{}], "folders": []}'])
@pytest.mark.parametrize("mark", [b"", UNFINISHED_MARK, UNFINISHED_MARK[:4]])
def test_a_truncated_record_is_harmless_and_removed(workspace, records, content, mark):
    (workspace.parent / "records").mkdir()
    record = workspace.parent / "records" / "0123456789ab.json"
    record.write_bytes(mark + content)
    record.chmod(0o600)
    before = everything(workspace)
    assert records.recover() == []
    assert (stored_records(workspace), everything(workspace)) == ([], before)


def test_a_record_can_remove_only_its_own_temporary_files(workspace, records):
    (workspace.parent / "records").mkdir()
    record = workspace.parent / "records" / "0123456789ab.json"
    content = {"files": [{"path": str(workspace / "a.clj"), "temporary": "b.clj"}], "folders": []}
    record.write_bytes(UNFINISHED_MARK + json.dumps(content).encode())
    record.chmod(0o600)
    before = everything(workspace)
    records.recover()
    assert everything(workspace) == before


def test_an_unwritable_state_directory_does_not_prevent_edits(workspace):
    (workspace.parent / "file").touch()
    editor = Editor(workspace, BatchRecords(workspace.parent / "file" / "records", workspace))
    expected = [EditRequest("a.clj", Append("(z)")), EditRequest("n.clj", CreateFile("(n)\n"))]

    async def run():
        await editor.edit("me", expected, limits=SearchLimits(), allow_outside=False)

    anyio.run(run)
    assert (workspace / "n.clj").read_text() == "(n)\n"


def test_the_editor_reports_an_interrupted_batch_once(workspace, records):
    assert posix_only.was_killed(run_killed(workspace, 6))
    editor = Editor(workspace, records)
    reported = editor.recover()
    assert len(reported) == 1
    assert (editor.pop_recovery_notes(), editor.pop_recovery_notes()) == (reported, [])
    assert not list(workspace.glob(".*.tmp"))


def test_the_next_server_reports_a_rolled_back_batch_only_once(workspace, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert posix_only.was_killed(run_killed(workspace, 6, workspace_state_directory(workspace) / "edits"))
    edit = {"type": "append", "filePath": "a.clj", "code": "(z)"}
    with serving(tmp_path) as live, live.client() as client:
        assert (workspace / "a.clj").read_text() == OLD
        first, second = (client.call("edit_files", edits=[edit]) for _ in range(2))
        answer = client.call(
            "repl_output_log",
            query="[:find (count ?e) . :where [?e :output/text ?t] "
            '[(clojure.string/includes? ?t "restored: a.clj, b.clj")]]',
        )
    assert first["notes"] == ["a batch of edits was interrupted because the server was killed; restored: a.clj, b.clj"]
    assert "notes" not in second
    assert answer["result"] == 1
