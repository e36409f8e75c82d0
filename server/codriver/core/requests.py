"""Requests to evaluate code, load files or run tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from codriver.core.records import dataclass

if TYPE_CHECKING:
    from codriver.core.print_limits import PrintLimits

MAIN_SESSION = "main"
"""The name of the session that callers share unless they have one of their own."""

TEST_SESSION = "codriver/test"
"""The session in which Codriver runs tests, so that callers' `*1`, `*e` and namespace stay unchanged."""


Kind = Literal["evaluate", "load-file", "load-forms", "run-tests"]

SUMMARIZED_KINDS: frozenset[Kind] = frozenset({"run-tests"})
"""The kinds of evaluation whose value is a report. The log contains only a summary of it."""


@dataclass(frozen=True)
class Form:
    """A top-level form of the code to evaluate. Its line and column in the code are counted from 1."""

    text: str
    line: int
    column: int
    log_text: str = ""
    """The text to log, if `text` contains more than the form."""


@dataclass(frozen=True)
class TestSelection:
    """A selection of tests to run. An empty selection contains all tests."""

    namespace: str | None = None
    """A namespace, a Python module, a file or directory in the workspace, or a pytest node id."""
    test: str | None = None
    """The name of a single test in the namespace."""
    match: str | None = None
    """An expression of name parts with `and`, `or` and `not`, as for pytest's `-k`."""
    only: tuple[tuple[str, str], ...] = ()
    """Restricts the run to these tests, each given by namespace and name."""
    extensions: tuple[Any, ...] = ()
    """See `Request.extensions`."""

    def __str__(self) -> str:
        """Describe the selection for people."""
        named = "/".join(part for part in (self.namespace, self.test) if part)
        words = [named or ("what failed last" if self.only else "all tests")]
        return " ".join([*words, *([f"matching {self.match}"] if self.match else [])])


HowToLoad = Literal["", "whole"]
"""How to load a module again: empty for only its changes, `whole` for all of it."""


@dataclass(frozen=True)
class Request:
    """Code to evaluate, with everything that is needed to run it.

    A tool creates the request, and the adapter of the REPL receives it unchanged. `forms` are the top-level forms of
    `code`, or empty if the code is sent as a whole. Forms are sent one by one, and the first failure skips the rest.
    This is because nREPL 1.0.0 continues with the next form after a failure, and other servers return only the last
    value.
    """

    id: str
    """The id of the request's evaluation."""
    code: str
    session: str = MAIN_SESSION
    namespace: str | None = None
    frame: int | None = None
    """The number of the frame to evaluate in, counted in the session's last error or last failed test."""
    is_in_test: bool = False
    """Whether `frame` belongs to the last failed test."""
    forms: tuple[Form, ...] = ()
    file: str | None = None
    """The file that the code is from. For the kinds that load, `code` is the whole file."""
    kind: Kind = "evaluate"
    """`load-file`: load the code as that file.

    `load-forms`: evaluate `forms`, a part of the file, in `namespace`. If the namespace does not exist yet, the whole
    file is loaded, as these forms alone would define only half of it.
    """
    lines: tuple[int, ...] | None = None
    """The lines of the statements to run, for a `load-file` of a module whose previous source is unknown."""
    how: HowToLoad = ""
    """How a `load-file` loads Python: see `HowToLoad`."""
    undo_id: str = ""
    """The id under which the REPL stores the values that a load replaces, so that they can be restored.

    Empty for none.
    """
    part: str | None = None
    """The id of the part of `file` that the code comes from, for a file with parts that run separately."""
    is_partial: bool = False
    """Whether more requests of the same evaluation follow. If so, figures are displayed only after the last request."""
    description: str | None = None
    """One line for the log."""
    background: bool = False
    """Whether to run the code concurrently with all other code, in a session that exists only for it."""
    who: str = ""
    """The caller. Features that observe the REPL attribute the effects of the code to it."""
    max_length: int | None = None
    """The maximum number of elements to print per collection, if the caller gives one."""
    max_depth: int | None = None
    default_limits: PrintLimits | None = None
    """The print limits that apply if the caller gives none, or None for those in the settings."""
    extensions: tuple[Any, ...] = ()
    """Data that features attach to the evaluation: see `codriver.repls.contract.evaluation_extensions`."""
    tests: TestSelection | None = None
    """The tests to run, for the kind `run-tests`. `code` then describes the selection."""
    job: object = None
    """What a job does, as an immutable value that only the runner of jobs interprets. See `StartJob`."""

    @property
    def text(self) -> str:
        """Return the code to run, as it is logged."""
        return (
            "\n".join([form.log_text or form.text for form in self.forms]) if self.kind == "load-forms" else self.code
        )

    @property
    def sent_forms(self) -> tuple[Form, ...]:
        """Return the forms to send one by one: the forms of the request, or its whole code as a single form."""
        return self.forms or (Form(self.code, 1, 1),)


def execution_session_for(kind: Kind, session: str) -> str:
    """Return the session in which an evaluation of this kind runs. Tests run in a separate session."""
    return TEST_SESSION if kind == "run-tests" else session
