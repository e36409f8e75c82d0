"""`macroexpand`: expand a Lisp form."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from codriver.core.profiles import LISP
from codriver.tools.answers.answer_budget import cut_to_head, default_budget
from codriver.tools.calls.answer import STRINGS_SCHEMA, Answer, answer_schema
from codriver.tools.calls.arguments import Arguments
from codriver.tools.calls.session_choice import session_field, session_in_use
from codriver.tools.calls.tool import Tool

if TYPE_CHECKING:
    from codriver.tools.calls.call import Call


class ExpandArguments(Arguments):
    """The arguments of the tool `macroexpand`."""

    CHOOSES_SESSION: ClassVar[bool] = True

    code: str = Field(min_length=1)
    namespace: str | None = None
    full: bool = False
    repl_session_key: str | None = None


async def macroexpand(call: Call, arguments: ExpandArguments) -> Answer:
    """Return the macro expansion of a Lisp form."""
    target = session_in_use(call, arguments.repl_session_key, call.who(arguments.who))
    adapter = call.services.repls.adapter(target.repl.id)
    text = await adapter.macroexpand(arguments.code, arguments.namespace, target.session.name, full=arguments.full)
    cut = cut_to_head(text, default_budget(call))
    fields: dict[str, object] = {"expansion": cut.text, **session_field(target, arguments.repl_session_key)}
    if cut.omitted:
        fields["notes"] = [f"the last {cut.omitted} characters are left out"]
    return Answer(fields)


TOOL = Tool(
    name="macroexpand",
    title="Expand macros",
    description="Expand a form once or completely. Only its macros run.",
    arguments=ExpandArguments,
    output=answer_schema(expansion="string", sessionKey="string", notes=STRINGS_SCHEMA),
    run=macroexpand,
    needs=("macroexpand",),
    setting="enable_mcp_repl_evaluation",
    destructive=True,
    open_world=True,
    languages=(LISP,),
    search_hint="macro expansion",
)
