"""Each tool is called once through a server in its own process, with REPLs in others.

Most tests of a single tool use a server in the test process instead (`tools_in_memory`).
"""

import json
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from all_tools import BY_NAME
from jsonschema import validate
from live_server import serving, user_settings_file
from real_kernels import kernel
from real_repls import repl

ENTRY = {"ns": "clojure.core", "name": "map", "type": "function", "doc": "Maps.", "examples": None, "see-alsos": None,
         "notes": None, "href": "/clojure.core/map"}  # fmt: skip
APP = """
import codriver_seam as seam
seam.install(True)
state = {"count": 1}
def put(value):
    global state
    state = value
seam.frame("shop", lambda: state, put, dispatch=lambda event: put({"count": event[1]}), snapshot="none")
"""
CELL = {"cell_type": "code", "execution_count": None, "id": "a1", "metadata": {}, "outputs": [], "source": "6 * 7"}
BOOK = {"cells": [CELL], "metadata": {"kernelspec": {"name": "python3"}}, "nbformat": 4, "nbformat_minor": 5}


class Cases:
    """One case for each tool, by its name."""

    def __init__(self, live, client):
        self.live, self.client = live, client

    def call(self, tool, **arguments):
        answer = self.client.call(tool, **arguments)
        validate(answer, BY_NAME[tool].output)
        assert answer["ok"], answer
        return answer

    def file(self, name, text):
        (self.live.workspace / name).write_text(text)
        return name

    def python(self, code, **more):
        return self.call("evaluate_code", code=code, replSessionKey="py", **more)

    def evaluate_code(self):
        assert self.python("print('hi')\n6 * 7")["result"] == "42"

    def get_evaluation(self):
        identity = self.python("print('kept')")["evaluationId"]
        assert self.call("get_evaluation", evaluationId=identity, part="stdout")["text"] == "kept\n"

    def status(self):
        assert {"py", "lpy", "jup"} <= {row["key"] for row in self.call("status", about="sessions")["sessions"]}
        self.python("'for the activity'")
        assert self.call("status", about="activity", by="me")["events"][0]["result"] == "'for the activity'"

    def connect_repl(self):
        (basilisp,) = [row for row in self.call("list_sessions")["sessions"] if row["key"] == "lpy"]
        assert self.call("connect_repl", address=basilisp["address"])["sessionKey"] == "lpy"

    def interrupt_evaluation(self):
        running = self.python("import time\nwhile True: time.sleep(0.01)", timeoutMs=100)
        ended = self.call("interrupt_evaluation", evaluationId=running["evaluationId"])
        assert ended["status"] == "interrupted"

    def send_input(self):
        asking = self.python("input()")
        assert self.call("send_input", evaluationId=asking["evaluationId"], text="tea")["result"] == "'tea'"

    def load_file(self):
        name = self.file("loaded.py", "print('loaded')\n")
        assert self.call("load_file", filePath=name, replSessionKey="py")["stdout"] == "loaded\n"

    def run_tests(self):
        tested = self.file("test_served.py", "def test_it(): assert 6 * 7 == 42\n")
        assert self.call("run_tests", namespace=tested, replSessionKey="py")["passed"] == 1

    def symbol_info(self):
        assert "number of items" in self.call("symbol_info", symbol="len", replSessionKey="py")["doc"]

    def complete_symbol(self):
        found = self.call("complete_symbol", prefix="enumer", replSessionKey="py")["completions"]
        assert [item["candidate"] for item in found] == ["enumerate"]

    def macroexpand(self):
        answer = self.call("macroexpand", code="(when 1 2)", replSessionKey="lpy")
        assert answer["expansion"].startswith("(if 1")

    def clojuredocs_info(self):
        answer = self.call("clojuredocs_info", symbol="clojure.core/map")
        assert (answer["doc"], answer["source"]) == ("Maps.", "export")

    def stacktrace(self):
        self.client.call("evaluate_code", code="1 / 0", replSessionKey="py")
        assert self.call("stacktrace", replSessionKey="py")["class"] == "ZeroDivisionError"

    def what_changed(self):
        name = self.file("changing.py", "rate = 1\n")
        self.call("load_file", filePath=name, replSessionKey="py")
        self.file("changing.py", "rate = 2\n")
        assert "rate" in json.dumps(self.call("what_changed", replSessionKey="py"))

    def list_sessions(self):
        rows = self.call("list_sessions")["sessions"]
        assert [row["phase"] for row in rows] == ["connected"] * 3

    def server_health(self):
        assert self.call("server_health")["pid"] == self.live.process.pid

    def restart_repl(self):
        assert self.call("restart_repl", replSessionKey="py", timeoutMs=60_000)["phase"] == "connected"

    def repl_output_log(self):
        self.python("'logged'")
        assert "'logged'" in [row["text"] for row in self.call("repl_output_log", limit=5)["result"]]

    def wait_for(self):
        line = self.call("repl_output_log", limit=1)["lastLine"] or 0
        self.python("'awaited'")
        query = "[:find ?e :where [?e :output/text \"'awaited'\"]]"
        assert self.call("wait_for", query=query, since=line, timeoutMs=60_000)["status"] == "found"

    def balance_brackets(self):
        assert self.call("balance_brackets", text="(+ 1 2")["balancedText"] == "(+ 1 2)"

    def edit_files(self):
        made = {"type": "create", "filePath": "made.py", "content": "made = 1\n"}
        assert self.call("edit_files", edits=[made])["files"][0]["applied"]
        assert (self.live.workspace / "made.py").read_text() == "made = 1\n"
        self.client.call("undo_edit")

    def undo_edit(self):
        self.call("edit_files", edits=[{"type": "create", "filePath": "undone.py", "content": "a = 1\n"}])
        assert self.call("undo_edit")["files"][0]["applied"]
        assert not (self.live.workspace / "undone.py").exists()

    def try_code(self):
        missing = {"filePath": "not_there.py", "oldText": "a", "newText": "b"}
        tried = self.call("try_code", candidates=[{"label": "a", "edits": [missing]}])
        assert [(item["label"], item["outcome"]) for item in tried["candidates"]] == [("a", "failed")]

    def _shows_an_application(self):
        self.python(APP)

    def inspect_app(self):
        self._shows_an_application()
        assert self.call("inspect_app", what="state", path="count", replSessionKey="py")["value"] == "1"

    def change_app(self):
        self._shows_an_application()
        self.call("change_app", what="dispatch", event="['put', 3]", sync=True, replSessionKey="py")
        assert self.python("state")["result"] == "{'count': 3}"

    def watch_calls(self):
        self.python("def watched(n): return n")
        name = {"function": "watched", "replSessionKey": "py"}
        if sys.version_info < (3, 12):
            assert self.client.call("watch_calls", **name)["reason"] == "capability-missing"
            return
        assert self.call("watch_calls", **name)["at"]
        assert self.call("watch_calls", limit=0, **name)["existed"]

    def watch_app(self):
        self._shows_an_application()
        watch = self.call("watch_app", topic="error", replSessionKey="py")["subId"]
        assert self.call("watch_app", stop=watch, replSessionKey="py")["existed"]

    def list_cells(self):
        assert self.call("list_cells", filePath=self.file("listed.ipynb", json.dumps(BOOK)))["count"] == 1

    def run_cell(self):
        name = self.file("run.ipynb", json.dumps(BOOK))
        assert self.call("run_cell", filePath=name, cell="a1", replSessionKey="jup")["result"] == "42"


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """Return the address of a ClojureDocs export in the public format."""
    folder = tmp_path_factory.mktemp("export")
    (folder / "export.json").write_text(json.dumps({"created-at": 1, "vars": [ENTRY]}))
    site = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=folder))
    thread = threading.Thread(target=site.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{site.server_port}/export.json"
    site.shutdown()
    thread.join()
    site.server_close()


@pytest.fixture(scope="module")
def live(tmp_path_factory, export):
    folder = tmp_path_factory.mktemp("served")
    user_settings_file(folder).write_text(f"clojuredocsUrl = {json.dumps(export)}\n")
    (folder / "workspace").mkdir()
    (folder / "workspace" / "core.clj").write_text("(ns core)\n")
    others = ("--nrepl", f"lpy={repl('basilisp').endpoint}", "--kernel", f"jup={kernel('ipykernel').file}")
    with serving(folder, "--repl", "python", *others) as running:
        yield running


def test_every_tool_has_a_test_case_on_a_real_server():
    assert [tool for tool in BY_NAME if not hasattr(Cases, tool)] == [], "add one to `Cases`"


@pytest.mark.parametrize("tool", BY_NAME)
def test_each_tool_works_through_a_server_in_another_process(live, client, tool):
    getattr(Cases(live, client), tool)()
