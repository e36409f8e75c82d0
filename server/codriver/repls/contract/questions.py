"""Questions about code in a REPL, as values: each says what is asked, and reads the answer of whatever REPL was asked.

An adapter says how a question is put to its REPL, and gives the REPL's words as a map; the words of questions and
answers are those of Codriver's own code in REPLs. Of drift the answer is the differences of a REPL's code from its
files, and which of its code is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, TypeVar, get_args

from codriver.core.values import MAIN_SESSION
from codriver.lisp.reader import top_level_forms
from codriver.repls.contract.adapter_values import Completion, Listed, Names, Source, StackTrace, Symbol
from codriver.wire.untrusted import as_int, as_list, as_map, as_text, as_texts

if TYPE_CHECKING:
    from pathlib import Path


OnlyOf = Literal["", "old", "edited"]
DriftKind = Literal[
    "edited", "redefined", "gone", "missing", "kept", "unknown", "docstring", "order", "deleted", "unparsable",
    "old", "former", "instances", "closures", "unbound", "renewed", "removed", "emptied", "stays", "unchanged",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between a module as it is loaded and its file as it is now.

    `edited`: the file has another definition since, `of` naming the part that differs where it is not the body.
    `redefined`: the name was bound anew since its load. `gone`: the file has none. `missing`: only the file has it.
    `docstring`: that alone was edited. `order`: statements stand in another order, from this one on. `deleted`,
    `unparsable`: the file is not there, or `of` says why it does not parse. `unbound`: the name is imported from `of`,
    which is gone. `old`: the name has an object of a former load, `of` being its successor. `instances`: so many, `of`,
    live on of a former load's class. `closures`: so many of what a former load's function has made. `renewed`, which is
    told once: a load since has put its own in place of the name's object of a former load, of the class of so many
    instances, or of the code of so many closures. `removed`, told once too: a load since has taken it out, as the file
    has it no more. `emptied`, told once: a cache around it lost so many values, as it changed. `stays`, told once: a
    load has left something of it as it was, `of` says what. `unchanged`: a load had nothing to run. In Lisp there are
    also `kept`: the file has another form, and no load defines it anew, as it is a multimethod or of `defonce`;
    `former`: the type is of a protocol's former load, `of` being the protocol; `unknown`: nobody saw what was loaded or
    evaluated.
    """

    module: str
    name: str
    kind: DriftKind
    evaluated: bool = False
    """Whether the live definition is from code that was evaluated."""
    of: str = ""
    by: str = ""
    """The caller who evaluated the live definition, the evaluation and the time, as far as they are known already."""
    path: str = ""
    """The file whose text differs from the one that was loaded, in Python."""
    joint: str = "."
    """The text between the name of the module and that of its definition."""

    @property
    def full(self) -> str:
        """The qualified name."""
        return f"{self.module}{self.joint}{self.name}"


@dataclass(frozen=True, slots=True)
class LoadedVar:
    """A var as it is loaded: the file and line that it was defined at, as far as its namespace's files have them.

    A `file` that is blank: it was evaluated. `root` stands for its value: another one, another value. `stamp` for its
    definition: another one, it was defined anew.
    """

    name: str
    file: str
    line: int | None
    root: str
    stamp: str = ""


@dataclass(frozen=True, slots=True)
class LoadedNamespace:
    """A namespace as it is loaded; without `files` it is not of the folder that was asked about.

    `mark` stands for all of it: the same one, nothing changed.
    """

    name: str
    mark: str
    files: tuple[str, ...] = ()
    vars: tuple[LoadedVar, ...] = ()


@dataclass(frozen=True, slots=True)
class LivesOn:
    """A survivor of a former load: see the kinds of `Difference`."""

    module: str
    name: str
    kind: Literal["old", "former", "instances"]
    of: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """The code that a Lisp has loaded: when it began, all its namespaces, those whose mark is new, what lives on."""

    began_ms: int
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
class Question(Generic[Answer]):
    """A question to a REPL, which any number of REPLs may be asked."""

    name: ClassVar[str]
    """The word for it in ops, programs and kernels."""
    capability: ClassVar[str] = ""
    """The capability without which it is refused; empty where a REPL that cannot answer tells nothing."""
    namespace: str | None = None
    """The namespace in which names are read; None: that of the session."""
    session: str = MAIN_SESSION

    def asked(self, namespace: str) -> dict[str, str | int]:
        """The question in words, its names read in that namespace."""
        raise NotImplementedError

    def read(self, told: Mapping[str, object]) -> Answer:
        """The answer, from what a REPL told; of a map without any entries, that it knows nothing."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Complete(Question[tuple[Completion, ...]]):
    """The completions of `prefix`, in the REPL's order; none of what the namespace does not know."""

    name: ClassVar[str] = "complete"
    capability: ClassVar[str] = "complete"
    prefix: str

    def asked(self, namespace: str) -> dict[str, str | int]:
        """The prefix, and the namespace around it."""
        return {"prefix": self.prefix, "ns": namespace}

    def read(self, told: Mapping[str, object]) -> tuple[Completion, ...]:
        """The completions in `completions`, a list of maps or of texts."""
        found = []
        for item in as_list(told.get("completions")):
            fields = as_map(item)
            if candidate := candidate_of(item):
                kind, namespace = as_text(fields.get("type")), as_text(fields.get("ns"))
                found.append(Completion(candidate, kind or None, namespace or None))
        return tuple(found)


