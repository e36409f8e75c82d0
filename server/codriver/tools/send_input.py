"""`send_input`: send a line to code that is waiting for input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from codriver.errors import refused
from codriver.tools.answers.evaluation_answers import EVALUATION_SCHEMA, describe_evaluation
from codriver.tools.answers.lean_answers import Evaluating
from codriver.tools.calls.answer import Answer, answer_schema
from codriver.tools.calls.arguments import UNLISTED_KEY
from codriver.tools.calls.evaluation_waits import send_line, wait_for_evaluation
from codriver.tools.calls.tool import Tool
from codriver.tools.chosen_evaluations import choose_evaluation

if TYPE_CHECKING:
    from codriver.tools.calls.call import Call


class InputArguments(Evaluating):
    """The arguments of the tool `send_input`."""

    evaluation_id: str | None = Field(None, description="Default: your waiting code.")
    repl_session_key: str | None = Field(None, json_schema_extra={UNLISTED_KEY: True})
    text: str


async def send_input(call: Call, arguments: InputArguments) -> Answer:
    """Send a line to code that is waiting for input, wait for its effect, and return the evaluation."""
    current = choose_evaluation(
        call, arguments.evaluation_id, arguments.who, arguments.repl_session_key, is_waiting=True
    )
    if current.status != "needs-input":
        raise refused(
            "not-waiting-for-input",
            f"evaluation {current.id} has the status {current.status} and is not waiting for input",
            hint="Call send_input only for an evaluation with the status needs-input.",
        )
    await send_line(call, current, arguments.text)
    current = await wait_for_evaluation(call, current.id, call.services.durations.settle_s, owns=False)
    return await describe_evaluation(call, current, arguments)


TOOL = Tool(
    name="send_input",
    title="Send input",
    description="Send a line to code that waits in input() or at a debugger prompt.",
    arguments=InputArguments,
    output=answer_schema(**EVALUATION_SCHEMA),
    run=send_input,
    needs=("stdin",),
    setting="enable_mcp_repl_evaluation",
    destructive=True,
    open_world=True,
    search_hint="stdin answer prompt debugger",
)
