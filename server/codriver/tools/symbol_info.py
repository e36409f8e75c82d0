"""`symbol_info`: look up a symbol, the names in a namespace, or those that match a pattern."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from codriver.tools.answers.answer_budget import default_budget
from codriver.tools.calls.answer import STRINGS_SCHEMA, Answer, answer_schema
from codriver.tools.calls.arguments import Arguments
from codriver.tools.calls.session_choice import resolve_session, session_field, session_in_use
from codriver.tools.calls.tool import Tool
from codriver.tools.code_locations import describe_location
from codriver.tools.symbol_fields import fields_not_in_source, lookup_fields, merge_fields
from codriver.tools.symbol_lookups import find_symbol
from codriver.tools.symbol_sources import describe_source

if TYPE_CHECKING:
    from codriver.tools.calls.call import Call, Services
    from codriver.tools.calls.session_choice import Target


async def describe_symbol(
    services: Services, key: str | None, namespace: str | None, symbol: str, *, most: int | None = None
) -> dict[str, object]:
    """Describe a symbol in the session `key` in fields of an answer, with at most `most` bytes.

    A namespace is described by the names that it contains. A symbol that contains `*` is a pattern, and is described by
    the names that match.

    Raises:
        RefusedError: the symbol cannot be resolved.
        CapabilityMissingError: the symbol is a pattern, and the REPL cannot search by patterns.
    """
    most = services.live.settings.max_text_bytes if most is None else most
    target = resolve_session(services.core.state, key)
    fields = lookup_fields(await find_symbol(services, target, namespace, symbol), services, most)
    return {**fields, "sessionKey": target.key}


class SymbolArguments(Arguments):
    """Arguments of `symbol_info`: the symbol, where to look it up, and what to return."""

    CHOOSES_SESSION: ClassVar[bool] = True

    symbol: str = Field(min_length=1, max_length=500)
    namespace: str | None = Field(None, description="Where the name is used.")
    source: bool = False
    repl_session_key: str | None = None


async def symbol_info(call: Call, arguments: SymbolArguments) -> Answer:
    """Describe a symbol, the names in a namespace, or the names that match a pattern."""
    target = session_in_use(call, arguments.repl_session_key, call.who(arguments.who))
    known = await describe_location(call, target, arguments.symbol)
    if known is None:
        known = await _describe_requested(call, arguments, target)
    return Answer({**known, **session_field(target, arguments.repl_session_key)})


async def _describe_requested(call: Call, arguments: SymbolArguments, target: Target) -> dict[str, object]:
    """Describe the requested symbol, with its source if requested."""
    found = await find_symbol(call.services, target, arguments.namespace, arguments.symbol)
    known = lookup_fields(found, call.services, default_budget(call))
    if arguments.source and "*" not in found.symbol:
        source = await describe_source(call, target, found.namespace, found.symbol, known)
        known = fields_not_in_source(known, found, arguments.symbol) if "source" in source else known
        known = merge_fields(known, source)
    return known


TOOL = Tool(
    name="symbol_info",
    other_names=("clojure_symbol_info",),
    title="Symbol info",
    description="Look up a name: parameters, documentation, file and line, with source its code. For a module or "
    "class: its members. For a pattern (*json*, shop.*tax*): matching names. For file:line or a frame's "
    "number: the code. Nothing needs to be imported.",
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
