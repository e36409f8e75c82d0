"""A server, its REPL, the relay and commands, run by a Python for Windows: Wine's on Linux, or that of the machine.

Everything about processes is asked of that Python, whose process ids differ from those of Linux.
"""

import json
import os
import re
import socket
import subprocess
import time
from contextlib import suppress
from http.client import RemoteDisconnected
from pathlib import Path

import needs
import page_client
import pytest
import real_kernels
import real_repls
import windows_clients
import windows_edits
from windows_client import WAIT_S, Client

from codriver.setup.clients import known_clients

WINDOWS = needs.windows_python()
END_S = 15
"""How long a process may take to end by itself, on a machine that has much else to do."""
PYTHON_OF_PROJECT = """
import pathlib, shutil, sys
scripts = pathlib.Path(sys.argv[1]) / ".venv" / "Scripts"
scripts.mkdir(parents=True)
home = pathlib.Path(sys.executable).parent
for file in (*home.glob("python*.exe"), *home.glob("*.dll")):
    shutil.copy(file, scripts)
(scripts.parent / "pyvenv.cfg").write_text(f"home = {home}\\n")
"""
END_OF = """
import sys, time
from codriver.systems.other_processes import is_running
end = time.monotonic() + float(sys.argv[1])
while (left := [pid for pid in sys.argv[2:] if is_running(int(pid))]) and time.monotonic() < end:
    time.sleep(0.1)
print(*left)
"""
ACCESS_LIST = """
import ctypes, sys
rights = ctypes.WinDLL("advapi32")
size, text = ctypes.c_ulong(), ctypes.c_wchar_p()
rights.GetFileSecurityW(sys.argv[1], 4, None, 0, ctypes.byref(size))
held = ctypes.create_string_buffer(size.value)
rights.GetFileSecurityW(sys.argv[1], 4, held, size, ctypes.byref(size))
rights.ConvertSecurityDescriptorToStringSecurityDescriptorW(held, 1, 4, ctypes.byref(text), None)
print(text.value)
"""
"""Everyone, users and who has logged in are WD, BU and AU. Source: Microsoft, SID Strings."""
KILL = "import os, signal, sys; os.kill(int(sys.argv[1]), signal.SIGTERM)"
CHILD = """
import subprocess, sys, time
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(95)"]).pid, flush=True)
time.sleep(95)
"""
STARTED = f"""
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], stdout=subprocess.PIPE)
print(os.getpid(), child.pid, int(child.stdout.readline()))
"""
"""It prints the worker, a child of it, and that one's child."""
HANGS = {
    "a loop": "while True: pass",
    "a sleep": "import time; time.sleep(99)",
    "a lock": "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "a child": (
        "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(98)'])\n"
        "print(child.pid, flush=True); child.wait()"
    ),
    "input": "input()",
}
ENDED = ("interrupted", "failed")
"""What an interrupt leads to: the input of code that waits for some may end before the signal is there."""
ROUNDS = int(os.environ.get("CODRIVER_WINDOWS_ROUNDS", "2"))
EDITS_KEPT = Path(windows_edits.__file__)
ENTRIES = Path(windows_clients.__file__)
EDITS = [
    {"type": "replace_def", "filePath": f"{name}.py", "name": name, "code": f"def {name}():\n    return 2"}
    for name in "ab"
]


class Windows:
    """A workspace, and what a Python for Windows runs in it."""

    def __init__(self, folder):
        self.folder = folder
        self.state = folder / ".calva" / "mcp-server"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CODRIVER_")}
        self.environ = {**kept, "CODRIVER_RELAY_GIVE_UP_S": "30"}
        self.own_path = self.run("-c", "import os; print(os.getcwd(), end='')").stdout

    def start(self, *words, stdin=subprocess.DEVNULL):
        return subprocess.Popen(
            [*WINDOWS, *words], cwd=self.folder, env=self.environ, stdin=stdin, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, encoding="utf-8",
        )  # fmt: skip

    def run(self, *words, given=None):
        process = self.start(*words, stdin=subprocess.PIPE)
        output, _ = process.communicate(given, timeout=WAIT_S)
        return subprocess.CompletedProcess(words, process.returncode, output)

    def serve(self, *words):
        """Start a server and wait until it is reachable; `words` are its REPLs, by default Python."""
        process = self.start("-m", "codriver", "serve", "--port", "0", *(words or ("--repl", "python")))
        output = process.stdout.readline()
        assert "listens on" in output, output
        return process

    def relay(self, *words):
        """Return the relay's answer to a handshake."""
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        question = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
        done = self.run("-m", "codriver_relay", *words, given=json.dumps(question) + "\n")
        assert '"serverInfo"' in done.stdout, done.stdout

    def still_running(self, *pids):
        """Return the processes that still run after the time in which they should have ended."""
        return self.run("-c", END_OF, str(END_S), *map(str, pids)).stdout.split()

    def port(self):
        return int((self.state / "port").read_text())

    def server_pid(self):
        return json.loads((self.state / "server.json").read_text())["pid"]


