"""A checkout in which every file that Codriver reads is hostile cannot affect anything outside it.

`test_python_path.py` tests that nothing in it runs when relay, hooks, commands, servers, workers or kernels start.
"""

import contextlib
import functools
import io
import json
import os
import socket
import subprocess
import sys
import threading
import zipfile

import posix_only
import pytest
from every_command import COMMANDS
from forked import Forked, can_fork
from live_server import RELAY, WAIT_S, environ, serving

from codriver.setup.client_hooks import known_hooks

SECRET = "a-private-key-that-nobody-may-see"
SETTINGS = ("codriver.toml", "pyproject.toml")
FILES = (
    ".nrepl-port",
    ".shadow-cljs/nrepl.port",
    "sub/.nrepl-port",
    "package.json",
    ".mcp.json",
    ".vscode/mcp.json",
    ".cursor/mcp.json",
    ".gemini/settings.json",
    ".zed/settings.json",
    ".eca/config.json",
    "opencode.json",
    ".codex/config.toml",
    ".codriver/skills/ours/SKILL.md",
    ".venv/lib/python3.11/site-packages/pack/skills/theirs/SKILL.md",
    ".cpcache/1.cp",
    "lib/some.jar",
    "AGENTS.md",
    ".qwen/settings.json",
    ".github/hooks/codriver.json",
    ".clinerules/hooks/PreToolUse",
    ".opencode/plugins/codriver.js",
    "orders.ipynb",
    "sub/orders.ipynb",
)
"""Every file of a workspace that is read, but for its settings and those that tell of a running server."""
PRESENCE = tuple(f".calva/mcp-server/{name}" for name in ("port", "server.json", "token", "serve.log"))
SHAPES = (
    "link to a secret",
    "link to /dev/zero",
    "link to /dev/ptmx",
    "link in /proc",
    "pipe",
    "huge",
    "folder",
    "garbage",
)
WITH_HOOKS = tuple(word for name in known_hooks() for word in ("--client", name))
NOT_READ = {
    **dict.fromkeys((shape for shape in SHAPES if "link" in shape), "is outside the workspace"),
    "pipe": "the path is a pipe",
    "huge": "bytes are read",
}
"""Why a notebook of such a shape is none: nothing of it was read."""
HOOKS = ("init", *WITH_HOOKS, "--hooks", "--agents-md")
HOOK_FILES = sorted({file.path for files in known_hooks().values() for file in files} | {"AGENTS.md"})
MAX_BYTES = 150 * 2**20
MEASURE = (
    "import resource, subprocess, sys; status = subprocess.call(sys.argv[2:]); "
    "open(sys.argv[1], 'w').write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)); sys.exit(status)"
)


