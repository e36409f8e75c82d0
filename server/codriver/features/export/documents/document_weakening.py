"""Check a document: run it in a fresh process, and remove failing parts until everything in it passes.

`check_document` is a generator that requests runs of the document and receives the failures. The caller owns the
process.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from codriver.errors import CodriverError
from codriver.features.export.documents import lisp_documents, python_documents
from codriver.features.export.documents.layout import arrange_steps
from codriver.features.export.documents.notebook_documents import render_notebook
from codriver.features.export.documents.step_verification import NOT_PYTHON_NOTE, RaisedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.features.export.documents.layout import DocumentBuilder, Format, Origin
    from codriver.features.export.documents.step_verification import CheckedStep

MAX_ROUNDS: Final = 12
"""Maximum number of attempts to create a document that passes.

After a failed attempt, the tests are merged into one, an assertion is weakened, or a step is left out.
"""


class FormatUnknownError(CodriverError):
    """Raised when documents in a format cannot be created for a dialect."""

    def __init__(self, dialect: str, form: str) -> None:
        if dialect == "unknown":
            what = f"a {form} can only be written in Python or a Lisp, and this session uses neither"
        else:
            what = (
                "a notebook can only be written in Python"
                if form == "notebook"
                else f"Codriver cannot write tests in {dialect}"
            )
        super().__init__(f"{what}: choose --format recording")


class DocumentFailsError(CodriverError):
    """Raised when a document fails in a fresh process even with the weakest assertions. Nothing is written."""

    def __init__(self, error: str) -> None:
        super().__init__(
            f"the document does not run in a fresh process: {error}. Choose fewer evaluations, or --format recording"
        )


@dataclass(frozen=True, slots=True)
class FailedTest:
    """A failed test in the document, with those lines of its traceback that are in the document.

    An empty `test` means that the document failed as a whole.
    """

    test: str
    lines: tuple[int, ...]
    error: str


@dataclass(frozen=True, slots=True)
class VerifiedDocument:
    """The text of a document that passes in a fresh process, and its checked steps."""

    text: str
    checked: tuple[CheckedStep, ...]


DocumentCheck = Generator["DocumentBuilder", tuple[FailedTest, ...], VerifiedDocument]


def check_format(dialect: str, form: Format) -> None:
    """Check that documents in this format can be created for a dialect.

    Raises:
        FormatUnknownError: the dialect does not support the format.
    """
    has_tests = dialect == "python" or dialect in lisp_documents.TEST_LIBRARIES
    if dialect == "unknown" or (form == "notebook" and dialect != "python") or (form == "test" and not has_tests):
        raise FormatUnknownError(dialect, form)


def check_document(checked: Sequence[CheckedStep], dialect: str, form: Format, origin: Origin) -> DocumentCheck:
    """Create a document, and weaken its assertions until it passes.

    This generator yields versions of the document, is sent the failures of each one, and returns the version that
    passes.

    Raises:
        FormatUnknownError: the dialect does not support the format.
        DocumentFailsError: the document still fails when no assertion can be weakened further.
    """
    check_format(dialect, form)
    current, in_one = tuple(checked), False
    if form == "notebook":
        return VerifiedDocument(render_notebook(current, origin), current)
    current = tuple(_drop_magic(check) for check in current)
    failed: tuple[FailedTest, ...] = ()
    for _ in range(MAX_ROUNDS):
        page = _build_test_file(current, dialect, origin, in_one=in_one)
        failed = yield page
        if not failed:
            return VerifiedDocument(page.text, current)
        if not in_one:
            in_one = True
            continue
        lessened = _weaken_failed_steps(current, page, failed)
        if lessened == current:
            break
        current, in_one = lessened, False
    raise DocumentFailsError(failed[0].error if failed else "the document still failed after all attempts")


def _drop_magic(check: CheckedStep) -> CheckedStep:
    """Mark a step as absent if it is IPython magic, which a Python file cannot contain."""
    is_magic = check.step.role == "magic" and check.verdict != "absent"
    return replace(check.without_assertion(NOT_PYTHON_NOTE), verdict="absent") if is_magic else check


def _build_test_file(checked: Sequence[CheckedStep], dialect: str, origin: Origin, *, in_one: bool) -> DocumentBuilder:
    """Return a test file with these steps."""
    layout = arrange_steps(checked, dialect, in_one=in_one)
    if dialect == "python":
        return python_documents.render_pytest_file(layout, checked, origin)
    return lisp_documents.render_test_file(layout, checked, origin, dialect)


def _weaken_failed_steps(
    checked: tuple[CheckedStep, ...], page: DocumentBuilder, failed: Sequence[FailedTest]
) -> tuple[CheckedStep, ...]:
    """Weaken the assertions of the steps where the document failed."""
    whys: dict[int, str] = {}
    for failure in failed:
        for line in failure.lines[-1:] or page.steps:
            if (check := page.steps.get(line)) is not None:
                whys.setdefault(id(check), failure.error)
    return tuple(_weaken(check, whys[id(check)]) if id(check) in whys else check for check in checked)


def _weaken(check: CheckedStep, error: str) -> CheckedStep:
    """Weaken a step's assertion. Drop the class of the error first, then the whole assertion, and finally the step."""
    if check.verdict == "raises" and check.raised is not None and check.raised != RaisedError(""):
        return replace(check, raised=RaisedError(""))
    why = f"fails when it runs in a separate file: {error.splitlines()[0] if error else 'it failed'}"
    if check.verdict in {"same", "varies"} or check.out:
        return check.without_assertion(why)
    return replace(check.without_assertion(why), verdict="absent")
