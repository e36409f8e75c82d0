"""ClojureDocs as a tool and a resource. Its export comes from a local HTTP server, in the shape of the public one."""

import contextlib
import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anyio
import posix_only
import pytest
from all_tools import BY_NAME
from jsonschema import validate
from live_server import until_connected
from real_repls import repl
from scripted_nrepl import OPS, scripted
from tools_in_memory import serving

from codriver.app.workspace_settings import load_workspace_settings
from codriver.features.clojuredocs.entries import CLOJUREDOCS_CAPABILITY, LookupEntry
from codriver.features.clojuredocs.lookup import clojuredocs_name
from codriver.features.clojuredocs.settings import MAX_AGE_DAYS_SETTING, URL_SETTING
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.repls.contract.evaluation_extensions import AdapterHooks
from codriver.repls.nrepl.nrepl_adapter import connect

HOOKS = AdapterHooks(capabilities=(CLOJUREDOCS_CAPABILITY,))
CIDER = json.loads((Path(__file__).parents[2] / "cases" / "cider_answers.json").read_text("utf-8"))


def var(namespace, name, **parts):
    return {
        "ns": namespace,
        "name": name,
        "type": "function",
        "examples": None,
        "see-alsos": None,
        "notes": None,
    } | parts


MAP = var(
    "clojure.core",
    "map",
    doc="Returns a lazy sequence …",
    href="/clojure.core/map",
    examples=[{"author": {"login": "a"}, "body": "(map inc [1 2])\t;;=> (2 3)\n"}, {"body": "(map é [])"}],
    notes=[{"body": "is lazy"}],
)
MAP["see-alsos"] = [{"to-var": {"ns": "clojure.core", "name": "mapv", "library-url": "x"}}]
VARS = [
    MAP,
    var("clojure.core", "/", href="/clojure.core/_fs"),
    var("clojure.core", "some?"),
    var("clojure.string", "join", doc="Joins."),
    var("clojure.string", "blank?"),
    var("clojure.set", "join"),
]


class Site:
    """An HTTP server that returns `body` and counts its requests."""

    def __init__(self):
        self.body = json.dumps({"created-at": 1, "vars": VARS}).encode()
        self.asked = 0
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                site.asked += 1
                if site.body is None:
                    self.send_error(503)
                    return
                self.send_response(200)
                self.end_headers()
                self.wfile.write(site.body)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/clojuredocs-export.json"


@pytest.fixture
def site():
    given = Site()
    thread = threading.Thread(target=given.server.serve_forever)
    thread.start()
    yield given
    given.server.shutdown()
    thread.join()
    given.server.server_close()


@contextlib.contextmanager
def asking(folder, url, *nrepl, name="opencode"):
    """Return a client of a server with these REPLs, whose ClojureDocs are at `url`."""
    settings, variables = {"clojuredocs_url": url, "nrepl": nrepl}, {"XDG_CACHE_HOME": str(folder / "cache")}
    with (
        serving(folder, has_repl=False, settings=settings, variables=variables) as live,
        live.client(name=name) as client,
    ):
        yield client


def look_up(client, symbol, **arguments):
    """Return the answer, which must match its output schema."""
    answer = client.call("clojuredocs_info", symbol=symbol, **arguments)
    validate(answer, BY_NAME["clojuredocs_info"].output)
    return answer


def cache_file(folder):
    return folder / "cache" / "codriver" / "clojuredocs.lines"


def test_an_entry_is_returned_whole_without_any_repl(tmp_path, site):
    with asking(tmp_path, site.url) as client:
        answer = look_up(client, "map")
        assert answer["examples"] == ["(map inc [1 2])\t;;=> (2 3)\n", "(map é [])"]
        assert (answer["name"], answer["ns"], answer["doc"]) == ("map", "clojure.core", "Returns a lazy sequence …")
        assert (answer["seeAlsos"], answer["notes"], answer["count"]) == (["clojure.core/mapv"], ["is lazy"], 2)
        assert (answer["source"], answer["url"]) == ("export", "https://clojuredocs.org/clojure.core/map")


@pytest.mark.parametrize(
    ("symbol", "found"),
    [
        ("clojure.string/join", "clojure.string/join"),
        ("/", "clojure.core//"),
        ("clojure.core//", "clojure.core//"),
        ("some?", "clojure.core/some?"),
        ("cljs.core/map", "clojure.core/map"),
        ("basilisp.string/blank?", "clojure.string/blank?"),
    ],
)
def test_a_symbol_is_found_in_any_spelling(symbol, found):
    assert clojuredocs_name(symbol) == found