@pytest.fixture(scope="module")
def windows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("windows")
    made = Windows(folder)
    made.run("-c", PYTHON_OF_PROJECT, made.own_path)
    for name in "ab":
        (folder / f"{name}.py").write_text(f"def {name}():\n    return 1\n")
    yield made
    if (made.state / "server.json").exists():
        made.run("-m", "codriver", "stop")


@pytest.fixture(scope="module")
def server(windows):
    process = windows.serve()
    yield process
    if process.poll() is None:
        windows.run("-m", "codriver", "stop")
    process.wait(WAIT_S)
    process.stdout.close()


@pytest.fixture
def client(server, windows):
    with Client(windows.state) as client:
        yield client


def test_code_is_evaluated(client):
    assert client.evaluate("1 + 2")["result"] == "3"


def test_a_connection_without_the_token_gets_no_answer_and_others_cannot_read_the_token(server, windows):
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    with socket.create_connection(("127.0.0.1", windows.port()), WAIT_S) as stranger:
        question = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
        stranger.sendall(json.dumps(question).encode() + b"\n")
        with suppress(ConnectionResetError):
            assert stranger.recv(1) == b""
    listed = windows.run("-c", ACCESS_LIST, f"{windows.own_path}\\.calva\\mcp-server").stdout
    assert listed.startswith("D:"), listed
    assert not set(re.findall(r";;;(\S+?)\)", listed)) & {"WD", "BU", "AU"}, listed


def test_the_interpreter_is_the_one_in_the_environments_scripts_directory(client):
    assert ".venv" in client.evaluate("import sys; sys.prefix")["result"]


def test_printed_non_ascii_text_is_returned_intact(client):
    assert client.evaluate("print('ä 中')")["stdout"] == "ä 中\n"


@pytest.mark.parametrize(
    "code",
    [
        "import sys; n = sys.stdout.buffer.write(b'below\\n')",
        "import os; n = os.write(1, b'below\\n')",
        "import subprocess, sys; n = subprocess.run([sys.executable, '-c', 'print(\"below\")'])",
    ],
    ids=["the buffer", "the descriptor", "a child"],
)
def test_output_that_bypasses_python_belongs_to_its_evaluation(client, code):
    assert client.evaluate(code).get("stdout", "").splitlines() == ["below"]


@pytest.mark.parametrize("name", [name for name in HANGS if name != "a lock"])
def test_an_interrupted_evaluation_leaves_its_process_running(client, name):
    before = client.evaluate("import os; os.getpid()")["result"]
    pending = client.evaluate(HANGS[name], timeoutMs=1500, onTimeout="continue")
    answer = client.call("interrupt_evaluation", evaluationId=pending["evaluationId"])
    assert answer["ok"], answer
    assert answer["status"] in ENDED, answer
    assert client.evaluate("import os; os.getpid()")["result"] == before


def test_a_lock_wait_is_interrupted_or_the_answer_says_what_ends_it(client):
    pending = client.evaluate(HANGS["a lock"], timeoutMs=1500, onTimeout="continue")
    answer = client.call("interrupt_evaluation", evaluationId=pending["evaluationId"])
    assert answer["status"] in ENDED or "allowRestart" in json.dumps(answer), answer
    client.call("interrupt_evaluation", evaluationId=pending["evaluationId"], allowRestart=True)
    assert client.evaluate("1 + 2")["result"] == "3"


