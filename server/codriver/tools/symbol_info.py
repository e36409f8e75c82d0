"""`symbol_info`, `complete_symbol`, `macroexpand`, `what_changed`, `clojuredocs_info`: code by its names.

A REPL tells what it has loaded, how the files differ from it, and which objects of a former load live on; the
ClojureDocs export tells what the community wrote about a var of Clojure.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pydantic import Field

from codriver.core.values import LISP
from codriver.errors import CodriverError, RefusedError, refused
from codriver.repls.contract.questions import Lookup
from codriver.tools.answers.answer_budget import budget, fit, head
from codriver.tools.answers.symbol_answers import (
    UnknownSymbolError,
    candidates,
    describe_references,
    describe_source,
    describe_symbol,
)
from codriver.tools.calls.base import ROWS, TEXTS, UNLISTED, Answer, Arguments, Call, Tool, answer_schema
from codriver.tools.calls.session_choice import Target, chosen, own, resolve, session_field
from codriver.tools.truth.drift_notes import drift_lines, drift_of

if TYPE_CHECKING:
    from codriver.repls.contract.adapter_values import ClojureDocs
    from codriver.tools.calls.base import Services


COMPLETIONS, MAX_COMPLETIONS = 50, 200
OF_LISTS = frozenset({"names", "count", "omitted", "notes"})
"""What an answer says of a list of names, in whose place one of references may stand."""


class SymbolArguments(Arguments):
    """Arguments of `symbol_info`."""

    symbol: str = Field(min_length=1, max_length=500)
    namespace: str | None = None
    source: bool = False
    references: bool = False
    repl_session_key: str | None = Field(None, json_schema_extra={UNLISTED: True})


class CompleteArguments(Arguments):
    """Arguments of `complete_symbol`."""

    prefix: str = Field(min_length=1, max_length=500)
    namespace: str | None = None
    repl_session_key: str | None = Field(None, json_schema_extra={UNLISTED: True})
    limit: int | None = Field(None, ge=1, le=MAX_COMPLETIONS)


class ExpandArguments(Arguments):
    """Arguments of `macroexpand`."""

    code: str = Field(min_length=1)
    namespace: str | None = None
    full: bool = False
    repl_session_key: str | None = None


async def symbol_info(call: Call, arguments: SymbolArguments) -> Answer:
    """The description of a symbol, of the names in a namespace, or of those that match a pattern."""
    target = own(call, arguments.repl_session_key, call.who(arguments.who))
    known = await _known(call, arguments, target.key)
    known.pop("sessionKey", None)
    return Answer({**known, **session_field(target, arguments.repl_session_key)})


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


async def complete_symbol(call: Call, arguments: CompleteArguments) -> Answer:
    """Names that begin with a prefix."""
    target = own(call, arguments.repl_session_key, call.who(arguments.who))
    found = await candidates(call.services, target, arguments.prefix, arguments.namespace)
    rows = []
    for completion in found[: arguments.limit or COMPLETIONS]:
        row = {"candidate": completion.candidate, "type": completion.type, "ns": completion.namespace}
        rows.append({key: value for key, value in row.items() if value is not None})
    fields: dict[str, object] = {"completions": rows, "count": len(rows)}
    fields |= session_field(target, arguments.repl_session_key)
    if len(found) > len(rows):
        fields["omitted"] = len(found) - len(rows)
    return Answer(fields)


async def macroexpand(call: Call, arguments: ExpandArguments) -> Answer:
    """The expansion of a form of Lisp."""
    target = own(call, arguments.repl_session_key, call.who(arguments.who))
    adapter = call.services.repls.adapter(target.repl.id)
    text = await adapter.macroexpand(arguments.code, arguments.namespace, target.session.name, full=arguments.full)
    cut = head(text, budget(call))
    fields: dict[str, object] = {"expansion": cut.text, **session_field(target, arguments.repl_session_key)}
    if cut.omitted:
        fields["notes"] = [f"the last {cut.omitted} characters are left out"]
    return Answer(fields)


class DriftArguments(Arguments):
    """Arguments of `what_changed`."""

    repl_session_key: str | None = None


async def what_changed(call: Call, arguments: DriftArguments) -> Answer:
    """Every difference between what is loaded and the files, a line for each module and object."""
    repl = chosen(call, arguments.repl_session_key, call.who(arguments.who)).repl
    found = await drift_of(call, repl)
    lines = drift_lines(call, repl, found)
    shown, note, omitted = fit(lines, budget(call))
    fields: dict[str, object] = {"differences": shown, "count": len(lines), "sessionKey": repl.key}
    if omitted:
        fields["omitted"] = omitted
    return Answer({**fields, "notes": [note]} if note else fields)


COMPARING = (
    Tool(
        name="what_changed",
        title="What changed",
        description="Where loaded code differs from its files.",
        arguments=DriftArguments,
        output=answer_schema(differences=TEXTS, count="integer", omitted="integer", sessionKey="string", notes=TEXTS),
        run=what_changed,
        needs=("drift",),
        read_only=True,
        idempotent=True,
        search_hint="drift stale reload outdated definitions",
    ),
)


SITE: Final = "https://clojuredocs.org"
CORE: Final = "clojure.core"
SAME: Final = {"cljs.core": CORE, "basilisp.": "clojure.", "cljs.": "clojure."}
"""Beginnings of namespaces whose vars are those of Clojure under another name; the first that fits holds."""
DAY_S: Final = 86_400


class DocsArguments(Arguments):
    """Arguments of `clojuredocs_info`."""

    symbol: str = Field(min_length=1, max_length=300)
    repl_session_key: str | None = None


async def clojuredocs_info(call: Call, arguments: DocsArguments) -> Answer:
    """Examples, see-alsos and notes of a var."""
    key = arguments.repl_session_key
    with suppress(RefusedError):
        key = own(call, key, call.who(arguments.who)).key
    return Answer(await describe_docs(call.services, key, arguments.symbol))


async def describe_docs(services: Services, key: str | None, symbol: str) -> dict[str, object]:
    """The entry of ClojureDocs on `symbol`, by the REPL's own op or the public export, under the keys of an answer.

    A symbol without namespace, or with an alias, is looked up in the session first, where one is meant.

    Raises:
        RefusedError: nothing, or the export cannot be had.
    """
    target = _session(services, key)
    qualified = clojure_name(await _qualified(services, target, symbol))
    if target is not None and "clojuredocs" in _capabilities(target):
        with suppress(CodriverError):
            # What the op cannot tell, the export may.
            docs = await services.repls.adapter(target.repl.id).clojuredocs(qualified)
            if docs is not None:
                return {**docs_json(docs, services.live.settings.max_text_bytes), "source": "repl"}
    settings = services.live.settings
    found = await services.clojuredocs.find(
        qualified, url=settings.clojuredocs_url, max_age_s=settings.clojuredocs_max_age_days * DAY_S
    )
    if found.docs is None:
        hint = "it covers Clojure itself and its own libraries: use symbol_info for what else the REPL knows"
        if found.others:
            hint = f"call again with one of: {', '.join(found.others)}"
        raise refused(
            "unknown-symbol",
            f"ClojureDocs has nothing about {qualified!r}",
            hint=hint,
            details={"others": list(found.others)},
        )
    fetched_at = datetime.fromtimestamp(found.fetched_at, UTC).isoformat(timespec="seconds")
    fields = {**docs_json(found.docs, settings.max_text_bytes), "source": "export", "fetchedAt": fetched_at}
    return {**fields, "note": found.note} if found.note else fields


def clojure_name(qualified: str) -> str:
    """The name under which ClojureDocs knows what `qualified` names in a dialect of Clojure."""
    namespace, slash, name = qualified.rpartition("/")
    if not slash or not namespace:
        return f"{CORE}/{qualified}"
    # The symbol of division ends with the slash that parts others.
    if not name:
        namespace, name = namespace.removesuffix("/"), "/"
    for start, clojure in SAME.items():
        if namespace.startswith(start):
            namespace = clojure + namespace.removeprefix(start)
            break
    return f"{namespace}/{name}"


def docs_json(docs: ClojureDocs, max_bytes: int) -> dict[str, object]:
    """An entry under the keys of an answer; what does not fit into `max_bytes` is left out and counted."""
    left = max_bytes
    shown: dict[str, list[str]] = {"examples": [], "notes": []}
    omitted = 0
    for key, texts in (("examples", docs.examples), ("notes", docs.notes)):
        for text in texts:
            kept = head(text, max(0, left)).text
            left -= len(text.encode("utf-8", "replace"))
            if kept:
                shown[key].append(kept)
            else:
                omitted += 1
    fields: dict[str, object] = {
        "name": docs.name,
        "ns": docs.namespace,
        **({"doc": docs.doc} if docs.doc else {}),
        "examples": shown["examples"],
        "seeAlsos": list(docs.see_alsos),
        "notes": shown["notes"],
        "count": len(shown["examples"]),
    }
    if docs.href and docs.href.startswith("/"):
        fields["url"] = f"{SITE}{docs.href}"
    return {**fields, "omitted": omitted} if omitted else fields


def _session(services: Services, key: str | None) -> Target | None:
    """The session that is meant; None when none was named and there is not exactly one."""
    if key is not None:
        return resolve(services.core.state, key)
    with suppress(RefusedError):
        return resolve(services.core.state, None)
    return None


async def _qualified(services: Services, target: Target | None, symbol: str) -> str:
    if target is None or "lookup" not in _capabilities(target) or target.repl.dialect == "python":
        return symbol
    with suppress(CodriverError):
        found = await services.repls.adapter(target.repl.id).ask(Lookup(symbol, session=target.session.name))
        if found is not None and found.namespace:
            return f"{found.namespace}/{found.name.rpartition('/')[2] or '/'}"
    return symbol


def _capabilities(target: Target) -> frozenset[str]:
    return frozenset(target.repl.profile.capabilities) if target.repl.profile else frozenset()


TOOLS = (
    Tool(
        name="symbol_info",
        title="Symbol info",
        description="Name's doc, place; names in a module or like a*b.",
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
    ),
    Tool(
        name="complete_symbol",
        title="Complete symbol",
        description="Completions.",
        arguments=CompleteArguments,
        output=answer_schema(
            completions=ROWS,
            count="integer",
            omitted="integer",
            sessionKey="string",
        ),
        run=complete_symbol,
        needs=("complete",),
        read_only=True,
        idempotent=True,
        search_hint="find functions attributes names autocomplete",
    ),
    Tool(
        name="macroexpand",
        title="Expand macros",
        description="The expansion of a form, once or in full. Nothing of it is run but its macros.",
        arguments=ExpandArguments,
        output=answer_schema(expansion="string", sessionKey="string", notes=TEXTS),
        run=macroexpand,
        needs=("macroexpand",),
        setting="enable_mcp_repl_evaluation",
        destructive=True,
        open_world=True,
        languages=(LISP,),
        search_hint="macro expansion",
    ),
    Tool(
        name="clojuredocs_info",
        title="ClojureDocs",
        description="Examples, see-alsos and notes about a Clojure var from ClojureDocs.",
        arguments=DocsArguments,
        output=answer_schema(
            name="string",
            ns="string",
            doc="string",
            examples=TEXTS,
            seeAlsos=TEXTS,
            notes=TEXTS,
            count="integer",
            omitted="integer",
            url="string",
            source={"enum": ["repl", "export"]},
            fetchedAt="string",
            note="string",
        ),
        run=clojuredocs_info,
        read_only=True,
        idempotent=True,
        open_world=True,
        languages=(LISP,),
        search_hint="examples of Clojure functions",
    ),
)
