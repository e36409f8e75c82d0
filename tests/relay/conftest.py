import contextlib
import os
import shlex
import sys
from functools import partial

import forked
import posix_only
import pytest
from live_server import WAIT_S, environ

from relay.cold_server import Cold, shut
from relay.relay_process import THREADS, Host, RelayProcess

BOTH_WAYS = ("test_relay_life", "test_relay_streams")
"""Files whose tests also run with threads, except those that wait for a time or memory limit."""
LONG = frozenset({
    "test_the_relay_ends_when_its_client_is_gone",
    "test_a_flood_of_empty_lines_throttles_the_client",
    "test_the_client_is_throttled_while_the_server_cannot_be_reached",
    "test_the_error_names_a_missing_server_command",
    "test_a_server_that_fails_to_start_is_explained",
    "test_a_server_that_only_disconnects_is_not_retried_forever",
    "test_a_server_that_does_not_answer_the_repeated_handshake_is_dropped",
    "test_a_server_that_starts_late_has_the_full_time_to_answer",
    "test_an_answer_that_never_arrives_is_awaited_for_a_limited_time",
    "test_lines_the_server_never_read_are_answered_after_stdin_ended",
    "test_unanswered_requests_use_no_memory_after_they_were_sent",
})  # fmt: skip


def pytest_generate_tests(metafunc):
    named, file = metafunc.function.__name__, metafunc.module.__name__.rpartition(".")[2]
    if file in BOTH_WAYS and named not in LONG:
        metafunc.fixturenames.insert(0, "way")  # before the relay is started
        metafunc.parametrize("way", ["polls", "threads"], indirect=True)


@pytest.fixture
def way(request, monkeypatch):
    """Return how the relay waits for pipes."""
    if request.param == "threads":
        monkeypatch.setenv(THREADS, "1")


@pytest.fixture
def stack():
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def start_relay(stack):
    def start(*arguments, program=None, **environment):
        relay = RelayProcess(*arguments, environment=environment, program=program)
        stack.callback(relay.close)
        return relay

    return start


@pytest.fixture
def start_host(stack):
    def start(port=0):
        host = Host(port)
        stack.callback(host.close)
        return host

    return start


@pytest.fixture
def host(start_host):
    return start_host()


@pytest.fixture
def relay(start_relay, host):
    return start_relay(host.port)


@pytest.fixture
def cold(tmp_path, start_relay, start_host):
    cold = Cold(tmp_path, start_relay, start_host)
    yield cold
    cold.end()


class Gated:
    """A workspace whose real server waits at a gate before starting."""

    def __init__(self, folder, start_relay):
        workspace, self.gate = folder / "workspace", folder / "gate"
        workspace.mkdir()
        posix_only.make_pipe(self.gate)
        start = f'read line < {shlex.quote(str(self.gate))} && exec {shlex.quote(sys.executable)} -P -m codriver "$@"'
        ours = {name: value for name, value in environ(folder).items() if name.startswith(("XDG_", "CODRIVER_"))}
        self.environment = ours | {
            "CODRIVER_MCP_SOCKET_SERVER_PORT": "0",
            "CODRIVER_SERVER_COMMAND": shlex.join(["sh", "-c", start, "sh"]),
        }
        self.port_file = workspace / ".calva" / "mcp-server" / "port"
        self.start_relay, self.relays = start_relay, []
        self.stop = partial(forked.run, ["stop"], cwd=workspace, env=os.environ | self.environment, timeout=WAIT_S)

    def relay(self):
        self.relays.append(self.start_relay(self.port_file, "--start", **self.environment))
        return self.relays[-1]

    def open(self):
        self.gate.write_text("\n")

    def close(self):
        for relay in self.relays:  # a running one would start the next server
            relay.close()
        shut(self.gate)
        self.stop()


@pytest.fixture
def gated(tmp_path, start_relay):
    gated = Gated(tmp_path, start_relay)
    yield gated
    gated.close()
