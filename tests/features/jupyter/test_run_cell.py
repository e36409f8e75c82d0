"""`run_cell`: a cell runs in the notebook's kernel and its outputs go into the file, with a REPL in memory."""

import json
import os
import shutil
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from all_tools import BY_NAME
from live_server import until
from tools_in_memory import serving

from codriver.core.state import Origin, Repl, State
from codriver.settings.model import Settings
from codriver.tools.calls.gate import why_unavailable

KERNELSPEC = {"kernelspec": {"name": "memory"}}


def code(source, **more):
    return {"cell_type": "code", "execution_count": None, "id": "c", "metadata": {}, "outputs": [], **more,
            "source": source}  # fmt: skip


def book(*cells):
    """Return a notebook's text in a layout that no other program uses."""
    text = json.dumps({"cells": cells, "metadata": KERNELSPEC, "nbformat": 4, "nbformat_minor": 5}, indent=3)
    return f"\ufeff{text.replace('nbformat_minor', chr(92) + 'u006ebformat_minor')}\n\n"


def cells_of(file):
    return json.loads(file.read_text(encoding="utf-8-sig"))["cells"]


def stream(text):
    return {"name": "stdout", "output_type": "stream", "text": [text]}


def value(text, count):
    return {"data": {"text/plain": [text]}, "execution_count": count, "metadata": {}, "output_type": "execute_result"}


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    """Return Jupyter's runtime directory."""
    return tmp_path_factory.mktemp("runtime")


@pytest.fixture(scope="module")
def live(tmp_path_factory, runtime):
    with serving(tmp_path_factory.mktemp("memory"), variables={"JUPYTER_RUNTIME_DIR": str(runtime)}) as running:
        running.workspace.joinpath("first.ipynb").write_text(book())
        yield running


@contextmanager
def jupyter_server(runtime, root, path):
    """Run a fake Jupyter Server of this directory that reports this notebook as open."""
    rows = [{"path": path, "kernel": {"id": "1-a", "name": "python3"}}]

    class Sessions(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(rows).encode())

        def log_message(self, *_words):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Sessions) as server:
        file = runtime / f"jpserver-{os.getpid()}.json"
        url = f"http://127.0.0.1:{server.server_port}/"
        file.write_text(json.dumps({"url": url, "root_dir": str(root), "pid": os.getpid(), "token": "s3cret"}))
        file.chmod(0o600)
        serving = Thread(target=server.serve_forever)
        serving.start()
        yield url
        file.unlink()
        server.shutdown()
        serving.join()


@pytest.fixture
def notebook(live, request):
    """Return the path of a notebook with a unique name."""
    return live.workspace / f"{request.node.originalname}.ipynb"


@pytest.fixture
def client(live):
    with live.client() as connected:
        until(lambda: "run_cell" in connected.tools(), "the kernel and the notebook")
        yield connected


def test_running_a_cell_writes_only_its_outputs_and_execution_count(client, notebook):
    before = [code(['(println "a")'], id="a1"), code("2", id="b2")]
    notebook.write_text(book(*before))
    answer = client.call("run_cell", filePath=notebook.name, cell="a1")
    count = cells_of(notebook)[0]["execution_count"]
    assert answer["cell"] == f"0 a1 [{count}], written to {notebook.name}"
    assert (answer["ok"], answer["result"], answer["stdout"], answer["sessionKey"]) == (True, "nil", "a\n", "mem")
    after = {**before[0], "execution_count": count, "outputs": [stream("a\n"), value("nil", count)]}
    assert notebook.read_text() == book(after, before[1])


def test_a_cell_list_omits_the_kernel_note_if_there_is_a_kernel(client, notebook):
    notebook.write_text(book(code("1")))
    assert "notes" not in client.call("list_cells", filePath=notebook.name)


def test_cells_that_did_not_run_or_were_edited_since_are_marked(client, live, notebook):
    notebook.write_text(book(code("(+ 1 2)", id="a1"), code("", id="b2"), code("5", id="c3")))

    def listed():
        return client.call("list_cells", filePath=notebook.name)["cells"]

    assert listed() == ["0 a1 code [not run] (+ 1 2)", "1 b2 code", "2 c3 code [not run] 5"]
    client.call("run_cell", filePath=notebook.name, cell="a1")
    count = cells_of(notebook)[0]["execution_count"]
    assert listed()[0] == f"0 a1 code [{count}] (+ 1 2), 1 output"
    change = {"filePath": notebook.name, "cell": "a1", "oldText": "2", "newText": "3"}
    assert client.call("edit_files", edits=[change])["ok"]
    assert listed()[0] == f"0 a1 code [{count}, edited since] (+ 1 3), 1 output"
    assert listed()[2] == "2 c3 code [not run] 5"
    client.call("run_cell", filePath=notebook.name, cell="a1")
    assert listed()[0] == f"0 a1 code [{count + 1}] (+ 1 3), 1 output"


