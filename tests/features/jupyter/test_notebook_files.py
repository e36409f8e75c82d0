"""Notebooks as files: cells are found by id and index, and outputs are replaced without changing another byte."""

import json
import subprocess
from pathlib import Path

import pytest
from alike import rounds
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import do_without
from refusals import refused_as

from codriver.features.jupyter import notebook_files as ours_of
from codriver.features.jupyter.notebook_files import (
    replace_source,
)

KERNELS = Path(__file__).parents[2] / "jupyter" / ".venv" / "bin" / "python"

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
lines = texts.map(lambda text: text.splitlines(keepends=True))
bundles = st.dictionaries(st.sampled_from(["text/plain", "text/html", "image/png", "image/svg+xml"]), texts, max_size=3)
outputs = st.lists(
    st.one_of(
        st.builds(lambda text, name: {"output_type": "stream", "name": name, "text": text}, texts,
                  st.sampled_from(["stdout", "stderr"])),
        st.builds(lambda data: {"output_type": "display_data", "data": data, "metadata": {}}, bundles),
        st.builds(lambda data, n: {"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": n},
                  bundles, st.integers(0, 99)),
        st.builds(lambda text, line: {
                      "output_type": "error", "ename": "E", "evalue": text, "traceback": [line, "\x1b[0m"]},
                  texts, texts),
    ),
    max_size=3,
)  # fmt: skip
counts = st.none() | st.integers(0, 10**6)


def stored(output):
    """Return an output as nbformat stores it."""
    data = {kind: text if kind == "image/png" else text.splitlines(keepends=True)
            for kind, text in output.get("data", {}).items()}  # fmt: skip
    text = {"text": output["text"].splitlines(keepends=True)} if "text" in output else {}
    return {**output, **text, **({"data": data} if "data" in output else {})}


