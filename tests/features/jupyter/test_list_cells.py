"""`list_cells`: one line per cell of a notebook, if the workspace has a notebook."""

import json

import pytest
from live_server import until
from tools_in_memory import serving

from codriver.core.state import Origin, Repl, State
from codriver.features.jupyter.missing_kernel import describe_missing_kernel


def book(*cells, **metadata):
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def code(source, **more):
    return {"cell_type": "code", "metadata": {}, "source": source, "outputs": [], "execution_count": None, **more}


OUT = {"output_type": "stream", "name": "stdout", "text": "x"}
ERROR = {"output_type": "error", "ename": "E", "evalue": "", "traceback": []}
HOW = "in codriver.toml and have the user run `codriver trust`. A running server then starts the kernel"
NO_KERNEL = f"run_cell needs a kernel: set repl = ['jupyter'] {HOW}"
CHANGED = "notifications/tools/list_changed"


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("cells"), has_repl=False) as running:
        yield running


@pytest.fixture
def listed(live, client):
    """Return the listing of a notebook with this text."""

    def listed(text, **arguments):
        file = live.workspace / "work" / "x.ipynb"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return client.call("list_cells", filePath="work/x.ipynb", **arguments)

    return listed


def test_notebook_tools_are_listed_once_there_is_a_notebook_outside_checkpoints(live, client):
    (live.workspace / ".ipynb_checkpoints").mkdir()
    (live.workspace / ".ipynb_checkpoints" / "a-checkpoint.ipynb").write_text(book())
    assert "list_cells" not in client.tools()
    (live.workspace / "a.ipynb").write_text(book())
    client.await_notification(CHANGED)
    until(lambda: "list_cells" in client.tools(), "the tools of notebooks")
    with live.client(name="opencode") as other:
        assert "run_cell" not in other.tools(), "which needs a kernel"


def test_a_small_notebook_is_listed_with_its_whole_source(listed):
    cells = [
        {"cell_type": "markdown", "id": "a1", "metadata": {}, "source": ["# Orders\n", "By day"]},
        code("import csv\n", id="b2", execution_count=3),
        code("\n\nread()\nshow()\nend()", execution_count=12, outputs=[OUT, ERROR]),
        code("x" * 100, outputs=[OUT]),
        code(""),
    ]
    assert listed(book(*cells, kernelspec={"name": "ir"})) == {
        "ok": True,
        "cells": [
            "0 a1 markdown\n# Orders\nBy day",
            "1 b2 code [3] import csv",
            "2 code [12], 2 outputs, error\nread()\nshow()\nend()",
            f"3 code {'x' * 100}, 1 output",
            "4 code",
        ],
        "count": 5,
        "kernelspec": "ir",
        "notes": [NO_KERNEL],
    }


def test_each_cell_of_a_large_notebook_is_one_line_with_its_index_id_type_and_outcome(listed):
    cells = [
        {"cell_type": "markdown", "id": "a1", "metadata": {}, "source": ["# Orders\n", "By day"]},
        code("\n\nread()\nshow()\nend()", execution_count=12, outputs=[OUT, ERROR]),
        code("x" * 3000, outputs=[OUT]),
        code(""),
    ]
    assert listed(book(*cells))["cells"] == [
        "0 a1 markdown # Orders (+1 line)",
        "1 code [12] read() (+2 lines), 2 outputs, error",
        f"2 code {'x' * 79}…, 1 output",
        "3 code",
    ]


def test_cells_beyond_the_limit_can_be_listed_with_the_from_argument(listed):
    text = book(*[code(f"{n} + {'1' * 70}") for n in range(200)])
    first = listed(text)
    assert len(json.dumps(first)) < 7000
    place = len(first["cells"])
    assert first["notes"] == [f"{200 - place} more: list_cells with from {place}", NO_KERNEL]
    second = listed(text, **{"from": place})
    assert second["cells"][0].startswith(f"{place} code [not run] {place} + 1")
    assert listed(text, **{"from": 500}) == {"ok": True, "cells": [], "count": 200, "notes": [NO_KERNEL]}


def test_running_a_cell_without_a_kernel_is_refused_with_a_suggestion(listed, client):
    listed(book(code("1")))
    refused = client.call("run_cell", filePath="work/x.ipynb", cell="0")
    assert (refused["reason"], "'jupyter'] in codriver.toml" in refused["hint"]) == ("capability-missing", True)


