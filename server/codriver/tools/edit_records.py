"""Determine who made a batch of edits, and record the batch in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core import caller_names, log_facts
from codriver.core.actions import AddServerLine
from codriver.tools.calls.hooks import report_file_change

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.editing import FileResult
    from codriver.tools.calls.call import Call


def editor_caller_key(call: Call, who: str | None) -> str:
    """Return the key under which the editor stores a caller's edits.

    It contains the caller's name, or identifies the connection of a caller without a name.
    """
    name, unnamed = call.who(who), f"connection {call.client} {call.conversation}"
    if who is None and caller_names.caller_name(call.state, call.client, call.conversation) is None:
        return unnamed
    call.services.editor.adopt(named_editor_key(name), unnamed)
    return named_editor_key(name)


def named_editor_key(name: str) -> str:
    """Return the key under which the editor stores the edits of a caller with a name."""
    return f"who {name}"


def record_edits(
    call: Call,
    given: str | None,
    did: str,
    results: Sequence[FileResult],
    kind: str = log_facts.EDIT_KIND,
    job: str = "",
) -> None:
    """Record in the log which files a caller changed.

    `given` is the `who` that the call passed, and `did` is the verb of the log's text. `job` is the id of the test
    run that caused an edit to be reverted.
    """
    if results:
        who = call.who(given)
        for result in results:
            call.services.ledger.edits.add(who, result.change.path)
            report_file_change(call, who, result.change.path)
        changed = ", ".join(
            f"{result.display_path} ({len(result.done)})" if result.done else result.display_path for result in results
        )
        diffs = log_facts.edit_facts(
            [(result.display_path, result.diff) for result in results], call.services.log.redact, job
        )
        call.dispatch(AddServerLine(f"{who} {did} {changed}", who=who, kind=kind, data=diffs))