@st.composite
def notebooks(draw, most=4):
    """Generate notebooks of nbformat 4.5 with at least one code cell, as JSON."""
    cells = []
    for number in range(draw(st.integers(1, most))):
        cell = {"cell_type": "code", "execution_count": draw(counts), "id": f"c{number}", "metadata": {},
                "outputs": [stored(item) for item in draw(outputs)], "source": draw(lines)}  # fmt: skip
        if number and draw(st.booleans()):
            cell = {"cell_type": "markdown", "id": f"c{number}", "metadata": {}, "source": draw(lines)}
        cells.append(cell)
    metadata = {"kernelspec": {"display_name": draw(texts), "language": "python", "name": "python3"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def code_cells(book):
    return [index for index, cell in enumerate(book["cells"]) if cell["cell_type"] == "code"]


def ran(book, index, new, count):
    """Return the notebook after its cell was run."""
    cells = [dict(cell) for cell in book["cells"]]
    cells[index] |= {"outputs": [stored(item) for item in new], "execution_count": count}
    return {**book, "cells": cells}


LAYOUTS = {
    "of nbformat": {"indent": 1},
    "of two spaces": {"indent": 2},
    "of tabs": {"indent": "\t"},
    "in one line": {},
    "without any space": {"separators": (",", ":")},
}


def written(book, layout, *, end="\n", newline="\n", mark=""):
    text = json.dumps(book, ensure_ascii=False, sort_keys=True, **LAYOUTS[layout])
    return mark + text.replace("\n", newline) + end


@given(st.data())
def test_outputs_are_written_in_the_layout_of_the_program_that_wrote_the_notebook(data):
    book, new, count = data.draw(notebooks()), data.draw(outputs), data.draw(counts)
    index, layout = data.draw(st.sampled_from(code_cells(book))), data.draw(st.sampled_from(list(LAYOUTS)))
    choices = {"end": ["\n", "", " \n\n"], "newline": ["\n", "\r\n"], "mark": ["", "\ufeff"]}
    about = {name: data.draw(st.sampled_from(choice)) for name, choice in choices.items()}
    expected = written(ran(book, index, new, count), layout, **about)
    assert with_outputs(written(book, layout, **about), "x.ipynb", index, new, count) == expected


class Scattered:
    """Writes JSON with space wherever it is allowed, and records where the values of one cell's keys are."""

    def __init__(self, draw):
        self.text, self.spans, self._draw = "", {}, draw

    def space(self):
        self.text += self._draw(st.text(" \t\r\n", max_size=3))

    def write(self, value, path=()):
        self.space()
        start = len(self.text)
        if isinstance(value, dict | list):
            named = isinstance(value, dict)
            self.text += "{" if named else "["
            for number, key in enumerate(value if named else range(len(value))):
                self.text += "," if number else ""
                self.space()
                self.text += json.dumps(key) if named else ""
                self.space()
                self.text += ":" if named else ""
                self.write(value[key], (*path, key))
            self.space()
            self.text += "}" if named else "]"
        else:
            self.text += json.dumps(value, ensure_ascii=self._draw(st.booleans()))
        self.spans[path] = (start, len(self.text))
        self.space()


@settings(max_examples=rounds(40, 20))
@given(st.data())
def test_every_byte_besides_outputs_and_count_is_preserved_in_any_layout(data):
    book, new, count = data.draw(notebooks(2)), data.draw(outputs), data.draw(counts)
    index = data.draw(st.sampled_from(code_cells(book)))
    cell = book["cells"][index]
    keys = data.draw(st.permutations(list(cell)))
    book["cells"][index] = {key: cell[key] for key in keys}
    writer = Scattered(data.draw)
    writer.write(book)
    text = with_outputs(writer.text, "x.ipynb", index, new, count)
    (a, b), (c, d) = sorted(writer.spans["cells", index, key] for key in ("outputs", "execution_count"))
    before, between, after = writer.text[:a], writer.text[b:c], writer.text[d:]
    assert text.startswith(before)
    assert text.endswith(after)
    middle = text[a : len(text) - len(after)]
    assert between in middle
    assert json.loads(text) == ran(book, index, new, count)
    assert len(middle) == len(between) + sum(len(part) for part in middle.split(between, 1))


BATCH = """
import json, sys
sys.modules["rfc3987_syntax"] = None  # half a second of the import
import nbformat
for case in json.load(sys.stdin):
    book = nbformat.reads(case["text"], as_version=4)
    cell = book.cells[case["index"]]
    cell.outputs = [nbformat.from_dict(one) for one in case["outputs"]]
    cell.execution_count = case["count"]
    nbformat.validate(book)
    nbformat.validate(nbformat.reads(case["given"], as_version=4))
    written = nbformat.writes(book)
    written += "" if written.endswith("\\n") else "\\n"
    assert written == case["given"], (written, case["given"])
print("all are the same")
"""


def test_written_notebooks_match_nbformat_byte_for_byte_and_are_valid():
    if not KERNELS.exists():
        do_without("make tests/jupyter/.venv with nbformat")
    cases = []

    @settings(max_examples=rounds(40, 25))
    @given(st.data())
    def collect(data):
        book, new, count = data.draw(notebooks()), data.draw(outputs), data.draw(counts)
        index, text = data.draw(st.sampled_from(code_cells(book))), written(book, "of nbformat")
        ours = with_outputs(text, "x.ipynb", index, new, count)
        cases.append({"text": text, "index": index, "outputs": new, "count": count, "given": ours})

    collect()
    ended = subprocess.run([str(KERNELS), "-c", BATCH], input=json.dumps(cases), capture_output=True, text=True,
                           timeout=120, check=False)  # fmt: skip
    assert (ended.stdout, len(cases) >= 25) == ("all are the same\n", True), ended.stderr[-2000:]


def read_notebook(text, name):
    return ours_of.read_notebook(text.encode(), name)


def with_outputs(text, *about):
    return ours_of.replace_outputs(text.encode("utf-8", "surrogatepass"), *about).decode()


def book(*cells, **more):
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more}, indent=1) + "\n"


def code(source="1", **more):
    return {"cell_type": "code", "metadata": {}, "source": source, "outputs": [], "execution_count": None, **more}


def test_a_cell_is_found_by_id_or_else_by_its_zero_based_index():
    found = read_notebook(book(code("a", id="1"), code("b", id="x"), code("c")), "x.ipynb")
    assert [found.cell(name).source for name in ("1", "x", "0", "2", "cell-2", "cell-0")] == list("abacca")
    for strange in ("3", "cell-9", "X", "-1", ""):
        with refused_as("unknown-cell", match="indexes from 0 to 2"):
            found.cell(strange)


def test_a_duplicate_cell_id_is_refused():
    with refused_as("unknown-cell", match="cells 0, 2 have the id 'x'"):
        read_notebook(book(code(id="x"), code(), code(id="x")), "x.ipynb").cell("x")


