"""A server in the test process with a REPL in memory, for tests that only need the tools.

The server is real, including its socket. It runs in a thread instead of a process of its own, so that neither it nor
its REPL has to be started. Tests use the same clients as with any other server.

The REPL is of an additional kind with its own connector: `.memory-port`, with a number, stands for its port file.
"""

import functools
import gc
import os
import signal
import sys
import threading
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import lent_servers
import memory_repl
import pytest
from live_server import HAS_WARM_TESTS, WAIT_S, Live, environ, until_connected

from codriver.app import serve, wiring
from codriver.files.codriver_paths import server_directory
from codriver.net.client import request_stop
from codriver.net.server_record import read_record
from codriver.repls import kinds
from codriver.settings.durations import DURATIONS_VARIABLE as DURATIONS

MEMORY = kinds.ReplKind("Memory", "mem", "memory", protocol=memory_repl.PROTOCOL, port_files=(".memory-port",))
OWN = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "JUPYTER_RUNTIME_DIR", "CODRIVER_EVENT_LOOP")
"""The variables of a server that are not those of the tests."""

_numbers = count(4711)


@functools.cache
def _variables():
    """Return the environment shared by all servers in this process, which has only one."""
    given = environ(lent_servers.new_directory("in-memory"))
    return {name: given[name] for name in OWN}


class InMemory(Live):
    """One such server. `settings` are those of a command line, `variables` are added to its environment.

    Without the setting `lanes` its clients share a session, unlike those of a Python REPL.
    """

    def __init__(self, folder, *, durations="", settings=None, variables=None, has_repl=True):
        self.folder = folder
        self.workspace = folder / "workspace"
        self.workspace.mkdir(parents=True, exist_ok=True)
        self.environ = {**environ(folder), **_variables()}
        self.port_file = self.workspace / ".calva" / "mcp-server" / "port"
        self.place = f"127.0.0.1:{next(_numbers)}"
        self._patched = pytest.MonkeyPatch()
        self._of_the_process = sys.getswitchinterval(), gc.get_threshold()
        self._reached = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=[settings or {}], name="server")
        for name in set(os.environ) - set(self.environ):
            self._patched.delenv(name)  # those of whoever runs the tests
        for name, value in {**_variables(), DURATIONS: durations, **(variables or {})}.items():
            self._patched.setenv(name, value)
        self._patched.setattr(kinds, "REPL_KINDS", (*kinds.REPL_KINDS, MEMORY))
        usual = wiring._connectors
        added = {memory_repl.PROTOCOL: memory_repl.connect}
        self._patched.setattr(wiring, "_connectors", lambda core, workspace: {**usual(core, workspace), **added})
        self.repl = memory_repl.start(self.place, self.workspace) if has_repl else None
        if has_repl:
            (self.workspace / MEMORY.port_files[0]).write_text(self.place.rpartition(":")[2])
        self._thread.start()
        self._reached.wait(WAIT_S)

    def _serve(self, settings):
        plain = {"warm_tests": False} if HAS_WARM_TESTS else {}
        usual = {"mcp_socket_server_port": 0, "repl": ("none",), "lanes": False, "toolset": "full", **plain}
        expected = {**usual, **settings}
        try:
            serve.run(serve.ServeOptions(self.workspace, expected, on_reached=self._reached.set, verbosity="quiet"))
        finally:
            self._reached.set()  # or it never will be

    def stop(self, number=signal.SIGTERM):
        assert number == signal.SIGTERM, "a thread takes no signals: it is asked to end"
        if self._thread.is_alive():
            request_stop(self.workspace, read_record(server_directory(self.workspace)))
        self._thread.join(WAIT_S)
        if self.repl and self.repl.is_running():
            self.repl.end()
        switching, threshold = self._of_the_process
        sys.setswitchinterval(switching)
        gc.set_threshold(*threshold)
        self._patched.undo()
        assert not self._thread.is_alive(), "the server does not end"


@contextmanager
def serving(folder, **more):
    """Run such a server for the duration of the context, with its REPL ready if it has one."""
    live = InMemory(Path(folder), **more)
    try:
        assert live.port_file.exists(), "the server does not start"
        if live.repl:
            with live.client() as client:
                until_connected(client)
        yield live
    finally:
        live.stop()