def shape_file(file, shape, secret):
    """Make one file of the checkout what an attacker may make of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    match shape:
        case "link to a secret":
            file.symlink_to(secret)
        case "link to /dev/zero" | "link to /dev/ptmx":
            file.symlink_to(shape.removeprefix("link to "))
        case "link in /proc":
            file.symlink_to("/proc/self/environ")
        case "pipe":
            posix_only.make_pipe(file)
        case "huge":
            with file.open("wb") as made:
                made.truncate(1 << 40)
        case "folder":
            file.mkdir()
        case "garbage":
            file.write_bytes(os.urandom(1000) + b"[" * 10_000)


@pytest.fixture
def secret(tmp_path):
    file = tmp_path / "home" / "id_ed25519"
    file.parent.mkdir()
    file.write_text(f"{SECRET}\n")
    return file


@pytest.fixture
def checkout(tmp_path, secret):
    """Return a function that builds the checkout with one kind for each of these files."""

    def build(shape, names):
        workspace = tmp_path / "workspace"
        (workspace / "sub").mkdir(parents=True)
        (workspace / "sub" / "deps.edn").write_text("{}")
        (workspace / "x.py").write_text("1\n")
        for name in names:
            shape_file(workspace / name, shape, secret)
        return workspace

    return build


def run(command, folder, env=None):
    """Run a command to its end; return its output, exit status and peak memory."""
    env = env or variables(folder)
    if can_fork(env):
        process = Forked(command, env=env, cwd=folder / "workspace", start_new_session=True)
        try:
            output, _ = process.communicate(WAIT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{command} hung") from None
        return output, process.returncode, process.memory
    # By way of a small process: what a child is said to have had begins with what its parent has.
    measured = folder / "memory"
    process = subprocess.Popen(
        [sys.executable, "-c", MEASURE, str(measured), sys.executable, "-m", "codriver", *command],
        cwd=folder / "workspace", env=env, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    timer = threading.Timer(WAIT_S, posix_only.kill_group, (process.pid,))
    timer.start()
    output = process.communicate()[0].decode("utf-8", "replace")
    timer.cancel()
    assert process.returncode >= 0, f"{command} hung: {output}"
    return output, process.returncode, int(measured.read_text()) * (1 if sys.platform == "darwin" else 1024)


def variables(folder):
    return {**environ(folder), "HOME": str(folder / "home"), "CODRIVER_SECRET_FOR_TESTS": SECRET}


PLACES = {"all": SETTINGS + FILES + PRESENCE, "project": FILES, "presence": PRESENCE}


@pytest.mark.parametrize("names", PLACES)
@pytest.mark.parametrize("shape", SHAPES)
def test_commands_neither_hang_nor_access_files_outside_the_workspace(checkout, tmp_path, secret, shape, names):
    checkout(shape, PLACES[names])
    for command in (*COMMANDS, HOOKS):
        text, status, memory = run(command, tmp_path)
        assert status in (0, 1, 3, 4), (command, text)
        assert SECRET not in text, command
        assert "Traceback" not in text, (command, text)
        assert memory < MAX_BYTES, command
    assert secret.read_text() == f"{SECRET}\n"
    # Cline's entry is the user's own.
    assert {entry.name for entry in secret.parent.iterdir()} == {secret.name, ".cline"}


def request_through_relay(folder):
    """Return the relay's answer to a client's first request in the checkout, before it gives up."""
    request = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    done = subprocess.run(
        [sys.executable, "-I", "-S", RELAY, str(folder / "workspace" / PRESENCE[0])],
        env={**variables(folder), "CODRIVER_RELAY_GIVE_UP_S": "0.5", "CODRIVER_TOKEN": SECRET},
        input=json.dumps(request) + "\n", capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


@pytest.mark.parametrize("shape", SHAPES)
def test_the_relay_reads_no_secret_and_answers_with_an_error(checkout, tmp_path, shape):
    checkout(shape, PRESENCE)
    text = request_through_relay(tmp_path)
    assert json.loads(text)["id"] == 1
    assert SECRET not in text


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "localhost", "203.0.113.7"])
def test_nothing_is_sent_to_addresses_or_process_ids_named_in_a_checkout(checkout, tmp_path, host):
    workspace = checkout("garbage", [])
    folder = workspace / ".calva" / "mcp-server"
    folder.mkdir(parents=True)
    received = []
    with socket.create_server(("127.0.0.1", 0)) as listener, subprocess.Popen(["sleep", "600"]) as bystander:
        record = {
            "pid": bystander.pid, "port": listener.getsockname()[1], "host": host, "sessionId": "0" * 32,
            "startedAt": "2026-01-01T00:00:00+00:00", "version": "0.1.0",
        }  # fmt: skip
        (folder / "port").write_text(str(record["port"]))
        (folder / "server.json").write_text(json.dumps(record))
        (folder / "token").write_text("A" * 43)
        thread = threading.Thread(target=record_connections, args=(listener, received), daemon=True)
        thread.start()
        try:
            for command in COMMANDS:
                text, _, _ = run(command, tmp_path, {**variables(tmp_path), "CODRIVER_TOKEN": SECRET})
                assert "Traceback" not in text, (command, text)
            request_through_relay(tmp_path)
            assert bystander.poll() is None
        finally:
            bystander.kill()
            listener.close()
    assert b"".join(received) == b""


def record_connections(listener, received):
    """Accept every connection, and record all that it sends."""
    with contextlib.suppress(OSError):
        while True:
            peer, _ = listener.accept()
            peer.settimeout(WAIT_S)
            with peer, contextlib.suppress(OSError):
                while data := peer.recv(4096):
                    received.append(data)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_server_starts_serves_and_stops_in_a_hostile_checkout(checkout, tmp_path, shape):
    # A folder in place of the port file is refused in words: nobody knows what it holds.
    checkout(shape, FILES if shape == "folder" else FILES + PRESENCE)
    with serving(tmp_path, "--repl", "python") as live:
        assert live.greeting.startswith("codriver listens")
        with live.client() as client:
            assert client.call("evaluate_code", code="1 + 1", timeoutMs=WAIT_S * 1000)["result"] == "2"
            resources = client.request("resources/list")["result"]["resources"]
            assert not any("ours" in entry["uri"] for entry in resources)
            for tool, requested in (("list_cells", {}), ("run_cell", {"cell": "0"})):
                answer = client.call(tool, filePath="orders.ipynb", **requested)
                assert (answer["ok"], SECRET in json.dumps(answer)) == (False, False)
                assert NOT_READ.get(shape, "") in answer["message"] or tool == "run_cell"
            assert SECRET not in json.dumps(client.call("repl_output_log", limit=1000))
        if sys.platform == "linux":
            with open(f"/proc/{live.process.pid}/status") as status:  # noqa: PTH123  # no file, but the kernel's words
                peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
            assert peak * 1024 < MAX_BYTES
    assert live.process.returncode == 0


@pytest.mark.parametrize("shape", SHAPES)
def test_a_server_explains_why_hostile_settings_prevent_its_start(checkout, tmp_path, shape):
    checkout(shape, ["codriver.toml"])
    text, status, memory = run(["serve", "--port", "0", "--idle-exit", "1"], tmp_path)
    assert status == 1
    assert "codriver.toml: the file cannot be read" in text
    assert SECRET not in text
    assert memory < MAX_BYTES


@functools.cache
def jar_with(method, size):
    """Return a jar whose guide is a small number of bytes that expand to many."""
    name, jar, method = "META-INF/skills/bomb/SKILL.md", io.BytesIO(), getattr(zipfile, method)
    with zipfile.ZipFile(jar, "w", method) as archive, archive.open(name, "w", force_zip64=True) as entry:
        for _ in range(size >> 20):
            entry.write(b"\0" * (1 << 20))
    return jar.getvalue()


def claiming(jar, size):
    """Return the jar with a directory that claims this size for its guide."""
    at = jar.rindex(b"PK\x01\x02")
    return jar[: at + 24] + size.to_bytes(4, "little") + jar[at + 28 :]


@pytest.mark.parametrize("method", ["ZIP_BZIP2", "ZIP_LZMA", "ZIP_DEFLATED"])
@pytest.mark.parametrize("is_honest", [True, False])
def test_a_zip_bomb_uses_little_memory(checkout, tmp_path, method, is_honest):
    workspace = checkout("folder", [])
    (workspace / "lib").mkdir()
    jar = jar_with(method, MAX_BYTES)
    (workspace / "lib" / "bomb.jar").write_bytes(jar if is_honest else claiming(jar, 1000))
    text, status, memory = run(["doctor"], tmp_path)
    assert status in (0, 1), text
    assert memory < MAX_BYTES


def test_a_jar_with_a_million_entries_is_not_listed(checkout, tmp_path):
    workspace = checkout("folder", [])
    (workspace / "lib").mkdir()
    entry = b"PK\x01\x02" + b"\x14\0" * 2 + b"\0" * 20 + (1).to_bytes(2, "little") + b"\0" * 16 + b"x"
    directory = entry * 1_000_000
    end = b"PK\x05\x06" + b"\0" * 4 + b"\xff\xff" * 2 + len(directory).to_bytes(4, "little") + b"\0" * 4 + b"\0\0"
    (workspace / "lib" / "many.jar").write_bytes(directory + end)
    _, status, memory = run(["doctor"], tmp_path)
    assert status in (0, 1)
    assert memory < MAX_BYTES


def test_hooks_and_instruction_files_are_not_written_through_links(checkout, tmp_path, secret):
    """Each of these user files would be mistaken for the checkout's, changed, and restored later."""
    workspace, theirs = checkout("folder", []), {}
    for name in HOOK_FILES:
        own = theirs[name] = secret.parent / name.replace("/", "-")
        own.write_text("{}\n")
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).symlink_to(own)
    for words in ((*HOOKS, "--force"), (*HOOKS, "--remove")):
        text, status, _ = run(words, tmp_path)
        assert status == 1, text
        for name in HOOK_FILES:
            assert f"{workspace / name}: the file cannot be read: the path leads outside of" in text, (
                words,
                name,
                text,
            )
    for name, own in theirs.items():
        assert (workspace / name).is_symlink(), name
        assert own.read_text() == "{}\n", name


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFO")
def test_hooks_and_instruction_files_are_not_written_to_pipes(checkout, tmp_path):
    """Opening one would consume what another program has for its reader, and replace it by a file."""
    workspace, retained = checkout("folder", []), []
    for name in HOOK_FILES:
        shape_file(workspace / name, "pipe", None)
        retained.append(os.open(workspace / name, os.O_RDWR))
        os.write(retained[-1], b"{}\n")
    for words in ((*HOOKS, "--force"), (*HOOKS, "--remove")):
        text, status, _ = run(words, tmp_path)
        assert status == 1, text
        for name in HOOK_FILES:
            assert f"{workspace / name}: the file cannot be read: the path is a pipe" in text, (words, text)
    for name, descriptor in zip(HOOK_FILES, retained, strict=True):
        assert (workspace / name).is_fifo(), name
        assert os.read(descriptor, 9) == b"{}\n", name
        os.close(descriptor)


def test_client_files_are_not_written_through_links(checkout, tmp_path, secret):
    """The fixture's links lead to no client file: this one does, and would be edited if it were followed."""
    workspace = checkout("folder", [])
    theirs = secret.parent / "mcp.json"
    theirs.write_text("{}")
    (workspace / ".mcp.json").symlink_to(theirs)
    text, status, _ = run(["init", "--client", "claude-code"], tmp_path)
    assert status == 1
    assert "the path leads outside of" in text
    assert theirs.read_text() == "{}"
