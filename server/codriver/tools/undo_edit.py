"""`undo_edit`: revert the last batch of edits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core import log_facts
from codriver.core.profiles import LISP, PYTHON
from codriver.tools.answers.drift_notes import undo_notes
from codriver.tools.answers.lean_answers import Evaluating
from codriver.tools.calls.answer import ROWS_SCHEMA, Answer, answer_schema
from codriver.tools.calls.arguments import Arguments
from codriver.tools.calls.tool import Tool
from codriver.tools.edit_records import editor_caller_key, record_edits
from codriver.tools.edit_rows import edit_rows
from codriver.tools.execution.edit_loads import load_undone

if TYPE_CHECKING:
    from codriver.tools.calls.call import Call


class UndoArguments(Arguments):
    """The arguments of the tool `undo_edit`."""

    who: str | None = None


async def undo_edit(call: Call, arguments: UndoArguments) -> Answer:
    """Revert the caller's last batch of edits."""
    started_ms = call.services.now()
    outcome, left = await call.services.editor.undo(editor_caller_key(call, arguments.who))
    call.services.ledger.recent_edits.add(started_ms, (file.change for file in outcome.files))
    rows = edit_rows(outcome.files, [], applied=True)
    record_edits(call, arguments.who, "reverted the edits of", outcome.files, log_facts.UNDO_KIND)
    fields: dict[str, object] = {"files": rows, "count": len(rows), "left": left}
    loads = await load_undone(call, Evaluating(who=arguments.who), outcome)
    for index, row in enumerate(rows):
        row.update(loads.rows.get(index, {}))
    fields |= loads.failure
    if not rows:
        fields["note"] = "the reverted batch had not changed anything"
    elif notes := await undo_notes(call, outcome.files):
        fields["note"] = "; ".join(notes)
    return Answer(fields, ok=not loads.failure)


TOOL = Tool(
    name="undo_edit",
    title="Undo edit",
    description="Revert your last call of edit_files. Call undo_edit again to revert the call before that.",
    arguments=UndoArguments,
    output=answer_schema(files=ROWS_SCHEMA, count="integer", left="integer", note="string"),
    run=undo_edit,
    setting="enable_edits",
    destructive=True,
    languages=(LISP, PYTHON),
    search_hint="revert edits of files",
)
