"""The published conformance suite of MCP against a server with the plain way, and one that leaves all to the SDK.

Those scenarios are left out that want other things of a made-up server.
"""

import subprocess
from contextlib import ExitStack

import pytest
from both_ways import two_servers
from conformance import bridged
from real_clients import RUN_S, program

pytestmark = pytest.mark.slow

SCENARIOS = (
    "server-initialize", "ping", "logging-set-level", "tools-list", "resources-list", "resources-subscribe",
    "resources-unsubscribe", "prompts-list",
)  # fmt: skip
WAYS = ("the plain way", "the SDK alone")


@pytest.fixture(scope="module")
def addresses(tmp_path_factory):
    """The address of each server, by its way."""
    program("conformance")
    with two_servers(tmp_path_factory.mktemp("conformance")) as servers, ExitStack() as bridges:
        yield {way: bridges.enter_context(bridged(live)) for way, live in zip(WAYS, servers, strict=True)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_server_conforms_whoever_answers(addresses, scenario, way):
    command = [program("conformance"), "server", "--url", addresses[way], "--scenario", scenario]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
