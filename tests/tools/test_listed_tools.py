"""The list of tools: short, with exact hints, and with what the workspace can use."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import tools_in_memory
from all_tools import BY_NAME, DEFAULT, MANIFEST
from live_server import serving, until
from pydantic import ValidationError

from codriver.tools.calls.arguments import Arguments
from codriver.tools.manifest import DEFAULT_TOOLSET

EDIT_TOOLS = {"edit_files", "undo_edit"}
LISP_TOOLS = {"balance_brackets", "clojuredocs_info"}
NOTEBOOK_TOOLS = {"list_cells", "run_cell"}
CHANGED = "notifications/tools/list_changed"
CORE = {"evaluate_code", "get_evaluation", "load_file", "repl_output_log", "list_sessions", "status"}

APP_TOOLS = {"inspect_app", "change_app", "watch_app"}
NEEDING_OTHERS = {"macroexpand", "run_cell"}
"""The tools that neither Python nor the embedded Lisp can serve."""

READS = {
    "get_evaluation", "symbol_info", "complete_symbol", "clojuredocs_info", "stacktrace", "list_sessions",
    "server_health", "repl_output_log", "wait_for", "balance_brackets", "what_changed", "list_cells",
    "inspect_app", "status",
}  # fmt: skip
"""The tools that change nothing, so that asking them twice is asking them once."""
TELLS_ONCE = {"get_evaluation"}
"""Of them, the one whose second answer tells what is new since the first."""
ADDS = {"watch_app", "watch_calls", "connect_repl"}
"""The tools that add something, and change nothing that is there."""
RUNS_CODE = {
    "evaluate_code",
    "load_file",
    "run_tests",
    "macroexpand",
    "send_input",
    "edit_files",
    "try_code",
    "run_cell",
    "change_app",
    "connect_repl",
}
ASKS_THE_NETWORK = {"clojuredocs_info"}
TOLD_ELSEWHERE = {
    "run_tests": {"report", "onTimeout", "namespace", "test", "match", "fresh", "trace", "coverage", "passed", "junit"},
    "edit_files": {"replSessionKey"}, "get_evaluation": {"report", "maxImages", "diffWith", "depth", "replSessionKey"},
    "send_input": {"replSessionKey"},
    "evaluate_code": {"description", "stdin", "isolate", "allowRestart", "maxImages", "maxLength", "maxDepth"},
    "load_file": {"dependents", "prune", "whole", "replSessionKey", "timeoutMs", "maxLength"},
    "symbol_info": {"replSessionKey"}, "status": {"from", "evaluationId"},
    "complete_symbol": {"replSessionKey"}, "stacktrace": {"replSessionKey"},
    "restart_repl": {"timeoutMs"}, "interrupt_evaluation": {"allowRestart"},
    "repl_output_log": {"inputs", "maxImages", "maxTextBytes"},
    "try_code": {"replSessionKey", "limitMs", "parallel", "detail"}, "connect_repl": {"timeoutMs", "replSessionKey"},
    "wait_for": {"inputs", "limit", "maxTextBytes"},
}  # fmt: skip
"""Arguments that no list names: of `codriver test`, of a skill, those that answers name where they would help, and the
session of tools that look: of any tool, as the first one's schema says, and refusals where there are several."""


def listed(client):
    return {tool["name"]: tool for tool in client.request("tools/list")["result"]["tools"]}


