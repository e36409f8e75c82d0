"""The published MCP conformance suite, against a server that answers plain requests itself and against one that
leaves every request to the SDK.

Scenarios that need other features of a made-up server are left out. `tests/bench/conformance_suite.py` runs all of them
and compares the result with the list of tolerated failures.
"""

import subprocess
import tomllib
from contextlib import ExitStack
from pathlib import Path

import forked
import pytest
from both_ways import two_servers
from conformance import bridged, suite
from live_server import Live, environ
from real_clients import RUN_S

SCENARIOS = (
    "server-initialize", "ping", "logging-set-level", "tools-list", "resources-list", "resources-subscribe",
    "resources-unsubscribe", "prompts-list",
)  # fmt: skip
OF_SKILLS = ("sep-2640-skills-enumeration", "sep-2640-skills-manifest", "sep-2640-skills-directory")
WAYS = ("the plain way", "the SDK alone")
LISTED = Path(__file__).with_name("conformance_failures.toml")
MOST = {"2025-11-25": 24, "2026-07-28": 39}
"""The scenarios that may fail, of each revision. Lower it with the list, and never raise it."""
SKILL = "---\nname: templates\ndescription: Texts to fill in.\nmetadata: {version: '1.0'}\n---\n\nSee `letters/`.\n"


@pytest.fixture(scope="module")
def addresses(tmp_path_factory):
    """Return the address of each server, by its request path."""
    suite()
    with two_servers(tmp_path_factory.mktemp("conformance")) as servers, ExitStack() as bridges:
        yield {way: bridges.enter_context(bridged(live)) for way, live in zip(WAYS, servers, strict=True)}


def check(address, scenario):
    command = [*suite(), "server", "--url", address, "--scenario", scenario]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_server_conforms_on_both_request_paths(addresses, scenario, way):
    check(addresses[way], scenario)


@pytest.mark.slow
def test_the_skills_extension_conforms(tmp_path):
    suite()
    workspace = tmp_path / "workspace"
    letters = workspace / ".codriver" / "skills" / "templates" / "letters"
    letters.mkdir(parents=True)
    (letters.parent / "SKILL.md").write_text(SKILL)
    (letters / "a.md").write_text("Dear {name}")
    (workspace / "codriver.toml").write_text(
        'skillSources = ["workspace"]\nprovideBdSkill = false\nprovideEditSkill = false\n'
    )
    accepted = forked.run(["trust", "--workspace", str(workspace)], env=environ(tmp_path), timeout=RUN_S)
    assert accepted.returncode == 0, accepted
    live = Live(tmp_path, "--repl", "none")
    try:
        with bridged(live) as address:
            for scenario in OF_SKILLS:
                check(address, scenario)
    finally:
        live.stop()


def test_the_list_of_tolerated_failures_only_shrinks():
    listed = tomllib.loads(LISTED.read_text("utf-8"))
    assert {revision: sum(map(len, reasons.values())) for revision, reasons in listed.items()} == MOST
    for reasons in listed.values():
        names = [name for of_reason in reasons.values() for name in of_reason]
        assert len(set(names)) == len(names)
        assert not {*names} & {*SCENARIOS, *OF_SKILLS}