def test_a_cell_is_read_with_its_source_count_and_error_state():
    error = {"output_type": "error", "ename": "E", "evalue": "", "traceback": []}
    text = book(code(["a\n", "b"], execution_count=3, outputs=[error]), {"cell_type": "markdown", "source": "# A"},
                metadata={"kernelspec": {"name": "ir"}})  # fmt: skip
    found = read_notebook(text, "x.ipynb")
    item, two = found.cells
    assert (found.kernel, item.source, item.execution_count, item.has_error) == ("ir", "a\nb", 3, True)
    assert (two.type, two.source, two.outputs, two.name) == ("markdown", "# A", (), "cell-1")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "line 1, column 1"), ("[]", "line 1, column 1"), ("{", "line 1, column 2"), ('{"cells": []}', "null"),
        ('{"nbformat": 4}', "no cells"),
        (book()[:-3], "expected , or }"), (book() + "{}", "after the last brace"), (book(nbformat=3), "nbformat is 3"),
        (book(cells=1), "expected ["), (book(1), "expected {"), (book({}), "an empty list"), ("[" * 10**5, "line 1"),
        ('{"metadata": ' + "[" * 10**5 + "]" * 10**5 + "}", "too deep"),
        ('{"a": ' + "[" * 10**5, "is not closed"), ('{"a": [}', "does not match"), ('{"a": "x', "is not closed"),
        ('{"nbformat": ' + "4" * 5000 + "}", "too many digits"), ('{"a": }', "expected a value"),
        (book(code())[:-1].replace(":", "", 1), "expected :"),
    ],
)  # fmt: skip
def test_text_that_is_not_a_notebook_is_refused_with_the_position_of_the_error(text, why):
    with refused_as("file-unreadable", match=r"x\.ipynb is not a notebook of nbformat 4") as refusal:
        read_notebook(text, "x.ipynb")
    assert why in refusal.value.message


@given(st.booleans(), st.sampled_from([None, 1, 3, "\t"]), texts)
def test_replacing_a_cell_source_changes_nothing_else_in_the_file(is_whole, indent, source):
    before = code("a = 1\nb" if is_whole else ["a = 1\n", "b"], id="x", outputs=[{"output_type": "stream"}])
    expected = {**before, "source": source if is_whole else source.splitlines(keepends=True)}
    laid = [json.dumps({"cells": [code(), item], "nbformat": 4}, indent=indent, ensure_ascii=False) + "\n"
            for item in (before, expected)]  # fmt: skip
    assert replace_source(laid[0], "x.ipynb", 1, source) == laid[1]


def test_missing_members_of_a_cell_are_inserted_in_the_order_of_nbformat():
    bare = {"cell_type": "code", "id": "a", "metadata": {}, "source": "1"}
    out = [{"output_type": "stream", "name": "stdout", "text": "1\n"}]
    full = {**bare, "outputs": [stored(out[0])], "execution_count": 2}
    as_nbformat = json.dumps({"cells": [full], "nbformat": 4}, sort_keys=True, indent=1)
    assert with_outputs(json.dumps({"cells": [bare], "nbformat": 4}, indent=1), "x", 0, out, 2) == as_nbformat
    unsorted = {"source": "1", "cell_type": "code"}
    text = with_outputs(json.dumps({"cells": [unsorted], "nbformat": 4}, indent=2), "x", 0, out, 2)
    assert list(json.loads(text)["cells"][0].items())[:2] == list(unsorted.items())
    assert json.loads(text)["cells"][0] == {**unsorted, "outputs": [stored(out[0])], "execution_count": 2}


def test_outputs_use_the_key_order_of_their_file():
    cell = {"source": "1", "cell_type": "code", "outputs": [], "execution_count": None}
    out = {"text": "1\n", "output_type": "stream", "name": "stdout"}
    given = with_outputs(json.dumps({"nbformat": 4, "cells": [cell]}), "x", 0, [out], 1)
    assert list(json.loads(given)["cells"][0]["outputs"][0]) == ["output_type", "name", "text"]


def test_a_lone_surrogate_is_escaped_and_json_outputs_stay_json():
    data = {"application/json": {"a": ["x\ny"]}, "text/plain": "\ud800"}
    out = {"output_type": "display_data", "data": data, "metadata": {}, "transient": {"display_id": "1"}}
    text = with_outputs(book(code()), "x", 0, [out], 1)
    assert text.encode()
    stored_there = json.loads(text)["cells"][0]["outputs"][0]
    assert stored_there == {"output_type": "display_data", "metadata": {}, "data": {**data, "text/plain": ["\ud800"]}}
