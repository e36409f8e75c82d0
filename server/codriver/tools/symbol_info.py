"""`symbol_info`: look up a symbol, the names in a namespace, or those that match a pattern."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from pydantic import Field

from codriver.core.values import PYTHON
from codriver.editing.references import Wanted, find_references
from codriver.errors import RefusedError, cut, refused
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.repls.contract.questions import FindSource, LastError, ListNames, Lookup
from codriver.repls.kinds import KINDS
from codriver.tools.acts.source_files import read_source
from codriver.tools.answers.answer_budget import budget, fit, head
from codriver.tools.answers.source_lines import excerpt
from codriver.tools.calls.answer import TEXTS, Answer, answer_schema
from codriver.tools.calls.arguments import UNLISTED, Arguments
from codriver.tools.calls.session_choice import Target, own, resolve, session_field
from codriver.tools.calls.tool import Tool
from codriver_lisp.reader import top_level_forms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codriver.repls.contract.adapter_values import Listed, Names, Symbol
    from codriver.tools.calls.call import Call, Services

LINE_CHARACTERS = 160
"""The characters of a name in a list, with its parameters and documentation."""
PARAMETERS_CHARACTERS = 80
_DEFINITION = re.compile(r"\((?:\S+/)?(?:def\S*|setv)\s")
MAX_EVALUATED = 100_000
"""The characters of evaluated code that is read for a definition."""
IN_NO_FILE = frozenset({"", "user", "__main__", "builtins"})
"""Modules whose names are looked for in all files."""
NOTE: Final = "note"
"""The part of a look-up that says where it is from."""
CLASS_DOC_CHARACTERS: Final = 400
"""Maximum length of the documentation of a class, whose members are listed with it."""
PLACE: Final = re.compile(r"@?(?P<file>[^:]+\.\w+):(?P<line>\d+)(?: in .*)?")
"""A line of a file, also as a frame shows it."""
SPACES = frozenset({"module", "namespace"})
"""The types of a symbol that has names in it."""


class UnknownSymbolError(RefusedError):
    """The symbol does not resolve."""

    reason = "unknown-symbol"

    def __init__(self, symbol: str, where: str) -> None:
        super().__init__(
            f"{symbol!r} is not known in {where}",
            hint="qualify it, or give the namespace it is used in; load or require what defines it first; "
            "complete_symbol lists names that begin alike",
        )


async def describe_symbol(
    services: Services, key: str | None, namespace: str | None, symbol: str, *, most: int | None = None
) -> dict[str, object]:
    """The description of `symbol` in the session `key`, under the keys of an answer, within so many bytes of text.

    For a namespace these are the names in it; for a pattern, which is no symbol and has a `*` in it, the matching
    names.

    Raises:
        UnknownSymbolError: the symbol does not resolve there.
        CapabilityMissingError: the symbol is a pattern, and the REPL cannot find matches.
    """
    most = services.live.settings.max_text_bytes if most is None else most
    target = resolve(services.core.state, key)
    adapter, session = services.repls.adapter(target.repl.id), target.session.name
    found = await adapter.ask(Lookup(symbol, namespace=namespace, session=session))
    fields = {} if found is None else _symbol_json(found, services, most)
    if found is None or _is_space(found) or found.extra.get("type") == "class":
        names = await adapter.ask(ListNames(symbol, namespace=namespace, session=session))
        if names is None and found is None:
            _refuse(symbol, namespace or target.session.namespace or f"the session {target.key}")
        if names is not None and found is not None and found.extra.get("type") == "class":
            fields = _class_json(fields, names, services, most)
        elif names is not None:
            fields = {**fields, **_names_json(names, services, most)}
    return {**fields, "sessionKey": target.key}


def _class_json(fields: dict[str, object], names: Names, services: Services, most: int) -> dict[str, object]:
    """Return the description of a class: its members instead of all but the first paragraph of its documentation."""
    if doc := fields.get("doc"):
        fields = {**fields, "doc": cut(str(doc).partition("\n\n")[0], CLASS_DOC_CHARACTERS)}
    if not names.listed:
        return fields
    listed = _names_json(names, services, most)
    return {**fields, "members": listed.pop("names"), **{name: listed[name] for name in listed if name != "count"}}


async def _describe_place(call: Call, arguments: SymbolArguments, target: Target) -> dict[str, object] | None:
    """Return the source around a place, `file:line` or the number of a frame of the last error; None for a symbol.

    Raises:
        RefusedError: there is no such frame, file or line.
    """
    file, line = "", 0
    if arguments.symbol.isdecimal():
        question = LastError(session=target.session.name)
        trace = await call.services.repls.adapter(target.repl.id).ask(question)
        frames = trace.frames if trace is not None else ()
        if int(arguments.symbol) >= len(frames):
            known = f"the last error has {len(frames)} frames" if frames else "no error has happened in this session"
            raise refused(
                "unknown-symbol",
                f"there is no frame {arguments.symbol}: {known}",
                hint='see status with about: "error"',
            )
        frame = frames[int(arguments.symbol)]
        file, line = frame.file or "", frame.line or 0
    elif found := PLACE.fullmatch(arguments.symbol.strip()):
        file, line = found["file"], int(found["line"])
    else:
        return None
    path = call.services.workspace / file
    lines = (await call.services.work.files.run(call.client, partial(read_source, path))).splitlines()
    text = excerpt(lines, line)
    if not text:
        raise refused("unknown-symbol", f"{file} has {len(lines)} lines, and no line {line}", hint="give another line")
    return {"file": file, "line": line, "source": head(call.services.log.without_secrets(text), budget(call)).text}


async def describe_source(
    call: Call, key: str | None, namespace: str | None, symbol: str, known: dict[str, object]
) -> dict[str, object]:
    """Return the text that defines `symbol`, whose known facts are given, under the keys of an answer.

    The text is the REPL's, from a file or as evaluated; else the newest evaluated code of the log that defines the
    symbol. Its documentation is taken out of the known facts.
    """
    target = resolve(call.state, key)
    question = FindSource(symbol, namespace=namespace, session=target.session.name)
    found = await call.services.repls.adapter(target.repl.id).ask(question)
    is_lisp = target.repl.dialect != "python"
    text = None if found is None else _first_form(found.text, str(known.get("name", symbol))) if is_lisp else found.text
    if text is None and is_lisp:
        entries = call.services.log.entries(category={"evaluatedCode"})
        codes = [one.text for one in entries if len(one.text) <= MAX_EVALUATED and _is_of(one.session_key, target)]
        text = _newest_definition(codes, str(known.get("name", symbol)))
    if text is None:
        return {"notes": ["its source is not known: it is built in, or what defined it is in no file"]}
    clean = call.services.log.without_secrets(text)
    cut = head(clean, budget(call))
    fields: dict[str, object] = {"source": cut.text}
    if not cut.omitted and all(line.strip() in cut.text for line in str(known.get("doc", "")).splitlines()):
        known.pop("doc", None)
    if cut.omitted:
        shown, whole = cut.text.count("\n"), clean.count("\n") + 1
        place = "the evaluated code, in the log"
        if found and found.file:
            place = f"{found.file} from line {(found.line or 1) + shown} on"
        fields["notes"] = [f"source: its first {shown} of {whole} lines; the rest is in {place}"]
    return fields


def _is_of(session_key: str | None, target: Target) -> bool:
    """Whether a session with this key shares its definitions with the target, as those of a REPL's lanes do."""
    key = target.repl.key
    return session_key in (target.key, key) or (session_key or "").startswith(f"{key}/")


