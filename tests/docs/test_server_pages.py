"""The contributor page: following its steps adds a working tool, feature or REPL."""

import contextlib
import dataclasses
import json
import os
import re
import shutil
import socketserver
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from live_server import environ, until

from codriver.feature import Feature
from codriver.repls.contract.evaluation_extensions import AdapterHooks
from codriver.server_hooks import ServerHooks
from codriver.tools.calls.call import CallHooks

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
COMMAND_S = 120


def block(name):
    return re.search(rf"<!-- {name} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)[1]


class Copy:
    """A copy of the server to add something to, and its commands in a workspace without a REPL."""

    def __init__(self, folder):
        self.folder = folder
        self.codriver = folder / "server" / "codriver"
        self.workspace = folder / "workspace"
        shutil.copytree(ROOT / "server" / "codriver", self.codriver)  # with what is compiled
        for name in ("skills", "wrapper-config"):
            shutil.copytree(ROOT / name, folder / name)
        self.workspace.mkdir()

    def insert(self, file, line, before):
        text = (self.codriver / file).read_text()
        assert before in text
        (self.codriver / file).write_text(text.replace(before, line + before, 1))

    def run(self, *words, repl="none"):
        path = f"{self.codriver.parent}{os.pathsep}{ROOT / 'relay'}"
        command = [sys.executable, "-m", "codriver", *words, "--workspace", str(self.workspace)]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=COMMAND_S, check=False,
                              env={**environ(self.folder), "PYTHONPATH": path,
                                   "CODRIVER_MCP_SOCKET_SERVER_PORT": "0", "CODRIVER_REPL": repl})  # fmt: skip


@pytest.fixture
def copy(tmp_path):
    made = Copy(tmp_path)
    yield made
    made.run("stop")


def test_the_example_tool_on_the_page_is_listed_and_can_be_called(copy):
    (copy.codriver / "tools" / "count_words.py").write_text(block("tool-file"))
    imported, listed = block("tool-lines").splitlines(keepends=True)
    copy.insert("tools/manifest.py", imported, before="    edit_files,\n")
    copy.insert("tools/manifest.py", listed, before="    edit_files.TOOL,\n")
    copy.insert("tools/manifest.py", block("tool-usual"), before='    "run_tests",\n')
    called = copy.run("call", "--start", "count_words", '{"text": "how many words"}')
    assert json.loads(called.stdout)["count"] == 3, called.stderr
    assert "count_words" in copy.run("tools").stdout


def test_the_example_feature_adds_an_argument_and_a_tool_and_can_be_removed(copy):
    package, listed = copy.codriver / "features" / "labels", copy.codriver / "app" / "features.py"
    package.mkdir()
    (package / "__init__.py").write_text(block("feature-declaration"))
    (package / "hooks.py").write_text(block("feature-hooks"))
    without = listed.read_text()
    listed.write_text(without.replace('"try_code"', '"try_code", "labels"', 1))
    arguments = json.dumps({"code": "1 + 1", "label": "first", "timeoutMs": 60_000})
    answer = json.loads(copy.run("call", "--start", "evaluate_code", arguments, repl="python").stdout)
    assert (answer["result"], answer["label"]) == ("2", "first")
    listed_labels = json.loads(copy.run("call", "list_labels", "{}").stdout)
    assert listed_labels["labels"] == [{"evaluationId": answer["evaluationId"], "label": "first"}]
    assert listed_labels["evaluated"] == {"py": 1}
    copy.run("stop")
    listed.write_text(without)
    shutil.rmtree(package)
    refused = json.loads(copy.run("call", "--start", "evaluate_code", arguments, repl="python").stdout)
    assert refused["reason"] == "bad-arguments"


@pytest.mark.parametrize("kind", [Feature, ServerHooks, CallHooks, AdapterHooks], ids=lambda kind: kind.__name__)
def test_the_page_lists_every_hook(kind):
    table = re.search(rf"^\| `{kind.__name__}` \|.*?\n\n", PAGE, re.MULTILINE | re.DOTALL)[0]
    named = {name for row in table.strip().splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named == {field.name for field in dataclasses.fields(kind)} - {"name"}


@contextlib.contextmanager
def shouting():
    """Run a REPL that answers each line in capitals, and return its port."""

    class Shout(socketserver.StreamRequestHandler):
        def handle(self):
            for line in self.rfile:
                self.wfile.write(line.upper())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Shout) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def test_the_example_repl_on_the_page_is_found_and_evaluates_code(copy):
    package = copy.codriver / "repls" / "shout"
    package.mkdir()
    (package / "__init__.py").write_text(block("repl-adapter"))
    copy.insert("repls/kinds.py", block("repl-row"), before="    PYTHON_KIND,\n")
    imported, listed = block("repl-lines").splitlines(keepends=True)
    copy.insert("app/wiring.py", imported, before="from codriver.repls.nrepl.nrepl_adapter import connect_nrepl\n")
    copy.insert("app/wiring.py", listed, before="        NREPL_PROTOCOL: partial(connect_nrepl,")
    with shouting() as port:
        (copy.workspace / ".shout-port").write_text(str(port))
        assert copy.run("call", "--start", "list_sessions", "{}").returncode == 0

        def session():
            (row,) = json.loads(copy.run("call", "list_sessions", "{}").stdout)["sessions"]
            return row["phase"] == "connected" and row

        row = until(session, "its REPL")
        assert (row["key"], row["address"]) == ("shout", f"shout://127.0.0.1:{port}")
        answer = json.loads(copy.run("call", "evaluate_code", '{"code": "louder", "who": "me"}').stdout)
        assert (answer["status"], answer["result"]) == ("done", "LOUDER")
        offered = copy.run("tools").stdout
        assert "evaluate_code" in offered
        assert "complete_symbol" not in offered, "its profile does not name it"