def candidate_of(item: object) -> str:
    """The text of a completion, which is told as a map or as a text; empty of anything else."""
    return as_text(item) or as_text(as_map(item).get("candidate")) or ""


@dataclass(frozen=True, slots=True)
class Lookup(Question[Symbol | None]):
    """The documentation and place of `symbol`; None when it does not resolve."""

    name: ClassVar[str] = "lookup"
    capability: ClassVar[str] = "lookup"
    symbol: str

    def asked(self, namespace: str) -> dict[str, str | int]:
        """The symbol, and the namespace around it."""
        return {"name": self.symbol, "ns": namespace}

    def read(self, told: Mapping[str, object]) -> Symbol | None:
        """The symbol with these parts; None when they say nothing. What has no place of its own is `extra`."""
        printed = as_text(told.get("arglists-str")) or as_text(told.get("arglists")) or ""
        symbol = Symbol(
            name=as_text(told.get("name")) or self.symbol,
            namespace=as_text(told.get("ns")) or None,
            doc=as_text(told.get("doc")) or as_text(told.get("docstring")) or None,
            arglists=as_texts(told.get("arglists")) or tuple(filter(None, _arities(printed))),
            file=read_file(as_text(told.get("file"))),
            line=as_int(told.get("line")),
            column=as_int(told.get("column")),
            macro=as_text(told.get("macro")) in {"true", "True", "1"},
            extra={key: text for key, value in told.items() if key not in _SYMBOL_KEYS and (text := as_text(value))},
        )
        is_known = as_text(told.get("name")) or as_text(told.get("class")) or symbol.doc or symbol.arglists
        return symbol if is_known else None


def _arities(printed: str) -> list[str]:
    """Argument lists, one an arity, from one a line or, as plain nREPL prints them, from a list of vectors."""
    if not (printed.startswith("([") and printed.endswith("])")):
        return printed.split("\n")
    inner = printed[1:-1]
    return [inner[span.start : span.end] for span in top_level_forms(inner)]


@dataclass(frozen=True, slots=True)
class ListNames(Question[Names | None]):
    """The public names in the namespace or module `wanted`; of a pattern, those that match, wherever they are.

    A pattern has a `*` in it, which stands for any characters, also none; case does not count. What matches are
    namespaces, and names in them, qualified unless the session's namespace uses them as they are. At most 50 are
    given, the nearest to the user's code first. None where there is no such namespace, or the REPL has no way to tell.
    """

    name: ClassVar[str] = "names"
    wanted: str

    def asked(self, namespace: str) -> dict[str, str | int]:
        """The namespace or pattern, and the namespace from which it is seen."""
        return {"name": self.wanted, "ns": namespace}

    def read(self, told: Mapping[str, object]) -> Names | None:
        """The names in `rows`, and how many were left out."""
        if "rows" not in told:
            return None
        rows = [as_map(item) for item in as_list(told["rows"])]
        listed = [
            Listed(name, as_text(row.get("type")), as_text(row.get("args")) or "", as_text(row.get("doc")) or "")
            for row in rows
            if (name := as_text(row.get("name")))
        ]
        return Names(tuple(listed), as_int(told.get("omitted")) or 0)


@dataclass(frozen=True, slots=True)
class Executed:
    """The tests that executed functions, by namespace and name, in runs that the REPL has seen; and all files of tests.

    `files` is empty where the REPL has seen no run, or does not note what one executes. `unseen` says in words why the
    last one was not noted, where others are.
    """

    tests: tuple[tuple[str, str], ...] = ()
    files: frozenset[str] = frozenset()
    unseen: str = ""


@dataclass(frozen=True, slots=True)
class FindExecuted(Question[Executed]):
    """The tests that executed one of `functions`, each a file and a qualified name."""

    name: ClassVar[str] = "executed"
    functions: tuple[tuple[str, str], ...]

    def asked(self, namespace: str) -> dict[str, str | int]:
        """The functions as JSON."""
        del namespace
        return {"functions": json.dumps(self.functions)}

    def read(self, told: Mapping[str, object]) -> Executed:
        """The tests in `tests` and the files in `files`, lists of lists."""
        tests = [as_texts(row) for row in as_list(told.get("tests"))]
        files = [as_texts(row) for row in as_list(told.get("files"))]
        unseen = [as_texts(row) for row in as_list(told.get("unseen"))]
        return Executed(
            tuple((row[0], row[1]) for row in tests if len(row) == 2),
            frozenset(row[0] for row in files if row),
            "; ".join(row[0] for row in unseen if row),
        )