def _first_form(text: str, name: str) -> str | None:
    """The form on the first line of a text that goes on behind it; of several the one that defines the name."""
    forms = [text[span.start : span.end] for span in top_level_forms(text) if span.line == 1]
    return next((form for form in forms if _defines(form, name)), forms[0] if forms else None)


def _defines(form: str, name: str) -> bool:
    return _DEFINITION.match(form) is not None and name in form.split(maxsplit=4)[1:4]


def _newest_definition(codes: Sequence[str], name: str) -> str | None:
    """Return the last form that defines a name, in evaluated code, the oldest first."""
    for code in reversed(codes):
        for span in reversed(top_level_forms(code) if name in code else ()):
            form = code[span.start : span.end]
            if _defines(form, name):
                return form
    return None


async def describe_references(
    call: Call, key: str | None, namespace: str | None, symbol: str, known: dict[str, object]
) -> dict[str, object]:
    """The places in the workspace's files that use `symbol`, whose facts are given, under the keys of an answer."""
    target = resolve(call.state, key)
    dialect = target.repl.dialect
    kinds = [kind for kind in KINDS if dialect in (kind.dialect, kind.file_dialect)]
    suffixes = tuple({ending for kind in kinds for ending in kind.suffixes})
    if dialect == "python":
        wanted = await _wanted_python(call, target, namespace, symbol, known)
    else:
        owner, _, name = symbol.rpartition("/")
        space = str(known.get("ns") or owner)
        wanted = Wanted(str(known.get("name", name)), None if space in IN_NO_FILE else space)
        if "names" in known:
            wanted = Wanted(symbol, is_space=True)
    search = partial(find_references, call.services.workspace, wanted, suffixes)
    found = await call.services.work.files.run(call.client, search)
    clean = call.services.log.without_secrets
    lines = [f"{one.file}:{one.line}: {cut(clean(one.text), LINE_CHARACTERS)}" for one in found.places]
    rows, note, left = fit(lines, budget(call))
    fields: dict[str, object] = {"references": rows, "count": len(rows)}
    if found.omitted + left:
        fields["omitted"] = found.omitted + left
    if found.skipped:
        note = f"{found.skipped} files were not searched: too long, not readable, or the time was up"
    return {**fields, **({"notes": [note]} if note else {})}


