"""The published conformance suite of MCP against a server with the plain way, and one that leaves all to the SDK.

Those scenarios are left out that want other things of a made-up server.
"""

import re
import subprocess

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
def said(tmp_path_factory):
    """What the suite said of each server, by its way: all scenarios, as each start of the suite takes half a second."""
    said = {}
    with two_servers(tmp_path_factory.mktemp("conformance")) as servers:
        for way, live in zip(WAYS, servers, strict=True):
            with bridged(live) as address:
                command = [program("conformance"), "server", "--url", address]
                done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False)
                said[way] = done.stdout + done.stderr
    return said


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_server_conforms_whoever_answers(said, scenario, way):
    assert re.search(rf"^✓ {scenario}: [1-9]\d* passed, 0 failed$", said[way], re.MULTILINE), said[way]
