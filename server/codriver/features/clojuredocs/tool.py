"""The tool `clojuredocs_info`: examples, see-alsos and notes for a Clojure var."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pydantic import Field

from codriver.core.profiles import LISP
from codriver.errors import RefusedError
from codriver.features.clojuredocs.lookup import describe_entry
from codriver.tools.calls.answer import STRINGS_SCHEMA, Answer, answer_schema
from codriver.tools.calls.arguments import Arguments
from codriver.tools.calls.session_choice import session_in_use
from codriver.tools.calls.tool import Tool

if TYPE_CHECKING:
    from codriver.tools.calls.call import Call


class ClojureDocsArguments(Arguments):
    """Arguments of the tool `clojuredocs_info`."""

    symbol: str = Field(min_length=1, max_length=300)
    repl_session_key: str | None = None


async def clojuredocs_info(call: Call, arguments: ClojureDocsArguments) -> Answer:
    """Return the examples, related vars and notes for a var."""
    key = arguments.repl_session_key
    with suppress(RefusedError):
        key = session_in_use(call, key, call.who(arguments.who)).key
    return Answer(await describe_entry(call.services, key, arguments.symbol))


TOOLS = (
    Tool(
        name="clojuredocs_info",
        other_names=("clojuredocs_info",),
        title="ClojureDocs",
        description="Examples, see-alsos and notes about a Clojure var from ClojureDocs.",
        arguments=ClojureDocsArguments,
        output=answer_schema(
            name="string",
            ns="string",
            doc="string",
            examples=STRINGS_SCHEMA,
            seeAlsos=STRINGS_SCHEMA,
            notes=STRINGS_SCHEMA,
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
