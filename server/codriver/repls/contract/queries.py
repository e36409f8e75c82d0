"""Queries about code in a REPL, each with its request and the parser of its answer.

A query knows the fields of its request and how to parse any REPL's reply. The adapter only sends the request and
receives the reply. The field names are those of Codriver's programs in REPLs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

from codriver.core.requests import MAIN_SESSION
from codriver.repls.contract.drift import DRIFT_KINDS, Difference, OnlyOf
from codriver.repls.contract.stack_trace_values import StackTrace
from codriver.repls.contract.symbols import Completion, ListedName, Names, Source, Symbol
from codriver.wire.untrusted import int_or_none, list_or_empty, mapping_or_empty, strings_or_empty, text_or_none
from codriver_lisp.reader import top_level_forms

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Answer = TypeVar("Answer")
"""The type of the answer to a query."""
_KNOWN_SYMBOL_KEYS: Final = frozenset({
    "id", "session", "status", "name", "ns", "doc", "docstring", "arglists", "arglists-str", "file", "line", "column",
    "macro", "protocol",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Query(Generic[Answer]):
    """A query about code that can be sent to any REPL. `Answer` is the type of its answer."""

    name: ClassVar[str]
    """The name of the query in ops, programs and kernels."""
    capability: ClassVar[str] = ""
    """The required capability. If empty, REPLs that cannot answer return an empty answer instead of refusing."""
    is_for_server: ClassVar[bool] = False
    """Whether to use the server's op that provides the capability instead of Codriver's own program."""
    timeout_s: ClassVar[float] = 0.0
    """Seconds to wait for an answer that may take longer than usual, or 0 for the usual time limit."""
    namespace: str | None = None
    """The namespace in which names are resolved, or None for the session's namespace."""
    session: str = MAIN_SESSION

    def request_fields(self, namespace: str) -> dict[str, str | int]:
        """Return the fields of the request. Names are resolved in `namespace`."""
        raise NotImplementedError

    def read(self, answer: Mapping[str, object]) -> Answer:
        """Parse the fields of the REPL's reply. An empty mapping means that the REPL has no answer."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Complete(Query[tuple[Completion, ...]]):
    """A query for the names that complete `prefix`, in the REPL's order."""

    name: ClassVar[str] = "complete"
    capability: ClassVar[str] = "complete"
    prefix: str

    def request_fields(self, namespace: str) -> dict[str, str | int]:
        """Return the prefix and the namespace."""
        return {"prefix": self.prefix, "ns": namespace}

    def read(self, answer: Mapping[str, object]) -> tuple[Completion, ...]:
        """Parse `completions`, a list of maps or strings."""
        found = []
        for item in list_or_empty(answer.get("completions")):
            fields = mapping_or_empty(item)
            if candidate := completion_text(item):
                kind, namespace = text_or_none(fields.get("type")), text_or_none(fields.get("ns"))
                found.append(Completion(candidate, kind or None, namespace or None))
        return tuple(found)


def completion_text(item: object) -> str:
    """Return the text of a completion that is a map or a string, or "" for any other value."""
    return text_or_none(item) or text_or_none(mapping_or_empty(item).get("candidate")) or ""


