"""`symbol_info`: look up a symbol, the names in a namespace, or those that match a pattern."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar, Final

from pydantic import Field

from codriver.core.profiles import PYTHON
from codriver.errors import format_count, refused, truncate
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.repls.contract.questions import FindSource, LastError, ListNames, Lookup
from codriver.tools.acts.source_files import read_source
from codriver.tools.answers.answer_budget import cut_to_head, default_budget, fit_rows, json_bytes
from codriver.tools.answers.answer_notes import with_notes
from codriver.tools.answers.source_lines import excerpt, numbered_definition
from codriver.tools.calls.answer import STRINGS_SCHEMA, Answer, answer_schema
from codriver.tools.calls.arguments import Arguments
from codriver.tools.calls.session_choice import Target, resolve_session, session_field, session_in_use
from codriver.tools.calls.tool import Tool
from codriver_lisp.reader import top_level_forms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codriver.repls.contract.symbols import ListedName, Names, Symbol
    from codriver.tools.calls.call import Call, Services

MAX_LINE_CHARACTERS = 160
"""Maximum characters of a line about a name in a list, with its parameters and documentation."""
MAX_PARAMETERS_CHARACTERS = 80
"""Maximum characters of the parameters of a name in a list."""
_DEFINITION_PATTERN = re.compile(r"\((?:\S+/)?(?:def\S*|setv)\s")
"""Matches the start of a form that defines a name."""
MAX_EVALUATED_CHARACTERS = 100_000
"""Maximum characters of evaluated code that are searched for a definition."""
NOTE_FIELD: Final = "note"
"""Field of a symbol that describes where its information comes from."""
DEFINITION_PREFIXES: Final = ("def ", "async def ", "@")
"""Prefixes of the first line of a Python function."""
MAX_WHOLE_CHARACTERS: Final = 3000
"""Maximum size of a function that is returned in full if any of its lines is requested."""
MAX_CLASS_DOC_CHARACTERS: Final = 400
"""Maximum length of the documentation of a class, whose members are listed with it."""
LOCATION_PATTERN: Final = re.compile(r"@?(?P<file>[^:]+\.\w+):(?P<line>\d+)(?: in .*)?")
"""Matches a file and a line, optionally as a frame is written."""
NAMESPACE_TYPES = frozenset({"module", "namespace"})
"""Types of symbols that contain names."""


async def describe_symbol(
    services: Services, key: str | None, namespace: str | None, symbol: str, *, most: int | None = None
) -> dict[str, object]:
    """Describe a symbol in the session `key` as answer fields of at most `most` bytes.

    A namespace is described by the names that it contains. A symbol that contains `*` is a pattern, and is described by
    the names that match.

    Raises:
        RefusedError: the symbol cannot be resolved.
        CapabilityMissingError: the symbol is a pattern, and the REPL cannot search by patterns.
    """
    most = services.live.settings.max_text_bytes if most is None else most
    target = resolve_session(services.core.state, key)
    fields = _lookup_fields(await _lookup_symbol(services, target, namespace, symbol), services, most)
    return {**fields, "sessionKey": target.key}


@dataclass(frozen=True, slots=True)
class _Lookup:
    """What a REPL knows about a symbol: the symbol itself, or the names that it contains or matches, or both."""

    symbol: str
    """The requested symbol, qualified if only a file of the workspace defines it."""
    namespace: str | None
    found: Symbol | None
    names: Names | None = None


async def _lookup_symbol(services: Services, target: Target, namespace: str | None, symbol: str) -> _Lookup:
    """Look up a symbol in a session, and its names if it is unknown, a namespace, a class or a pattern.

    A Python name that is unknown in the session is looked up where the workspace defines it, if that is in one place.

    Raises:
        RefusedError: the symbol cannot be resolved.
        CapabilityMissingError: the symbol is a pattern, and the REPL cannot search by patterns.
    """
    adapter, session = services.repls.adapter(target.repl.id), target.session.name
    found = await adapter.query(Lookup(symbol, namespace=namespace, session=session))
    if found is not None and not _is_namespace(found) and not _is_class(found):
        return _Lookup(symbol, namespace, found)
    names = await adapter.query(ListNames(symbol, namespace=namespace, session=session))
    if found is None and names is not None and target.repl.dialect == PYTHON and symbol.isidentifier():
        definitions = names.definitions_of(symbol)
        if len(definitions) == len(names.listed) == 1:
            return await _lookup_symbol(services, target, None, definitions[0])
    if names is None and found is None:
        _raise_unknown_symbol(symbol, namespace or target.session.namespace or f"the session {target.key}")
    return _Lookup(symbol, namespace, found, names)


def _lookup_fields(lookup: _Lookup, services: Services, most: int) -> dict[str, object]:
    """Describe what was found as answer fields of at most `most` bytes."""
    found, names = lookup.found, lookup.names
    fields = {} if found is None else _symbol_fields(found, services, most)
    if names is None:
        return fields
    if found is not None and _is_class(found):
        fields = _class_fields(fields, names, services, most)
    else:
        fields = _merge_fields(fields, _names_fields(names, services, most))
    if not names.private:
        return fields
    left_out = format_count(names.private, "private name is", "private names are")
    return with_notes(fields, [f"{left_out} left out: symbol {lookup.symbol}._* lists them"])


def _class_fields(fields: dict[str, object], names: Names, services: Services, most: int) -> dict[str, object]:
    """Describe a class by its members and the first paragraph of its documentation."""
    if doc := fields.get("doc"):
        fields = {**fields, "doc": truncate(str(doc).partition("\n\n")[0], MAX_CLASS_DOC_CHARACTERS)}
    if not names.listed:
        return fields
    listed = _names_fields(names, services, most)
    return _merge_fields(
        fields, {"members": listed.pop("names"), **{name: listed[name] for name in listed if name != "count"}}
    )


def _merge_fields(fields: Mapping[str, object], added: Mapping[str, object]) -> dict[str, object]:
    """Merge fields of an answer, and concatenate their notes."""
    others = {name: value for name, value in added.items() if name != "notes"}
    notes = added.get("notes")
    return with_notes({**fields, **others}, notes if isinstance(notes, list) else [])


async def _describe_location(call: Call, arguments: SymbolArguments, target: Target) -> dict[str, object] | None:
    """Return the source around a `file:line` or around a numbered frame of the last error.

    Returns None if the argument is a symbol.

    Raises:
        RefusedError: the frame, file or line does not exist.
    """
    file, line = "", 0
    if arguments.symbol.isdecimal():
        query = LastError(session=target.session.name)
        trace = await call.services.repls.adapter(target.repl.id).query(query)
        frames = trace.frames if trace is not None else ()
        if int(arguments.symbol) >= len(frames):
            count = format_count(len(frames), "frame")
            known = f"the last error has {count}" if frames else "no error has happened in this session"
            raise refused(
                "unknown-symbol",
                f"there is no frame {arguments.symbol}: {known}",
                hint='Call status with about: "error" to see the frames.',
            )
        frame = frames[int(arguments.symbol)]
        file, line = frame.file or "", frame.line or 0
    elif found := LOCATION_PATTERN.fullmatch(arguments.symbol.strip()):
        file, line = found["file"], int(found["line"])
    else:
        return None
    path = call.services.workspace / file
    lines = (await call.services.work.files.run(call.client, partial(read_source, path))).splitlines()
    # For the first line of a function return all of it, and for any other line the code near it.
    is_definition = 0 < line <= len(lines) and lines[line - 1].lstrip().startswith(DEFINITION_PREFIXES)
    most = default_budget(call) if is_definition else MAX_WHOLE_CHARACTERS
    text = excerpt(lines, line, whole_characters=most, documented_characters=most)
    if not text:
        raise refused(
            "unknown-symbol",
            f"{file} has only {len(lines)} lines, so there is no line {line}",
            hint="Pass another line.",
        )
    return {
        "file": file,
        "line": line,
        "source": cut_to_head(call.services.log.redact(text), default_budget(call)).text,
    }


async def describe_source(
    call: Call, target: Target, namespace: str | None, symbol: str, known: dict[str, object]
) -> dict[str, object]:
    """Return the source code of a symbol as answer fields, together with its `known` fields.

    The source comes from the REPL, or from the newest evaluated code that defines the symbol. Lines of a file are
    numbered. Documentation that the source contains is removed from the known fields.
    """
    query = FindSource(symbol, namespace=namespace, session=target.session.name)
    found = await call.services.repls.adapter(target.repl.id).query(query)
    is_lisp = target.repl.dialect != "python"
    text = None if found is None else _first_form(found.text, str(known.get("name", symbol))) if is_lisp else found.text
    if text is None and is_lisp:
        entries = call.services.log.entries(category={"evaluatedCode"})
        codes = [
            entry.text
            for entry in entries
            if len(entry.text) <= MAX_EVALUATED_CHARACTERS and _shares_definitions(entry.session_key, target)
        ]
        text = _newest_definition(codes, str(known.get("name", symbol)))
    if text is None:
        return {"notes": ["its source is unknown: it is built in, or was not defined in a file"]}
    clean = call.services.log.redact(text)
    whole = clean.count("\n") + 1
    if found is not None and found.line and _is_path(found.file):
        clean = numbered_definition(
            clean, found.line, lambda text: json_bytes(text) <= default_budget(call), is_python=not is_lisp
        )
    cut = cut_to_head(clean, default_budget(call))
    fields: dict[str, object] = {"source": cut.text}
    if not cut.omitted and all(line.strip() in cut.text for line in str(known.get("doc", "")).splitlines()):
        known.pop("doc", None)
    if cut.omitted:
        included_lines = cut.text.count("\n")
        location = "the evaluated code, in the log"
        if found and found.file:
            location = f"{found.file} from line {(found.line or 1) + included_lines} on"
        fields["notes"] = [f"source: its first {included_lines} of {whole} lines; the rest is in {location}"]
    return fields


def _is_path(file: str | None) -> bool:
    """Return whether the name of a source is a path, and not the name of evaluated code or of a cell."""
    return file is not None and not file.startswith("<") and bool(PurePath(file).suffix)


def _shares_definitions(session_key: str | None, target: Target) -> bool:
    """Return whether the session with this key shares its definitions with the target, like the lanes of a REPL."""
    key = target.repl.key
    return session_key in (target.key, key) or (session_key or "").startswith(f"{key}/")


def _first_form(text: str, name: str) -> str | None:
    """Return the form that starts on the first line of the text, or None.

    If several forms do, the one that defines the name is preferred.
    """
    forms = [text[span.start : span.end] for span in top_level_forms(text) if span.line == 1]
    return next((form for form in forms if _defines(form, name)), forms[0] if forms else None)


def _defines(form: str, name: str) -> bool:
    return _DEFINITION_PATTERN.match(form) is not None and name in form.split(maxsplit=4)[1:4]


def _newest_definition(codes: Sequence[str], name: str) -> str | None:
    """Return the last form that defines a name in evaluated code, which is ordered from oldest to newest, or None."""
    for code in reversed(codes):
        for span in reversed(top_level_forms(code) if name in code else ()):
            form = code[span.start : span.end]
            if _defines(form, name):
                return form
    return None


def _is_class(symbol: Symbol) -> bool:
    """Return whether a symbol is a class."""
    return symbol.extra.get("type") == "class"


def _is_namespace(symbol: Symbol) -> bool:
    """Return whether a symbol is a module or a namespace."""
    return symbol.extra.get("type") in NAMESPACE_TYPES or (symbol.name == symbol.namespace and not symbol.arglists)


def _raise_unknown_symbol(symbol: str, where: str) -> None:
    """Raise the error for a symbol that cannot be resolved.

    Raises:
        CapabilityMissingError: the symbol is a pattern.
        RefusedError: the symbol is not a pattern.
    """
    if "*" in symbol:
        words = "this REPL cannot search its names by a pattern"
        raise CapabilityMissingError("lookup", "complete_symbol lists names with the same beginning", message=words)
    raise refused(
        "unknown-symbol",
        f"{symbol!r} is not known in {where}",
        hint="Qualify it, or pass the namespace in which it is used. Load or require the code that defines it first. "
        "complete_symbol lists names with the same beginning.",
    )


def _symbol_fields(symbol: Symbol, services: Services, most: int) -> dict[str, object]:
    """Convert a symbol to answer fields, without secrets and shortened. Unknown fields are omitted."""
    clean = services.log.redact
    pairs: dict[str, object] = {
        "name": symbol.name,
        "ns": symbol.namespace,
        "arglists": list(symbol.arglists) or None,
        "doc": cut_to_head(clean(symbol.doc), most).text if symbol.doc else None,
        "macro": symbol.macro or None,
        "file": symbol.file,
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
    """Convert a list of names to answer fields, with one line for each name."""
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


class SymbolArguments(Arguments):
    """The arguments of the tool `symbol_info`."""

    CHOOSES_SESSION: ClassVar[bool] = True

    symbol: str = Field(min_length=1, max_length=500)
    namespace: str | None = Field(None, description="Where the name is used.")
    source: bool = False
    repl_session_key: str | None = None


async def symbol_info(call: Call, arguments: SymbolArguments) -> Answer:
    """Describe a symbol, the names in a namespace, or the names that match a pattern."""
    target = session_in_use(call, arguments.repl_session_key, call.who(arguments.who))
    known = await _describe_location(call, arguments, target)
    if known is None:
        known = await _describe_requested(call, await _qualify_with_module(call, arguments, target), target)
    return Answer({**known, **session_field(target, arguments.repl_session_key)})


async def _qualify_with_module(call: Call, arguments: SymbolArguments, target: Target) -> SymbolArguments:
    """Qualify a Python symbol with the module passed as `namespace`, unless the symbol is known in that module.

    The qualified symbol limits a pattern to the module, and allows reading a module that is not imported from its file.
    """
    symbol, namespace = arguments.symbol, arguments.namespace
    if target.repl.dialect != PYTHON or namespace is None or symbol.startswith(f"{namespace}."):
        return arguments
    if "*" not in symbol:
        query = Lookup(symbol, namespace=namespace, session=target.session.name)
        if await call.services.repls.adapter(target.repl.id).query(query) is not None:
            return arguments
    return arguments.model_copy(update={"symbol": f"{namespace}.{symbol}", "namespace": None})


async def _describe_requested(call: Call, arguments: SymbolArguments, target: Target) -> dict[str, object]:
    """Describe the requested symbol, with its source if requested."""
    found = await _lookup_symbol(call.services, target, arguments.namespace, arguments.symbol)
    known = _lookup_fields(found, call.services, default_budget(call))
    if arguments.source and "*" not in found.symbol:
        source = await describe_source(call, target, found.namespace, found.symbol, known)
        known = _merge_fields(known, source)
    return known


TOOL = Tool(
    name="symbol_info",
    other_names=("clojure_symbol_info",),
    title="Symbol info",
    description="Look up a name: parameters, documentation, file and line; with source its code. Of a module or class "
    "its members; of a pattern (*json*, shop.*tax*) the matching names; of file:line or a frame's number the code. "
    "Nothing needs to be imported.",
    arguments=SymbolArguments,
    output=answer_schema(
        name="string",
        ns="string",
        arglists=STRINGS_SCHEMA,
        doc="string",
        macro="boolean",
        file="string",
        line="integer",
        column="integer",
        extra="object",
        names=STRINGS_SCHEMA,
        source="string",
        count="integer",
        omitted="integer",
        notes=STRINGS_SCHEMA,
        sessionKey="string",
    ),
    run=symbol_info,
    needs=("lookup",),
    read_only=True,
    idempotent=True,
    search_hint="apropos docs signature source",
)