async def _wanted_python(
    call: Call, target: Target, namespace: str | None, symbol: str, known: dict[str, object]
) -> Wanted:
    """The name to look for: of a function, class or value its module's, and of a class's member the name alone."""
    extra = known.get("extra")
    kind = extra.get("type") if isinstance(extra, dict) else None
    if kind == "module":
        return Wanted(symbol, is_space=True)
    owner, _, name = symbol.rpartition(".")
    space = str(known.get("ns") or "") if kind in ("function", "class") else owner or namespace or ""
    if owner:
        adapter = call.services.repls.adapter(target.repl.id)
        found = await adapter.ask(Lookup(owner, namespace=namespace, session=target.session.name))
        if found is None or found.extra.get("type") != "module":
            space = ""
    return Wanted(name, space if space not in IN_NO_FILE else None)


def _is_space(symbol: Symbol) -> bool:
    return symbol.extra.get("type") in SPACES or (symbol.name == symbol.namespace and not symbol.arglists)


def _refuse(symbol: str, where: str) -> None:
    if "*" in symbol:
        words = "this REPL cannot search its names by a pattern"
        raise CapabilityMissingError("lookup", "complete_symbol lists names that begin alike", message=words)
    raise UnknownSymbolError(symbol, where)


def _symbol_json(symbol: Symbol, services: Services, most: int) -> dict[str, object]:
    """Return a symbol under the keys of an answer, texts without secrets and cut; unknown keys are absent."""
    clean = services.log.without_secrets
    pairs: dict[str, object] = {
        "name": symbol.name,
        "ns": symbol.namespace,
        "arglists": list(symbol.arglists) or None,
        "doc": head(clean(symbol.doc), most).text if symbol.doc else None,
        "macro": symbol.macro or None,
        "file": symbol.file,
        "line": symbol.line,
        "column": symbol.column,
        "extra": {key: head(clean(text), most // 8).text for key, text in symbol.extra.items() if key != NOTE} or None,
        "notes": [symbol.extra[NOTE]] if NOTE in symbol.extra else None,
    }
    return {key: value for key, value in pairs.items() if value is not None}


def _names_json(names: Names, services: Services, most: int) -> dict[str, object]:
    """Return a list of names under the keys of an answer, a line each."""
    lines = [_line(one, services.log.without_secrets) for one in names.listed]
    rows, note, left = fit(lines, most)
    fields: dict[str, object] = {"names": rows, "count": len(rows)}
    if not rows:
        fields["notes"] = ["nothing that is loaded matches: load or import it first"]
    if names.omitted + left:
        fields["omitted"] = names.omitted + left
    if note:
        fields["notes"] = [note]
    return fields


def _line(one: Listed, clean: Callable[[str], str]) -> str:
    """A symbol in one line: its name, parameters and documentation; also its kind, if it cannot be called."""
    parameters = cut(clean(one.parameters), PARAMETERS_CHARACTERS)
    blank = " " if parameters.startswith("[") else ""
    kind = f" ({one.type})" if one.type in {*SPACES, "macro", "property"} else ""
    kind += f" :{one.line}" if one.line is not None else ""
    return cut(clean(f"{one.name}{blank}{parameters}{kind}{' — ' if one.doc else ''}{one.doc}"), LINE_CHARACTERS)


OF_LISTS = frozenset({"names", "count", "omitted", "notes"})
"""The fields of a list of names, which an answer may replace by a list of references."""


class SymbolArguments(Arguments):
    """Arguments of `symbol_info`."""

    symbol: str = Field(min_length=1, max_length=500)
    namespace: str | None = Field(None, description="Where the name is used.")
    source: bool = Field(default=False, description="With its source.")
    references: bool = Field(default=False, json_schema_extra={UNLISTED: True})
    """Whether to list the places in the workspace that use the symbol."""
    repl_session_key: str | None = Field(None, json_schema_extra={UNLISTED: True})


async def symbol_info(call: Call, arguments: SymbolArguments) -> Answer:
    """Return the description of a symbol, of the names in a namespace, or of those that match a pattern."""
    target = own(call, arguments.repl_session_key, call.who(arguments.who))
    known = await _describe_place(call, arguments, target)
    if known is None:
        known = await _known(call, await _within_module(call, arguments, target), target.key)
    known.pop("sessionKey", None)
    return Answer({**known, **session_field(target, arguments.repl_session_key)})


async def _within_module(call: Call, arguments: SymbolArguments, target: Target) -> SymbolArguments:
    """Return the arguments with the module before a Python symbol, if the symbol is not known inside the module.

    So a pattern looks in the module alone, and a module that is not imported is read from its file.
    """
    symbol, namespace = arguments.symbol, arguments.namespace
    if target.repl.dialect != PYTHON or namespace is None or symbol.startswith(f"{namespace}."):
        return arguments
    if "*" not in symbol:
        question = Lookup(symbol, namespace=namespace, session=target.session.name)
        if await call.services.repls.adapter(target.repl.id).ask(question) is not None:
            return arguments
    return arguments.model_copy(update={"symbol": f"{namespace}.{symbol}", "namespace": None})


async def _known(call: Call, arguments: SymbolArguments, key: str) -> dict[str, object]:
    symbol, namespace = arguments.symbol, arguments.namespace
    try:
        known = await describe_symbol(call.services, key, namespace, symbol, most=budget(call))
    except UnknownSymbolError:
        if not arguments.references:
            raise
        known = {}
        used = await describe_references(call, key, namespace, symbol, known)
        if not used["count"]:
            raise
        return {**known, **used}
    if arguments.source and "*" not in symbol:
        known |= await describe_source(call, key, namespace, symbol, known)
    if arguments.references and "*" not in symbol:
        used = await describe_references(call, key, namespace, symbol, known)
        known = {name: value for name, value in known.items() if name not in OF_LISTS} | used
    return known


TOOL = Tool(
    name="symbol_info",
    other_names=("clojure_symbol_info",),
    title="Symbol info",
    description="Look up a name: parameters, documentation, file and line. Of a module or class its members; of a "
    "pattern (*json*, shop.*tax*) the matching names; of file:line or a frame's number the code. Nothing needs to "
    "be imported.",
    arguments=SymbolArguments,
    output=answer_schema(
        name="string",
        ns="string",
        arglists=TEXTS,
        doc="string",
        macro="boolean",
        file="string",
        line="integer",
        column="integer",
        extra="object",
        names=TEXTS,
        source="string",
        references=TEXTS,
        count="integer",
        omitted="integer",
        notes=TEXTS,
        sessionKey="string",
    ),
    run=symbol_info,
    needs=("lookup",),
    read_only=True,
    idempotent=True,
    search_hint="apropos docs signature source",
)