def test_a_restart_ends_everything_that_the_repl_started(client, windows):
    tree = client.evaluate(STARTED)["stdout"].split()
    assert client.call("restart_repl", timeoutMs=60_000)["ok"]
    assert not windows.still_running(*tree)


def test_a_batch_of_edits_changes_two_files(client, windows):
    answer = client.call("edit_files", edits=EDITS)
    assert answer["ok"], answer
    assert [(windows.folder / f"{name}.py").read_text().count("return 2") for name in "ab"] == [1, 1]


def test_a_file_loaded_by_another_spelling_is_the_same_module(client, windows):
    (windows.folder / "shapes.py").write_text("SIDES = 3\n")
    assert client.call("load_file", filePath="shapes.py")["ok"]
    assert client.call("load_file", filePath="SHAPES.PY")["ok"]
    code = "import sys; sorted(name for name in sys.modules if name.lower() == 'shapes')"
    assert client.evaluate(code)["result"] == "['shapes']"


@pytest.mark.parametrize("way", ["number", "file", "folder", "auto"])
def test_the_relay_finds_the_server(server, windows, way):
    ways = {
        "number": [(windows.state / "port").read_text()],
        "file": [f"{windows.own_path}\\.calva\\mcp-server\\port"],
        "folder": ["--workspace", windows.own_path],
        "auto": ["--workspace", "auto"],
    }
    windows.relay(*ways[way])


def test_a_hook_reaches_the_server(server, windows):
    event = json.dumps({"hook_event_name": "SessionStart", "source": "startup", "cwd": windows.own_path})
    code = (
        "import os, sys; from codriver_relay.hook import main; os.environ['CODRIVER_HOOK_DEADLINE_S'] = '60'; "
        "sys.exit(main(['claude-code', 'started']))"
    )
    done = windows.run("-c", code, given=event)
    assert "additionalContext" in done.stdout, done.stdout


def test_every_clients_configuration_has_working_commands_and_hooks(server, windows):
    home = f"{windows.own_path}\\of a user"
    done = windows.run("-X", "utf8", str(ENTRIES), windows.own_path, home)
    found = json.loads(done.stdout.splitlines()[-1])
    assert set(found["files"]) == set(known_clients()), found["files"]
    places = {
        "claude-desktop": "AppData\\Roaming\\Claude\\claude_desktop_config.json",
        "zed": "AppData\\Roaming\\Zed\\settings.json",
        "codex": ".codex\\config.toml",
    }
    assert {name: found["files"][name]["user"] for name in places} == {
        name: f"{home}\\{place}" for name, place in places.items()
    }
    assert found["entries"]
    assert [line for line, status, text, _ in found["entries"] if status or '"serverInfo"' not in text] == [], found
    assert len(found["hooks"]) >= 4, found["hooks"]
    assert [line for line, status, _, wrong in found["hooks"] if status or wrong] == [], found["hooks"]


def test_a_command_prints_non_ascii_text_into_a_pipe(server, windows):
    assert windows.run("-m", "codriver", "eval", "print('ä 中')").stdout.splitlines()[0] == "ä 中"


def test_doctor_reports_no_problem_on_a_working_setup(server, windows):
    output = windows.run("-m", "codriver", "doctor").stdout
    assert "WRONG" not in output, output
    assert "No problems found" in output or "No errors" in output, output


def test_the_page_shows_evaluations_only_with_its_token(server, client, windows):
    output = windows.run("-X", "utf8", "-m", "codriver", "watch", "--web").stdout
    found = page_client.ADDRESS.search(output)
    assert found, output
    page = page_client.PageClient(None, found[0].strip()).enter()
    client.evaluate("40 + 2")
    with page_client.Events(page) as events:
        assert events.row(text="40 + 2", result="42", status="done")
    page.token = "a" * 43
    with pytest.raises(RemoteDisconnected):
        page.call("examples")


