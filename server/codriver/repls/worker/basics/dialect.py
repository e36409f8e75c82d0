"""The interface of a dialect: a language that the worker evaluates."""

from __future__ import annotations

import keyword
import types

from .error_report import plain_frame_locals, user_frame_locals
from .plain_values import PYTHON_PRINTER
from .print_limits import send_value
from .stored_values import StoredValues, has_display, render_display
from .undo_records import UndoRecords
from .value_paths import NoSuchPartError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .jobs import Job

MAX_COMPLETIONS = 500
"""Maximum number of completions in an answer."""


MAX_LISTED_NAMES = 50
"""Maximum number of names in a list of names."""


class NamespaceMissingError(Exception):
    """Raised when a request names a namespace that does not exist."""


class Dialect:
    """A language that the worker evaluates. Each language has its own type of namespace."""

    expands = False
    """Whether the language has macros."""
    runs_concurrently = False
    """Whether code can run on threads other than the main one."""
    reports_drift = False
    """Whether the dialect compares loaded code with its files."""
    reports_loaded = False
    """Whether the dialect can list the code loaded from each file for the server to compare."""
    has_hooks = False
    """Whether `sys.excepthook` decides how errors are displayed."""
    is_lisp = False
    plain_printer = PYTHON_PRINTER
    """Prints plain values in the language's notation."""
    home: Any
    """The namespace of the first session."""
    roots: list[str]
    """The directories that contain the project's files."""

    def __init__(self) -> None:
        self.stored_values = StoredValues()
        self.roots = []
        self.undo_records: UndoRecords = UndoRecords([])
        """Records of changed definitions that can be restored."""

    def name_for_recording(self, code: types.CodeType, module: str, name: str) -> tuple[str, str]:  # noqa: ARG002  # of a Lisp
        """Return the module and name under which calls to a function are recorded.

        Calls are not recorded if the name is empty.
        """
        return module, name

    def versions(self) -> dict[str, str]:
        """Return the versions of the language and its interpreter, by name."""
        raise NotImplementedError

    def module_of(self, path: str) -> str | None:
        """Return the name of the module that a file defines, or None if the file is not a module."""
        del path
        return None

    def previous_sources(self, since_ms: int, evaluated: str) -> dict[str, bytes]:
        """Return the previous sources of changed files, by file.

        These are the files that were loaded with a different source after `since_ms`, a time in milliseconds, and the
        files of modules with a rebound name that the code `evaluated` mentions.
        """
        del since_ms, evaluated
        return {}

    def last_changed_ms(self, code: types.CodeType, mark: int) -> int:
        """Return the time at which a load last changed the behavior of a function, in milliseconds, or 0 if unknown.

        The function is identified by its code object and the mark of its code.
        """
        del code, mark
        return 0

    def create_load_comparison(self, make: Callable[[Any, list[str]], Any]) -> Any:
        """Create a comparison with fresh imports by calling `make`. Return None if the dialect does not support it.

        `make` receives the loaded sources and the project's directories.
        """
        del make

    def capture_streams(self) -> None:
        """Redirect output from user threads to the worker's streams if replacing `sys.stdout` is not enough."""

    def display_name(self, namespace: Any) -> str:
        """Return the display name of a namespace."""
        raise NotImplementedError

    def find(self, name: object) -> Any:
        """Return the namespace with this name, or None if there is none."""
        raise NotImplementedError

    def create_session_namespace(self) -> Any:
        """Create the first namespace of a new separate session."""
        raise NotImplementedError

    def drop_session_namespace(self, namespace: Any) -> None:
        """Discard a namespace created by `create_session_namespace`."""

    def evaluate(self, job: Job) -> None:
        """Run the code of a job and send its values. Errors raised by the code propagate.

        Raises:
            NamespaceMissingError: the request names a namespace that does not exist.
        """
        raise NotImplementedError

    def describe_failure(self, error: BaseException, job: Job) -> tuple[dict[str, Any], str]:
        """Describe a failure, both as fields for `codriver/error` and as text."""
        raise NotImplementedError

    def error_locals(self, error: BaseException, most: int) -> list[dict[str, Any]]:
        """Return the local variables in frames of user code. Each is printed with at most `most` characters."""
        return user_frame_locals(error, most, self.plain_printer, self.source_name)

    def plain_error_locals(self, error: BaseException) -> list[str]:
        """Return the plain local variables of the frame in which user code failed, each as `name=value`."""
        return plain_frame_locals(error, self.plain_printer, self.source_name)

    def source_name(self, name: str) -> str:
        """Return the name that a local variable has in the source, or "" if it is not in the source."""
        return name if name.isidentifier() and name[:2] != "__" else ""

    def print_value(self, value: Any, job: Job, start: int = 0, path: tuple[object, ...] = ()) -> tuple[str, str]:
        """Print a value within the limits of the request. Return the text and a description of what was omitted.

        Printing starts at the element `start`. `path` refers to the value in the description.
        """
        raise NotImplementedError

    def get_part(self, value: Any, path: list[object]) -> Any:
        """Return the part of a value at a path.

        Raises:
            NoSuchPartError: the value has no such part.
        """
        raise NotImplementedError

    def send_part(self, job: Job) -> None:
        """Handle the op `codriver/value`, which sends part of a stored value or the reason why it is unavailable."""
        message, number = job.message, None
        path, start = message.get("path") or [], job.message.get("from")
        if path and isinstance(path[0], str) and path[0][:1] == "$" and path[0][1:].isdigit():
            number, path = int(path[0][1:]), path[1:]
        try:
            value = self.stored_values.find(message["evaluation"], number)
            if len(path) == 1 and isinstance(path[0], str) and has_display(value, path[0]):
                page = render_display(value, path[0], start if isinstance(start, int) and start > 0 else 0)
                send_value(job, page, self.display_name(job.session.namespace))
                return
            value = self.get_part(value, path)
        except NoSuchPartError as error:
            job.send({"codriver/missing": str(error)})
            return
        text, cut = self.print_value(value, job, start if isinstance(start, int) and start > 0 else 0, tuple(path))
        send_value(job, text, self.display_name(job.session.namespace), cut=cut)

    def complete(self, prefix: str, namespace: Any) -> list[dict[str, str]]:
        """Return completions of a prefix, without running user code."""
        raise NotImplementedError

    def lookup(self, name: str, namespace: Any) -> dict[str, Any] | None:
        """Return a description of a name, or None if the name cannot be resolved."""
        raise NotImplementedError

    def source(self, name: str, namespace: Any) -> tuple[str, str, int] | None:
        """Return the source text of a definition, its file and its first line, or None if the source is unknown.

        In Lisp, the text may continue after the definition, because only a Lisp reader can find its end.
        """
        raise NotImplementedError

    def names(self, pattern: str, namespace: Any) -> dict[str, Any] | None:
        """Return the public names of a namespace, or the names and namespaces that match a pattern with `*`.

        Each of the `rows` has `name`, `type`, and optionally `args` and the first line of `doc`. There are at most
        `MAX_LISTED_NAMES` rows, and `omitted` is the number left out. `private` is the number of private names that are
        not listed, if any. A `*` matches any number of characters, and case is ignored. Returns None if the namespace
        does not exist.
        """
        raise NotImplementedError

    def before_answer(self) -> None:
        """Process the code that an evaluation has loaded, before the end of the evaluation is reported."""

    def after_answer(self) -> None:
        """Do work that no client waits for, after the end of an evaluation has been reported."""

    def find_drift(self, root: str, only: str) -> list[dict[str, str]]:
        """Return the differences between loaded modules and their files below `root`. See `Drift`."""
        raise NotImplementedError

    def dependents(self, _file: str) -> list[tuple[str, str]]:
        """Return the names and files of the loaded modules that import a file's module, in load order."""
        return []

    def list_loaded(self, root: str, known: str) -> dict[str, Any]:
        """Return the loaded namespaces whose files are below `root`. See `LispLoaded`."""
        raise NotImplementedError


def name_matcher(pattern: str) -> Callable[[str], object]:
    """Return a function that checks whether a name matches a pattern. A `*` matches any number of characters."""
    import re

    parts = (re.escape(part) for part in pattern.split("*"))
    return re.compile(".*".join(parts), re.IGNORECASE | re.DOTALL).fullmatch


def first_doc_line(doc: object) -> str:
    """Return the first non-blank line of a docstring, or "" if there is none."""
    lines = doc.splitlines() if isinstance(doc, str) else ()
    return next((line.strip() for line in lines if line.strip()), "")


def value_kind(value: object, name: str) -> str:
    """Return the kind of a value for completion and lookup: keyword, module, class, function or variable."""
    if name in keyword.kwlist:
        return "keyword"
    kind = type(value)  # `isinstance` may run code in the value's class
    if issubclass(kind, types.ModuleType):
        return "module"
    if issubclass(kind, type):
        return "class"
    return "function" if callable(value) or issubclass(kind, (staticmethod, classmethod)) else "variable"