@pytest.fixture(scope="module")
def lisp(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lisp")
    (folder / "workspace").mkdir()
    (folder / "workspace" / "core.clj").write_text("(ns core)\n")
    (folder / "workspace" / "x.ipynb").write_text("{}")
    with serving(folder, "--repl", "python") as live:
        with live.client() as client:
            client.call("evaluate_code", code="import codriver_seam; codriver_seam.install(True)")
        yield live


def test_each_tool_description_is_short():
    assert {tool.name: len(tool.description) for tool in MANIFEST if len(tool.description) > 420} == {}


def test_the_default_toolset_has_at_most_twelve_tools_without_an_application(lisp):
    folder = lisp.folder / "default"
    with tools_in_memory.serving(folder, settings={"toolset": "default"}) as live, live.client() as client:
        names = client.tools()
    assert len(DEFAULT) - len(APP_TOOLS) == 12
    assert names == [name for name in DEFAULT_TOOLSET if name in names], (
        "in the order in which they are most often needed"
    )
    assert not set(names) & APP_TOOLS


def test_the_description_of_evaluate_code_explains_the_agent_loop():
    """Some clients do not show their model the instructions."""
    description = BY_NAME["evaluate_code"].description
    assert all(word in description for word in ("one small form at a time", "get_evaluation", "twice"))


@pytest.mark.parametrize("tool", MANIFEST, ids=lambda tool: tool.name)
def test_schemas_omit_details_that_refusals_explain(tool):
    text = json.dumps(tool.schema)
    assert isinstance(tool.arguments, type)
    assert issubclass(tool.arguments, Arguments)
    if tool.schema["properties"]:
        assert "additionalProperties" not in text
    for word in ('"title"', '"null"', "$ref", "minimum", '"minLength"', '"default": null'):
        assert word not in text
    assert not re.search(r'"maxLength": \d', text), "the bound of a text; an argument may be called so"
    models = (tool.arguments, *tool.added)
    taken = {field.alias for model in models for field in model.model_fields.values()}
    # The description of the first tool states once that every tool accepts `detail` and `who`.
    unlisted = taken - set(tool.schema["properties"])
    assert set(tool.schema["properties"]) <= taken
    unlisted -= TOLD_ELSEWHERE.get(tool.name, set())
    assert unlisted <= {"detail", "who"}


GIVEN = {
    "code": "1", "filePath": "x.lpy", "evaluationId": "x", "text": "x", "symbol": "x", "prefix": "x", "cell": "0",
    "what": "reset", "function": "x", "about": "sessions", "address": "localhost:1",
    "candidates": [{"label": "a", "edits": [{"type": "create", "filePath": "x.lpy", "content": ""}]}],
    "query": "[:find ?e :where [?e :output/line 1]]", "edits": [{"type": "create", "filePath": "x.lpy", "content": ""}],
}  # fmt: skip


def test_every_tool_accepts_the_who_argument_and_refuses_an_empty_name(lisp):
    with lisp.client() as client:
        requested = {tool.name: {name: GIVEN[name] for name in tool.schema.get("required", ())} for tool in MANIFEST}
        reasons = {name: client.call(name, who="UI", **requested[name]).get("reason") for name in listed(client)}
    assert reasons == dict.fromkeys(reasons, "bad-who")
    assert set(reasons) == set(BY_NAME) - NEEDING_OTHERS


def test_every_tool_has_the_expected_annotations(lisp):
    with lisp.client() as client:
        tools = listed(client)
    for name, tool in tools.items():
        hints = {key: value for key, value in tool["annotations"].items() if key.endswith("Hint")}
        assert hints == {
            "readOnlyHint": name in READS,
            "destructiveHint": name not in READS | ADDS,
            "idempotentHint": name in READS - TELLS_ONCE,
            "openWorldHint": name in RUNS_CODE | ASKS_THE_NETWORK,
        }, name
    assert set(tools) == set(BY_NAME) - NEEDING_OTHERS


def test_no_tool_that_evaluates_code_is_idempotent():
    assert {tool.name for tool in MANIFEST if tool.open_world and tool.idempotent} <= ASKS_THE_NETWORK
    assert {tool.name for tool in MANIFEST if tool.idempotent and not tool.read_only} == set()


def test_a_client_with_tool_search_sees_the_core_tools_and_can_find_the_others(lisp):
    with lisp.client() as client:
        about = {name: tool["_meta"] for name, tool in listed(client).items()}
    assert {name for name, meta in about.items() if meta.get("anthropic/alwaysLoad")} == CORE | {"edit_files"}
    for name in set(about) - CORE - {"edit_files"}:
        assert about[name].keys() == {"anthropic/searchHint"}
        assert 8 < len(about[name]["anthropic/searchHint"]) < 60


def test_language_tools_are_listed_if_the_workspace_has_a_file_of_the_language(lisp):
    with lisp.client() as client:
        assert set(listed(client)) >= LISP_TOOLS
        assert "toLine" in json.dumps(listed(client)["edit_files"])


def test_language_tools_are_listed_after_the_first_file_appears_but_can_be_called_before(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        until(lambda: "run_tests" in client.tools(), "the REPL's tools")
        assert not {"Lisp", "toLine"} & set(re.findall(r"\w+", json.dumps(listed(client)["edit_files"])))
        assert not LISP_TOOLS & set(client.tools())
        assert set(client.tools()) >= EDIT_TOOLS, "which change Python too"
        edit = {"type": "create", "filePath": "src/core.clj", "content": "(ns core)\n"}
        client.notifications.clear()
        assert client.call("edit_files", edits=[edit])["ok"]
        client.await_notification(CHANGED)
        until(lambda: LISP_TOOLS.issubset(client.tools()), "the tools of Lisp")


def test_language_tools_appear_with_a_repl_of_the_language(tmp_path):
    with tools_in_memory.serving(tmp_path) as live, live.client() as client:
        assert set(client.tools()) >= LISP_TOOLS


@pytest.mark.parametrize("name", ["codex-mcp-client", "a client that nobody knows"])
def test_a_client_that_may_list_tools_only_once_sees_the_tools_of_every_possible_repl(tmp_path, name):
    with tools_in_memory.serving(tmp_path, has_repl=False) as live:
        with live.client(name=name) as client:
            elsewhere = LISP_TOOLS | EDIT_TOOLS | NOTEBOOK_TOOLS | APP_TOOLS | {"macroexpand", "try_code"}
            assert set(client.tools()) == set(BY_NAME) - elsewhere
            refused = client.call("symbol_info", symbol="map")
            assert (refused["ok"], refused["reason"]) == (False, "capability-missing")
            assert "start one" in refused["hint"]
        with live.client(name="opencode") as other:
            assert "symbol_info" not in other.tools()


def test_the_first_tool_list_waits_for_the_workspace_scan(tmp_path):
    folder = Path(tmp_path) / "workspace" / "a" / "b" / "c" / "d" / "e"
    folder.mkdir(parents=True)
    (folder / "deep.lpy").write_text("(ns deep)\n")
    with tools_in_memory.serving(tmp_path, has_repl=False) as live, live.client() as client:
        assert set(client.tools()) >= LISP_TOOLS | EDIT_TOOLS


def test_a_restart_removes_no_tool_and_notifies_no_client(live):
    with live.client() as client:
        # Tools are listed before the REPL is connected, so only an evaluation shows that it is.
        assert client.call("evaluate_code", code="1", timeoutMs=60_000)["ok"]
        before = client.tools()
        client.notifications.clear()
        assert client.call("restart_repl")["phase"] == "connected"
        assert client.tools() == before
        evaluated = client.call("evaluate_code", code="import os; os.getpid()")
        os.kill(int(evaluated["result"]), signal.SIGTERM)
        killed = evaluated["generation"]
        until(lambda: client.call("list_sessions")["sessions"][0]["generation"] > killed, "the REPL to be back")
        assert client.tools() == before
        assert [message for message in client.notifications if message["method"] == CHANGED] == []


def test_sessions_are_listed_briefly_unless_a_program_requests_all_capabilities(tmp_path):
    with serving(tmp_path, "--repl", "python") as live:
        with live.client() as client:
            until(lambda: "interrupt_evaluation" in client.tools(), "the REPL")
            client.call("evaluate_code", code="1")
            answer = client.request("tools/call", {"name": "list_sessions", "arguments": {}})["result"]
            reported = answer["content"][0]["text"].replace(str(live.workspace), "/w")
            assert len(reported) <= 160
            [row] = json.loads(reported)["sessions"]
            assert row.keys() == {"key", "phase", "dialect", "generation", "ns", "versions"}
        [whole] = json.loads(live.run("call", "list_sessions").stdout)["sessions"]
        assert whole["capabilities"]["test"] == {"support": "adapted", "op": "eval"}
        assert {"evaluate", "interrupt"} <= set(whole["capabilities"])
        assert "macroexpand" in whole["missing"]


NO_SCHEMA_OF_THEIRS = {"inspect_app.filter", "watch_app.filter"}
"""Conditions whose names are those of an application's events."""


def free_objects(schema, path):
    """Return the paths of objects without named members in a schema: a client that makes schemas strict cannot send
    any.
    """
    if schema.get("type") == "object" and not schema.get("properties") and "additionalProperties" not in schema:
        yield path
    for name, member in schema.get("properties", {}).items():
        yield from free_objects(member, f"{path}.{name}")
    if "items" in schema:
        yield from free_objects(schema["items"], f"{path}[]")


def test_every_object_argument_has_named_properties_for_strict_schemas():
    found = {path for tool in MANIFEST for path in free_objects(tool.schema, tool.name)}
    assert found == NO_SCHEMA_OF_THEIRS


def test_environment_variables_of_a_test_run_are_accepted_in_both_forms():
    arguments: Any = BY_NAME["run_tests"].arguments
    for env in ({"A": "1=2", "B": ""}, ["A=1=2", "B="]):
        assert arguments.model_validate({"env": env}).env == {"A": "1=2", "B": ""}
    with pytest.raises(ValidationError):
        arguments.model_validate({"env": ["=A"]})