def test_the_answer_of_a_successful_cell_is_short(client, notebook):
    notebook.write_text(book(code("(+ 1 2)")))
    client.call("run_cell", filePath=notebook.name, cell="c")
    answer = client.call("run_cell", filePath=notebook.name, cell="c", detail=False)
    count = cells_of(notebook)[0]["execution_count"]
    assert {key: answer[key] for key in ("ok", "result", "cell")} == {
        "ok": True, "result": "3", "cell": f"0 c [{count}], written to {notebook.name}"
    }  # fmt: skip
    assert set(answer) <= {"ok", "result", "cell", "evaluationId", "notes", "sessionKey", "elapsedMs"}


def test_a_cell_can_be_selected_by_its_zero_based_index(client, notebook):
    notebook.write_text(book(code("1"), code("(+ 2 2)", id="b")))
    for given in (1, "1", "cell-1", "b"):
        assert client.call("run_cell", filePath=notebook.name, cell=given)["result"] == "4"


def test_all_cells_run_in_order_with_one_report(client, notebook):
    notebook.write_text(book(code("(def a 1)"), {**code("text"), "cell_type": "markdown"}, code(""), code("(+ a 2)")))
    answer = client.call("run_cell", filePath=notebook.name, cells="all")
    counts = [cell.get("execution_count") for cell in cells_of(notebook)]
    assert answer["cells"] == [
        f"0 c [{counts[0]}]: #'a",
        f"3 c [{counts[3]}]: done",
    ]  # fmt: skip
    assert (answer["ok"], answer["result"], answer["restarted"]) == (True, "3", False)
    assert "notRun" not in answer
    assert cells_of(notebook)[3]["outputs"] == [value("3", counts[3])]


def test_an_image_in_a_cell_result_is_replaced_by_its_type_in_the_answer(client, notebook):
    notebook.write_text(book(code(f'"a plot data:image/png;base64,{"iVBO" * 1000}"'), code("(+ 1 2)")))
    answer = client.call("run_cell", filePath=notebook.name, cells="all")
    assert answer["cells"][0].endswith(': "a plot <image/png>')


def test_running_all_cells_stops_at_the_first_failure_and_lists_the_cells_that_did_not_run(client, notebook):
    notebook.write_text(book(code("1"), code("(/ 1 0)"), code("2"), code("3")))
    answer = client.call("run_cell", filePath=notebook.name, cells="all")
    assert (answer["ok"], answer["reason"], answer["error"]["class"]) == (
        False,
        "evaluation-failed",
        "ZeroDivisionError",
    )
    assert [line.rpartition(": ")[2] for line in answer["cells"]] == ["1", "failed"]
    assert answer["notRun"] == ["2", "3"]
    assert [len(cell["outputs"]) for cell in cells_of(notebook)] == [1, 1, 0, 0]


def test_an_external_kernel_is_not_restarted(client, notebook):
    notebook.write_text(book(code("(def before 7)"), code("before")))
    client.call("evaluate_code", code="(def kept 41)")
    assert client.call("run_cell", filePath=notebook.name, cells="all")["restarted"] is False
    assert client.call("evaluate_code", code="kept")["result"] == "41"
    refused = client.call("run_cell", filePath=notebook.name, cells="all", restart=True)
    assert (refused["ok"], refused["reason"]) == (False, "capability-missing")


@pytest.mark.parametrize(
    "arguments", [{}, {"cell": 0, "cells": "all"}, {"cell": 0, "restart": True}, {"cells": "some"}], ids=str
)
def test_exactly_one_of_the_arguments_cell_and_cells_is_required(client, notebook, arguments):
    notebook.write_text(book(code("1")))
    assert client.call("run_cell", filePath=notebook.name, **arguments)["reason"] == "bad-arguments"


