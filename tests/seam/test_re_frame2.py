"""An application of re-frame 2 on the JVM, end to end, through the framework's own functions.

The framework is not part of this repository. A stand-in with its names runs everywhere. If CODRIVER_RE_FRAME2 names a
checkout of day8/re-frame2, the real one is tested too.
"""

import contextlib
import json
import os
import shutil
from pathlib import Path

import pytest
import real_repls
from live_server import serving, until_connected

FRAMEWORKS = Path(__file__).parent / "frameworks"
APP_TOOLS = {"inspect_app", "change_app"}
CHECKOUT = os.environ.get("CODRIVER_RE_FRAME2")
PARTS = ("core", "epoch", "machines", "schemas")
BEGIN = """
(require '[re-frame.core :as rf] 're-frame.trace.tooling 're-frame.epoch '[re-frame.substrate.plain-atom :as plain])
(rf/init! plain/adapter)
(load-file "depot.clj")
(rf/dispatch-sync [:depot/open])
(rf/add-marks :rf/default {[:keeper :badge] :sensitive})
"""


@contextlib.contextmanager
def _attached(name, folder):
    with contextlib.ExitStack() as stack:
        found = stack.enter_context(real_repls.fresh(name))
        for file in FRAMEWORKS.iterdir():
            shutil.copy(file, found.folder)
        live = stack.enter_context(serving(folder, "--nrepl", found.address, "--repl", "none"))
        client = stack.enter_context(live.client())
        until_connected(client)
        yield client, found.folder


@pytest.fixture(scope="module")
def attached(tmp_path_factory):
    """Return a client of a server with a JVM, and the directory in which it runs."""
    with _attached("jvm", tmp_path_factory.mktemp("toy")) as both:
        yield both


@pytest.fixture(scope="module")
def toy(attached):
    """Return a client of the server with the stand-in loaded."""
    client, folder = attached
    assert not APP_TOOLS & set(client.tools())
    load = f'(load-file "{folder.as_posix()}/toy_as_re_frame2.clj")'
    assert client.call("evaluate_code", code=load)["ok"]
    return client


def test_a_framework_loaded_by_code_is_found_by_its_functions(toy):
    assert set(toy.tools()) >= APP_TOOLS
    [row] = toy.call("list_sessions")["sessions"]
    assert row["seam"]["provider"] == "re-frame2"
    health = toy.call("inspect_app")
    assert health == toy.call("inspect_app")
    assert health["frames"] == [":rf/causa", ":toy/main"]
    assert {name for name, words in health["bands"].items() if words is not True} == {"stream", "machines"}


def test_a_change_reports_its_effect_and_its_evaluation_finds_its_events(toy):
    answer = toy.call("change_app", what="dispatch", event="[:add 3]", sync=True, who="ann")
    assert answer["changes"] == ["changed [:n]: 0 -> 3"]
    lines = toy.call("inspect_app", what="trace", filter={"origin": answer["evaluationId"]})["lines"]
    assert len(lines) == 2
    assert all(f" by=ann/{answer['evaluationId']}" in line for line in lines)
    assert toy.call("inspect_app", what="diff")["lines"] == answer["changes"]
    [line] = toy.call("inspect_app", what="epochs", path="n")["lines"]
    assert line.endswith(f" by=ann/{answer['evaluationId']} changed [:n]: 0 -> 3")


def test_a_swallowed_failure_is_reported_and_the_state_is_unchanged(toy):
    before = toy.call("inspect_app", what="state", path="n")["value"]
    answer = toy.call("change_app", what="dispatch", event="[:spill]", sync=True)
    assert (answer["ok"], answer["reason"]) == (False, "handler-failed")
    assert "at other.cljc:9" in answer["hint"]
    assert toy.call("inspect_app", what="state", path="n")["value"] == before
    assert "no <redacted>" in toy.call("inspect_app", what="issues")["lines"][-1]


def test_queries_in_a_namespace_without_clojure_core_work_and_change_nothing(toy):
    assert toy.call("evaluate_code", code="(ns bare (:refer-clojure :only [ns]))")["ok"]
    assert toy.call("change_app", what="dispatch", event="[:add 1]", sync=True)["ok"]
    assert toy.call("evaluate_code", code="(clojure.core/in-ns 'user)")["ok"]


def test_handlers_are_listed_with_their_locations_if_known(toy):
    lines = toy.call("inspect_app", what="handlers")["lines"]
    assert lines == ["event add toy.cljc:7: Add.", "event fail other.cljc:9", "event spill", "sub n toy.cljc:8"]


def test_values_declared_sensitive_are_never_sent(toy):
    assert toy.call("inspect_app", what="state", path="[:user :token]")["value"] == ":codriver/redacted"
    for what in ("state", "epochs", "diff", "trace", "issues"):
        assert "token-of-ada" not in json.dumps(toy.call("inspect_app", what=what))


def _real():
    sources = [Path(CHECKOUT, "implementation", part, "src") for part in PARTS]
    return real_repls.clojure("-m", "nrepl.cmdline", paths=sources)


@pytest.fixture(scope="module")
def depot(tmp_path_factory):
    """Return a client of a server with an application of the real framework."""
    if not CHECKOUT:
        pytest.skip("re-frame 2 is not part of this repository: name the folder of a checkout by CODRIVER_RE_FRAME2")
    real_repls.COMMANDS["re-frame2"] = _real
    with _attached("re-frame2", tmp_path_factory.mktemp("depot")) as (client, folder):
        begin = BEGIN.replace("depot.clj", f"{folder.as_posix()}/depot.clj")
        assert client.call("evaluate_code", code=begin, timeoutMs=200_000)["ok"]
        yield client


def test_the_real_framework_is_read_changed_and_undone(depot):
    health = depot.call("inspect_app")
    assert health["frames"] == [":rf/default"]
    assert {name for name, words in health["bands"].items() if words is not True} == {"stream", "machines"}
    answer = depot.call("change_app", what="dispatch", event="[:depot/take 2]", sync=True, who="ann")
    assert answer["changes"] == ["changed [:open]: 3 -> 1", "added [:counted]: 1"]
    assert depot.call("inspect_app", what="diff", epochId=answer["epochId"])["lines"] == answer["changes"]
    lines = depot.call("inspect_app", what="trace", filter={"origin": answer["evaluationId"]})["lines"]
    assert len(lines) > 5, "also what the event dispatched itself"
    restored = depot.call("change_app", what="restore", epochId=1)
    assert depot.call("inspect_app", what="state", path="open")["value"] == "3"
    assert depot.call("change_app", what="restore", epochId=restored["undoneBy"])["ok"]
    assert depot.call("inspect_app", what="state", path="open")["value"] == "1"


def test_failures_that_the_real_framework_swallows_are_reported_with_their_cause(depot):
    before = depot.call("inspect_app", what="state")["value"]
    for event in ("[:depot/lose]", "[:depot/spill]", "[:nobody]"):
        answer = depot.call("change_app", what="dispatch", event=event, sync=True)
        assert (answer["ok"], answer["reason"]) == (False, "handler-failed"), event
        assert depot.call("inspect_app", what="state")["value"] == before
    assert depot.call("change_app", what="restore", epochId=999)["reason"] == "unknown-epoch"
    lines = depot.call("inspect_app", what="issues")["lines"]
    assert sum("missing-doc" in line for line in lines) == 1
    assert "badge-of-ada" not in json.dumps(
        [depot.call("inspect_app", what=what) for what in ("trace", "epochs", "state")]
    )
