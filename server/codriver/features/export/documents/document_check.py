"""Check of a document: it is run in a fresh process, and written anew without its failing parts, until all of it holds.

`check_document` asks for runs of the document and is sent the failures; the caller that drives it has the process.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from codriver.errors import CodriverError
from codriver.features.export.documents import lisp_documents, python_documents
from codriver.features.export.documents.layout import arrange
from codriver.features.export.documents.python_documents import notebook
from codriver.features.export.documents.verification import NO_PYTHON, Raised

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.features.export.documents.layout import Format, Origin, Page
    from codriver.features.export.documents.verification import Checked

MOST_ROUNDS: Final = 12
"""Each round leaves out at least one assertion, or all of a test."""


class FormatUnknownError(CodriverError):
    """The dialect has no document of this format."""

    def __init__(self, dialect: str, form: str) -> None:
        if dialect == "unknown":
            what, others = f"a {form} is of Python or a Lisp, and this session is of neither", "recording"
        else:
            what = "a notebook is of Python" if form == "notebook" else f"nothing here knows the tests of {dialect}"
            others = "script, comment or recording"
        super().__init__(f"{what}: choose --format {others}")


class DocumentFailsError(CodriverError):
    """A document does not run in a fresh process, however much is left out. Nothing is written."""

    def __init__(self, error: str) -> None:
        super().__init__(
            f"the document does not run in a fresh process: {error}; choose fewer evaluations, or --format script"
        )


@dataclass(frozen=True, slots=True)
class Failed:
    """A test that failed, or the whole for a blank `test`. `lines`: the lines of the document at which it failed."""

    test: str
    lines: tuple[int, ...]
    error: str


@dataclass(frozen=True, slots=True)
class SoundDocument:
    """A document that holds, and how far each step reproduces in it."""

    text: str
    checked: tuple[Checked, ...]


DocumentCheck = Generator["Page", tuple[Failed, ...], SoundDocument]


def needs_run(form: Format) -> bool:
    """Return true of a document that has more than the verified steps, so that it is to be run itself."""
    return form in {"test", "script"}


def check_format(dialect: str, form: Format) -> None:
    """Refuse a format that cannot be written, before any code runs for it.

    Raises:
        FormatUnknownError: there is no such document in the dialect.
    """
    has_tests = dialect == "python" or dialect in lisp_documents.FRAMEWORKS
    if dialect == "unknown" or (form == "notebook" and dialect != "python") or (form == "test" and not has_tests):
        raise FormatUnknownError(dialect, form)


def check_document(checked: Sequence[Checked], dialect: str, form: Format, origin: Origin) -> DocumentCheck:
    """Ask for runs of the document, as often as needed, and give the document that holds.

    Raises:
        FormatUnknownError: there is no such document in the dialect.
        DocumentFailsError: the document does not even load.
    """
    check_format(dialect, form)
    kept, in_one = tuple(checked), False
    if form == "notebook":
        return SoundDocument(notebook(kept, origin), kept)
    kept = tuple(_without_magic(one) for one in kept)
    failed: tuple[Failed, ...] = ()
    for _ in range(MOST_ROUNDS):
        page = _page(kept, dialect, form, origin, in_one=in_one)
        failed = (yield page) if needs_run(form) else ()
        if not failed:
            return SoundDocument(page.text, kept)
        if form == "test" and not in_one:
            in_one = True
            continue
        lessened = _lessened(kept, page, failed)
        if lessened == kept:
            break
        kept, in_one = lessened, False
    raise DocumentFailsError(failed[0].error if failed else "it never came to rest")


def _without_magic(one: Checked) -> Checked:
    """Return the step without magic; a step that is no Python is left out."""
    is_magic = one.step.role == "magic" and one.verdict != "absent"
    return replace(one.demoted(NO_PYTHON), verdict="absent") if is_magic else one


def _page(checked: Sequence[Checked], dialect: str, form: Format, origin: Origin, *, in_one: bool) -> Page:
    if dialect == "python":
        if form == "test":
            return python_documents.pytest_file(arrange(checked, dialect, in_one=in_one), checked, origin)
        return python_documents.script(checked, origin) if form == "script" else python_documents.comment(checked, origin)  # fmt: skip  # noqa: E501
    if form == "test":
        return lisp_documents.test_file(arrange(checked, dialect, in_one=in_one), checked, origin, dialect)
    return lisp_documents.script(checked, origin) if form == "script" else lisp_documents.comment(checked, origin)


def _lessened(checked: tuple[Checked, ...], page: Page, failed: Sequence[Failed]) -> tuple[Checked, ...]:
    """Return the steps, with less claimed of those at which the document failed."""
    whys: dict[int, str] = {}
    for failure in failed:
        for line in failure.lines[-1:] or page.steps:
            if (one := page.steps.get(line)) is not None:
                whys.setdefault(id(one), failure.error)
    return tuple(_less(one, whys[id(one)]) if id(one) in whys else one for one in checked)


def _less(one: Checked, error: str) -> Checked:
    """A step with less claimed of it: of an error not its class, of a value nothing, at last as one that cannot run."""
    if one.verdict == "raises" and one.raised is not None and one.raised != Raised(""):
        return replace(one, raised=Raised(""))
    why = f"does not hold in a file of its own: {error.splitlines()[0] if error else 'it failed'}"
    if one.verdict in {"same", "varies"} or one.out:
        return one.demoted(why)
    return replace(one.demoted(why), verdict="absent")
