"""Fuzzing targets for exports of sessions: recordings and documents."""

# ruff: noqa: PT017  # to be refused in good order is one of two good ends

import ast
import re
import warnings

from codriver.features.export.documents import python_documents
from codriver.features.export.documents.layout import Origin, arrange_steps
from codriver.features.export.documents.recordings import (
    RecordedEvaluation,
    RecordingError,
    encode_recording,
    parse_recording,
)
from codriver.features.export.documents.step_verification import CheckedStep, RaisedError
from codriver.features.export.documents.steps import split_python
from fuzz.drawing import text_of


def recording(data):
    """Check that a recording is unchanged after it is written and read again, or is rejected with a line number."""
    try:
        found = parse_recording(text_of(data))
    except RecordingError as error:
        assert re.search(r"line \d+ |the file is empty|the file has the format", str(error))
        return
    assert parse_recording(encode_recording(found).encode().decode()) == found


def python_session(data):
    """Check that code is split into steps like its statements, and that their documents are valid Python."""
    text = text_of(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        steps = split_python(text)
        if steps is None:
            return
        assert [_dumped(step.text) for step in steps] == [ast.dump(node) for node in ast.parse(text).body]
        of, origin = RecordedEvaluation("e-1", text, description=text), Origin("py", "python", "2026-01-01")
        ends = {"verdict": "same", "value": "[1]"}, {"verdict": "raises", "raised": RaisedError("a.B", text)}
        for end in (*ends, {"verdict": "varies", "value": text, "pattern": ".*"}, {"verdict": "ran", "out": text}):
            checked = tuple(CheckedStep(step, of, **end) for step in steps if "value" not in end or _is_value(step))
            ast.parse(python_documents.render_pytest_file(arrange_steps(checked, "python"), checked, origin).text)


def _dumped(text):
    return ast.dump(ast.parse(text).body[0])


def _is_value(step):
    """Return whether a step is an expression that compiles, and so has a value."""
    try:
        compile(step.text, "step", "eval", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except (SyntaxError, ValueError, OverflowError):
        return False
    return step.role == "expression"