@dataclass(frozen=True, slots=True)
class Lookup(Query[Symbol | None]):
    """A query for the documentation and position of `symbol`. The answer is None if the symbol cannot be resolved."""

    name: ClassVar[str] = "lookup"
    capability: ClassVar[str] = "lookup"
    symbol: str

    def request_fields(self, namespace: str) -> dict[str, str | int]:
        """Return the symbol and the namespace."""
        return {"name": self.symbol, "ns": namespace}

    def read(self, answer: Mapping[str, object]) -> Symbol | None:
        """Parse the fields of a symbol. Return None if they contain no information.

        Unknown fields are collected in `extra`.
        """
        printed = text_or_none(answer.get("arglists-str")) or text_or_none(answer.get("arglists")) or ""
        symbol = Symbol(
            name=text_or_none(answer.get("name")) or self.symbol,
            namespace=text_or_none(answer.get("ns")) or None,
            doc=text_or_none(answer.get("doc")) or text_or_none(answer.get("docstring")) or None,
            arglists=strings_or_empty(answer.get("arglists")) or tuple(filter(None, _arities(printed))),
            file=path_or_none(text_or_none(answer.get("file"))),
            line=int_or_none(answer.get("line")),
            column=int_or_none(answer.get("column")),
            macro=text_or_none(answer.get("macro")) in {"true", "True", "1"},
            extra={
                key: text
                for key, value in answer.items()
                if key not in _KNOWN_SYMBOL_KEYS and (text := text_or_none(value))
            },
        )
        is_known = (
            text_or_none(answer.get("name")) or text_or_none(answer.get("class")) or symbol.doc or symbol.arglists
        )
        return symbol if is_known else None


def _arities(printed: str) -> list[str]:
    """Split printed argument lists into one string per arity.

    They are separated by newlines or, in plain nREPL, printed as a list of vectors.
    """
    if not (printed.startswith("([") and printed.endswith("])")):
        return printed.split("\n")
    inner = printed[1:-1]
    return [inner[span.start : span.end] for span in top_level_forms(inner)]


@dataclass(frozen=True, slots=True)
class ListNames(Query[Names | None]):
    """A query for the public names in a namespace, or for all names that match a pattern with `*`.

    A `*` matches any number of characters, and case is ignored. A pattern is compared with namespaces and with the
    names in them, which are qualified unless they can be used unqualified in the session's namespace. The answer has at
    most 50 names, starting with those closest to the user's code. It is None for an unknown namespace, or if the REPL
    cannot list names.
    """

    name: ClassVar[str] = "names"
    pattern: str

    def request_fields(self, namespace: str) -> dict[str, str | int]:
        """Return the pattern and the namespace in which it is resolved."""
        return {"name": self.pattern, "ns": namespace}

    def read(self, answer: Mapping[str, object]) -> Names | None:
        """Parse the `rows` and the numbers of omitted names."""
        if "rows" not in answer:
            return None
        rows = [mapping_or_empty(item) for item in list_or_empty(answer["rows"])]
        listed = [
            ListedName(
                name,
                text_or_none(row.get("type")),
                text_or_none(row.get("args")) or "",
                text_or_none(row.get("doc")) or "",
                int_or_none(row.get("line")),
            )
            for row in rows
            if (name := text_or_none(row.get("name")))
        ]
        return Names(tuple(listed), int_or_none(answer.get("omitted")) or 0, int_or_none(answer.get("private")) or 0)


@dataclass(frozen=True, slots=True)
class FindSource(Query[Source | None]):
    """A query for the source text that defines `symbol`. The answer is None if the source is unknown.

    In a Lisp, the text may continue after the end of the form.
    """

    name: ClassVar[str] = "source"
    symbol: str

    def request_fields(self, namespace: str) -> dict[str, str | int]:
        """Return the symbol and the namespace."""
        return {"name": self.symbol, "ns": namespace}

    def read(self, answer: Mapping[str, object]) -> Source | None:
        """Parse `text` with its file and line."""
        text = text_or_none(answer.get("text"))
        return (
            Source(text, path_or_none(text_or_none(answer.get("file"))), int_or_none(answer.get("line")))
            if text
            else None
        )


