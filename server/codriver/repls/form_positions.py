"""Find the position of a failure in the code that was sent.

Servers report positions relative to a single form, if at all.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PureWindowsPath
from typing import TYPE_CHECKING

from codriver.repls.contract.events import READING_PHASES
from codriver.repls.stack_traces import PHASES_BEFORE_RUNNING

if TYPE_CHECKING:
    from codriver.core.evaluations import Failure
    from codriver.core.requests import Form, Request


def add_position(error: Failure, request: Request, form: int | None, *, counts_lines: bool) -> Failure:
    """Add the failed form's number and position to a failure, if they can be determined.

    `form` is the number of the form if it was sent alone. `counts_lines` means that the request included the form's
    line, so the server counts lines from there.
    """
    forms = request.forms
    if not forms:
        return error
    if form is not None:
        error = replace(error, form=form)
    if request.kind == "load-forms" and request.file and error.file == PureWindowsPath(request.file).name:
        # JVM frames have only the base name of the file. The path may be a Windows path on any system.
        error = replace(error, file=request.file)
    if error.line is not None and not counts_lines and error.file is None:
        offset = forms[form - 1].line - 1 if form else 0
        error = replace(error, line=error.line + offset)
    if request.kind == "load-forms" and form is not None and error.file is None:
        # The position of a form in its file is known even if the server does not report one.
        error = replace(error, file=request.file, line=error.line or forms[form - 1].line)
    if error.line is None or error.file not in (None, request.file):
        return error
    position = (error.line, error.column or 1)
    if error.form is None and error.phase in PHASES_BEFORE_RUNNING:
        error = replace(error, form=_find_form(position, error, forms))
    if error.form and error.phase in READING_PHASES and position >= _end_position(forms[error.form - 1]):
        # A reader that fails at the end of a token reports its own position, which is after the token and may be on
        # the next line.
        culprit = forms[error.form - 1]
        error = replace(error, line=culprit.line, column=culprit.column)
    return error


def _find_form(position: tuple[int, int], error: Failure, forms: tuple[Form, ...]) -> int | None:
    """Return the number of the form that contains a position, or None."""
    if error.column is None:
        return sum(form.line <= position[0] for form in forms) or None
    # A reader stops after the text that it could not read, which may be where the next form starts.
    last = (position[0], position[1] - (error.phase in READING_PHASES))
    return sum((form.line, form.column) <= last for form in forms) or None


def _end_position(form: Form) -> tuple[int, int]:
    """Return the line and column just after a form."""
    *before, last = form.text.split("\n")
    return (form.line + len(before), (1 if before else form.column) + len(last))
