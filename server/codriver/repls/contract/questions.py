"""Questions about code in a REPL, as values: each holds its own words, and reads the answer of any REPL.

An adapter puts a question to its REPL, and gives the REPL's words as a map; questions and answers have the words of
Codriver's own code in REPLs. The answer on drift has the differences between a REPL's code and its files, and the
loaded code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Generic, Literal, TypeVar, get_args

from codriver.core.values import MAIN_SESSION
from codriver.repls.contract.adapter_values import Completion, Listed, Names, Source, StackTrace, Symbol
from codriver.wire.untrusted import as_int, as_list, as_map, as_strings, as_text
from codriver_lisp.reader import top_level_forms

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


OnlyOf = Literal["", "old", "edited"]
DriftKind = Literal[
    "edited", "redefined", "gone", "missing", "kept", "unknown", "docstring", "order", "deleted", "unparsable",
    "old", "former", "instances", "closures", "unbound", "renewed", "removed", "emptied", "stays", "unchanged",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between a loaded module and its present file.

    `edited`: the file has another definition since; `of` names a differing part other than the body. `redefined`: the
    name was bound anew since its load. `gone`: the file has none. `missing`: only the file has it. `docstring`: only
    the docstring was edited. `order`: statements stand in another order, from this one on. `deleted`, `unparsable`: the
    file is missing, or does not parse for the reason `of`. `unbound`: the name is imported from `of`, which is gone.
    `old`: the name has an object of a former load, with `of` as its successor. `instances`: so many instances, `of`, of
    a former load's class live on. `closures`: so many closures of a former load's function live on. `renewed`, told
    once: a later load has replaced the name's object of a former load, the class of so many instances, or the code of
    so many closures by its own. `removed`, told once too: a later load has removed the name, as the file no longer has
    it. `emptied`, told once: a cache around the name lost so many values with the change. `stays`, told once: a load
    has left a part of the definition as it was, named by `of`. `unchanged`: a load had nothing to run. Lisp also has
    `kept`: the file has another form, and no load defines the name anew, as it is a multimethod or of `defonce`;
    `former`: the type is of the protocol `of`'s former load; `unknown`: nobody saw the load or evaluation.
    """

    module: str
    name: str
    kind: DriftKind
    evaluated: bool = False
    """Whether the live definition comes from evaluated code."""
    of: str = ""
    by: str = ""
    """Who evaluated the live definition, in which evaluation and when, as far as known."""
    path: str = ""
    """The file whose text differs from the loaded text, in Python."""
    holders: str = ""
    """The names through which the instances, or the removed function or class, are still referenced, in Python."""
    joint: str = "."
    """The text between the names of the module and of its definition."""

    @property
    def full(self) -> str:
        """Return the qualified name."""
        return f"{self.module}{self.joint}{self.name}"


@dataclass(frozen=True, slots=True)
class LoadedVar:
    """A loaded var with the file and line of its definition, if its namespace's files contain it.

    An empty `file` means that the definition was evaluated. `root` changes with the value, and `stamp` with the
    definition.
    """

    name: str
    file: str
    line: int | None
    root: str
    stamp: str = ""


@dataclass(frozen=True, slots=True)
class LoadedNamespace:
    """A loaded namespace. It has no `files` if it is outside of the requested directory.

    `mark` identifies the state of the whole namespace: the same mark means that nothing has changed.
    """

    name: str
    mark: str
    files: tuple[str, ...] = ()
    vars: tuple[LoadedVar, ...] = ()


@dataclass(frozen=True, slots=True)
class LivesOn:
    """An object of a previous load that still exists: see the kinds of `Difference`."""

    module: str
    name: str
    kind: Literal["old", "former", "instances"]
    of: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """The loaded code of a Lisp process: its start, its namespaces, and objects of previous loads."""

    started_ms: int
    names: frozenset[str]
    changed: tuple[LoadedNamespace, ...]
    lives_on: tuple[LivesOn, ...]


