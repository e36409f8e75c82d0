"""Describe a symbol, or a list of names, in the fields of an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.errors import format_count, truncate
from codriver.tools.answers.answer_budget import cut_to_head, fit_rows
from codriver.tools.answers.answer_notes import with_notes
from codriver.tools.execution.failure_frames import display_path
from codriver.tools.symbol_lookups import NAMESPACE_TYPES, is_class

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codriver.repls.contract.symbols import ListedName, Names, Symbol
    from codriver.tools.calls.call import Services
    from codriver.tools.symbol_lookups import SymbolLookup

MAX_LINE_CHARACTERS: Final = 160
"""Maximum number of characters in a line about a name in a list, with its parameters and documentation."""
MAX_PARAMETERS_CHARACTERS: Final = 80
"""Maximum number of characters in the parameters displayed for a name in a list."""
MAX_PARAGRAPH_CHARACTERS: Final = 400
"""Maximum length of the documentation of a symbol that is returned with its members or source."""
NOTE_FIELD: Final = "note"
"""Field of a symbol that describes where its information comes from."""


def lookup_fields(lookup: SymbolLookup, services: Services, most: int) -> dict[str, object]:
    """Describe the symbols that were found in fields of an answer, with at most `most` bytes."""
    found, names = lookup.found, lookup.names
    fields = {} if found is None else _symbol_fields(found, services, most)
    if names is None:
        return fields
    if found is not None and is_class(found):
        fields = _class_fields(fields, names, services, most)
    else:
        fields = merge_fields(fields, _names_fields(names, services, most))
    if not names.private:
        return fields
    left_out = format_count(names.private, "private name is", "private names are")
    return with_notes(fields, [f"{left_out} left out: symbol {lookup.symbol}._* lists them"])


def _class_fields(fields: dict[str, object], names: Names, services: Services, most: int) -> dict[str, object]:
    """Describe a class by its members and the first paragraph of its documentation."""
    if doc := fields.get("doc"):
        fields = {**fields, "doc": first_paragraph(str(doc))}
    if not names.listed:
        return fields
    listed = _names_fields(names, services, most)
    return merge_fields(
        fields, {"members": listed.pop("names"), **{name: listed[name] for name in listed if name != "count"}}
    )


def first_paragraph(doc: str) -> str:
    """Return the first paragraph of a symbol's documentation, to be included with its members or source."""
    return truncate(doc.partition("\n\n")[0], MAX_PARAGRAPH_CHARACTERS)


def fields_not_in_source(fields: Mapping[str, object], lookup: SymbolLookup, symbol: str) -> dict[str, object]:
    """Return the fields of a symbol that repeat neither its source nor its requested name."""
    redundant = {"arglists", "column", "extra", "notes"}
    if symbol.startswith(f"{fields.get('ns')}.") and symbol.endswith(f".{fields.get('name')}"):
        redundant |= {"name", "ns"}
    known = {name: value for name, value in fields.items() if name not in redundant}
    extra, notes = fields.get("extra"), fields.get("notes")
    if isinstance(extra, dict) and (rest := {name: text for name, text in extra.items() if name != "type"}):
        known["extra"] = rest
    origin = None if lookup.found is None else lookup.found.extra.get(NOTE_FIELD)
    return with_notes(known, [note for note in notes if note != origin] if isinstance(notes, list) else [])


def merge_fields(fields: Mapping[str, object], added: Mapping[str, object]) -> dict[str, object]:
    """Merge an answer's fields, and concatenate their notes."""
    others = {name: value for name, value in added.items() if name != "notes"}
    notes = added.get("notes")
    return with_notes({**fields, **others}, notes if isinstance(notes, list) else [])


def _symbol_fields(symbol: Symbol, services: Services, most: int) -> dict[str, object]:
    """Convert a symbol to shortened fields of an answer, without secrets. Unknown fields are omitted."""
    clean = services.log.redact
    pairs: dict[str, object] = {
        "name": symbol.name,
        "ns": symbol.namespace,
        "arglists": list(symbol.arglists) or None,
        "doc": cut_to_head(clean(symbol.doc), most).text if symbol.doc else None,
        "macro": symbol.macro or None,
        "file": symbol.file and display_path(symbol.file, services.workspace),
        "line": symbol.line,
        "column": symbol.column,
        "extra": {
            key: cut_to_head(clean(text), most // 8).text for key, text in symbol.extra.items() if key != NOTE_FIELD
        }
        or None,
        "notes": [symbol.extra[NOTE_FIELD]] if NOTE_FIELD in symbol.extra else None,
    }
    return {key: value for key, value in pairs.items() if value is not None}


def _names_fields(names: Names, services: Services, most: int) -> dict[str, object]:
    """Convert a list of names to fields of an answer, with one line for each name."""
    lines = [_format_line(listed, services.log.redact) for listed in names.listed]
    rows, note, left = fit_rows(lines, most)
    fields: dict[str, object] = {"names": rows, "count": len(rows)}
    if not rows:
        fields["notes"] = ["no loaded name matches: load or import the code first"]
    if names.omitted + left:
        fields["omitted"] = names.omitted + left
    if note:
        fields["notes"] = [note]
    return fields


def _format_line(listed: ListedName, clean: Callable[[str], str]) -> str:
    """Format a symbol as one line: its name, parameters and documentation, and its kind unless it can be called."""
    parameters = truncate(clean(listed.parameters), MAX_PARAMETERS_CHARACTERS)
    blank = " " if parameters.startswith("[") else ""
    kind = f" ({listed.type})" if listed.type in {*NAMESPACE_TYPES, "macro", "property"} else ""
    kind += f" :{listed.line}" if listed.line is not None else ""
    return truncate(
        clean(f"{listed.name}{blank}{parameters}{kind}{' — ' if listed.doc else ''}{listed.doc}"), MAX_LINE_CHARACTERS
    )
