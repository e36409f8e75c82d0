"""Compatibility with Backseat Driver: its tool names are accepted, although none of them is listed."""

import json
import re
import socket
from pathlib import Path

import pytest
from live_server import WAIT_S, Bare, until
from tools_in_memory import serving

from codriver.tools.manifest import ARGUMENT_NAMES, BASE_TOOLS, IGNORED_ARGUMENTS, SKILL_NAMES, translate_uri

NAMES = {other: tool.name for tool in BASE_TOOLS for other in tool.other_names}
OURS = {
    "clojure_evaluate_code": "evaluate_code",
    "clojure_load_file": "load_file",
    "clojure_edit_files": "edit_files",
    "clojure_balance_brackets": "balance_brackets",
    "clojure_repl_output_log": "repl_output_log",
    "clojure_symbol_info": "symbol_info",
    "clojure_list_sessions": "list_sessions",
}
"""Source: Backseat Driver's `tools/list`."""
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "migrate-from-backseat-driver.md"


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("backseat")
    (folder / "workspace").mkdir()
    (folder / "workspace" / "core.clj").write_text("(ns core)\n")
    with serving(folder) as live:
        yield live


@pytest.fixture
def client(live):
    with live.client() as client:
        yield client


def text_at(client, uri):
    return client.request("resources/read", {"uri": uri})["result"]["contents"][0]["text"]


def test_every_backseat_driver_name_maps_to_a_tool_and_none_is_listed(client):
    assert NAMES == OURS
    assert not {name for name in client.tools() if name.startswith("clojure_")}


def test_code_can_be_evaluated_by_the_backseat_driver_name(client):
    session = {"replSessionKey": "mem", "who": "old-hand", "targetRuntimeId": 1}
    answer = client.call("clojure_evaluate_code", code="(+ 40 2)", description="Multiply.", **session)
    assert answer["result"] == "42"


def test_sessions_are_listed_with_any_runtime_options(client):
    assert client.call("clojure_list_sessions", includeAllRuntimes=True)["count"] == 1


def test_symbol_info_accepts_the_backseat_driver_arguments(client):
    requested = {"namespace": "user", "replSessionKey": "mem"}
    ours = client.call("symbol_info", symbol="map", **requested)
    assert client.call("clojure_symbol_info", clojureSymbol="map", **requested) == ours
    assert ours["ok"]


def test_files_are_loaded_edited_and_balanced_by_backseat_driver_names(client, live):
    (live.workspace / "shop.clj").write_text("(def total 42)\n")
    assert client.call("clojure_load_file", filePath="shop.clj", replSessionKey="mem", who="old-hand")["ok"]
    edit = {"type": "append", "filePath": "core.clj", "code": "(def a 1)"}
    assert client.call("clojure_edit_files", edits=[edit])["ok"]
    assert client.call("clojure_balance_brackets", text="(+ 1 2")["balancedText"] == "(+ 1 2)"


def test_the_log_can_be_queried_under_its_backseat_driver_name(client):
    query = "[:find (count ?e) . :where [?e :output/line _]]"
    assert client.call("clojure_repl_output_log", query=query)["result"] > 0


def test_unknown_backseat_driver_arguments_are_refused(client):
    refused = client.call("symbol_info", clojureSymbol="map")
    assert refused["reason"] == "bad-arguments"
    refused = client.call("clojure_symbol_info", clojureSymbol="map", colour="red")
    assert refused["reason"] == "bad-arguments"


@pytest.mark.parametrize(("theirs", "ours"), SKILL_NAMES.items())
def test_backseat_driver_skills_map_to_codriver_skills(client, theirs, ours):
    text = text_at(client, f"skill://{ours}/SKILL.md")
    assert text_at(client, f"skill://{theirs}") == text
    assert text_at(client, f"skill://{theirs}/SKILL.md") == text
    assert text_at(client, f"/skills/{theirs}/SKILL.md") == text


def test_a_workspace_skill_named_backseat_driver_is_not_hidden(tmp_path):
    skill = tmp_path / "workspace" / ".codriver" / "skills" / "backseat-driver" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: backseat-driver\ndescription: Ours.\n---\nours\n")
    with serving(tmp_path, has_repl=False) as live:
        (live.workspace / "codriver.toml").write_text('skillSources = ["workspace"]\n')
        assert live.run("trust").returncode == 0
        with live.client() as client:
            until(
                lambda: text_at(client, "skill://backseat-driver/SKILL.md").endswith("ours\n"),
                "the workspace's own skill",
            )


def test_a_symbol_can_be_read_at_its_backseat_driver_address(client):
    reported = json.loads(text_at(client, "/symbol-info/map@mem@user"))
    assert reported["name"] == "map"


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("/symbol-info/clojure.core/map@clj@user", "codriver://symbol/clj/user/clojure.core%2Fmap"),
        ("/symbol-info/a%2Fb@clj@user", "codriver://symbol/clj/user/a%2Fb"),
        ("/plain/clojure.core/map", "codriver://plain/clojure.core%2Fmap"),
        ("/skills/backseat-driver/references/output-log-queries.md", "skill://live-repl/REFERENCE.md"),
        ("skill://live-repl/SKILL.md", "skill://live-repl/SKILL.md"),
        ("codriver://log", "codriver://log"),
        ("/symbol-info/map", "/symbol-info/map"),
        ("/plain/", "/plain/"),
        ("/other/map", "/other/map"),
        ("/", "/"),
        ("", ""),
    ],
)
def test_backseat_driver_addresses_map_to_codriver_resources(theirs, ours):
    assert translate_uri(theirs, {"plain"}) == ours


@pytest.mark.parametrize("params", ["", ',"params":{}'])
def test_a_client_without_client_info_is_accepted(live, params):
    with Bare(socket.create_connection(("127.0.0.1", live.port), timeout=WAIT_S), handshake=False) as bare:
        bare.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize"%s}\n' % params.encode())
        assert bare.answer(1)["result"]["serverInfo"]["name"] == "codriver"
        bare.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        answer = bare.call("clojure_evaluate_code", code="(+ 1 1)", replSessionKey="mem", detail=True)
        assert (answer["result"], answer["who"]) == ("2", "mcp-client")


def test_the_migration_page_lists_every_old_and_new_name():
    rows = dict(re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", PAGE.read_text(), re.MULTILINE))
    known = {
        **NAMES,
        **ARGUMENT_NAMES,
        **{f"skill://{old}": translate_uri(f"skill://{old}") for old, new in SKILL_NAMES.items()},
    }
    assert {old: new for old, new in rows.items() if old in known} == known
    assert all(f"`{name}`" in PAGE.read_text() for name in IGNORED_ARGUMENTS)