def test_the_division_symbol_is_found_in_the_export(tmp_path, site):
    with asking(tmp_path, site.url) as client:
        assert look_up(client, "/")["url"] == "https://clojuredocs.org/clojure.core/_fs"


def test_an_entry_is_also_available_as_a_resource(tmp_path, site):
    with asking(tmp_path, site.url) as client:
        for symbol, encoded in (("clojure.core/map", "clojure.core%2Fmap"), ("/", "%2F")):
            answer = look_up(client, symbol)
            assert answer.pop("ok")
            read = client.request("resources/read", {"uri": f"codriver://clojuredocs/{encoded}"})
            assert json.loads(read["result"]["contents"][0]["text"]) == answer
        unknown = client.request("resources/read", {"uri": "codriver://clojuredocs/nothing"})
        assert unknown["error"]["code"] == -32002


def test_similar_symbols_are_suggested_for_an_unknown_symbol(tmp_path, site):
    with asking(tmp_path, site.url) as client:
        answer = look_up(client, "join")
        assert (answer["ok"], answer["reason"]) == (False, "unknown-symbol")
        assert answer["others"] == ["clojure.string/join", "clojure.set/join"]
        assert "symbol_info" in look_up(client, "no.such/thing")["hint"]


def test_the_export_is_downloaded_once_for_all_servers_and_again_when_old(tmp_path, site):
    with asking(tmp_path, site.url) as client:
        for symbol in ("map", "some?", "map"):
            assert look_up(client, symbol)["ok"]
    with asking(tmp_path, site.url) as client:
        assert look_up(client, "map")["ok"]
    assert site.asked == 1
    long_ago = time.time() - 31 * 86_400
    os.utime(cache_file(tmp_path), (long_ago, long_ago))
    site.body = json.dumps({"vars": [var("clojure.core", "map", doc="new")]}).encode()
    with asking(tmp_path, site.url) as client:
        assert look_up(client, "map")["doc"] == "new"
    assert site.asked == 2


def test_an_old_export_is_used_if_it_cannot_be_refreshed(tmp_path, site):
    with asking(tmp_path, site.url) as client:
        assert look_up(client, "map")["ok"]
    long_ago = time.time() - 40 * 86_400
    os.utime(cache_file(tmp_path), (long_ago, long_ago))
    site.body = None
    with asking(tmp_path, site.url) as client:
        answer = look_up(client, "map")
        assert answer["ok"]
        assert "40 days old" in answer["note"]
        assert "503" in answer["note"]
        assert look_up(client, "some?")["ok"]
    assert site.asked == 2, "a fetch that failed is not repeated at every question"


def test_the_error_says_what_to_do_without_a_network_connection(tmp_path, site):
    site.server.shutdown()
    site.server.server_close()
    with asking(tmp_path, site.url) as client:
        answer = look_up(client, "map")
        assert (answer["ok"], answer["reason"]) == (False, "docs-unavailable")
        assert "refused" in answer["message"]
        assert "symbol_info" in answer["hint"]


@pytest.mark.parametrize("url", ["none", "file:///etc/hosts"])
def test_an_invalid_address_is_not_requested(tmp_path, url):
    with asking(tmp_path, url) as client:
        assert look_up(client, "map")["reason"] == "docs-unavailable"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"vars": []}', b'{"vars": [{"ns": "a"}]}', b"\xff"])
def test_an_invalid_export_is_not_stored(tmp_path, site, body):
    site.body = body
    with asking(tmp_path, site.url) as client:
        assert look_up(client, "map")["reason"] == "docs-unavailable"
    assert not cache_file(tmp_path).exists()
    assert list(cache_file(tmp_path).parent.glob("*")) == []


