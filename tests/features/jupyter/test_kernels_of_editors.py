"""Real kernels started in a workspace by an editor or a person, with connection files spelled in many ways."""

import json
import socket
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import real_kernels
from lent_servers import Watched
from live_server import serving, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the directory of a process: only Linux shows it"),
]

PORTS = ("hb_port", "control_port", "shell_port", "stdin_port", "iopub_port")
SPELLINGS = {
    "kernel-v2-vscode": '--f="{file}"',
    "kernel-v3-vscode": "--f={file}",
    "kernel-short": "-f{file}",
    "kernel-assigned": "--IPKernelApp.connection_file={file}",
    "kernel-relative": "--f=../run time/{name}",
}
MADE_BY_EDITOR = ("kernel-v2-vscode", "kernel-v3-vscode")


def write_as_vscode_does(file):
    """Write the members that VS Code writes, with the mode that the usual umask leaves."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(closing(socket.create_server(("127.0.0.1", 0)))) for _ in PORTS]
        ports = {name: listener.getsockname()[1] for name, listener in zip(PORTS, sockets, strict=True)}
    content = {"version": 5, "transport": "tcp", "ip": "127.0.0.1", "signature_scheme": "hmac-sha256", "key": "5c1f-k"}
    file.write_text(json.dumps({**content, **ports, "kernel_name": "python3"}))
    file.chmod(0o644)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """Return a client of a server whose workspace has these kernels."""
    real_kernels.need("ipykernel")
    directory = tmp_path_factory.mktemp("editors")
    workspace, runtime = directory / "workspace", directory / "run time"
    workspace.mkdir()
    runtime.mkdir(mode=0o700)
    (workspace / "main.py").touch()
    with ExitStack() as stack:
        stack.enter_context(real_kernels.variables(JUPYTER_RUNTIME_DIR=runtime))
        for name, spelling in SPELLINGS.items():
            file = runtime / f"{name}.json"
            if name in MADE_BY_EDITOR:
                write_as_vscode_does(file)
            word = spelling.format(file=file, name=file.name)
            python = str(real_kernels.VENV / "bin" / "python")
            home = directory / name
            home.mkdir()
            command = ["env", "-C", str(workspace), python, "-m", "ipykernel_launcher", word]
            started = Watched.start(home, command, real_kernels.environment(home))
            stack.callback(started.stop)
        live = stack.enter_context(serving(directory))
        yield stack.enter_context(live.client())


def kernels(client):
    """Return the key of each connected kernel, by the name of its connection file."""
    rows = client.call("list_sessions")["sessions"]
    return {
        Path(row["origin"]).stem: row["key"]
        for row in rows
        if row.get("kind") == "kernel" and row["phase"] == "connected"
    }


def test_a_kernel_is_discovered_by_any_spelling_of_its_command_line(client):
    until(lambda: kernels(client).keys() == SPELLINGS.keys(), f"all kernels: {list(SPELLINGS)}")
    for name, key in kernels(client).items():
        code = "import sys; sys.orig_argv[-1]"
        answer = client.call("evaluate_code", code=code, replSessionKey=key, who="ann", timeoutMs=60_000)
        assert f"{name}.json" in answer["result"], answer


def test_calls_without_a_session_stay_in_the_kernel_that_the_caller_named(client):
    until(lambda: kernels(client).keys() == SPELLINGS.keys(), "all kernels")
    key = kernels(client)["kernel-v3-vscode"]
    code = "import os; os.getpid()"
    own = client.call("evaluate_code", code=code, who="carol")
    assert own["sessionKey"] == "py"
    named = client.call("evaluate_code", code=code, replSessionKey=key, who="carol", timeoutMs=60_000)
    after = client.call("evaluate_code", code=code, who="carol", detail=False)
    assert (after["result"], after["sessionKey"]) == (named["result"], key)
    assert f"in {key}, as before; replSessionKey selects another REPL: py" in after["notes"]
    again = client.call("evaluate_code", code=code, who="carol", detail=False)
    assert again["sessionKey"] == key
    assert client.call("evaluate_code", code=code, replSessionKey="py", who="carol")["result"] == own["result"]
    assert client.call("evaluate_code", code=code, who="carol")["sessionKey"] == "py"


def test_an_editor_kernel_is_interrupted_by_a_signal(client):
    until(lambda: kernels(client).keys() == SPELLINGS.keys(), "all kernels")
    key = kernels(client)["kernel-v2-vscode"]
    code = "import subprocess; subprocess.run(['sleep', '600'])"
    evaluation = client.call("evaluate_code", code=code, replSessionKey=key, who="ann", background=True)
    answer = client.call("interrupt_evaluation", evaluationId=evaluation["evaluationId"], who="ann")
    until(
        lambda: (
            client.call("get_evaluation", evaluationId=evaluation["evaluationId"], who="ann")["status"] != "running"
        ),
        "the end of the evaluation",
    )
    assert client.call("evaluate_code", code="1+2", replSessionKey=key, who="ann")["result"] == "3", answer
