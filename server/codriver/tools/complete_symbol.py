"""`complete_symbol`: complete the beginning of a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from codriver.repls.contract.queries import Complete
from codriver.tools.calls.answer import ROWS_SCHEMA, Answer, answer_schema
from codriver.tools.calls.arguments import UNLISTED_KEY, Arguments
from codriver.tools.calls.session_choice import session_field, session_in_use
from codriver.tools.calls.tool import Tool

if TYPE_CHECKING:
    from codriver.tools.calls.call import Call

COMPLETIONS, MAX_COMPLETIONS = 50, 200
"""Default and maximum number of completions in an answer."""


class CompleteArguments(Arguments):
    """The arguments of the tool `complete_symbol`."""

    CHOOSES_SESSION: ClassVar[bool] = True

    prefix: str = Field(min_length=1, max_length=500)
    namespace: str | None = None
    repl_session_key: str | None = Field(None, json_schema_extra={UNLISTED_KEY: True})
    limit: int | None = Field(None, ge=1, le=MAX_COMPLETIONS)


async def complete_symbol(call: Call, arguments: CompleteArguments) -> Answer:
    """Return the names that start with a prefix."""
    target = session_in_use(call, arguments.repl_session_key, call.who(arguments.who))
    query = Complete(arguments.prefix, namespace=arguments.namespace, session=target.session.name)
    found = await call.services.repls.adapter(target.repl.id).query(query)
    rows = []
    for completion in found[: arguments.limit or COMPLETIONS]:
        row = {"candidate": completion.candidate, "type": completion.type, "ns": completion.namespace}
        rows.append({key: value for key, value in row.items() if value is not None})
    fields: dict[str, object] = {"completions": rows, "count": len(rows)}
    fields |= session_field(target, arguments.repl_session_key)
    if len(found) > len(rows):
        fields["omitted"] = len(found) - len(rows)
    return Answer(fields)


TOOL = Tool(
    name="complete_symbol",
    title="Complete symbol",
    description="Complete the beginning of a name.",
    arguments=CompleteArguments,
    output=answer_schema(
        completions=ROWS_SCHEMA,
        count="integer",
        omitted="integer",
        sessionKey="string",
    ),
    run=complete_symbol,
    needs=("complete",),
    read_only=True,
    idempotent=True,
    search_hint="find functions attributes names autocomplete",
)
