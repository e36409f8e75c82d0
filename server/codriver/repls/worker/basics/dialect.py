"""The contract of a dialect, a language that the worker evaluates; and source texts, shared by all.

For look-ups regular files alone are read, opened without waiting, and up to a bound.
"""

from __future__ import annotations

import collections
import io
import keyword
import linecache
import os
import stat
import types

from .error_report import locals_of, plain_locals_of
from .held_definitions import UndoRecords
from .plain_values import PYTHON
from .printing import NoSuchPartError, StoredValues, display_of, send_value, shows
from .systems import patiently

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .jobs import Job

COMPLETIONS = 500
"""The most names of a completion."""


LISTED = 50
"""The most names of a list of names."""
MOST_BYTES = 2**24
"""The most bytes of a file in which one definition is looked for, as of a loaded file."""
WITHOUT_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
"""Opening a pipe would wait until somebody writes into it."""


class NamespaceMissingError(Exception):
    """The named namespace does not exist."""


class Dialect:
    """One language, for the life of the worker. A namespace is the language's own kind of one."""

    expands = False
    """Whether the language has macros to expand."""
    runs_concurrently = False
    """Whether code can run on a thread of its own."""
    reports_drift = False
    """Whether the dialect can compare loaded code with the files."""
    reports_loaded = False
    """Whether the dialect can tell the loaded code of each file, for others to compare."""
    has_hooks = False
    """Whether `sys.excepthook` is the user's way to have errors shown."""
    is_lisp = False
    plain_printer = PYTHON
    """Prints plain values in the language's notation."""
    home: Any
    """The namespace of the first session."""
    roots: list[str]
    """The folders of the project's files."""

    def __init__(self) -> None:
        self.stored_values = StoredValues()
        self.roots = []
        self.undo_records: UndoRecords = UndoRecords([])
        """The changed definitions that may be put back."""

    def called(self, code: types.CodeType, module: str, name: str) -> tuple[str, str]:  # noqa: ARG002  # of a Lisp
        """The module and name by which calls of a function are told; an empty name if they are not told."""
        return module, name

    def versions(self) -> dict[str, str]:
        """Versions by name: of the language and of its interpreter."""
        raise NotImplementedError

    def module_of(self, path: str) -> str | None:
        """The name of a file's module; None for other files."""
        del path
        return None

    def previous_sources(self, since_ms: int, evaluated: str) -> dict[str, bytes]:
        """By file the text loaded at that time, if another text was loaded or evaluated since."""
        del since_ms, evaluated
        return {}

    def changed_ms(self, code: types.CodeType, mark: int) -> int:
        """The ms at which a load last changed the behaviour of the function whose code has that mark; 0 if unknown."""
        del code, mark
        return 0

    def compare_loads(self, make: Callable[[Any, list[str]], Any]) -> Any:
        """The comparison with fresh imports that `make` gives for the loaded texts and the folders, or None."""
        del make

    def capture_streams(self) -> None:
        """Let threads of user code print to the worker's streams, if `sys.stdout` alone does not suffice."""

    def name_of(self, namespace: Any) -> str:
        """The name by which users know a namespace."""
        raise NotImplementedError

    def find(self, name: object) -> Any:
        """The namespace `name`; None for a missing one."""
        raise NotImplementedError

    def new_home(self) -> Any:
        """The first namespace of a separate session."""
        raise NotImplementedError

    def drop_home(self, namespace: Any) -> None:
        """Forget a namespace that `new_home` made for one session."""

    def evaluate(self, job: Job) -> None:
        """Run the job's code and tell its values. Whatever the code raises is raised.

        Raises:
            NamespaceMissingError: the request names a missing namespace.
        """
        raise NotImplementedError

    def explain(self, error: BaseException, job: Job) -> tuple[dict[str, Any], str]:
        """A failure in parts (`codriver/error`) and as text."""
        raise NotImplementedError

    def locals_of(self, error: BaseException, most: int) -> list[dict[str, Any]]:
        """The locals of an error's frames in the user's code, each in a line of at most `most` characters."""
        return locals_of(error, most, self.plain_printer, self.local_name)

    def plain_locals_of(self, error: BaseException) -> list[str]:
        """The plain locals at the place where the user's code failed, each as `name=value`."""
        return plain_locals_of(error, self.plain_printer, self.local_name)

    def local_name(self, name: str) -> str:
        """A local's name in the source; nothing for one that is not the user's."""
        return name if name.isidentifier() and name[:2] != "__" else ""

    def print(self, value: Any, job: Job, start: int = 0, path: tuple[object, ...] = ()) -> tuple[str, str]:
        """A value as text, from its element `start` on, within the limits of the request; and the omissions, in words.

        `path` is the way to the value, for these words.
        """
        raise NotImplementedError

    def part_at(self, value: Any, path: list[object]) -> Any:
        """The part of a value at a path.

        Raises:
            NoSuchPartError: the value has no such part.
        """
        raise NotImplementedError

    def show_part(self, job: Job) -> None:
        """Answer the op `codriver/value`: a part of a kept value as text, or why there is none."""
        message, number = job.message, None
        path, start = message.get("path") or [], job.message.get("from")
        if path and isinstance(path[0], str) and path[0][:1] == "$" and path[0][1:].isdigit():
            number, path = int(path[0][1:]), path[1:]
        try:
            value = self.stored_values.find(message["evaluation"], number)
            if len(path) == 1 and isinstance(path[0], str) and shows(value, path[0]):
                page = display_of(value, path[0], start if isinstance(start, int) and start > 0 else 0)
                send_value(job, page, self.name_of(job.session.namespace))
                return
            value = self.part_at(value, path)
        except NoSuchPartError as error:
            job.send({"codriver/missing": str(error)})
            return
        text, cut = self.print(value, job, start if isinstance(start, int) and start > 0 else 0, tuple(path))
        send_value(job, text, self.name_of(job.session.namespace), cut=cut)

    def complete(self, prefix: str, namespace: Any) -> list[dict[str, str]]:
        """Names that begin with `prefix`, found without running user code."""
        raise NotImplementedError

    def lookup(self, name: str, namespace: Any) -> dict[str, Any] | None:
        """The description of a name; None for an unresolved name."""
        raise NotImplementedError

    def source(self, name: str, namespace: Any) -> tuple[str, str, int] | None:
        """The text that defines a name, its file and its first line; None if unknown.

        In Lisp the text goes on behind the definition, as only a reader finds the end.
        """
        raise NotImplementedError

    def names(self, pattern: str, namespace: Any) -> tuple[list[dict[str, str]], int] | None:
        """The public names of the namespace `pattern` or, for a pattern with `*`, matching names and namespaces.

        Each has a row, up to `LISTED`, with `name`, `type`, and if present `args` and the `doc`'s first line; then
        comes the number left out. A `*` stands for any characters, also none; case does not count. None: no such
        namespace.
        """
        raise NotImplementedError

    def before_answer(self) -> None:
        """Look at the code that an evaluation loaded, before its end is told."""

    def after_answer(self) -> None:
        """Do the work that nobody waits for, after the answer of an evaluation."""

    def drift(self, root: str, only: str) -> list[dict[str, str]]:
        """The differences between loaded modules and their files below `root`. See `Drift`."""
        raise NotImplementedError

    def dependents(self, _file: str) -> list[tuple[str, str]]:
        """The names and files of the loaded modules that import the module of a file, in the order of their loads."""
        return []

    def loaded(self, root: str, known: str) -> dict[str, Any]:
        """The loaded namespaces of files below `root`. See `LispLoaded`."""
        raise NotImplementedError


