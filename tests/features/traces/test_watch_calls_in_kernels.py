"""Watches of functions in Jupyter kernels: how a kernel sends the calls, and what a kernel that cannot answers."""

import json
import subprocess

import pytest
import real_kernels
from live_server import serving, until_connected
from needs import interpreter

from codriver.features.jupyter.kernels.python_programs import call_expression, install_expression
from codriver.features.traces.call_watches import CALLS_FIELD, WATCH_OP

IPYTHON = """\
import json, sys, time, types
sent = []
class Session:
    def send(self, socket, kind, content, parent, ident):
        sent.append([socket, kind, content["text"], parent["id"]])
kernel = types.SimpleNamespace(session=Session(), iopub_socket="iopub", get_parent=lambda: {"id": "request"})
sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(kernel=kernel))
def total(prices):
    return sum(prices)
def wait_for_end():
    deadline = time.monotonic() + 60
    while sent[-1:] != [["iopub", "stream", "\\x1e", "request"]] and time.monotonic() < deadline:
        time.sleep(0.01)
"""
"""A program with as much of a kernel as a watch uses."""
WATCH = {"function": "total", "condition": "len(prices) > 1", "limit": 2}
TOOLS = "[sys.monitoring.get_tool(n) for n in range(6)]"


def run_program(folder, *lines):
    """Run lines in a process with Codriver's modules, and return the JSON that it prints, one value for each line."""
    file = folder / "kernel.py"
    file.write_text("\n".join([IPYTHON, f"assert ({install_expression()}) is None", *lines]))
    done = subprocess.run([interpreter("python3.12"), str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def call(client, **fields):
    """Return a line that calls the op for a client, whose process id is the value of an expression."""
    return f"print({call_expression(WATCH_OP, client=0, **fields).replace('client=0', f'client={client}')})"


def test_calls_are_sent_as_output_of_the_request_that_started_the_watch(tmp_path):
    started, sent, tools = run_program(
        tmp_path,
        call("1", watch="w", args=json.dumps(WATCH)),
        "total([1]), total([1, 2]), total([3, 4])",
        "wait_for_end()",
        "print(json.dumps(sent))",
        f"print(json.dumps({TOOLS}))",
    )
    assert json.loads(started["data"])["function"] == "total"
    assert all(message[0::3] == ["iopub", "request"] and message[2][0] == "\x1e" for message in sent)
    frames = [json.loads(json.loads(message[2][1:])[CALLS_FIELD]) for message in sent[:-1]]
    assert [row["result"] for frame in frames for row in frame["calls"]] == ["3", "7"]
    assert (frames[-1]["end"], sent[-1][2]) == ("limit", "\x1e")
    assert tools == [None] * 6


def test_a_watch_ends_when_the_process_of_its_server_has_ended(tmp_path):
    _, sent, tools = run_program(
        tmp_path,
        "import subprocess; server = subprocess.Popen(['sleep', '0.5'])",
        call("server.pid", watch="w", args=json.dumps(WATCH)),
        "server.wait(); wait_for_end()",
        "print(json.dumps(sent))",
        f"print(json.dumps({TOOLS}))",
    )
    assert json.loads(json.loads(sent[-2][2][1:])[CALLS_FIELD])["end"] == "disconnected"
    assert tools == [None] * 6


@pytest.mark.parametrize(("name", "message"), [("ipykernel", "Python 3.12 or later"), ("xpython", "needs ipykernel")])
def test_a_kernel_that_cannot_watch_calls_refuses_with_the_reason(name, message, tmp_path):
    file = str(real_kernels.kernel(name).file)
    with serving(tmp_path, "--kernel", file) as live, live.client() as client:
        (row,) = client.call("list_sessions")["sessions"]
        until_connected(client)
        code = "import sys; sys.version_info >= (3, 12)"
        version = client.call("evaluate_code", code=code, replSessionKey=row["key"])["result"]
        answer = client.call("watch_calls", function="json.dumps", replSessionKey=row["key"])
    if version == "True" and name == "ipykernel":
        assert answer["ok"], answer
    else:
        assert (answer["reason"], message in answer["message"]) == ("capability-missing", True), answer
