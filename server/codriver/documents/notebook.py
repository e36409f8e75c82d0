"""Notebooks of Python code. Source: nbformat 4.5, "The Notebook file format"."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

from codriver.core.pictures import DATA, without_data
from codriver.documents.page import header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.documents.page import Origin
    from codriver.documents.verification import Checked

_KERNEL: Final = {"display_name": "Python 3", "language": "python", "name": "python3"}


def notebook(checked: Sequence[Checked], origin: Origin) -> str:
    """A notebook: a cell for each evaluation, with the outputs of the fresh REPL; descriptions and notes above them."""
    cells = [_markdown("\n\n".join(header(origin, checked)), "header")]
    count = 0
    by_evaluation: dict[str, list[Checked]] = {}
    for one in checked:
        by_evaluation.setdefault(one.of.id, []).append(one)
    for name, steps in by_evaluation.items():
        notes = [f"- {one.note}" for one in steps if one.note]
        if words := "\n\n".join(part for part in (steps[0].of.description, "\n".join(notes)) if part):
            cells.append(_markdown(words, f"{name}-words"))
        present = [one for one in steps if one.verdict != "absent"]
        if present:
            count += 1
            cells.append(_code(present, count, name))
    metadata = {"kernelspec": _KERNEL, "language_info": {"name": "python"}}
    book = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, ensure_ascii=False, indent=1) + "\n"


def _markdown(text: str, name: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": _id(name), "metadata": {}, "source": _lines(text)}


def _code(steps: Sequence[Checked], count: int, name: str) -> dict[str, Any]:
    outputs: list[dict[str, Any]] = []
    for one in steps:
        if one.out:
            outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(one.out)})
        outputs += [{"output_type": "display_data", "metadata": {}, "data": _bundle(text)} for text in one.shown]
        if one.raised is not None:
            error = {"ename": one.raised.name, "evalue": one.raised.message, "traceback": [str(one.raised)]}
            outputs.append({"output_type": "error", **error})
    last = steps[-1]
    if last.value is not None and last.value != "None":
        data = _bundle(last.drawn or last.value)
        outputs.append({"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data})
    source = _lines("\n".join(one.step.text for one in steps))
    return {
        "cell_type": "code", "id": _id(name), "metadata": {}, "execution_count": count, "source": source,
        "outputs": outputs,
    }  # fmt: skip


def _bundle(text: str) -> dict[str, Any]:
    """A value by media type: its picture, the last where there are more, and the text beside it."""
    pictures = {found[1]: found[2] for found in DATA.finditer(text)}
    return {**pictures, "text/plain": _lines(without_data(text, lambda _one: "").strip() if pictures else text)}


def _id(name: str) -> str:
    """An id that a cell keeps from one export to the next."""
    return hashlib.sha256(name.encode()).hexdigest()[:12]


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
