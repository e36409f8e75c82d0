"""`balance_brackets`: balance Lisp code by its indentation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pydantic import Field

from codriver.core.profiles import LISP
from codriver.errors import refused
from codriver.tools.calls.answer import Answer, answer_schema
from codriver.tools.calls.arguments import Arguments
from codriver.tools.calls.tool import Tool
from codriver.tools.edit_arguments import MAX_TEXT_CHARACTERS
from codriver_lisp.parinfer import balance_by_indentation

if TYPE_CHECKING:
    from codriver.tools.calls.call import Call


class BalanceArguments(Arguments):
    """The arguments of the tool `balance_brackets`."""

    text: str = Field(max_length=MAX_TEXT_CHARACTERS, description="The whole code, correctly indented.")


async def balance_brackets(call: Call, arguments: BalanceArguments) -> Answer:
    """Return Lisp code with the closing brackets that its indentation implies."""
    balanced = await call.services.work.editing.run(call.client, partial(balance_by_indentation, arguments.text))
    if balanced.error is not None:
        raise refused(
            "unbalanced",
            f"the brackets cannot be balanced by indentation: {balanced.error.message}",
            hint="Correct the text at the line and column named in `error`.",
            details={
                "error": {
                    "message": balanced.error.message,
                    "line": balanced.error.line,
                    "column": balanced.error.column,
                }
            },
        )
    fields: dict[str, object] = {"balancedText": balanced.text, "changed": balanced.changed}
    if (line := balanced.doubtful_line) is not None:
        fields["note"] = (
            f"the brackets balance, so nothing was changed. The indentation of line {line} suggests different brackets"
        )
    return Answer(fields)


TOOL = Tool(
    name="balance_brackets",
    other_names=("clojure_balance_brackets",),
    title="Balance brackets",
    description="Fix the closing brackets of Lisp code according to its indentation. Changes no file.",
    arguments=BalanceArguments,
    output=answer_schema(balancedText="string", changed="boolean", note="string", error="object"),
    run=balance_brackets,
    read_only=True,
    idempotent=True,
    languages=(LISP,),
    search_hint="parinfer repair parentheses",
)
