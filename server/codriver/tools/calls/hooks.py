"""Run the hooks of features in tool calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codriver.tools.calls.call import CallHooks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from codriver.core.state import Repl
    from codriver.tools.calls.answer import Answer
    from codriver.tools.calls.call import Call, ClientStart
    from codriver.tools.ledgers.file_edits import EditedFile


def merge_hooks(every: tuple[CallHooks, ...]) -> CallHooks:
    """Combine the hooks of several features into one object, in the order of the features."""
    return CallHooks(
        before=tuple(hook for hooks in every for hook in hooks.before),
        sessions=tuple(session for hooks in every for session in hooks.sessions),
        prepare=tuple(hook for hooks in every for hook in hooks.prepare),
        recorders=tuple(recorder for hooks in every for recorder in hooks.recorders),
        complete=tuple(hook for hooks in every for hook in hooks.complete),
        hints=tuple(hint for hooks in every for hint in hooks.hints),
        failed=tuple(hook for hooks in every for hook in hooks.failed),
        sent=tuple(hook for hooks in every for hook in hooks.sent),
        notes=tuple(note for hooks in every for note in hooks.notes),
        edited=tuple(hook for hooks in every for hook in hooks.edited),
        started=tuple(hook for hooks in every for hook in hooks.started),
        describe=tuple(hook for hooks in every for hook in hooks.describe),
        guards=tuple(guard for hooks in every for guard in hooks.guards),
        changed=tuple(hook for hooks in every for hook in hooks.changed),
        process_of={protocol: find for hooks in every for protocol, find in hooks.process_of.items()},
        variables_of={protocol: find for hooks in every for protocol, find in hooks.variables_of.items()},
        status_subjects={name: subject for hooks in every for name, subject in hooks.status_subjects.items()},
        loadable=tuple(loadable for hooks in every for loadable in hooks.loadable),
        evaluation_parts={name: read for hooks in every for name, read in hooks.evaluation_parts.items()},
    )


def request_extensions(call: Call, repl: Repl | None) -> tuple[Any, ...]:
    """Return features' additions to a request. Most calls have none.

    Raises:
        RefusedError: the REPL does not support an argument that a feature added.
    """
    if not call.added:
        return ()
    found = (prepare(call, repl) for prepare in call.services.hooks.prepare)
    return tuple(extension for extension in found if extension is not None)


async def complete_answer(call: Call, answer: Answer, evaluation: str) -> Answer:
    """Pass an answer about an evaluation through the features that may add to it."""
    for complete in call.services.hooks.complete:
        answer = await complete(call, answer, evaluation)
    return answer


def report_file_change(call: Call, who: str, file: Path) -> None:
    """Notify features that a caller changed a file."""
    for changed in call.services.hooks.changed:
        changed(call, who, file)


async def collect_edit_notes(call: Call, edited: Iterable[EditedFile]) -> list[str]:
    """Return the notes that features have about edited files."""
    return [note for file in edited for hook in call.services.hooks.edited for note in await hook(call, file)]


async def collect_introductions(call: Call, start: ClientStart) -> str:
    """Return the text that features send to the agent of a client when it starts."""
    return "\n".join(filter(None, [await hook(call, start) for hook in call.services.hooks.started]))


def notify_of_failures(call: Call, job: str, handed_out: Callable[[], None] | None) -> None:
    """Call `handed_out`, and notify features that the failed tests of a run are being reported to the caller."""
    if handed_out is not None:
        handed_out()
    for failed in call.services.hooks.failed:
        failed(call, job)