def test_a_notebook_changed_since_it_was_read_is_neither_run_nor_overwritten(client, live, notebook):
    notebook.write_text(book(code("1"), code("2", id="b")))
    client.call("list_cells", filePath=notebook.name)
    changed = book(code("10"), code("1"), code("2", id="b"))
    notebook.write_text(changed)
    for arguments in ({"cell": 0}, {"cells": "all"}):
        answer = client.call("run_cell", filePath=notebook.name, **arguments)
        assert (answer["ok"], answer["reason"]) == (False, "file-changed")
    edits = [{"filePath": notebook.name, "cell": "b", "oldText": "2", "newText": "3"}]
    assert "changed since you read it" in str(client.call("edit_files", edits=edits))
    assert notebook.read_text() == changed
    with live.client(name="another") as other:
        assert other.call("run_cell", filePath=notebook.name, cell=0)["result"] == "10"
    assert client.call("run_cell", filePath=notebook.name, cell=0)["reason"] == "file-changed"
    client.call("list_cells", filePath=notebook.name)
    assert client.call("run_cell", filePath=notebook.name, cell=0)["result"] == "10"


def test_outputs_and_the_callers_own_edits_do_not_require_rereading(client, live, notebook):
    notebook.write_text(book(code("1"), code("2", id="b")))
    client.call("list_cells", filePath=notebook.name)
    with live.client(name="another") as other:
        assert other.call("run_cell", filePath=notebook.name, cell=0)["ok"]
    assert client.call("run_cell", filePath=notebook.name, cell=1)["result"] == "2"
    edits = [{"filePath": notebook.name, "cell": "b", "oldText": "2", "newText": "3"}]
    assert client.call("edit_files", edits=edits)["ok"]
    assert client.call("run_cell", filePath=notebook.name, cell=1)["result"] == "3"


def test_the_first_write_warns_about_unsaved_changes_in_an_open_editor(live, notebook):
    notebook.write_text(book(code("1")))
    settings = Path(os.environ["XDG_CONFIG_HOME"]) / "Code"
    (settings / "User" / "globalStorage").mkdir(parents=True)
    state = {"backupWorkspaces": {"folders": [{"folderUri": live.workspace.as_uri()}]}}
    (settings / "User" / "globalStorage" / "storage.json").write_text(json.dumps(state))
    (settings / "code.lock").write_text(str(os.getpid()))
    try:
        with live.client(name="beside-code") as client:
            first = client.call("run_cell", filePath=notebook.name, cell=0)
            assert any("VS Code has this folder open" in note for note in first["notes"])
            again = client.call("run_cell", filePath=notebook.name, cell=0)
            assert "VS Code" not in str(again)
    finally:
        shutil.rmtree(settings)


def test_a_failure_is_written_as_an_output_of_the_cell(client, notebook):
    notebook.write_text(book(code("(/ 1 0)")))
    answer = client.call("run_cell", filePath=notebook.name, cell="c")
    assert (answer["ok"], answer["reason"]) == (False, "evaluation-failed")
    assert f"written to {notebook.name}" in answer["cell"]
    (error,) = cells_of(notebook)[0]["outputs"]
    assert (error["output_type"], error["ename"]) == ("error", "ZeroDivisionError")


def test_outputs_are_written_even_if_the_cell_finishes_after_the_call_returned(client, notebook):
    notebook.write_text(book(code("(read-line)")))
    answer = client.call("run_cell", filePath=notebook.name, cell="c")
    assert (answer["status"], answer["cell"]) == ("needs-input", f"0 c of {notebook.name}")
    assert f"the outputs will be written to {notebook.name} when the cell finishes" in answer["notes"]
    client.call("send_input", evaluationId=answer["evaluationId"], text="said")
    reply = client.call("get_evaluation", evaluationId=answer["evaluationId"], waitMs=20_000)
    count = cells_of(notebook)[0]["execution_count"]
    assert (reply["result"], reply["cell"]) == ('"said"', f"0 c [{count}], written to {notebook.name}")
    assert cells_of(notebook)[0]["outputs"] == [value('"said"', count)]


def test_a_file_changed_during_the_run_is_not_written_and_outputs_are_in_the_answer(client, notebook):
    notebook.write_text(book(code("(read-line)")))
    answer = client.call("run_cell", filePath=notebook.name, cell="c")
    changed = book(code("(read-line)"), code("new", id="d"))
    notebook.write_text(changed)
    client.call("send_input", evaluationId=answer["evaluationId"], text="said")
    reply = client.call("get_evaluation", evaluationId=answer["evaluationId"], waitMs=20_000)
    assert reply["result"] == '"said"'
    assert f"not written to {notebook.name}: the file has changed since the run started" in " ".join(reply["notes"])
    assert notebook.read_text() == changed


