"""`note_edit`: receive reports from clients' hooks about sessions, edits and turns.

The tool is for hooks and not for agents, so it is never listed. Its answer contains `context` for the agent, or `block`
with the reason why the client should not continue, or nothing.

With `renderFor`, the answer has exactly the shape that a client's hooks return, because Codex rejects additional
members. Patches are in the format of Codex's and opencode's tools: sections of files with unchanged, added and removed
lines. Source: Claude Code 2.1.330 and Codex 0.169, observed; Codex, `apply_patch`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from difflib import unified_diff
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from codriver.core.actions import AddServerLine
from codriver.core.log_facts import EDIT_KIND, edit_facts
from codriver.editing.editable_paths import NotEditableError, editable_path, path_for_display
from codriver.tools.answers.file_editors import record_written_file
from codriver.tools.calls.answer import Answer, answer_schema
from codriver.tools.calls.arguments import Arguments
from codriver.tools.calls.call import ClientStart
from codriver.tools.calls.hooks import collect_edit_notes, collect_introductions, report_file_change
from codriver.tools.calls.tool import Tool
from codriver.tools.execution.affected_tests import describe_new_failures
from codriver.tools.execution.edited_files import describe_syntax_error, is_lisp, read_edited_lisp

if TYPE_CHECKING:
    from codriver.tools.calls.call import Call


ADD_PREFIX: Final = "*** Add File: "
"""Start of a line about a new file in a patch."""
UPDATE_PREFIX: Final = "*** Update File: "
"""Start of a line about a changed file in a patch."""
MOVE_PREFIX: Final = "*** Move to: "
"""Start of a line with the new name of a file in a patch."""
MAX_EVENT_FILES: Final = 20
"""Maximum number of files in one event."""


@dataclass(frozen=True, slots=True)
class PatchedFile:
    """A file that a patch creates or changes.

    `added` is the complete text of a new file, and `replaced` contains the old and new text of each replaced part.
    """

    path: str
    added: str | None = None
    replaced: tuple[tuple[str, str], ...] = ()


def parse_patch(patch: str) -> tuple[PatchedFile, ...]:
    """Return the files that a patch creates or changes, in order. A moved file has its new path."""
    sections: list[list[str]] = []
    for line in patch.strip().splitlines():
        if line.startswith("*** ") and not line.startswith((MOVE_PREFIX, "*** End of File")):
            sections.append([line])
        elif sections:
            sections[-1].append(line)
    files = [_parse_section(head, lines) for head, *lines in sections if head.startswith((ADD_PREFIX, UPDATE_PREFIX))]
    return tuple(file for file in files if file.path)[:MAX_EVENT_FILES]


def _parse_section(head: str, lines: list[str]) -> PatchedFile:
    """Parse the section of a patch that describes one file."""
    if head.startswith(ADD_PREFIX):
        text = "".join([f"{line[1:]}\n" for line in lines if line.startswith("+")])
        return PatchedFile(head.removeprefix(ADD_PREFIX).strip(), added=text)
    moved = next((line.removeprefix(MOVE_PREFIX) for line in lines if line.startswith(MOVE_PREFIX)), None)
    name = head.removeprefix(UPDATE_PREFIX) if moved is None else moved
    return PatchedFile(name.strip(), replaced=tuple(_parse_hunks(lines)))


def _parse_hunks(lines: list[str]) -> list[tuple[str, str]]:
    """Return the old and the new text of each hunk, including unchanged lines."""
    hunks: list[tuple[list[str], list[str]]] = [([], [])]
    for line in lines:
        if line.startswith("@@"):
            hunks.append(([], []))
        elif not line.startswith("*** "):
            old, new = hunks[-1]
            if not line.startswith("+"):
                old.append(line[1:])
            if not line.startswith("-"):
                new.append(line[1:])
    return [("\n".join(old), "\n".join(new)) for old, new in hunks if old != new]


WAIT_MS, MAX_WAIT_MS = 1000, 20_000
"""Default wait after an edit, in milliseconds, and the maximum wait.

