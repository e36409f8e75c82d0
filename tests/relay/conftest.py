import contextlib

import pytest

from relay.relay_process import Host, RelayProcess


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
