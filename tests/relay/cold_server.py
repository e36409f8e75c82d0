"""A workspace whose server is still starting, and the lists that its last server stored."""

import contextlib
import json
import os
import shlex

import posix_only
from ports import closed_port

from codriver.app.stored_answers import store_client_entry
from relay.relay_process import request

GREETING = {"protocolVersion": "2025-11-25", "capabilities": {}, "instructions": "py (python, starting)"}
TOOLS = {"tools": [{"name": "evaluate_code"}, {"name": "load_file"}]}
CLIENT = {"name": "agent", "version": "1"}
INITIALIZE = request("first", "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=CLIENT)
LIST = request(7, "tools/list")
QUESTION = {"jsonrpc": "2.0", "id": "codriver-relay-list", "method": "tools/list"}


class Cold:
    """A workspace whose server is still starting, until the test ends the start or acts as the server."""

    def __init__(self, folder, start_relay, start_host):
        self.folder, self.start_relay, self.start_host = folder, start_relay, start_host
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self.gate = folder / "gate"
        posix_only.make_pipe(self.gate)
        self.port = closed_port()
        waiting = shlex.join(["sh", "-c", f"read line < {shlex.quote(str(self.gate))}; exit 3"])
        self.environment = {"XDG_STATE_HOME": str(folder / "state"), "CODRIVER_SERVER_COMMAND": waiting}

    def store(self, monkeypatch, **client):
        """Write the lists that a server stores for relays, and return their file."""
        for name in [name for name in os.environ if name.startswith("CODRIVER_")]:
            monkeypatch.delenv(name)
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)
        stored_entry = {"name": "agent", "protocol": "2025-11-25", "greeting": GREETING, "tools": TOOLS}
        store_client_entry(self.workspace, stored_entry | client)
        (file,) = (self.folder / "state" / "codriver" / "lists").iterdir()
        return file

    def relay(self, **environment):
        return self.start_relay(self.port, "--start", "--workspace", self.workspace, **self.environment | environment)

    def serve(self):
        """Start the server, and return its end of the relay's connection."""
        self.host = self.start_host(self.port)
        return self.accept()

    def accept(self):
        peer = self.host.accept()
        assert peer.read()["method"] == "codriver/token"
        return peer

    def end(self):
        """End the processes that were started instead of a server."""
        shut(self.gate)


def shut(gate):
    """Release all processes waiting for the pipe `gate`, and remove it."""
    descriptor = None
    with contextlib.suppress(OSError):  # no process is waiting
        descriptor = os.open(gate, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
    gate.unlink(missing_ok=True)
    if descriptor is not None:
        os.close(descriptor)


def rewrite(file, **members):
    file.write_text(json.dumps(json.loads(file.read_text()) | members))


def stored_entry(file):
    return json.loads(file.read_text())["clients"][0]