@dataclass(frozen=True, slots=True)
class Drift(Query[tuple[Difference, ...]]):
    """A query for differences between loaded modules and their files below `root`. It runs no user code.

    With `only="old"`, only objects from previous loads are compared with the loaded modules. With `only="edited"`,
    files written since the REPL started are compared too.
    """

    name: ClassVar[str] = "drift"
    capability: ClassVar[str] = "drift"
    root: Path
    only: OnlyOf = ""

    def request_fields(self, namespace: str) -> dict[str, str | int]:
        """Return the directory, and which differences to return."""
        del namespace
        return {"root": str(self.root), "only": self.only}

    def read(self, answer: Mapping[str, object]) -> tuple[Difference, ...]:
        """Parse the `rows`, omitting differences of unknown kinds."""
        found = []
        for row in map(mapping_or_empty, list_or_empty(answer.get("rows"))):
            module, name, kind = (text_or_none(row.get(key)) or "" for key in ("module", "name", "kind"))
            if module and name and kind in DRIFT_KINDS:
                source, of = text_or_none(row.get("file")) or "", text_or_none(row.get("of")) or ""
                path = text_or_none(row.get("path")) or ""
                is_evaluated, holders = source.startswith("<eval"), text_or_none(row.get("held")) or ""
                found.append(Difference(module, name, DRIFT_KINDS[kind], is_evaluated, of, path=path, holders=holders))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Dependents(Query[tuple[tuple[str, str], ...]]):
    """A query for the loaded modules that import a file's module, directly or indirectly, in import order."""

    name: ClassVar[str] = "dependents"
    capability: ClassVar[str] = "drift"
    file: Path

    def request_fields(self, namespace: str) -> dict[str, str | int]:
        """Return the path of the file."""
        del namespace
        return {"file": str(self.file)}

    def read(self, answer: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
        """Parse the names of the modules and their files."""
        rows = [
            (text_or_none(row.get("name")), text_or_none(row.get("file")))
            for row in map(mapping_or_empty, list_or_empty(answer.get("rows")))
        ]
        return tuple((name, file) for name, file in rows if name and file)


@dataclass(frozen=True, slots=True)
class Restore(Query[tuple[str, ...]]):
    """A request to undo the changes made by loads with this `undo_id`.

    The previous objects are restored without running user code. The answer has the names that were not restored because
    they have been redefined since. With `is_final`, nothing is undone, and the record of the changes is discarded.
    """

    name: ClassVar[str] = "restore"
    capability: ClassVar[str] = "restore"
    undo_id: str
    is_final: bool = False

    def request_fields(self, namespace: str) -> dict[str, str | int]:
        """Return the id of the record, and whether to discard it."""
        del namespace
        return {"hold": self.undo_id, "keep": int(self.is_final)}

    def read(self, answer: Mapping[str, object]) -> tuple[str, ...]:
        """Parse the names that were not restored."""
        return strings_or_empty(answer.get("left"))


@dataclass(frozen=True, slots=True)
class LastError(Query[StackTrace | None]):
    """A query for the last error in a session. The answer is None if there was no error.

    With `local_characters`, the user's frames include their local variables if the REPL has them, each printed with at
    most that many characters. Only plain values are printed. Others are described by their type, so no user code runs.
    """

    name: ClassVar[str] = "error"
    capability: ClassVar[str] = "stacktrace"
    local_characters: int = 0

    def request_fields(self, namespace: str) -> dict[str, str | int]:
        """Return the maximum length of a printed local variable, or 0 to omit local variables."""
        del namespace
        return {"characters": self.local_characters}

    def read(self, answer: Mapping[str, object]) -> StackTrace | None:
        """Return the error in `trace`, which the adapter has already parsed."""
        trace = answer.get("trace")
        return trace if isinstance(trace, StackTrace) else None


def path_or_none(name: str | None) -> str | None:
    """Return the path of a file, or None for the name of code without a file. `file:` URLs are converted."""
    if not name or name in {"NO_SOURCE_PATH", "NO_SOURCE_FILE", "REPL", "<nREPL Input>", "<string>", "null"}:
        return None
    # nbb reports the content of a loaded file instead of its name.
    if "\n" in name:
        return None
    if name.startswith("file:"):
        return "/" + name.removeprefix("file:").lstrip("/")
    return name