@pytest.mark.parametrize(
    ("phase", "note"),
    [
        ("starting", None),
        ("connecting", None),
        ("stopped", "run_cell needs a kernel, and jup is stopped: ipykernel is missing"),
    ],
)
def test_the_suggestion_omits_configuring_a_kernel_that_the_server_already_starts(phase, note):
    kernel = Repl("1", "jup", Origin("process", "jupyter"), phase=phase, note="ipykernel is missing")
    assert describe_missing_kernel(State(repls={"1": kernel})) == note


def test_a_file_that_is_not_a_notebook_is_refused_with_a_reason(live, client, listed):
    for text, why in (("{", "line 1"), (book().replace("4,", "3,"), "nbformat is 3"), ("[]", "expected {")):
        refused = listed(text)
        assert (refused["ok"], refused["reason"]) == (False, "file-unreadable")
        assert why in refused["message"]
    (live.workspace / "latin.ipynb").write_bytes(b"\xff")
    assert "UTF-8" in client.call("list_cells", filePath="latin.ipynb")["message"]
    missing = client.call("list_cells", filePath="none.ipynb")
    assert missing["message"] == "cannot read none.ipynb: No such file or directory"
    assert "nbformat" not in missing["hint"]
    assert "directory" in client.call("list_cells", filePath=".")["message"]


@pytest.mark.parametrize("way", ["absolute", "upward", "link"])
def test_a_notebook_outside_the_workspace_is_not_read(live, client, tmp_path, way):
    (tmp_path / "secret.ipynb").write_text(book(code("SECRET")))
    link = live.workspace / "link.ipynb"
    link.unlink(missing_ok=True)
    link.symlink_to(tmp_path / "secret.ipynb")
    given = {"absolute": str(tmp_path / "secret.ipynb"), "upward": "../../secret.ipynb", "link": "link.ipynb"}[way]
    if way == "upward":
        (live.workspace.parent / "secret.ipynb").write_text(book(code("SECRET")))
        given = "../secret.ipynb"
    refused = client.call("list_cells", filePath=given)
    assert (refused["ok"], refused["reason"]) == (False, "file-unreadable")
    assert "outside the workspace" in refused["message"]
    assert "SECRET" not in str(refused)


def test_an_oversized_notebook_is_refused_before_it_is_parsed(listed):
    for text, why in (
        (book()[:-1] + ', "a": [' + "[]," * 300_000 + "1]}", "more than 300000 elements"),
        (book()[:-1] + ', "a": ' + "[" * 101 + "]" * 101 + "}", "more than 100 levels deep"),
    ):
        refused = listed(text)
        assert (refused["ok"], refused["reason"]) == (False, "file-unreadable")
        assert why in refused["message"]


def test_long_images_do_not_count_as_many_elements(listed):
    picture = {"output_type": "display_data", "data": {"image/png": "A" * 9_000_000}, "metadata": {}}
    assert listed(book(code("plot()", outputs=[picture])))["cells"] == ["0 code plot(), 1 output"]


def test_notebooks_are_not_read_if_evaluation_is_disabled(tmp_path):
    settings = {"enable_mcp_repl_evaluation": False}
    with serving(tmp_path, has_repl=False, settings=settings) as live, live.client() as client:
        (live.workspace / "x.ipynb").write_text(book(code("SECRET")))
        refused = client.call("list_cells", filePath="x.ipynb")
        assert (refused["ok"], refused["reason"]) == (False, "switched-off")


def test_the_source_of_one_cell_is_read_by_id_or_index(listed):
    source = "import csv\n\nfor line in 'ä😀':\n    print(line)\n"
    text = book(code("1", id="a"), code(source.splitlines(keepends=True), id="b"))
    for cell in ("b", 1, "1"):
        answer = listed(text, cell=cell)
        assert (answer["source"], answer["cells"]) == (source, ["1 b code [not run] import csv (+3 lines)"])
    assert listed(text, cell="a")["source"] == "1"
    assert listed(text, cell="c")["reason"] == "unknown-cell"
    assert listed(book(code("")), cell=0)["source"] == ""


def test_a_long_source_is_read_in_parts(listed):
    source = "".join(f"value_{number} = {number}\n" for number in range(20_000))
    text, start, parts = book(code(source)), 0, []
    while start is not None:
        answer = listed(text, cell=0, **{"from": start})
        parts.append(answer["source"])
        start = int(answer["notes"][0].rpartition(" ")[2]) if "more lines" in str(answer.get("notes")) else None
    assert len(parts) > 1
    assert "".join(parts) == source
