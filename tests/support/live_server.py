"""A real server on its own workspace, and small clients for it."""

import contextlib
import functools
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import forked
import lent_servers
import pytest
from all_tools import MANIFEST
from forked import Forked, can_fork

import codriver_relay
from codriver.systems.machine import IDENTIFIES_USERS
from codriver.tools.answers.lean_answers import Evaluating

WAIT_S = 60
PATH = os.environ.get("PATH", "")
"""The PATH of the run, before a test sets another one."""
CODRIVER = [sys.executable, "-m", "codriver"]
RELAY = str(Path(codriver_relay.__file__).with_name("__main__.py"))
"""The relay as a script, which any Python runs without a folder for packages."""
EVALUATING = frozenset(tool.name for tool in MANIFEST if issubclass(tool.arguments, Evaluating))
"""The tools whose answers are lean unless `detail` is requested."""


@functools.cache
def _python_for_projects():
    """Return a directory with a `python3` for projects, and the directory of PATH before which it belongs.

    The one on PATH may be a script, or lack pytest. A script, such as pyenv's, searches for the Python to run, and
    other packages installed there may make each start import more: both take more processor time than the start
    itself, a thousand times in a run. So this is an environment with nothing but the packages that pytest needs. It
    comes before one certain directory of PATH, so that what a test puts in front stays there.
    """
    of_path = shutil.which("python3", path=PATH)
    place = str(Path(of_path).parent) if of_path else PATH.partition(os.pathsep)[0]
    if sys.platform == "win32":  # a script does not stand for Python there
        return place, place
    base, packages = sys.executable, str(Path(pytest.__file__).parents[1])
    if of_path:
        requests = [of_path, "-c", "import sys, pytest; print(sys.executable, pytest.__file__, sep='\\n')"]
        found = subprocess.run(requests, capture_output=True, text=True, check=False)
        if found.returncode == 0:
            base, file = found.stdout.splitlines()
            packages = str(Path(file).parents[1])
    folder = lent_servers.new_directory("python")
    subprocess.run([base, "-m", "venv", "--without-pip", folder], check=True)
    (own,) = folder.glob("lib/python*/site-packages")
    (own / "beside_pytest.pth").write_text(f"{packages}\n")
    return str(folder / "bin"), place


def _path_with_python(path):
    own, place = _python_for_projects()
    folders = path.split(os.pathsep)
    at = folders.index(place) if place in folders else 0
    return os.pathsep.join([*folders[:at], own, *folders[at:]])


def environ(folder):
    """Return the environment of a server that stores all its files in `folder`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CODRIVER_", "VIRTUAL_ENV"))}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    kept["PATH"] = _path_with_python(kept.get("PATH", ""))
    folders = {f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("CONFIG", "STATE", "CACHE")}
    return {
        "JUPYTER_RUNTIME_DIR": str(folder / "jupyter"),
        # Of the second that importing pytest takes, the plugins installed here account for four fifths.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        # When a pytest session ends, it removes the directories of earlier ones, which takes half a minute after whole
        # runs.
        "PYTEST_DEBUG_TEMPROOT": str(folder),
        **kept,
        **folders,
        # The event loop that everybody has; the other one has a test of its own.
        "CODRIVER_EVENT_LOOP": "asyncio",
    }


def user_settings_file(folder):
    """Return the path of the user's settings, for a server that stores all its files in `folder`."""
    file = Path(folder) / "config" / "codriver" / "codriver.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


HAS_WARM_TESTS = importlib.util.find_spec("codriver.features.warm_tests") is not None  # some copies are without it
FULL = 'toolset = "full"\n' + ("warmTests = false\n" if HAS_WARM_TESTS else "")
"""The user's own settings of a server under test: tests of single tools find all of them in the list.

How their second test run starts does not depend on how long the first one takes.
"""


def list_all_tools(folder):
    """Make the servers in `folder` list every tool, unless the user's own settings exist already."""
    with contextlib.suppress(OSError):  # some tests leave a server no room for it
        file = user_settings_file(folder)
        if not file.exists():
            file.write_text(FULL)


