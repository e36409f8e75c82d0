"""A notebook whose cells ran in Codriver is byte for byte the one that nbclient and nbformat write."""

import json
import subprocess

import pytest
import real_kernels
from live_server import WAIT_S, serving, until

pytestmark = pytest.mark.slow

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SOURCES = {
    "stdout": "print('one\\ntwo')",
    "stderr": "import sys\nprint('three', file=sys.stderr)",
    "value": "{'é': 1 + 2}",
    "png": f"import base64\nfrom IPython.display import Image\nImage(base64.b64decode('{PIXEL}'))",
    "shown": "from IPython.display import HTML, display\ndisplay(HTML('<b>a</b>\\n<i>b</i>'))\ndisplay({'x': 1})",
    "updated": "bar = display('0 %', display_id=True)\nbar.update('100 %')",
    "cleared": "from IPython.display import clear_output\nprint('gone')\nclear_output()\nprint('stays')",
    "nothing": "x = 1;",
    "error": "def f():\n    raise ValueError('no')\nf()",
    "syntax": "1 +",
    "magic": "%%timeit -n 1 -r 1 -q\npass",
}

NBCLIENT = """
import sys
import nbformat
from nbclient import NotebookClient
path = sys.argv[1]
book = nbformat.read(path, as_version=4)
client = NotebookClient(
    book, allow_errors=True, record_timing=False, coalesce_streams=True, kernel_name="python3",
    iopub_timeout=60,  # else it writes after four seconds what it has
)
with client.setup_kernel():
    for _ in range(2):
        for index, cell in enumerate(book.cells):
            client.execute_cell(cell, index)
nbformat.write(book, path)
"""


def book(sources=SOURCES):
    cells = [
        {"cell_type": "code", "execution_count": None, "id": name, "metadata": {}, "outputs": [],
         "source": source.splitlines(keepends=True)}
        for name, source in sources.items()
    ]  # fmt: skip
    book = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """Run a server that discovers the kernel of the notebook `a.ipynb`."""
    folder, runtime = tmp_path_factory.mktemp("notebook").resolve(), tmp_path_factory.mktemp("runtime")
    with real_kernels.fresh("ipykernel") as kernel, pytest.MonkeyPatch.context() as patched:
        about = json.loads(kernel.file.read_text()) | {"jupyter_session": str(folder / "workspace" / "a.ipynb")}
        file = runtime / "kernel-1.json"
        file.write_text(json.dumps(about))
        file.chmod(0o600)
        patched.setenv("JUPYTER_RUNTIME_DIR", str(runtime))
        with serving(folder, "--repl", "none") as running:
            (running.workspace / "a.ipynb").write_text(book())
            with running.client(name="opencode") as client:
                until(lambda: "run_cell" in client.tools(), "the notebook's kernel")
            yield running


def test_running_each_cell_twice_writes_the_same_notebook_as_nbclient(live, tmp_path):
    expected = tmp_path / "a.ipynb"
    expected.write_text(book())
    script = [str(real_kernels.VENV / "bin" / "python"), "-c", NBCLIENT, str(expected)]
    with (
        subprocess.Popen(script, env=real_kernels.environment(tmp_path), stderr=subprocess.PIPE) as other,
        live.client() as client,
    ):
        for _ in range(2):
            answers = {name: client.call("run_cell", filePath="a.ipynb", cell=name) for name in SOURCES}
        _, output = other.communicate(timeout=WAIT_S)
    assert other.returncode == 0, output.decode()
    assert (live.workspace / "a.ipynb").read_text() == expected.read_text()
    assert {name for name, answer in answers.items() if not answer["ok"]} == {"error", "syntax"}
    assert all("written to a.ipynb" in answer["cell"] for answer in answers.values())


def test_an_image_is_also_in_the_answer(live):
    with live.client() as client:
        answer = client.answer(client.begin_call("run_cell", filePath="a.ipynb", cell="png"))["result"]
    assert [part["data"] for part in answer["content"] if part["type"] == "image"] == [PIXEL]


def test_only_the_session_of_the_notebooks_own_kernel_is_used(live):
    with live.client() as client:
        assert client.call("list_cells", filePath="a.ipynb")["sessionKey"] == "a-ipynb"
        text = (live.workspace / "a.ipynb").read_text()
        (live.workspace / "b.ipynb").write_text(text)
        assert "sessionKey" not in client.call("list_cells", filePath="b.ipynb")
        refused = client.call("run_cell", filePath="b.ipynb", cell="value")
        assert (refused["reason"], "a-ipynb" in refused["hint"]) == ("no-kernel", True)
        assert client.call("run_cell", filePath="b.ipynb", cell="value", replSessionKey="a-ipynb")["ok"]


def test_a_cell_that_ends_the_kernel_is_not_written_and_the_next_cell_waits_for_a_new_kernel(tmp_path):
    real_kernels.need("ipykernel")
    python = str(real_kernels.VENV / "bin" / "python")
    cells = {"end": "import os; os._exit(1)", "next": "1 + 2"}
    with serving(tmp_path, "--repl", "jupyter", "--python", python) as live, live.client() as client:
        file = live.workspace / "a.ipynb"
        file.write_text(book(cells))
        until(lambda: "run_cell" in client.tools(), "the kernel and the notebook")
        lost = client.call("run_cell", filePath="a.ipynb", cell="end", timeoutMs=60_000)
        assert (lost["status"], file.read_text()) == ("lost", book(cells))
        assert "not written to a.ipynb" in " ".join(lost["notes"])
        found = client.call("run_cell", filePath="a.ipynb", cell="next", timeoutMs=60_000)
    assert (found["result"], found["generation"]) == ("3", 2)
    assert json.loads(file.read_text())["cells"][1]["outputs"][0]["data"] == {"text/plain": ["3"]}


def test_all_cells_run_in_a_restarted_kernel_unless_restart_is_false(tmp_path):
    real_kernels.need("ipykernel")
    python = str(real_kernels.VENV / "bin" / "python")
    cells = {"fresh": "import os\n'leftover' in globals()", "count": "os.getpid()", "error": "1 / 0", "never": "2"}
    with serving(tmp_path, "--repl", "jupyter", "--python", python) as live, live.client() as client:
        file = live.workspace / "a.ipynb"
        file.write_text(book(cells))
        until(lambda: "run_cell" in client.tools(), "the kernel and the notebook")
        client.call("evaluate_code", code="leftover = 1", timeoutMs=60_000)
        answer = client.call("run_cell", filePath="a.ipynb", cells="all", timeoutMs=120_000)
        assert (answer["restarted"], answer["error"]["class"], answer["notRun"]) == (True, "ZeroDivisionError", ["3"])
        first, second, failed, never = json.loads(file.read_text())["cells"]
        assert [cell["execution_count"] for cell in (first, second, failed, never)] == [1, 2, 3, None]
        assert first["outputs"][0]["data"]["text/plain"] == ["False"]
        client.call("evaluate_code", code="leftover = 1", timeoutMs=60_000)
        again = client.call("run_cell", filePath="a.ipynb", cells="all", restart=False, timeoutMs=120_000)
        kept, same, *_ = json.loads(file.read_text())["cells"]
        assert (again["restarted"], kept["outputs"][0]["data"]["text/plain"]) == (False, ["True"])
        assert same["outputs"] == [second["outputs"][0] | {"execution_count": same["execution_count"]}]
