"""`what_changed`: where the loaded code differs from the files, and which objects of a former load live on."""

from __future__ import annotations

from codriver.tools.answers.answer_budget import budget, fit
from codriver.tools.calls.base import TEXTS, Answer, Arguments, Call, Tool, answer_schema
from codriver.tools.calls.session_choice import chosen
from codriver.tools.truth.drift_lines import drift_lines
from codriver.tools.truth.drift_notes import drift_of


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


TOOLS = (
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
