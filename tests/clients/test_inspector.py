"""The MCP project's own inspector as a client: over the relay, with a server that it has to start itself."""

import json
import subprocess
import sys

import forked
import pytest
from alike import first_and_last
from live_server import RELAY, environ
from real_clients import RUN_S, program

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def inspect(tmp_path_factory):
    """Return a function that runs the inspector with options and returns what it printed as JSON, and its messages."""
    inspector = program("mcp-inspector")
    folder = tmp_path_factory.mktemp("inspector")
    (folder / "workspace").mkdir()
    port_file = folder / "workspace" / ".calva" / "mcp-server" / "port"
    relay = [sys.executable, "-I", "-S", RELAY, str(port_file), "--start"]
    # It hands few variables on to a server, so the server's folders are found by the home folder alone.
    shared = {key: value for key, value in environ(folder).items() if not key.startswith("XDG_")}
    env = {**shared, "HOME": str(folder), "NO_COLOR": "1"}

    def inspect(*options, is_many=False):
        done = subprocess.run(
            [inspector, "--cli", "-e", "CODRIVER_MCP_SOCKET_SERVER_PORT=0", *relay, *options],
            cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_S, check=False,
        )  # fmt: skip
        assert done.returncode in (0, 5), done.stderr
        found = several(done.stdout)
        return found if is_many else found[0], done.stderr

    yield inspect
    stopped = forked.run(["stop", "--workspace", str(folder / "workspace")], env=env, timeout=RUN_S)
    assert stopped.returncode == 0, stopped


def several(text):
    """Return the JSON values in a text, one after the other."""
    decoder, values, at = json.JSONDecoder(), [], 0
    while (at := at + len(text[at:]) - len(text[at:].lstrip())) < len(text):
        value, at = decoder.raw_decode(text, at)
        values.append(value)
    return values


def evaluate(inspect, code, *options):
    requested = json.dumps({"code": code})
    return inspect("--method", "tools/call", "--tool-name", "evaluate_code", "--tool-args-json", requested, *options)[0]


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_evaluates_code_in_both_protocol_eras(inspect, era):
    answer = evaluate(inspect, "print('hé')\n6 * 7", "--protocol-era", era)
    assert (answer["structuredContent"]["result"], answer["structuredContent"]["stdout"]) == ("42", "hé\n")
    assert evaluate(inspect, "1 / 0", "--protocol-era", era)["isError"] is True


def test_the_inspector_finds_no_schema_issue(inspect):
    listed, text = inspect("--method", "tools/list", "--strict")
    assert "evaluate_code" in [tool["name"] for tool in listed["tools"]]
    assert "Issue" not in text, text


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_verifies_every_skill(inspect, era):
    reports, text = inspect("--method", "skills/list", "--verify", "--protocol-era", era, is_many=True)
    assert {report["outcome"] for report in reports} == {"verified"}, reports
    assert "no conformance errors" in text
    entry, _ = inspect("--method", "skills/get", "--uri", reports[0]["uri"], "--protocol-era", era)
    assert entry["skill"]["uri"] == reports[0]["uri"]
    root = reports[0]["uri"].removesuffix("/SKILL.md")
    folder, _ = inspect("--method", "resources/directory/read", "--uri", root, "--protocol-era", era)
    assert reports[0]["uri"] in [child["uri"] for child in folder["resources"]]


def test_the_inspector_reads_the_listed_resources(inspect):
    for resource in first_and_last(inspect("--method", "resources/list")[0]["resources"]):
        (content,) = inspect("--method", "resources/read", "--uri", resource["uri"])[0]["contents"]
        assert content["uri"] == resource["uri"]
        assert content["text"]


def test_the_inspector_gets_the_listed_prompts(inspect):
    for prompt in first_and_last(inspect("--method", "prompts/list")[0]["prompts"]):
        got, _ = inspect("--method", "prompts/get", "--prompt-name", prompt["name"])
        assert got["messages"]
