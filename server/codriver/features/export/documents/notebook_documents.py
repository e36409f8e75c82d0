"""Generate notebooks with a cell for each evaluation, including its outputs.

Source: nbformat 4.5, "The Notebook file format".
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

from codriver.core.images import DATA_URL_PATTERN, replace_image_data
from codriver.features.export.documents.layout import header_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.features.export.documents.layout import Origin
    from codriver.features.export.documents.step_verification import CheckedStep


_KERNEL_SPEC: Final = {"display_name": "Python 3", "language": "python", "name": "python3"}


def render_notebook(checked: Sequence[CheckedStep], origin: Origin) -> str:
    """Return a notebook with a cell for each evaluation.

    Cells contain the outputs of the fresh REPL. Descriptions and notes become Markdown cells.
    """
    cells = [_markdown_cell("\n\n".join(header_lines(origin, checked)), "header")]
    count = 0
    by_evaluation: dict[str, list[CheckedStep]] = {}
    for check in checked:
        by_evaluation.setdefault(check.of.id, []).append(check)
    for name, steps in by_evaluation.items():
        notes = [f"- {step.note}" for step in steps if step.note]
        if words := "\n\n".join(part for part in (steps[0].of.description, "\n".join(notes)) if part):
            cells.append(_markdown_cell(words, f"{name}-words"))
        present = [step for step in steps if step.verdict != "absent"]
        if present:
            count += 1
            cells.append(_code_cell(present, count, name))
    metadata = {"kernelspec": _KERNEL_SPEC, "language_info": {"name": "python"}}
    book = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, ensure_ascii=False, indent=1) + "\n"


def _markdown_cell(text: str, name: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": _cell_id(name), "metadata": {}, "source": _split_lines(text)}


def _code_cell(steps: Sequence[CheckedStep], count: int, name: str) -> dict[str, Any]:
    """Return a code cell with the steps of one evaluation and their outputs."""
    cell = next((step.cell for step in steps if step.cell is not None), None)
    outputs = _build_outputs(steps, count) if cell is None else [_set_execution_count(output, count) for output in cell]
    # Keep a kernel's cell unchanged: a semicolon at its end suppresses its value.
    source = "\n".join(step.step.text for step in steps) if cell is None else steps[0].of.code
    return {
        "cell_type": "code", "id": _cell_id(name), "metadata": {}, "execution_count": count,
        "source": _split_lines(source), "outputs": outputs,
    }  # fmt: skip


def _set_execution_count(output: Mapping[str, object], count: int) -> dict[str, Any]:
    """Return an output with its cell's execution count, if outputs of this type have one."""
    return {name: count if name == "execution_count" else value for name, value in output.items()}


def _build_outputs(steps: Sequence[CheckedStep], count: int) -> list[dict[str, Any]]:
    """Return a cell's outputs, created from the printed text, images, errors and values of its steps."""
    outputs: list[dict[str, Any]] = []
    for step in steps:
        if step.out:
            outputs.append({"output_type": "stream", "name": "stdout", "text": _split_lines(step.out)})
        outputs += [_display_output(bundle) for text in step.images for bundle in _split_bundles(text)]
        if step.raised is not None:
            error = {"ename": step.raised.name, "evalue": step.raised.message, "traceback": [str(step.raised)]}
            outputs.append({"output_type": "error", **error})
    last = steps[-1]
    if last.value is not None and last.value != "None":
        *displayed, data = _split_bundles(last.drawn or last.value)
        outputs += map(_display_output, displayed)
        outputs.append({"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data})
    return outputs


def _display_output(bundle: dict[str, Any]) -> dict[str, Any]:
    """Return an output of type `display_data` with a MIME bundle."""
    return {"output_type": "display_data", "metadata": {}, "data": bundle}


def _split_bundles(text: str) -> list[dict[str, Any]]:
    """Split a value into MIME bundles, one for each image. The last one also contains the text."""
    *before, last = [{found[1]: found[2]} for found in DATA_URL_PATTERN.finditer(text)] or [{}]
    return [
        *before,
        {**last, "text/plain": _split_lines(replace_image_data(text, lambda _image: "").strip() if last else text)},
    ]


def _cell_id(name: str) -> str:
    """Return a cell id that does not change when the notebook is exported again."""
    return hashlib.sha256(name.encode()).hexdigest()[:12]


def _split_lines(text: str) -> list[str]:
    """Split a string into lines with line endings, as stored in notebook files."""
    return text.splitlines(keepends=True)