def matcher(pattern: str) -> Callable[[str], object]:
    """The test whether a name matches `pattern`."""
    import re

    parts = (re.escape(part) for part in pattern.split("*"))
    return re.compile(".*".join(parts), re.IGNORECASE | re.DOTALL).fullmatch


def first_line(doc: object) -> str:
    """The first line of a documentation that is not blank."""
    lines = doc.splitlines() if isinstance(doc, str) else ()
    return next((line.strip() for line in lines if line.strip()), "")


def kind_of(value: object, name: str) -> str:
    """The word of completion and lookup for a kind of value."""
    if name in keyword.kwlist:
        return "keyword"
    kind = type(value)  # `isinstance` would ask the value
    if issubclass(kind, types.ModuleType):
        return "module"
    if issubclass(kind, type):
        return "class"
    return "function" if callable(value) or issubclass(kind, (staticmethod, classmethod)) else "variable"


MAX_SOURCES = 2000
"""How many evaluated texts are kept."""


class Sources:
    """The evaluated texts of one worker, the oldest dropped first."""

    def __init__(self) -> None:
        self._files: collections.deque[str] = collections.deque()

    def newest_first(self) -> list[str]:
        """The names of the texts."""
        return list(reversed(self._files))

    def store(self, file: str, text: str) -> None:
        """Let tracebacks show the lines of code outside of files; the time `None` keeps it from being looked for."""
        if file.startswith("<") or not os.path.exists(file):
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
            self._files.append(file)
            if len(self._files) > MAX_SOURCES:
                linecache.cache.pop(self._files.popleft(), None)


def bytes_of(file: str, most: int = MOST_BYTES) -> tuple[os.stat_result, bytes] | None:
    """The status and the content of a file; None for no regular file, or one longer than `most` bytes.

    Raises:
        OSError, ValueError: the file cannot be read.
    """
    number = patiently(lambda: os.open(file, os.O_RDONLY | WITHOUT_WAITING))
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            return None
        with open(number, "rb", closefd=False) as stream:
            return status, stream.read(status.st_size)
    finally:
        os.close(number)


def read_source(file: str, most: int = MOST_BYTES) -> str | None:
    """The text of a Python file; None for no regular file, or one longer than `most` bytes.

    Raises:
        OSError: the file cannot be read.
        SyntaxError, ValueError: the file's encoding is unknown, or not the one that it names.
    """
    found = bytes_of(file, most)
    if found is None:
        return None
    data = found[1]
    import tokenize

    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return io.TextIOWrapper(io.BytesIO(data), encoding).read()


def lines_of(name: str) -> list[str]:
    """The lines of a Python file, or of an evaluated text; none for an unreadable file.

    `linecache` knows the texts; it is not asked for files, as it opens anything.
    """
    stored_values: Any = linecache.cache.get(name)
    # A loader's promise of lines is shorter.
    known: list[str] = stored_values[2] if stored_values is not None and len(stored_values) > 2 else []
    if known and stored_values[1] is None:
        return known
    try:
        text = read_source(name)
    except FileNotFoundError:
        return known
    except (OSError, SyntaxError, ValueError, LookupError):
        return []
    return [] if text is None else io.StringIO(text).readlines()