def test_outputs_of_queued_cells_are_all_written(client, notebook):
    notebook.write_text(book(code("(read-line)", id="a"), code("(+ 1 1)", id="b"), code("(+ 2 2)", id="c")))
    first = client.call("run_cell", filePath=notebook.name, cell="a", who="one")
    requested = {"filePath": notebook.name, "who": "two", "detail": True}
    others = [client.begin_call("run_cell", cell=cell, **requested) for cell in "bc"]
    answers = [client.answer(other)["result"]["structuredContent"] for other in others]
    assert {answer["status"] for answer in answers} == {"queued"}, "behind one that waits for input"
    client.call("send_input", evaluationId=first["evaluationId"], text="x")
    for item in (first, *answers):
        reply = client.call("get_evaluation", evaluationId=item["evaluationId"], waitMs=20_000)
        assert "written to" in reply["cell"]
    texts = [cell["outputs"][0]["data"]["text/plain"] for cell in cells_of(notebook)]
    assert texts == [['"x"'], ["2"], ["4"]]


def test_a_cell_that_never_ran_leaves_the_file_unchanged(client, notebook):
    notebook.write_text(book(code("(read-line)", id="a"), code("(+ 1 1)", id="b")))
    first = client.call("run_cell", filePath=notebook.name, cell="a", who="one")
    second = client.call("run_cell", filePath=notebook.name, cell="b", who="two")
    answer = client.call("interrupt_evaluation", evaluationId=second["evaluationId"])
    assert "the code was removed from the queue and never ran" in " ".join(answer["notes"])
    client.call("interrupt_evaluation", evaluationId=first["evaluationId"])
    assert cells_of(notebook)[1]["outputs"] == []


def test_a_notebook_open_in_a_jupyter_server_is_not_written(client, live, runtime, notebook):
    text = book(code("(+ 1 2)"))
    notebook.write_text(text)
    with jupyter_server(runtime, live.workspace, notebook.name) as url:
        refused = client.call("run_cell", filePath=notebook.name, cell="c")
        assert (refused["ok"], refused["reason"]) == (False, "notebook-open")
        assert refused["message"].startswith(f"{notebook.name} is open in the Jupyter Server at {url}")
        assert "evaluate_code" in refused["hint"]
        assert notebook.read_text() == text
    with jupyter_server(runtime, live.workspace, "another.ipynb"):
        assert client.call("run_cell", filePath=notebook.name, cell="c")["ok"]


def test_a_cell_is_edited_by_id_unless_the_notebook_is_open(client, live, runtime, notebook):
    text = book(code("(+ 1 2)", id="a"), code(["(str 1)\n", "(+ 1 2)"], id="b"))
    notebook.write_text(text)
    edit = {"filePath": notebook.name, "cell": "b", "oldText": "(+ 1 2)", "newText": "(+ 1 3)"}
    with jupyter_server(runtime, live.workspace, notebook.name) as url:
        refused = client.call("edit_files", edits=[edit])
        assert (refused["ok"], refused["reason"]) == (False, "edits-refused")
        assert f"the notebook is open in the Jupyter Server at {url}" in refused["message"]
        assert notebook.read_text() == text
    answer = client.call("edit_files", edits=[edit])
    assert (answer["ok"], answer["files"][0]["edits"][0]["line"]) == (True, 2), answer
    assert [cell["source"] for cell in cells_of(notebook)] == ["(+ 1 2)", ["(str 1)\n", "(+ 1 3)"]]
    assert client.call("undo_edit")["ok"]
    assert notebook.read_text() == text


def test_either_all_edits_of_cells_and_other_files_are_applied_or_none(client, live, notebook):
    text = book(code("x = f(1)", id="a")).replace('"memory"', '"memory", "language": "python"')
    notebook.write_text(text)
    beside = live.workspace / "beside.txt"
    beside.write_text("one")
    edits = [{"filePath": "beside.txt", "oldText": "one", "newText": "two"},
             {"filePath": notebook.name, "cell": 0, "oldText": "f(1)", "newText": "f(1"},
             {"filePath": notebook.name, "cell": "none", "oldText": "f(1)", "newText": "f(2)"},
             {"filePath": "beside.txt", "cell": "a", "oldText": "one", "newText": "two"}]  # fmt: skip
    refused = client.call("edit_files", edits=edits)
    words = {row["index"]: row["message"] for row in refused["problems"]}
    assert "with this edit the cell does not parse" in words[1]
    assert "there is no cell 'none'" in words[2]
    assert "cell is only for notebooks" in words[3]
    assert (notebook.read_text(), beside.read_text()) == (text, "one")
    right = {"filePath": notebook.name, "cell_id": "a", "old_string": "f(1)", "new_string": "f(2)"}
    assert client.call("edit_files", edits=[edits[0], right])["ok"]
    assert (cells_of(notebook)[0]["source"], beside.read_text()) == ("x = f(2)", "two")