The maximum is also the default at the end of a turn, when tests may run.
"""
MAX_PATH_CHARACTERS = 4096
"""Maximum number of characters in a path."""
MAX_CONTENT_CHARACTERS = 8 * 2**20
"""Maximum number of characters in a patch or in a file's text."""
MAX_ERROR_CHARACTERS = 600
"""Maximum number of characters in a message about a file edit. It is short because it interrupts the agent's work."""
MAX_REFUSAL_CHARACTERS = 1500
"""Maximum number of characters in a message that refuses a write."""
NOTHING_WRITTEN_MESSAGE = "\nNothing was written. Write the file with balanced brackets."
"""End of a message that refuses a write."""
PLACEHOLDER_PREFIX = "${"
"""Start of a placeholder that a client did not replace because it had no value."""


class NoteEditArguments(Arguments):
    """Arguments of `note_edit`: the event that a client's hook reports."""

    event: Literal["started", "writing", "edited", "stopping"] = "edited"
    file_path: str = Field("", max_length=MAX_PATH_CHARACTERS)
    file_paths: tuple[str, ...] = Field((), max_length=MAX_EVENT_FILES)
    cwd: str = Field("", max_length=MAX_PATH_CHARACTERS)
    """Working directory of the client, the base of relative paths."""
    patch: str = Field("", max_length=MAX_CONTENT_CHARACTERS)
    """Patch that names the files."""
    content: str | None = Field(None, max_length=MAX_CONTENT_CHARACTERS)
    """The whole text that is or will be written."""
    before: str | None = Field(None, max_length=MAX_CONTENT_CHARACTERS)
    """Text of the file before the edit."""
    replaced: tuple[tuple[str, str], ...] = Field((), max_length=1000)
    """Strings that the edit removed, each with its replacement."""
    source: str = Field("", max_length=MAX_PATH_CHARACTERS)
    """How the session started, in the client's terms: `startup`, `resume`, `clear` or `compact`."""
    is_again: str | bool = False
    """Whether the client continues only because it was blocked at the end of this turn."""
    wait_ms: int | None = Field(None, ge=0, le=MAX_WAIT_MS)
    """How long the hook can wait, in milliseconds.

    The default is 20 s for tests, and otherwise 1 s, because the hook's program ends after 1.5 s.
    """
    render_for: Literal["", "claude-code", "codex"] = ""

    @property
    def wait_s(self) -> float:
        """Return the time that the hook can wait for the answer, in seconds."""
        by_itself = MAX_WAIT_MS if self.event == "stopping" else WAIT_MS
        return (by_itself if self.wait_ms is None else self.wait_ms) / 1000

    def files(self) -> tuple[PatchedFile, ...]:
        """Return the files of the event, with their new text or replaced parts if known."""
        given = dict.fromkeys(
            path for path in (self.file_path, *self.file_paths) if not path.startswith(PLACEHOLDER_PREFIX)
        )
        content = None if (self.content or "").startswith(PLACEHOLDER_PREFIX) else self.content
        named = [PatchedFile(path, content, self.replaced) for path in given if path]
        return (*named, *parse_patch(self.patch))[:MAX_EVENT_FILES]


async def note_edit(call: Call, arguments: NoteEditArguments) -> Answer:
    """Record an event that a client's hook reports, and return text for the agent, if any."""
    context = block = ""
    match arguments.event:
        case "started":
            start = ClientStart(call.who(arguments.who), arguments.source, arguments.wait_s)
            context = await collect_introductions(call, start)
        case "writing":
            block = await _describe_refusal(call, arguments)
        case "edited":
            context = await _record_edits(call, arguments)
        case "stopping" if arguments.is_again not in (True, "true"):
            block = await describe_new_failures(call, call.who(arguments.who), wait_s=arguments.wait_s)
    answer_fields = {name: text for name, text in (("context", context), ("block", block)) if text}
    if arguments.render_for:
        from codriver_relay.hook import render_answer  # noqa: PLC0415  # most servers never hear of a hook

        return Answer(render_answer(arguments.render_for, arguments.event, answer_fields), is_bare=True)
    return Answer(answer_fields)