Answer = TypeVar("Answer")
KINDS_OF_DRIFT: Final[Mapping[str, DriftKind]] = {kind: kind for kind in get_args(DriftKind)}
_SYMBOL_KEYS: Final = frozenset({
    "id", "session", "status", "name", "ns", "doc", "docstring", "arglists", "arglists-str", "file", "line", "column",
    "macro", "protocol",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Query(Generic[Answer]):
    """A query that can be sent to any REPL."""

    name: ClassVar[str]
    """The name of the query in ops, programs and kernels."""
    capability: ClassVar[str] = ""
    """The capability that the query needs. If empty, other REPLs answer with nothing instead of refusing."""
    is_for_server: ClassVar[bool] = False
    """Whether to use the operation of the server that provides the capability, instead of Codriver's own."""
    timeout_s: ClassVar[float] = 0.0
    """How long an answer may take in seconds, if longer than usual."""
    namespace: str | None = None
    """The namespace in which names are resolved; None for the session's."""
    session: str = MAIN_SESSION

    def request_fields(self, namespace: str) -> dict[str, str | int]:
        """Return the fields of the request, with names resolved in `namespace`."""
        raise NotImplementedError

    def read(self, answer: Mapping[str, object]) -> Answer:
        """Return the answer from the REPL's reply. An empty mapping means that the REPL knows nothing."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Complete(Query[tuple[Completion, ...]]):
    """The completions of `prefix`, in the REPL's order; none for unknown names."""

    name: ClassVar[str] = "complete"
    capability: ClassVar[str] = "complete"
    prefix: str

    def request_fields(self, namespace: str) -> dict[str, str | int]:
        """Return the prefix, and the namespace around it."""
        return {"prefix": self.prefix, "ns": namespace}

    def read(self, answer: Mapping[str, object]) -> tuple[Completion, ...]:
        """Return the completions in `completions`, a list of maps or of texts."""
        found = []
        for item in as_list(answer.get("completions")):
            fields = as_map(item)
            if candidate := candidate_of(item):
                kind, namespace = as_text(fields.get("type")), as_text(fields.get("ns"))
                found.append(Completion(candidate, kind or None, namespace or None))
        return tuple(found)


def candidate_of(item: object) -> str:
    """Return the text of a completion, which is a mapping or a string; empty for anything else."""
    return as_text(item) or as_text(as_map(item).get("candidate")) or ""


@dataclass(frozen=True, slots=True)
class Lookup(Query[Symbol | None]):
    """The documentation and place of `symbol`; None for an unresolved symbol."""

    name: ClassVar[str] = "lookup"
    capability: ClassVar[str] = "lookup"
    symbol: str

    def request_fields(self, namespace: str) -> dict[str, str | int]:
        """Return the symbol, and the namespace around it."""
        return {"name": self.symbol, "ns": namespace}

    def read(self, answer: Mapping[str, object]) -> Symbol | None:
        """Return the symbol with these parts; None if they say nothing.

        Parts without a field of their own are `extra`.
        """
        printed = as_text(answer.get("arglists-str")) or as_text(answer.get("arglists")) or ""
        symbol = Symbol(
            name=as_text(answer.get("name")) or self.symbol,
            namespace=as_text(answer.get("ns")) or None,
            doc=as_text(answer.get("doc")) or as_text(answer.get("docstring")) or None,
            arglists=as_strings(answer.get("arglists")) or tuple(filter(None, _arities(printed))),
            file=read_file(as_text(answer.get("file"))),
            line=as_int(answer.get("line")),
            column=as_int(answer.get("column")),
            macro=as_text(answer.get("macro")) in {"true", "True", "1"},
            extra={key: text for key, value in answer.items() if key not in _SYMBOL_KEYS and (text := as_text(value))},
        )
        is_known = as_text(answer.get("name")) or as_text(answer.get("class")) or symbol.doc or symbol.arglists
        return symbol if is_known else None


def _arities(printed: str) -> list[str]:
    """Argument lists, one an arity, from lines or, as plain nREPL prints them, from a list of vectors."""
    if not (printed.startswith("([") and printed.endswith("])")):
        return printed.split("\n")
    inner = printed[1:-1]
    return [inner[span.start : span.end] for span in top_level_forms(inner)]


@dataclass(frozen=True, slots=True)
class ListNames(Query[Names | None]):
    """The public names in the namespace or module `pattern`; for a pattern, all matching names anywhere.

    A pattern has a `*`, which stands for any characters, also none; case does not count. Namespaces match, and names in
    them, qualified unless the session's namespace uses them unqualified. At most 50 are given, the nearest to the
    user's code first. None for an unknown namespace, or a REPL without a way to tell.
    """

    name: ClassVar[str] = "names"
    pattern: str

    def request_fields(self, namespace: str) -> dict[str, str | int]:
        """Return the namespace or pattern, and the namespace in which it is resolved."""
        return {"name": self.pattern, "ns": namespace}

    def read(self, answer: Mapping[str, object]) -> Names | None:
        """Return the names in `rows`, and the number left out."""
        if "rows" not in answer:
            return None
        rows = [as_map(item) for item in as_list(answer["rows"])]
        listed = [
            Listed(
                name,
                as_text(row.get("type")),
                as_text(row.get("args")) or "",
                as_text(row.get("doc")) or "",
                as_int(row.get("line")),
            )
            for row in rows
            if (name := as_text(row.get("name")))
        ]
        return Names(tuple(listed), as_int(answer.get("omitted")) or 0)


@dataclass(frozen=True, slots=True)
class FindSource(Query[Source | None]):
    """The text that defines `symbol`; None if unknown. In a Lisp it may go on behind its form."""

    name: ClassVar[str] = "source"
    symbol: str

    def request_fields(self, namespace: str) -> dict[str, str | int]:
        """Return the symbol, and the namespace around it."""
        return {"name": self.symbol, "ns": namespace}

    def read(self, answer: Mapping[str, object]) -> Source | None:
        """Return the source in `text`, with its file and line."""
        text = as_text(answer.get("text"))
        return Source(text, read_file(as_text(answer.get("file"))), as_int(answer.get("line"))) if text else None


@dataclass(frozen=True, slots=True)
class Drift(Query[tuple[Difference, ...]]):
    """The differences between loaded modules and their files below `root`. No user code is run.

    `only`: `old` for differences between loaded modules alone, namely objects of a former load; `edited` for these and
    differences in files written since the REPL began.
    """

    name: ClassVar[str] = "drift"
    capability: ClassVar[str] = "drift"
    root: Path
    only: OnlyOf = ""

    def request_fields(self, namespace: str) -> dict[str, str | int]:
        """Return the directory, and the kind of differences."""
        del namespace
        return {"root": str(self.root), "only": self.only}

    def read(self, answer: Mapping[str, object]) -> tuple[Difference, ...]:
        """Return the differences in `rows`, without those of an unknown kind."""
        found = []
        for row in map(as_map, as_list(answer.get("rows"))):
            module, name, kind = (as_text(row.get(key)) or "" for key in ("module", "name", "kind"))
            if module and name and kind in KINDS_OF_DRIFT:
                source, of = as_text(row.get("file")) or "", as_text(row.get("of")) or ""
                path = as_text(row.get("path")) or ""
                is_evaluated, holders = source.startswith("<eval"), as_text(row.get("held")) or ""
                found.append(
                    Difference(module, name, KINDS_OF_DRIFT[kind], is_evaluated, of, path=path, holders=holders)
                )
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Dependents(Query[tuple[tuple[str, str], ...]]):
    """The loaded modules that import the module of a file, directly or not, each behind those that it imports."""

    name: ClassVar[str] = "dependents"
    capability: ClassVar[str] = "drift"
    file: Path

    def request_fields(self, namespace: str) -> dict[str, str | int]:
        """Return the file."""
        del namespace
        return {"file": str(self.file)}

    def read(self, answer: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
        """Return the names of the modules and their files."""
        rows = [
            (as_text(row.get("name")), as_text(row.get("file"))) for row in map(as_map, as_list(answer.get("rows")))
        ]
        return tuple((name, file) for name, file in rows if name and file)


@dataclass(frozen=True, slots=True)
class Restore(Query[tuple[str, ...]]):
    """Undo the changes that loads made under `undo_id`, or discard the record of them with `is_final`.

    The previous objects are restored, and no user code is run. Names that were redefined since then stay, and are
    returned.
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
        """Return the names in `left`."""
        return as_strings(answer.get("left"))


@dataclass(frozen=True, slots=True)
class LastError(Query[StackTrace | None]):
    """The last error of a session; None without one.

    With `local_characters`, the user's frames include their locals if the REPL has them, each printed up to that
    length. Only plain values are printed; others are described by their type, so no user code runs.
    """

    name: ClassVar[str] = "error"
    capability: ClassVar[str] = "stacktrace"
    local_characters: int = 0

    def request_fields(self, namespace: str) -> dict[str, str | int]:
        """Return the length of locals; 0 for none."""
        del namespace
        return {"characters": self.local_characters}

    def read(self, answer: Mapping[str, object]) -> StackTrace | None:
        """Return the error in `trace`, which the adapter has already parsed."""
        trace = answer.get("trace")
        return trace if isinstance(trace, StackTrace) else None


def read_file(name: str | None) -> str | None:
    """Return a file's name as a path; None for words that mean no file."""
    if not name or name in {"NO_SOURCE_PATH", "NO_SOURCE_FILE", "REPL", "<nREPL Input>", "<string>", "null"}:
        return None
    # nbb gives the text of a loaded file in the place of its name.
    if "\n" in name:
        return None
    if name.startswith("file:"):
        return "/" + name.removeprefix("file:").lstrip("/")
    return name