def test_stop_ends_the_server_with_its_processes_and_keeps_edits(server, windows):
    with Client(windows.state) as client:
        tree = client.evaluate(STARTED)["stdout"].split()
    pid = windows.server_pid()
    done = windows.run("-m", "codriver", "stop")
    assert done.returncode == 0, done.stdout
    assert not windows.still_running(pid, *tree)
    assert not (windows.state / "port").exists()
    server.wait(WAIT_S)
    following = windows.serve()
    assert [(windows.folder / f"{name}.py").read_text().count("return 2") for name in "ab"] == [1, 1]
    assert windows.run("-m", "codriver", "stop").returncode == 0
    following.wait(WAIT_S)
    following.stdout.close()


@pytest.mark.parametrize("code", HANGS.values(), ids=HANGS)
def test_killing_the_server_also_ends_the_processes_it_started(windows, code):
    server = windows.serve()
    pid = windows.server_pid()
    with Client(windows.state) as client:
        tree = client.evaluate(STARTED)["stdout"].split()
        pending = client.evaluate(code, timeoutMs=1500, onTimeout="continue")
        assert pending["status"] in ("running", "needs-input"), pending
        windows.run("-c", KILL, str(pid))
    assert not windows.still_running(pid, *tree, *pending.get("stdout", "").split())
    server.wait(WAIT_S)
    server.stdout.close()


def test_acknowledged_edits_survive_a_stopped_or_killed_server(windows, tmp_path):
    own_path = Windows(tmp_path).own_path
    done = windows.run("-X", "utf8", str(EDITS_KEPT), own_path, str(ROUNDS))
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["edits"], found["kills"]) == (ROUNDS, ROUNDS), found
    assert (found["differences"], found["records left"], found["strange files"]) == ([], [], []), found


def test_the_relay_starts_a_missing_server(windows):
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}) + "\n"
    relay = windows.start("-m", "codriver_relay", "--workspace", windows.own_path, "--start", stdin=subprocess.PIPE)
    relay.stdin.write(line)
    relay.stdin.flush()
    output = relay.stdout.readline()
    relay.stdin.close()
    assert '"serverInfo"' in output, output
    deadline = time.monotonic() + WAIT_S
    while not (windows.state / "server.json").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    pid = windows.server_pid()
    assert windows.run("-m", "codriver", "stop").returncode == 0
    assert not windows.still_running(pid)
    relay.wait(WAIT_S)
    relay.stdout.close()


NREPLS = ("jvm", "basilisp", "nbb")
OTHERS = {
    "jvm": ("(+ 1 2)", '(do (println "grüß ✓") (/ 1 0))', "(Thread/sleep 90000)"),
    "basilisp": ("(+ 1 2)", '(do (println "grüß ✓") (/ 1 0))', None),
    "nbb": ("(+ 1 2)", '(do (println "grüß ✓") (throw (js/Error. "no")))', None),
    "kernel": ("1 + 2", "print('grüß ✓'); 1 / 0", "import time; time.sleep(90)"),
}
"""Of each REPL code for 3, code that prints and fails, and code that runs until it is interrupted."""


@pytest.fixture(scope="module")
def beside(tmp_path_factory):
    """Return a client of a server that is connected to a REPL of each of these programs, which run separately."""
    file = real_kernels.kernel("ipykernel").file
    words = [word for name in NREPLS for word in ("--nrepl", f"{name}={real_repls.repl(name).endpoint.port}")]
    made = Windows(tmp_path_factory.mktemp("beside"))
    kernel = made.run("-c", "import pathlib, sys; print(pathlib.Path(sys.argv[1]).resolve(), end='')", str(file)).stdout
    process = made.serve("--repl", "none", *words, "--kernel", f"kernel={kernel}")
    with Client(made.state) as client:
        yield client
    made.run("-m", "codriver", "stop")
    process.communicate(timeout=WAIT_S)


@pytest.mark.parametrize("name", OTHERS)
def test_a_repl_of_another_program_can_be_used(beside, name):
    three, failing, endless = OTHERS[name]
    assert beside.evaluate(three, replSessionKey=name)["result"] == "3"
    failed = beside.evaluate(failing, replSessionKey=name)
    assert failed["stdout"].strip() == "grüß ✓"
    assert failed["reason"] == "evaluation-failed"
    if endless is not None:
        running = beside.call("evaluate_code", code=endless, replSessionKey=name, timeoutMs=500)
        assert running["status"] == "running"
        assert beside.call("interrupt_evaluation", evaluationId=running["evaluationId"])["status"] in ENDED