@dataclass(frozen=True, slots=True)
class Rerun(Question[tuple[Mapping[str, Any], ...]]):
    """The tests of a `trial` run again in forks, beside what is evaluated next: what came of each side.

    Nothing where the REPL had something else to do, or cannot shield files.
    """

    name: ClassVar[str] = "rerun"
    trial: str

    def asked(self, namespace: str) -> dict[str, str | int]:
        """The trial, as `try_code` sends it."""
        del namespace
        return {"code": self.trial}

    def read(self, told: Mapping[str, object]) -> tuple[Mapping[str, Any], ...]:
        """The outcomes in `told`, which is JSON."""
        found = json.loads(as_text(told.get("told")) or "{}")
        return tuple(found.get("told", ())) if isinstance(found, dict) else ()


@dataclass(frozen=True, slots=True)
class FindSource(Question[Source | None]):
    """The text that defines `symbol`; None if unknown. In a Lisp it may go on behind its form."""

    name: ClassVar[str] = "source"
    symbol: str

    def asked(self, namespace: str) -> dict[str, str | int]:
        """The symbol, and the namespace around it."""
        return {"name": self.symbol, "ns": namespace}

    def read(self, told: Mapping[str, object]) -> Source | None:
        """The source in `text`, with its file and line."""
        text = as_text(told.get("text"))
        return Source(text, read_file(as_text(told.get("file"))), as_int(told.get("line"))) if text else None


@dataclass(frozen=True, slots=True)
class Drift(Question[tuple[Difference, ...]]):
    """The differences of the loaded modules whose files are below `root` from these files. No user code is run.

    `only`: `old`, those between the loaded modules alone, which are objects of a former load; `edited`, these and
    those of files that were written since the REPL began.
    """

    name: ClassVar[str] = "drift"
    capability: ClassVar[str] = "drift"
    root: Path
    only: OnlyOf = ""

    def asked(self, namespace: str) -> dict[str, str | int]:
        """The folder, and which differences."""
        del namespace
        return {"root": str(self.root), "only": self.only}

    def read(self, told: Mapping[str, object]) -> tuple[Difference, ...]:
        """The differences in `rows`; those of a kind that is not known are passed over."""
        found = []
        for row in map(as_map, as_list(told.get("rows"))):
            module, name, kind = (as_text(row.get(key)) or "" for key in ("module", "name", "kind"))
            if module and name and kind in KINDS_OF_DRIFT:
                source, of = as_text(row.get("file")) or "", as_text(row.get("of")) or ""
                path = as_text(row.get("path")) or ""
                found.append(Difference(module, name, KINDS_OF_DRIFT[kind], source.startswith("<eval"), of, path=path))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Restore(Question[tuple[str, ...]]):
    """Put back the definitions that loads under the id `hold` changed, each the object that it was; or `keep` them.

    The names that were defined anew since stay, and are given. No code of the user's is run again.
    """

    name: ClassVar[str] = "restore"
    capability: ClassVar[str] = "restore"
    hold: str
    keep: bool = False

    def asked(self, namespace: str) -> dict[str, str | int]:
        """The hold, and whether it is kept."""
        del namespace
        return {"hold": self.hold, "keep": int(self.keep)}

    def read(self, told: Mapping[str, object]) -> tuple[str, ...]:
        """The names in `left`."""
        return as_texts(told.get("left"))


@dataclass(frozen=True, slots=True)
class LastError(Question[StackTrace | None]):
    """The last error of a session; None when there was none.

    With `local_characters` the user's frames have their locals where the REPL has them, each printed to so many
    characters. They are plain values, or told by their type: no code of the user's runs for it.
    """

    name: ClassVar[str] = "error"
    capability: ClassVar[str] = "stacktrace"
    local_characters: int = 0

    def asked(self, namespace: str) -> dict[str, str | int]:
        """The length of locals; of 0 none are wanted."""
        del namespace
        return {"characters": self.local_characters}

    def read(self, told: Mapping[str, object]) -> StackTrace | None:
        """The error in `trace`, as the adapter reads it: REPLs tell errors in many ways."""
        trace = told.get("trace")
        return trace if isinstance(trace, StackTrace) else None


def read_file(name: str | None) -> str | None:
    """A file's name as a path; None for the words that stand for no file."""
    if not name or name in {"NO_SOURCE_PATH", "NO_SOURCE_FILE", "REPL", "<nREPL Input>", "<string>", "null"}:
        return None
    # nbb gives the text of a loaded file in the place of its name.
    if "\n" in name:
        return None
    if name.startswith("file:"):
        return "/" + name.removeprefix("file:").lstrip("/")
    return name