async def _record_edits(call: Call, arguments: NoteEditArguments) -> str:
    """Record which files a caller changed, and describe the syntax errors in Lisp files."""
    services, who = call.services, call.who(arguments.who)
    files = await services.work.files.run(call.client, partial(_files_in_workspace, services.workspace, arguments))
    messages: list[str] = []
    for path, file in files.items():
        if not await services.work.files.run(call.client, partial(os.path.isfile, path)):
            continue
        display_path = path_for_display(services.workspace, path)
        services.ledger.edits.add(who, path)
        report_file_change(call, who, path)
        facts = edit_facts([(display_path, _diff(file, arguments.before))], services.log.redact)
        call.dispatch(AddServerLine(f"{who} edited {display_path}", who=who, kind=EDIT_KIND, data=facts))
        messages += await collect_edit_notes(call, [record_written_file(call, who, path, display_path)])
        messages.append(await _describe_error(call, path, display_path))
    return "\n".join(filter(None, messages))[:MAX_ERROR_CHARACTERS]


def _diff(file: PatchedFile, before: str | None) -> str:
    """Return a diff of a file's changes, or an empty string if the hook did not pass its text."""
    if file.added is not None and before is not None:
        return brief_diff(before, file.added)
    return "\n".join([brief_diff(old, new) for old, new in file.replaced])


def brief_diff(before: str, after: str) -> str:
    """Return a unified diff without a header and with two lines of context."""
    lines = [*unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2)][2:]
    return "\n".join(lines)


async def _describe_error(call: Call, path: Path, display_path: str) -> str:
    """Describe the syntax error in a Lisp file. Return an empty string for a correct file or a different language."""
    services = call.services
    text = await services.work.files.run(call.client, partial(read_edited_lisp, services.workspace, path))
    if text is None:
        return ""
    return await services.work.editing.run(
        call.client, partial(describe_syntax_error, display_path, text, MAX_ERROR_CHARACTERS)
    )


async def _describe_refusal(call: Call, arguments: NoteEditArguments) -> str:
    """Explain why the text of a file should not be written.

    Returns an empty string for correct Lisp, for other languages, and for files outside the workspace.
    """
    services = call.services
    files = await services.work.files.run(call.client, partial(_files_in_workspace, services.workspace, arguments))
    for path, file in files.items():
        if file.added is not None and is_lisp(path, file.added):
            display_path, most = (
                path_for_display(services.workspace, path),
                MAX_REFUSAL_CHARACTERS - len(NOTHING_WRITTEN_MESSAGE),
            )
            syntax_error = await services.work.editing.run(
                call.client, partial(describe_syntax_error, display_path, file.added, most)
            )
            if syntax_error:
                return syntax_error + NOTHING_WRITTEN_MESSAGE
    return ""


def _files_in_workspace(workspace: Path, arguments: NoteEditArguments) -> dict[Path, PatchedFile]:
    """Return the files that an event names, by path, if their real paths are in the workspace.

    Resolves links, so it blocks.
    """
    base = Path(arguments.cwd) if Path(arguments.cwd).is_absolute() else Path()
    found = {}
    for file in arguments.files():
        given = str(base / file.path)
        try:
            found[editable_path(workspace, given, allow_outside=False)] = file
        except NotEditableError:
            continue
    return found


TOOLS = (
    Tool(
        name="note_edit",
        title="Note edit",
        description="For hooks.",
        arguments=NoteEditArguments,
        output=answer_schema(context="string", block="string"),
        run=note_edit,
        destructive=True,
        open_world=True,
    ),
)
