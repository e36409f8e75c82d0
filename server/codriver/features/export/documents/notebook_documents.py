"""Notebooks as documents: a cell for each evaluation, with its outputs.

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
    from codriver.features.export.documents.verification import CheckedStep


_KERNEL_SPEC: Final = {"display_name": "Python 3", "language": "python", "name": "python3"}


def render_notebook(checked: Sequence[CheckedStep], origin: Origin) -> str:
    """Return a notebook with a cell for each evaluation, the outputs of the fresh REPL, descriptions and notes."""
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
            cells.append(_code(present, count, name))
    metadata = {"kernelspec": _KERNEL_SPEC, "language_info": {"name": "python"}}
    book = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, ensure_ascii=False, indent=1) + "\n"


def _markdown_cell(text: str, name: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": _id(name), "metadata": {}, "source": _lines(text)}


def _code(steps: Sequence[CheckedStep], count: int, name: str) -> dict[str, Any]:
    """Return a code cell with the steps of one evaluation and their outputs."""
    cell = next((step.cell for step in steps if step.cell is not None), None)
    outputs = _outputs(steps, count) if cell is None else [_numbered(output, count) for output in cell]
    # Keep a kernel's cell unchanged: a semicolon at its end suppresses its value.
    source = "\n".join(step.step.text for step in steps) if cell is None else steps[0].of.code
    return {
        "cell_type": "code", "id": _id(name), "metadata": {}, "execution_count": count, "source": _lines(source),
        "outputs": outputs,
    }  # fmt: skip


def _numbered(output: Mapping[str, object], count: int) -> dict[str, Any]:
    """Return a kernel's output as the output of the cell with this execution count."""
    return {name: count if name == "execution_count" else value for name, value in output.items()}


def _outputs(steps: Sequence[CheckedStep], count: int) -> list[dict[str, Any]]:
    """Return the outputs of a cell: the printed output, the images, the error and the value of its steps."""
    outputs: list[dict[str, Any]] = []
    for step in steps:
        if step.out:
            outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(step.out)})
        outputs += [_display(bundle) for text in step.images for bundle in _bundles(text)]
        if step.raised is not None:
            error = {"ename": step.raised.name, "evalue": step.raised.message, "traceback": [str(step.raised)]}
            outputs.append({"output_type": "error", **error})
    last = steps[-1]
    if last.value is not None and last.value != "None":
        *displayed, data = _bundles(last.drawn or last.value)
        outputs += map(_display, displayed)
        outputs.append({"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data})
    return outputs


def _display(bundle: dict[str, Any]) -> dict[str, Any]:
    """Return a MIME bundle as a display output."""
    return {"output_type": "display_data", "metadata": {}, "data": bundle}


def _bundles(text: str) -> list[dict[str, Any]]:
    """Return a value as one MIME bundle for each image. The last one also has the text."""
    *before, last = [{found[1]: found[2]} for found in DATA_URL_PATTERN.finditer(text)] or [{}]
    return [
        *before,
        {**last, "text/plain": _lines(replace_image_data(text, lambda _one: "").strip() if last else text)},
    ]


def _id(name: str) -> str:
    """Return a cell id that stays the same from one export to the next."""
    return hashlib.sha256(name.encode()).hexdigest()[:12]


def _lines(text: str) -> list[str]:
    """Return the lines of a text with their line endings, as notebooks store them."""
    return text.splitlines(keepends=True)
