"""The lean toolset: at most five tools, through which an agent reaches all others by the same gate."""

import pytest
import tools_in_memory
from all_tools import BY_NAME, LEAN, MANIFEST
from live_server import serving, until

from codriver.tools.manifest import ACTIONS

NAMES = ["evaluate_code", "get_evaluation", "repl_output_log", "edit_files", "codriver"]
ALL_LEAN, SOME_LEAN = {"toolset": "lean"}, {"lean_clients": ("small",)}
ERAS = ("initialize", "server/discover")
"""The requests by which a client of each generation of the protocol is told them."""


@pytest.fixture(scope="module")
def lean(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lean")
    with tools_in_memory.serving(folder, settings=ALL_LEAN) as live:
        yield live


@pytest.fixture
def client(lean):
    with lean.client() as client:
        yield client


def test_at_most_five_tools_are_listed(client):
    assert client.tools() == NAMES
    assert all(len(tool.description) <= 300 for tool in LEAN)


def test_no_tool_of_lisp_is_listed_where_none_is_spoken(tmp_path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "codriver.toml").write_text('toolset = "lean"\n')
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        assert client.tools() == [name for name in NAMES if name != "edit_files"]


def test_one_client_may_have_it_and_others_not(tmp_path):
    with tools_in_memory.serving(tmp_path, settings=SOME_LEAN) as live, live.client(name="small-model") as small:
        assert small.tools() == NAMES
        with live.client(name="large-model") as large:
            until(lambda: len(large.tools()) > 10, "the tools of the REPL")
            assert "codriver" not in large.tools()


def test_a_client_gets_the_instructions_of_its_own_toolset(tmp_path):
    with tools_in_memory.serving(tmp_path, settings=SOME_LEAN) as live:
        told = {era: [instructions(live, name, era) for name in ("small-model", "large-model")] for era in ERAS}
    with tools_in_memory.serving(tmp_path / "all", settings=ALL_LEAN) as live:
        for era, (small, large) in told.items():
            assert small == instructions(live, "large-model", era) != large, era


def instructions(live, name, era):
    """What a server tells a client of this name at first."""
    about = {"protocolVersion": "2026-07-28", "clientInfo": {"name": name, "version": "1"}, "clientCapabilities": {}}
    meta = {f"io.modelcontextprotocol/{key}": value for key, value in about.items()}
    with live.client(name=name, handshake=False) as client:
        if era == "initialize":
            params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about["clientInfo"]}
            return client.request("initialize", params)["result"]["instructions"]
        return client.request(era, {"_meta": meta})["result"]["instructions"]


def test_any_tool_runs_by_its_name_with_the_same_answer(client):
    by_name = client.call("symbol_info", symbol="map")
    assert by_name["ok"]
    assert client.call("codriver", tool="symbol_info", arguments={"symbol": "map"}) == by_name
    refused = client.call("codriver", tool="symbol_info", arguments={"symbol": "map"}, who="ui")
    assert refused["reason"] == "bad-who"


def test_a_call_through_it_is_in_the_log_as_any_other(client, lean):
    (lean.workspace / "orders.clj").write_text("(def total 42)\n")
    loaded = client.call("codriver", tool="load_file", arguments={"filePath": "orders.clj", "who": "order-reader"})
    assert loaded["ok"]
    entities = client.call("repl_output_log", by="order-reader")["result"]
    told = entities[0]
    assert (told["category"], told["text"]) == ("otherOutput", f"load {lean.workspace / 'orders.clj'}")


def test_the_gate_is_the_same(client):
    refused = client.call("codriver", tool="run_tests", arguments={})
    assert (refused["ok"], refused["reason"]) == (False, "capability-missing")
    refused = client.call("codriver", tool="symbol_info", arguments={})
    assert (refused["reason"], "symbol" in refused["message"]) == ("bad-arguments", True)


def test_what_is_switched_off_is_off_through_it_too(tmp_path):
    settings = {**ALL_LEAN, "enable_mcp_repl_evaluation": False}
    with tools_in_memory.serving(tmp_path, settings=settings) as live, live.client() as client:
        assert "evaluate_code" not in client.tools()
        refused = client.call("codriver", tool="evaluate_code", arguments={"code": "1"})
        assert refused["reason"] == "switched-off"


@pytest.mark.parametrize("name", ["codriver", "no_such_tool", ""])
def test_what_is_no_other_tool_is_refused_with_the_way_to_their_names(client, name):
    refused = client.call("codriver", tool=name, arguments={})
    assert refused["reason"] == "unknown-tool"
    assert "help: true" in refused["hint"]


def test_help_names_the_tools_and_says_how_one_is_called(client):
    named = {tool["name"] for tool in client.call("codriver", help=True)["tools"]}
    assert named == {tool.name for tool in MANIFEST} - {
        "run_tests",
        "restart_repl",
        "try_code",
        "what_changed",
        "inspect_app",
        "change_app",
        "watch_app",
    }
    told = client.call("codriver", tool="run_tests", help=True)
    assert told["inputSchema"] == BY_NAME["run_tests"].schema
    assert told["description"] == BY_NAME["run_tests"].description


def test_an_evaluation_is_interrupted_by_an_action(client):
    running = client.call("evaluate_code", code="(wait)", timeoutMs=100)
    assert running["status"] == "running"
    ended = client.call("get_evaluation", evaluationId=running["evaluationId"], action="interrupt")
    assert (ended["ok"], ended["status"]) == (True, "interrupted")


def test_an_evaluation_gets_its_input_by_an_action(client):
    asking = client.call("evaluate_code", code='(str "got " (read-line))', timeoutMs=1000)
    identity = asking["evaluationId"]
    until(lambda: client.call("get_evaluation", evaluationId=identity)["status"] == "needs-input", "the question")
    client.call("get_evaluation", evaluationId=identity, action="input", text="tea")
    done = client.call("get_evaluation", evaluationId=identity, waitMs=60_000)
    assert done["result"] == '"got tea"'


def test_an_action_without_what_it_needs_is_refused(client):
    for arguments in ({}, {"action": "input", "text": "x"}, {"action": "interrupt"}):
        assert client.call("get_evaluation", **arguments)["reason"] == "bad-arguments"


def test_each_is_annotated_by_the_strongest_of_what_it_can_run(client):
    tools = {tool["name"]: tool["annotations"] for tool in client.request("tools/list")["result"]["tools"]}
    behind = {"get_evaluation": [BY_NAME[name] for name in ACTIONS.values()], "codriver": list(MANIFEST)}
    for name, reached in behind.items():
        assert tools[name]["readOnlyHint"] is all(tool.read_only for tool in reached) is False
        assert tools[name]["destructiveHint"] is any(tool.destructive for tool in reached) is True
        assert tools[name]["idempotentHint"] is all(tool.idempotent for tool in reached) is False
        assert tools[name]["openWorldHint"] is any(tool.open_world for tool in reached) is True


def test_arguments_that_are_not_listed_are_taken_all_the_same(client):
    assert client.call("evaluate_code", code="(+ 40 2)", maxImages=0, isolate=True)["result"] == "42"
