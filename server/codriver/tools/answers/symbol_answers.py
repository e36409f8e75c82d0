"""Answers about symbols: one symbol, the names in a namespace, the names that match a pattern."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from codriver.editing.references import Wanted, find_references
from codriver.errors import RefusedError, cut
from codriver.lisp.reader import top_level_forms
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.repls.contract.questions import Complete, FindSource, ListNames, Lookup
from codriver.repls.kinds import KINDS
from codriver.tools.answers.answer_budget import budget, fit, head
from codriver.tools.calls.session_choice import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codriver.repls.contract.adapter_values import Completion, Listed, Names, Symbol
    from codriver.tools.calls.base import Call, Services
    from codriver.tools.calls.session_choice import Target

LINE_CHARACTERS = 160
"""Of a name in a list, with its parameters and what it is for."""
PARAMETERS_CHARACTERS = 80
_DEFINITION = re.compile(r"\((?:\S+/)?(?:def\S*|setv)\s")
MAX_EVALUATED = 100_000
"""Characters of evaluated code that is read for a definition."""
IN_NO_FILE = frozenset({"", "user", "__main__", "builtins"})
"""Modules whose names are looked for wherever they stand."""
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

    Of a namespace these are the names in it; of a pattern, which is no symbol and has a `*` in it, those that match.

    Raises:
        UnknownSymbolError: it does not resolve there.
        CapabilityMissingError: it is a pattern, and the REPL has no way to find what matches.
    """
    most = services.live.settings.max_text_bytes if most is None else most
    target = resolve(services.core.state, key)
    adapter, session = services.repls.adapter(target.repl.id), target.session.name
    found = await adapter.ask(Lookup(symbol, namespace=namespace, session=session))
    fields = {} if found is None else _symbol_json(found, services, most)
    if found is None or _is_space(found):
        names = await adapter.ask(ListNames(symbol, namespace=namespace, session=session))
        if names is None and found is None:
            _refuse(symbol, namespace or target.session.namespace or f"the session {target.key}")
        if names is not None:
            fields = {**fields, **_names_json(names, services, most)}
    return {**fields, "sessionKey": target.key}


async def candidates(services: Services, target: Target, prefix: str, namespace: str | None) -> tuple[Completion, ...]:
    """The names that begin with a prefix, in the REPL's order."""
    question = Complete(prefix, namespace=namespace, session=target.session.name)
    return await services.repls.adapter(target.repl.id).ask(question)


async def names_like(services: Services, target: Target, pattern: str) -> Names | None:
    """The namespaces and names that match a pattern; None where the REPL cannot tell."""
    return await services.repls.adapter(target.repl.id).ask(ListNames(pattern, session=target.session.name))


async def describe_source(
    call: Call, key: str | None, namespace: str | None, symbol: str, known: dict[str, object]
) -> dict[str, object]:
    """The text that defines `symbol`, of which this much is known, under the keys of an answer.

    It is the REPL's, from a file or as it was evaluated; else the newest evaluated code of the log that defines it.
    Documentation that it holds is taken out of what is known.
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
    """Whether a session with this key shares its definitions with the target: those of a REPL's lanes do."""
    key = target.repl.key
    return session_key in (target.key, key) or (session_key or "").startswith(f"{key}/")


def _first_form(text: str, name: str) -> str | None:
    """The form on the first line of a text that goes on behind it; of several the one that defines the name."""
    forms = [text[span.start : span.end] for span in top_level_forms(text) if span.line == 1]
    return next((form for form in forms if _defines(form, name)), forms[0] if forms else None)


def _defines(form: str, name: str) -> bool:
    return _DEFINITION.match(form) is not None and name in form.split(maxsplit=4)[1:4]


def _newest_definition(codes: Sequence[str], name: str) -> str | None:
    """The last form that defines a name, in evaluated code, the oldest first."""
    for code in reversed(codes):
        for span in reversed(top_level_forms(code) if name in code else ()):
            form = code[span.start : span.end]
            if _defines(form, name):
                return form
    return None


async def describe_references(
    call: Call, key: str | None, namespace: str | None, symbol: str, known: dict[str, object]
) -> dict[str, object]:
    """The places where the workspace's files use `symbol`, of which this much is known, under the keys of an answer."""
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
    """The name to look for: of a function, class or value its module's, and of what is in a class by the name alone."""
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
    """A symbol under the keys of an answer, texts without secrets and cut; what is not known is absent."""
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
        "extra": {name: head(clean(text), most // 8).text for name, text in symbol.extra.items()} or None,
    }
    return {key: value for key, value in pairs.items() if value is not None}


def _names_json(names: Names, services: Services, most: int) -> dict[str, object]:
    """A list of names under the keys of an answer, a line each."""
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
    """A symbol in one line: its name, parameters and documentation; also its kind, where it is nothing to call."""
    parameters = cut(clean(one.parameters), PARAMETERS_CHARACTERS)
    blank = " " if parameters.startswith("[") else ""
    kind = f" ({one.type})" if one.type in {*SPACES, "macro"} else ""
    return cut(clean(f"{one.name}{blank}{parameters}{kind}{' — ' if one.doc else ''}{one.doc}"), LINE_CHARACTERS)