class Live:
    """One running server."""

    def __init__(self, folder, *options, is_awaited=True, durations=""):
        self.folder = folder
        self.workspace = folder / "workspace"
        self.workspace.mkdir(parents=True, exist_ok=True)
        list_all_tools(folder)
        self.environ = environ(folder) | ({"CODRIVER_DURATIONS": durations} if durations else {})
        self.port_file = self.workspace / ".calva" / "mcp-server" / "port"
        self.process = self.start("serve", *(() if "--port" in options else ("--port", "0")), *options)
        self.greeting = self.process.stdout.readline() if is_awaited else ""

    def start(self, *words):
        command = self.command(*words)
        if command[:3] == CODRIVER and can_fork(self.environ):
            return Forked(command[3:], env=self.environ)
        return subprocess.Popen(
            command,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def command(self, name, *options):
        return [*CODRIVER, name, "--workspace", str(self.workspace), *options]

    def run(self, name, *options, **kwargs):
        """Run another command on the same workspace."""
        if not kwargs:
            return forked.run(self.command(name, *options)[3:], env=self.environ, timeout=WAIT_S)
        return subprocess.run(
            self.command(name, *options), env=self.environ, capture_output=True, text=True, timeout=WAIT_S, check=False,
            **kwargs,
        )  # fmt: skip

    @property
    def port(self):
        return int(self.port_file.read_text())

    def repl_address(self):
        """Return the address of the only REPL, which is only reported to Codriver's own clients."""
        with self.client(name="codriver-tests") as client:
            (session,) = client.call("list_sessions")["sessions"]
            return session["address"]

    def token_line(self):
        """Return the line with the token, on systems that do not identify the user of a connection and so always
        require one.
        """
        if IDENTIFIES_USERS:
            return b""
        token = self.port_file.with_name("token").read_text()
        return json.dumps({"jsonrpc": "2.0", "method": "codriver/token", "params": {"token": token}}).encode() + b"\n"

    def client(self, **kwargs):
        connected = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)
        connected.sendall(self.token_line())
        return Bare(connected, **kwargs)

    @property
    def relay_environ(self):
        """Return the environment of a relay that waits for a restarted server as long as the tests do.

        Otherwise it would give up after two seconds and not connect before the next request, which a test that waits
        for a notification never sends.
        """
        return {**self.environ, "CODRIVER_RELAY_DURATIONS": f"absent_s={WAIT_S}"}

    def relay(self, *options, **kwargs):
        command = [sys.executable, "-I", "-S", RELAY, str(self.port_file), *options]
        return Relayed(command, self.relay_environ, **kwargs)

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(WAIT_S)
        self.process.stdout.close()


@contextlib.contextmanager
def serving(folder, *options, durations=""):
    """Run a server for the duration of the context; `durations` shortens some of its waits."""
    live = Live(Path(folder), *options, durations=durations)
    try:
        yield live
    finally:
        live.stop()


class Bare:
    """A client that only knows lines of JSON over a socket."""

    def __init__(self, sock, *, name="bare", handshake=True):
        self.socket = sock
        self.file = sock.makefile("rb")
        self.number = 0
        self.notifications = []
        if handshake:
            client = {"name": name, "version": "1"}
            params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
            self.about = self.request("initialize", params)["result"]
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        self.file.close()
        self.socket.close()

    def write(self, data):
        self.socket.sendall(data)

    def send(self, message):
        self.write(json.dumps(message).encode() + b"\n")

    def receive(self):
        line = self.file.readline()
        return json.loads(line) if line else None

    def begin(self, method, params=None, identity=None):
        self.number += 1
        identity = self.number if identity is None else identity
        self.send({"jsonrpc": "2.0", "id": identity, "method": method, "params": params or {}})
        return identity

    def answer(self, identity):
        for message in self.notifications:  # the answer may have come before another one that was waited for
            if message.get("id") == identity and "method" not in message:
                self.notifications.remove(message)
                return message
        while (message := self.receive()) is not None:
            if message.get("id") == identity and "method" not in message:
                return message
            self.notifications.append(message)
        raise ConnectionError("the server hung up")

    def request(self, method, params=None):
        return self.answer(self.begin(method, params))

    def line(self, method, params=None):
        """Return the answer to a request as it was received: one line."""
        identity = self.begin(method, params)
        while line := self.file.readline():
            message = json.loads(line)
            if message.get("id") == identity and "method" not in message:
                return line
        raise ConnectionError("the server hung up")

    def begin_call(self, tool, /, **arguments):
        """Start a tool call; an evaluation returns every field, unless `detail` is among the arguments."""
        if tool in EVALUATING:
            arguments = {"detail": True} | arguments
        if isinstance(self.socket, socket.socket):  # the answer may come as late as the call allows
            self.socket.settimeout(WAIT_S + arguments.get("timeoutMs", 0) / 1000)
        return self.begin("tools/call", {"name": tool, "arguments": arguments})

    def call(self, tool, /, **arguments):
        answer = self.answer(self.begin_call(tool, **arguments))
        result = answer["result"]
        fields = json.loads(result["content"][0]["text"])
        # Some clients, by their names, get the text alone.
        assert result.get("structuredContent", fields) == fields
        assert result["isError"] is not fields["ok"]
        return fields

    def tools(self):
        return [tool["name"] for tool in self.request("tools/list")["result"]["tools"]]

    def await_notification(self, method):
        """Read until a notification of `method` is received, and remove it from those received."""
        while True:
            for message in self.notifications:
                if message.get("method") == method:
                    self.notifications.remove(message)
                    return message
            message = self.receive()
            assert message is not None, f"the server hung up before {method}"
            self.notifications.append(message)


class Relayed(Bare):
    """The same client over a relay process, or over any server on stdio."""

    def __init__(self, command, env, *, folder=None, stderr=None, **kwargs):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=env, cwd=folder
        )
        super().__init__(self, **kwargs)

    def makefile(self, _mode):
        return self.process.stdout

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def close(self):
        if not self.process.stdin.closed:
            self.process.stdin.close()
        self.process.wait(WAIT_S)
        self.process.stdout.close()


def until(condition, what):
    """Poll until something is true, and return its value."""
    deadline = time.monotonic() + WAIT_S
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited in vain for: {what}"
        time.sleep(0.02)
    return value


def until_connected(client, count=1):
    """Wait until this many REPLs are connected. Tools are listed earlier, and remain listed during a restart."""

    def connected():
        return [row for row in client.call("list_sessions")["sessions"] if row["phase"] == "connected"]

    until(lambda: len(connected()) >= count, f"{count} connected REPLs")
