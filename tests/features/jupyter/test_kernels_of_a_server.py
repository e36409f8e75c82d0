"""Real kernels started by a server with `--repl jupyter`."""

import json
import os
from contextlib import suppress

import pytest
import real_kernels
from live_server import Live, serving, until
from real_kernels import VENV, all_connected, rows, variables

pytestmark = pytest.mark.slow

CODE = {"jup": ("1+2", "3"), "jup-2": ("1+2", "3"), "bash": ("echo $((1+2))", "3"), "deno": ("1+2", "3"),
        "r": ("1+2", "[1] 3")}  # fmt: skip
WORDS = {"ipykernel": "jupyter", "xpython": "jupyter:xpython", "bash": "jupyter:bash", "deno": "jupyter:deno",
         "ir": "jupyter:ir"}  # fmt: skip
KEYS = dict(zip(WORDS, ("jup", "jup-2", "bash", "deno", "r"), strict=True))
PYTHON = str(VENV / "bin" / "python")


def is_alive(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """Run a server that has started one kernel of each installed kind."""
    directory = tmp_path_factory.mktemp("started")
    spec = directory / "specs" / "kernels" / "deno" / "kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text(json.dumps({"argv": ["deno", "jupyter", "--kernel", "--conn", "{connection_file}"]}))
    real_kernels.need(*WORDS)
    arguments = [word for name, word in WORDS.items() if not real_kernels.missing(name)]
    with variables(JUPYTER_PATH=directory / "specs"):
        live = Live(directory, "--python", PYTHON, *(part for word in arguments for part in ("--repl", word)))
    try:
        with live.client(name="codriver-tests") as client:  # a client of this name gets all fields of a session
            keys = [row["key"] for row in client.call("list_sessions")["sessions"]]
            until(lambda: all_connected(client, keys), "all kernels")
            yield live, client
    finally:
        live.stop()


@pytest.mark.parametrize("name", WORDS)
def test_a_started_kernel_evaluates_and_survives_a_restart(started, name):
    _live, client = started
    real_kernels.need(name)
    key = KEYS[name]
    code, result = CODE[key]
    for generation in (1, 2):
        answer = client.call("evaluate_code", code=code, replSessionKey=key, who="ann")
        assert (answer.get("result") or answer["stdout"].strip(), answer["generation"]) == (result, generation)
        if generation == 1:
            restarted = client.call("restart_repl", replSessionKey=key, who="ann", timeoutMs=60_000)
            assert (restarted["phase"], restarted["generation"]) == ("connected", 2)


def test_a_kernel_started_by_the_server_accepts_other_consoles_and_is_not_discovered_again(started):
    live, client = started
    files = sorted((live.folder / "jupyter").iterdir())
    assert files
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert all(file.name.startswith(f"kernel-codriver-{live.process.pid}-jupyter") for file in files)
    if not real_kernels.missing("ipykernel"):
        file = live.folder / "jupyter" / f"kernel-codriver-{live.process.pid}-jupyter.json"
        with real_kernels.client(file) as console:
            console.execute("told = 'by a human'", reply=True, timeout=60)
        assert client.call("evaluate_code", code="told", replSessionKey="jup", who="ann")["result"] == "'by a human'"
    assert {row["kind"] for row in rows(client).values()} == {"process"}
    assert len(rows(client)) == len(files)


def test_kernels_end_with_a_killed_server(started):
    live, client = started
    pids = {key: row["processId"] for key, row in rows(client).items() if "processId" in row}
    assert pids
    live.process.kill()
    until(lambda: not any(map(is_alive, pids.values())), f"the end of {pids}")


def test_a_kernel_shuts_down_gracefully_and_its_file_is_removed(tmp_path):
    real_kernels.need("ipykernel")
    exit_file = tmp_path / "left"
    code = f"import atexit, pathlib; atexit.register(pathlib.Path({str(exit_file)!r}).touch)"
    with serving(tmp_path, "--python", PYTHON, "--repl", "jupyter") as live, live.client() as client:
        assert client.call("evaluate_code", code=code, who="ann")["ok"]
        assert list((tmp_path / "jupyter").iterdir())
    assert exit_file.exists()
    assert not list((tmp_path / "jupyter").iterdir())


def test_a_missing_ipykernel_is_reported_with_the_package_and_the_interpreter(tmp_path):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$0: No module named ipykernel_launcher" >&2; exit 1\n')
    python.chmod(0o755)
    with serving(tmp_path, "--python", str(python), "--repl", "jupyter") as live, live.client() as client:
        until(lambda: rows(client)["jup"]["phase"] == "stopped", "its end")
        assert (
            f"{python} has no ipykernel. Run `pip install ipykernel` in that environment" in rows(client)["jup"]["note"]
        )
