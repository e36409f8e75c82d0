"""Where in the caller's code an evaluation failed: which of its forms, and the line and column as the caller counts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codriver.core.values import Failure
from codriver.repls.adapter_values import NAMESPACE_MISSING

if TYPE_CHECKING:
    from codriver.core.values import Form, Request

READING: Final = frozenset({"read", "read-source"})
BEFORE_RUNNING: Final = READING | {"compile", "compilation", "macroexpansion"}
"""The phases of failures whose place is in the form that failed; what runs may fail in code of any form before."""


def no_namespace(name: str) -> Failure:
    """The failure of an evaluation in a namespace that is not there, in the same words for every REPL."""
    return Failure(
        NAMESPACE_MISSING, f"there is no namespace {name!r}: load or require it first; nothing was evaluated"
    )


def placed(error: Failure, request: Request, form: int | None, *, counts_lines: bool) -> Failure:
    """`error` with its form and its place, as far as they can be known.

    `form`: the number of the form that was sent alone, if one was. `counts_lines`: the server was told where the text
    begins, and counts from there.
    """
    forms = request.forms
    if not forms:
        return error
    if form is not None:
        error = replace(error, form=form)
    if error.line is not None and not counts_lines and error.file is None:
        offset = forms[form - 1].line - 1 if form else 0
        error = replace(error, line=error.line + offset)
    if error.line is None or error.file not in (None, request.file):
        return error
    place = (error.line, error.column or 1)
    if error.form is None and error.phase in BEFORE_RUNNING:
        error = replace(error, form=_form_at(place, error, forms))
    if error.form and error.phase in READING and place >= _end(forms[error.form - 1]):
        # A reader that fails at the end of a token says where it stood, which is beyond it and may be the next line.
        culprit = forms[error.form - 1]
        error = replace(error, line=culprit.line, column=culprit.column)
    return error


def _form_at(place: tuple[int, int], error: Failure, forms: tuple[Form, ...]) -> int | None:
    """The number of the form that a place belongs to."""
    if error.column is None:
        return sum(form.line <= place[0] for form in forms) or None
    # A reader stands behind what it could not read, which may be where the next form begins.
    last = (place[0], place[1] - (error.phase in READING))
    return sum((form.line, form.column) <= last for form in forms) or None


def _end(form: Form) -> tuple[int, int]:
    """The line and column just behind a form."""
    *before, last = form.text.split("\n")
    return (form.line + len(before), (1 if before else form.column) + len(last))