def test_a_damaged_cache_file_is_downloaded_again(tmp_path, site):
    cache_file(tmp_path).parent.mkdir(parents=True)
    cache_file(tmp_path).write_bytes(b"\xff\xfe half a file")
    with asking(tmp_path, site.url) as client:
        assert look_up(client, "map")["ok"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_in_place_of_the_cache_file_is_reported_without_blocking(tmp_path, site):
    cache_file(tmp_path).parent.mkdir(parents=True)
    posix_only.make_pipe(cache_file(tmp_path))
    with asking(tmp_path, site.url) as client:
        answer = look_up(client, "clojure.core/map")
    assert answer["reason"] == "docs-unavailable"
    assert "the path is a pipe" in answer["message"]


def test_the_examples_omitted_from_a_long_entry_are_counted(tmp_path, site):
    site.body = json.dumps({"vars": [MAP | {"examples": [{"body": "é" * 40_000}] * 3}]}).encode()
    with asking(tmp_path, site.url) as client:
        answer = look_up(client, "map")
        assert sum(len(text.encode()) for text in answer["examples"]) <= 50 * 1024
        assert (answer["count"], answer["omitted"]) == (1, 3)


def test_the_backseat_driver_address_is_supported(tmp_path, site):
    with asking(tmp_path, site.url) as client:
        ours, theirs = (
            client.request("resources/read", {"uri": uri})["result"]["contents"][0]["text"]
            for uri in ("codriver://clojuredocs/clojure.core%2Fmap", "/clojuredocs/clojure.core/map")
        )
        assert ours == theirs
        assert BY_NAME["clojuredocs_info"].other_names == ("clojuredocs_info",)


def test_an_address_set_by_a_checkout_needs_the_users_permission(tmp_path, monkeypatch):
    for name in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    (tmp_path / "codriver.toml").write_text(
        'clojuredocsUrl = "http://192.0.2.1/export.json"\nclojuredocsMaxAgeDays = 1\n'
    )
    loaded = load_workspace_settings(tmp_path, environ={})
    assert [item.setting for item in loaded.withheld] == ["clojuredocsUrl"]
    assert loaded.settings.value_of(URL_SETTING) == URL_SETTING.default
    assert loaded.settings.value_of(MAX_AGE_DAYS_SETTING) == 1


@pytest.mark.anyio
async def test_a_cider_entry_is_parsed():
    answers = {"clojuredocs-lookup": CIDER["clojuredocs"]}
    async with (
        scripted(answers, ops=(*OPS, "clojuredocs-lookup")) as server,
        connect(server.endpoint, listener=lambda *_: None, hooks=HOOKS) as adapter,
    ):
        assert adapter.profile.capabilities[CLOJUREDOCS_CAPABILITY.name].op == "clojuredocs-lookup"
        entry = await adapter.query(LookupEntry(symbol="clojure.core/map"))
    assert entry.examples[0].startswith("(map inc [1 2 3 4 5])")
    assert [(seen["sym"], seen["ns"]) for seen in server.seen("clojuredocs-lookup")] == [("map", "clojure.core")]


@pytest.mark.anyio
async def test_a_repl_without_a_clojuredocs_operation_is_not_queried():
    async with (
        scripted({}) as server,
        connect(server.endpoint, listener=lambda *_: None, hooks=HOOKS) as adapter,
    ):
        with pytest.raises(CapabilityMissingError):
            await adapter.query(LookupEntry(symbol="clojure.core/map"))


@pytest.mark.anyio
async def test_a_session_without_a_clojuredocs_operation_is_listed_with_the_library_that_provides_it(tmp_path):
    def listed(address):
        with asking(tmp_path, "none", f"r={address}", name="codriver-test") as client:
            until_connected(client)
            return client.call("list_sessions")["sessions"]

    async with scripted({}) as repl_without:
        (row,) = await anyio.to_thread.run_sync(listed, repl_without.endpoint)
    assert "cider-nrepl" in row["missing"][CLOJUREDOCS_CAPABILITY.name]


@pytest.mark.anyio
async def test_a_repl_with_a_clojuredocs_operation_takes_precedence_over_the_export(tmp_path):
    entry = {"ns": "clojure.core", "name": "map", "examples": ["(map inc [1])"], "see-alsos": [], "notes": []}
    answers = {"clojuredocs-lookup": [{"clojuredocs": entry}, {"status": ["done"]}]}

    def look_up_at(address):
        with asking(tmp_path, "none", f"r={address}") as client:
            until_connected(client)
            return look_up(client, "map")

    async with scripted(answers, ops=(*OPS, "clojuredocs-lookup")) as repl_with_op:
        answer = await anyio.to_thread.run_sync(look_up_at, repl_with_op.endpoint)
    assert (answer["source"], answer["examples"]) == ("repl", ["(map inc [1])"])
    assert [(seen["ns"], seen["sym"]) for seen in repl_with_op.seen("clojuredocs-lookup")] == [("clojure.core", "map")]


def test_an_alias_is_resolved_by_the_repl(tmp_path, site):
    address = repl("jvm").endpoint
    with asking(tmp_path, site.url, f"clj={address}") as client:
        until_connected(client)
        assert client.call("evaluate_code", code="(require '[clojure.string :as s])")["ok"]
        answer = look_up(client, "s/join")
        assert (answer["ns"], answer["name"]) == ("clojure.string", "join")
