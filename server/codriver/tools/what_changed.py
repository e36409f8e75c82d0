"""`what_changed`: compare the loaded code with its files."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from codriver.repls.contract.fresh_imports import finding_lines
from codriver.tools.answers.answer_budget import default_budget, fit_rows
from codriver.tools.answers.drift_notes import drift_lines
from codriver.tools.answers.load_notes import fresh_finding
from codriver.tools.answers.loaded_code_comparison import find_drift
from codriver.tools.calls.answer import STRINGS_SCHEMA, Answer, answer_schema
from codriver.tools.calls.arguments import Arguments
from codriver.tools.calls.session_choice import choose_session
from codriver.tools.calls.tool import Tool

if TYPE_CHECKING:
    from codriver.tools.calls.call import Call


class DriftArguments(Arguments):
    """The arguments of the tool `what_changed`."""

    CHOOSES_SESSION: ClassVar[bool] = True

    fresh: bool = False
    """Whether to compare reloaded Python modules with a fresh import of them."""
    repl_session_key: str | None = None


async def what_changed(call: Call, arguments: DriftArguments) -> Answer:
    """Return the differences between loaded code and its files, with one line for each module and object."""
    repl = choose_session(call, arguments.repl_session_key, call.who(arguments.who)).repl
    found = await find_drift(call, repl)
    lines = drift_lines(call, repl, found)
    notes = []
    if arguments.fresh:
        finding = await fresh_finding(call, repl)
        if finding is None:
            notes.append("`fresh` has no effect, because this REPL cannot be compared with a fresh import")
        else:
            lines += finding_lines(finding)
            notes += [f"the REPL was not compared with a fresh import, because {finding.why}"] if finding.why else []
    fitted, note, omitted = fit_rows(lines, default_budget(call))
    fields: dict[str, object] = {"differences": fitted, "count": len(lines), "sessionKey": repl.key}
    if omitted:
        fields["omitted"] = omitted
    notes += [note] if note else []
    return Answer({**fields, "notes": notes} if notes else fields)


TOOL = Tool(
    name="what_changed",
    title="What changed",
    description="List where loaded code differs from its files.",
    arguments=DriftArguments,
    output=answer_schema(
        differences=STRINGS_SCHEMA, count="integer", omitted="integer", sessionKey="string", notes=STRINGS_SCHEMA
    ),
    run=what_changed,
    needs=("drift",),
    read_only=True,
    idempotent=True,
    search_hint="drift stale reload outdated definitions",
)