def test_a_notebook_opened_while_its_cell_ran_is_not_written(client, live, runtime, notebook):
    text = book(code("(read-line)"))
    notebook.write_text(text)
    answer = client.call("run_cell", filePath=notebook.name, cell="c")
    with jupyter_server(runtime, live.workspace, notebook.name):
        client.call("send_input", evaluationId=answer["evaluationId"], text="said")
        reply = client.call("get_evaluation", evaluationId=answer["evaluationId"], waitMs=20_000)
    assert reply["result"] == '"said"'
    assert "the notebook was opened during the run in the Jupyter Server at" in " ".join(reply["notes"])
    assert notebook.read_text() == text


def test_files_outside_the_workspace_and_read_only_files_are_not_written(client, live, notebook, tmp_path):
    text = book(code("1"))
    outside = tmp_path / "outside.ipynb"
    outside.write_text(text)
    notebook.symlink_to(outside)
    refused = client.call("run_cell", filePath=notebook.name, cell="c")
    assert (refused["reason"], "is outside the workspace" in refused["message"]) == ("file-unreadable", True)
    (live.workspace / ".git").mkdir()
    (live.workspace / ".git" / "x.ipynb").write_text(text)
    assert "version control" in client.call("run_cell", filePath=".git/x.ipynb", cell="c")["message"]
    locked = live.workspace / "locked.ipynb"
    locked.write_text(text)
    locked.chmod(0o444)
    assert "the file is read-only" in client.call("run_cell", filePath="locked.ipynb", cell="c")["message"]
    assert client.call("list_cells", filePath="locked.ipynb")["count"] == 1
    assert (outside.read_text(), locked.read_text()) == (text, text)


@pytest.mark.parametrize(
    ("given", "reason", "words"),
    [
        ({"cell": "text"}, "no-code", "of the type markdown"), ({"cell": "blank"}, "no-code", "is blank"),
        ({"cell": "9"}, "unknown-cell", "indexes from 0 to 2"), ({"cell": ["a"]}, "bad-arguments", "cell"),
        ({"filePath": "../x.ipynb"}, "file-unreadable", "outside the workspace"),
        ({"filePath": "none.ipynb"}, "file-unreadable", "no such file"),
        ({"replSessionKey": "nope"}, "unknown-session", "nope"),
    ],
)  # fmt: skip
def test_a_cell_that_cannot_run_is_refused_and_nothing_is_written(client, notebook, given, reason, words):
    text = book(code("1", id="a"), code(" \n", id="blank"), {"cell_type": "markdown", "id": "text", "source": "1"})
    notebook.write_text(text)
    refused = client.call("run_cell", **{"filePath": notebook.name, "cell": "a", **given})
    assert (refused["ok"], refused["reason"]) == (False, reason)
    assert words in refused["message"]
    assert notebook.read_text() == text


def test_a_cell_has_the_same_code_limit_as_a_file(client, notebook):
    text = book(code("#" * (16 * 2**20 + 1)))
    notebook.write_text(text)
    refused = client.call("run_cell", filePath=notebook.name, cell="c")
    assert (refused["reason"], "the limit is 16,777,216" in refused["message"]) == ("too-much-code", True)
    assert notebook.read_text() == text


@pytest.mark.parametrize(
    ("origin", "formerly", "hint"),
    [
        ("python", set(), "set repl = ['python', 'jupyter'] in codriver.toml"),
        ("jupyter:ir", set(), "the REPL k is starting. Call again"),
        ("jupyter", {"evaluate", "cells"}, None),
    ],
)  # fmt: skip
def test_a_starting_kernel_is_named_and_a_restarting_one_is_waited_for(origin, formerly, hint):
    repl = Repl("1", "k", Origin("process", origin), phase="starting", queued=frozenset(formerly))
    refused = why_unavailable(BY_NAME["run_cell"], State(repls={"1": repl}), Settings())
    assert (refused and hint in refused.hint) if hint else refused is None
