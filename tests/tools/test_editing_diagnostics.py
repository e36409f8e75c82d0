"""Diagnostics. A small fake stands in for the command line of clj-kondo."""

import json
import os
import sys

import anyio
import pytest
from tools_in_memory import serving

from codriver.editing import lint

pytestmark = pytest.mark.anyio

FAKE = """\
#!{python}
import json, os, sys
here = {folder!r}
with open(os.path.join(here, "calls"), "a") as log:
    print(json.dumps([sys.argv[1:], os.getcwd()]), file=log)
paths = sys.argv[2:sys.argv.index("--config")]
{rest}
"""
FINDINGS = """\
rows = [{"filename": path, "row": row, "col": 2, "end-row": row, "end-col": 3, "level": "warning",
         "message": "unused " + os.path.basename(path), "type": "unused-binding"} for path in paths for row in (7, 3)]
print(json.dumps({"findings": rows, "summary": {}}))
sys.exit(2)
"""


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put a fake linter with this behaviour on the PATH; return the file that records its calls."""

    def put(rest):
        folder = tmp_path / "bin"
        folder.mkdir()
        fake = folder / "clj-kondo"
        fake.write_text(FAKE.format(python=sys.executable, folder=str(folder), rest=rest))
        fake.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
        return folder / "calls"

    return put


async def test_without_the_linter_there_are_no_diagnostics(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = await lint(tmp_path, {tmp_path / "a.clj": b"(a)"})
    assert (dict(found.rows), found.note) == ({}, None)


async def test_one_linter_run_in_the_workspace_covers_all_files(tmp_path, install):
    calls = install(FINDINGS)
    files = [tmp_path / "a.clj", tmp_path / "b.cljs", tmp_path / "c.lpy"]
    found = await lint(tmp_path, dict.fromkeys(files, b"(a)"))
    assert list(found.rows) == files[:2]
    row = {"line": 3, "column": 2, "level": "warning", "message": "unused a.clj", "type": "unused-binding"}
    assert found.rows[files[0]] == [row, {**row, "line": 7}]
    [[arguments, folder]] = [json.loads(line) for line in calls.read_text().splitlines()]
    assert arguments[::3] == ["--lint", "--config"]
    assert all(copy.endswith(str(file)) for copy, file in zip(arguments[1:3], files, strict=False))
    assert arguments[4:] == ["{:output {:format :json}}"]
    assert folder == str(tmp_path)


COPIES = """\
texts = [open(path).read() for path in paths]
print(json.dumps({"findings": [{"filename": path, "row": 1, "col": 1, "level": "info", "type": "t", "message": text}
                               for path, text in zip(paths, texts)]}))
"""


async def test_the_linter_reads_the_written_text_even_if_the_path_changes(tmp_path, install):
    calls = install(COPIES)
    (tmp_path / "secret").write_text("a key")
    file = tmp_path / "src" / "a.clj"
    file.parent.mkdir()
    file.symlink_to(tmp_path / "secret")
    found = await lint(tmp_path, {file: b"(a)"})
    assert [row["message"] for row in found.rows[file]] == ["(a)"]
    [[arguments, _]] = [json.loads(line) for line in calls.read_text().splitlines()]
    assert not await anyio.Path(arguments[1]).exists()


@pytest.mark.parametrize(("target", "options"), [("inside", []), ("../outside", ["--cache", "false"])])
async def test_the_linter_writes_no_cache_outside_the_workspace(tmp_path, install, target, options):
    calls = install(FINDINGS)
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / ".clj-kondo").symlink_to(target)
    found = await lint(workspace, {workspace / "a.clj": b"(a)"})
    assert len(found.rows[workspace / "a.clj"]) == 2
    [[arguments, _]] = [json.loads(line) for line in calls.read_text().splitlines()]
    assert arguments[4:] == options


async def test_the_linter_is_not_run_for_unsupported_files(tmp_path, install):
    calls = install(FINDINGS)
    assert (await lint(tmp_path, {tmp_path / "a.lpy": b"(a)"})).rows == {}
    assert not calls.exists()


async def test_a_linter_that_hangs_is_killed(tmp_path, install):
    calls = install("import time\nopen(here + '/pid', 'w').write(str(os.getpid()))\ntime.sleep(1000)")
    pid = calls.with_name("pid")
    limit_s = 0.5
    while True:  # on a busy machine, the linter needs some time before it hangs
        found = await lint(tmp_path, {tmp_path / "a.clj": b"(a)"}, limit_s=limit_s)
        assert (found.rows, found.note) == ({}, f"clj-kondo was stopped because it took longer than {limit_s:g} s")
        if pid.exists() and pid.read_text():
            break
        limit_s *= 2
        assert limit_s < 60
    with anyio.fail_after(60):
        while is_alive(int(pid.read_text())):
            await anyio.sleep(0.01)


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("rest", "note"),
    [
        ("print('no json')", "clj-kondo did not print valid JSON"),
        ("print('{}')", "clj-kondo did not print valid JSON"),
        ("print('[1]')", "clj-kondo did not print valid JSON"),
        ("sys.exit('first\\nout of memory')", "clj-kondo failed with exit code 1: out of memory"),
    ],
)
async def test_a_linter_that_fails_produces_only_a_note(tmp_path, install, rest, note):
    install(rest)
    found = await lint(tmp_path, {tmp_path / "a.clj": b"(a)"})
    assert (found.rows, found.note) == ({}, note)


async def test_a_linter_that_cannot_be_started_produces_a_note(tmp_path, install):
    calls = install("")
    calls.with_name("clj-kondo").write_text("#!/nowhere/at/all\n")
    found = await lint(tmp_path, {tmp_path / "a.clj": b"(a)"})
    assert (found.rows, found.note) == ({}, "clj-kondo cannot be run: No such file or directory")


def test_an_answer_includes_the_diagnostics_of_each_file(tmp_path, install):
    calls = install(FINDINGS)
    edits = [
        {"type": "create", "filePath": "a.clj", "content": "(a)\n"},
        {"type": "append", "filePath": "a.clj", "code": "(b)"},
        {"type": "create", "filePath": "c.lpy", "content": "(c)\n"},
    ]
    with serving(tmp_path, has_repl=False) as live, live.client() as client:
        client.call("edit_files", edits=edits, dryRun=True)
        assert not calls.exists()
        first, second = client.call("edit_files", edits=edits)["files"]
    assert [row["line"] for row in first["diagnostics"]] == [3, 7]
    assert "diagnostics" not in second
    assert len(calls.read_text().splitlines()) == 1
