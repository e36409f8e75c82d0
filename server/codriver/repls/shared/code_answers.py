"""Answers about code, whatever told them: symbols, completions, lists of names, and differences from files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

from codriver.lisp.reader import top_level_forms
from codriver.repls.contract.adapter_values import Completion, Listed, Names, Symbol
from codriver.repls.contract.drift_values import Difference, DriftKind
from codriver.wire.untrusted import as_int, as_list, as_map, as_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

KINDS_OF_DRIFT: Final[Mapping[str, DriftKind]] = {kind: kind for kind in get_args(DriftKind)}
_SYMBOL_KEYS: Final = frozenset({
    "id", "session", "status", "name", "ns", "doc", "docstring", "arglists", "arglists-str", "file", "line", "column",
    "macro", "protocol",
})  # fmt: skip


def symbol_of(name: str, fields: Mapping[str, object]) -> Symbol | None:
    """The symbol with these parts; None when they say nothing."""
    printed = as_text(fields.get("arglists-str")) or as_text(fields.get("arglists")) or ""
    arglists: list[object] = as_list(fields.get("arglists")) or [*_arities(printed)]
    symbol = Symbol(
        name=as_text(fields.get("name")) or name,
        namespace=as_text(fields.get("ns")) or None,
        doc=as_text(fields.get("doc")) or as_text(fields.get("docstring")) or None,
        arglists=tuple(text for item in arglists if (text := as_text(item))),
        file=read_file(as_text(fields.get("file"))),
        line=as_int(fields.get("line")),
        column=as_int(fields.get("column")),
        macro=as_text(fields.get("macro")) in {"true", "True", "1"},
        extra={key: text for key, value in fields.items() if key not in _SYMBOL_KEYS and (text := as_text(value))},
    )
    is_known = as_text(fields.get("name")) or as_text(fields.get("class")) or symbol.doc or symbol.arglists
    return symbol if is_known else None


def _arities(printed: str) -> list[str]:
    """Argument lists, one an arity, from one a line or, as plain nREPL prints them, from a list of vectors."""
    if not (printed.startswith("([") and printed.endswith("])")):
        return printed.split("\n")
    inner = printed[1:-1]
    return [inner[span.start : span.end] for span in top_level_forms(inner)]


def read_completions(items: Iterable[object]) -> tuple[Completion, ...]:
    """Completions from a list of maps, or of texts."""
    found = []
    for item in items:
        fields = as_map(item)
        if candidate := as_text(item) or as_text(fields.get("candidate")):
            kind, namespace = as_text(fields.get("type")), as_text(fields.get("ns"))
            found.append(Completion(candidate, kind or None, namespace or None))
    return tuple(found)


def read_names(fields: Mapping[str, object]) -> Names | None:
    """The list that an answer to `codriver/names`, or to our own question, gives; None when there is none."""
    if "rows" not in fields:
        return None
    rows = [as_map(item) for item in as_list(fields["rows"])]
    listed = [
        Listed(name, as_text(row.get("type")), as_text(row.get("args")) or "", as_text(row.get("doc")) or "")
        for row in rows
        if (name := as_text(row.get("name")))
    ]
    return Names(tuple(listed), as_int(fields.get("omitted")) or 0)


def read_drift(fields: Mapping[str, object]) -> tuple[Difference, ...]:
    """The differences that an answer to `codriver/drift` tells."""
    found = []
    for row in map(as_map, as_list(fields.get("rows"))):
        module, name, kind = (as_text(row.get(key)) or "" for key in ("module", "name", "kind"))
        if module and name and kind in KINDS_OF_DRIFT:
            source, of = as_text(row.get("file")) or "", as_text(row.get("of")) or ""
            path = as_text(row.get("path")) or ""
            found.append(Difference(module, name, KINDS_OF_DRIFT[kind], source.startswith("<eval"), of, path=path))
    return tuple(found)


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
