"""`symbol_info`, `complete_symbol`, `macroexpand`, `what_changed`: what a REPL knows of the code in it.

`what_changed`: where the loaded code differs from the files, and which objects of a former load live on.
"""

from __future__ import annotations

from pydantic import Field

from codriver.core.values import LISP
from codriver.tools.answers.answer_budget import budget, fit, head
from codriver.tools.answers.symbol_answers import (
    UnknownSymbolError,
    candidates,
    describe_references,
    describe_source,
    describe_symbol,
)
from codriver.tools.calls.base import ROWS, TEXTS, Answer, Arguments, Call, Tool, answer_schema
from codriver.tools.calls.session_choice import chosen, own, session_field
from codriver.tools.truth.drift_notes import drift_lines, drift_of

COMPLETIONS, MAX_COMPLETIONS = 50, 200
OF_LISTS = frozenset({"names", "count", "omitted", "notes"})
"""What an answer says of a list of names, in whose place one of references may stand."""


class SymbolArguments(Arguments):
    """Arguments of `symbol_info`."""

    symbol: str = Field(min_length=1, max_length=500)
    namespace: str | None = None
    source: bool = False
    references: bool = False
    repl_session_key: str | None = None


class CompleteArguments(Arguments):
    """Arguments of `complete_symbol`."""

    prefix: str = Field(min_length=1, max_length=500)
    namespace: str | None = None
    repl_session_key: str | None = None
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
)


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
        description="Where loaded code differs from its files: edited, redefined, old objects.",
        arguments=DriftArguments,
        output=answer_schema(differences=TEXTS, count="integer", omitted="integer", sessionKey="string", notes=TEXTS),
        run=what_changed,
        needs=("drift",),
        read_only=True,
        idempotent=True,
        search_hint="drift stale reload outdated definitions",
    ),
)
