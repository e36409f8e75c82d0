"""The contract of a dialect, a language that the worker evaluates; and printing and source texts, which all share."""

from __future__ import annotations

import collections
import itertools
import keyword
import linecache
import os
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .jobs import Job

COMPLETIONS = 500
"""How many names a completion gives at most."""


class NamespaceMissingError(Exception):
    """A namespace was named that is not there."""


class Dialect:
    """One language, for the life of the worker. A namespace is what the language has for one."""

    expands = False
    """Whether it has macros to expand."""
    has_hooks = False
    """Whether `sys.excepthook` is the user's way to have errors shown."""
    home: Any
    """The namespace of the first session."""

    def versions(self) -> dict[str, str]:
        """Versions by name: of the language and of its interpreter."""
        raise NotImplementedError

    def take_streams(self) -> None:
        """Let threads of user code print to the worker's streams, where `sys.stdout` alone does not do it."""

    def name_of(self, namespace: Any) -> str:
        """What users call a namespace."""
        raise NotImplementedError

    def find(self, name: object) -> Any:
        """The namespace `name` if it is there, else None."""
        raise NotImplementedError

    def new_home(self) -> Any:
        """The first namespace of a session that is to be apart from others."""
        raise NotImplementedError

    def drop_home(self, namespace: Any) -> None:
        """Forget what `new_home` gave, where it was made for one session."""

    def evaluate(self, job: Job) -> None:
        """Run the job's code and tell its values. Whatever the code raises is raised.

        Raises:
            NamespaceMissingError: the request names a namespace that is not there.
        """
        raise NotImplementedError

    def explain(self, error: BaseException, job: Job) -> tuple[dict[str, Any], str]:
        """A failure in parts (`codriver/error`) and as text."""
        raise NotImplementedError

    def complete(self, prefix: str, namespace: Any) -> list[dict[str, str]]:
        """Names that begin with `prefix`, found without running user code."""
        raise NotImplementedError

    def lookup(self, name: str, namespace: Any) -> dict[str, Any] | None:
        """What is known of a name; None if it does not resolve."""
        raise NotImplementedError


def kind_of(value: object, name: str) -> str:
    """The word that completion and lookup have for a value."""
    if name in keyword.kwlist:
        return "keyword"
    if isinstance(value, types.ModuleType):
        return "module"
    if isinstance(value, type):
        return "class"
    return "function" if callable(value) or isinstance(value, (staticmethod, classmethod)) else "variable"


OPTION = "nrepl.middleware.print/"
BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    dict: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    collections.deque: ("deque([", "])"),
}


def tell(job: Job, text: str, namespace: str, *, is_cut: bool = False) -> None:
    """Send a printed value, within the quota of bytes that the request names."""
    quota = job.message.get(OPTION + "quota")
    if isinstance(quota, int) and quota > 0 and len(raw := text[: quota + 1].encode("utf-8", "replace")) > quota:
        text, is_cut = raw[:quota].decode("utf-8", "ignore"), True
    job.tell({"value": text, "ns": namespace, **({"status": [OPTION + "truncated"]} if is_cut else {})})


def limits(job: Job) -> tuple[int | None, int | None]:
    """The length and depth that values are printed to, None for no limit."""
    options = job.message.get(OPTION + "options")

    def limit(name: str) -> int | None:
        given = options.get(name) if isinstance(options, dict) else None
        return given if isinstance(given, int) and given > 0 else None

    return limit("print-length"), limit("print-level")


def shorten(value: Any, length: int | None, depth: int | None, around: tuple[int, ...] = ()) -> str:
    """`repr` that shows at most `length` items of each collection, nested at most `depth` deep."""
    kind = type(value)
    if kind not in BRACKETS or not value:
        return repr(value)
    before, after = BRACKETS[kind]
    if id(value) in around or (depth is not None and len(around) >= depth):
        return before + "..." + after
    around = (*around, id(value))
    shown = list(itertools.islice(value.items() if kind is dict else value, length))
    if kind is dict:
        texts = [shorten(key, length, depth, around) + ": " + shorten(one, length, depth, around) for key, one in shown]
    else:
        texts = [shorten(one, length, depth, around) for one in shown]
    if len(value) > len(shown):
        texts.append("...")
    elif kind is tuple and len(texts) == 1:
        texts[0] += ","
    return before + ", ".join(texts) + after


KEPT_TEXTS = 2000
"""How many evaluated texts are kept."""


class Sources:
    """The evaluated texts of one worker, the oldest dropped first."""

    def __init__(self) -> None:
        self._files: collections.deque[str] = collections.deque()

    def keep(self, file: str, text: str) -> None:
        """Let tracebacks show the lines of code that is in no file; None as its time keeps it from being looked for."""
        if file.startswith("<") or not os.path.exists(file):
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
            self._files.append(file)
            if len(self._files) > KEPT_TEXTS:
                linecache.cache.pop(self._files.popleft(), None)
