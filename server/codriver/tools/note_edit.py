"""`note_edit`: clients' hooks tell and ask at a start, before a write, after an edit and at the end of a turn.

The tool is for hooks and not for models, so it is listed to nobody: hooks call it by its name, and need no list. Its
answer is abstract: `context` for the agent, or `block`, the reason why the client should not go on; nothing if all is
well. With `renderFor` it has the shape of a client whose hooks take the answer of a tool as their own: exactly that
shape, as Codex refuses one with an additional member. Patches have the form of Codex's and opencode's own tools:
sections of files, and in those of changed files the lines that stay, go and come. Source: Claude Code 2.1.330 and Codex
0.169, observed; Codex, `apply_patch`.
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
from codriver.editing.editable_paths import NotEditableError, editable_path, show
from codriver.log.facts import EDIT, edit_facts
from codriver.tools.acts.affected_tests import failures
from codriver.tools.acts.edited_files import describe_syntax_error, is_lisp, read_edited
from codriver.tools.answers.file_editors import written_file
from codriver.tools.calls.answer import Answer, answer_schema
from codriver.tools.calls.arguments import Arguments
from codriver.tools.calls.call import Started
from codriver.tools.calls.hooks import introduction, notes_of_edits
from codriver.tools.calls.tool import Tool

if TYPE_CHECKING:
    from codriver.tools.calls.call import Call


ADD: Final = "*** Add File: "
UPDATE: Final = "*** Update File: "
MOVE: Final = "*** Move to: "
MOST_FILES: Final = 20


@dataclass(frozen=True, slots=True)
class PatchedFile:
    """A file that exists after a patch. `added`: the whole text of a new one; `replaced`: the old and new parts."""

    path: str
    added: str | None = None
    replaced: tuple[tuple[str, str], ...] = ()


def patched_files(patch: str) -> tuple[PatchedFile, ...]:
    """Return the files that a patch makes or changes, in its order; a moved one by its new name."""
    sections: list[list[str]] = []
    for line in patch.strip().splitlines():
        if line.startswith("*** ") and not line.startswith((MOVE, "*** End of File")):
            sections.append([line])
        elif sections:
            sections[-1].append(line)
    files = [_file(head, lines) for head, *lines in sections if head.startswith((ADD, UPDATE))]
    return tuple(file for file in files if file.path)[:MOST_FILES]


def _file(head: str, lines: list[str]) -> PatchedFile:
    if head.startswith(ADD):
        text = "".join([f"{line[1:]}\n" for line in lines if line.startswith("+")])
        return PatchedFile(head.removeprefix(ADD).strip(), added=text)
    moved = next((line.removeprefix(MOVE) for line in lines if line.startswith(MOVE)), None)
    name = head.removeprefix(UPDATE) if moved is None else moved
    return PatchedFile(name.strip(), replaced=tuple(_hunks(lines)))


def _hunks(lines: list[str]) -> list[tuple[str, str]]:
    """Return the old and new text of each hunk, with its unchanged lines."""
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


WAIT_MS, MOST_WAIT_MS = 1000, 20_000
PATH_CHARACTERS = 4096
CONTENT_CHARACTERS = 8 * 2**20
FAULT_CHARACTERS = 600
"""The characters told after an edit: the agent reads them in the midst of other work."""
REFUSAL_CHARACTERS = 1500
NOTHING_WRITTEN = "\nNothing was written: write it balanced."
UNFILLED = "${"
"""The beginning of a placeholder that a client left in place of a text, having none to fill in."""


class NoteEditArguments(Arguments):
    """Arguments of `note_edit`: what the input of a hook says of the event."""

    event: Literal["started", "writing", "edited", "stopping"] = "edited"
    file_path: str = Field("", max_length=PATH_CHARACTERS)
    file_paths: tuple[str, ...] = Field((), max_length=MOST_FILES)
    cwd: str = Field("", max_length=PATH_CHARACTERS)
    """The folder in which the client runs: the base of relative paths."""
    patch: str = Field("", max_length=CONTENT_CHARACTERS)
    """A patch that names the files."""
    content: str | None = Field(None, max_length=CONTENT_CHARACTERS)
    """The whole text that is written, or is to be."""
    before: str | None = Field(None, max_length=CONTENT_CHARACTERS)
    """The file's text before the edit."""
    replaced: tuple[tuple[str, str], ...] = Field((), max_length=1000)
    """The texts that the edit took away, each with its replacement."""
    source: str = Field("", max_length=PATH_CHARACTERS)
    """The kind of a start, in the client's word: `startup`, `resume`, `clear`, `compact`."""
    is_again: str | bool = False
    """Whether the client goes on only because it was blocked at the end of this turn."""
    wait_ms: int | None = Field(None, ge=0, le=MOST_WAIT_MS)
    """How long the hook can wait; else 20 s for tests, and 1 s for all else, as its program ends after 1.5 s."""
    render_for: Literal["", "claude-code", "codex"] = ""

    @property
    def wait_s(self) -> float:
        """Return the time that the hook can wait, in seconds."""
        by_itself = MOST_WAIT_MS if self.event == "stopping" else WAIT_MS
        return (by_itself if self.wait_ms is None else self.wait_ms) / 1000

    def files(self) -> tuple[PatchedFile, ...]:
        """Return the given files, each with its new text or its replaced parts, as far as told."""
        given = dict.fromkeys(path for path in (self.file_path, *self.file_paths) if not path.startswith(UNFILLED))
        content = None if (self.content or "").startswith(UNFILLED) else self.content
        named = [PatchedFile(path, content, self.replaced) for path in given if path]
        return (*named, *patched_files(self.patch))[:MOST_FILES]


async def note_edit(call: Call, arguments: NoteEditArguments) -> Answer:
    """Note an event of a client, and tell its agent what it should know: nothing if all is well."""
    context = block = ""
    match arguments.event:
        case "started":
            start = Started(call.who(arguments.who), arguments.source, arguments.wait_s)
            context = await introduction(call, start)
        case "writing":
            block = await _refusal(call, arguments)
        case "edited":
            context = await _edited(call, arguments)
        case "stopping" if arguments.is_again not in (True, "true"):
            block = await failures(call, call.who(arguments.who), wait_s=arguments.wait_s)
    told = {name: text for name, text in (("context", context), ("block", block)) if text}
    if arguments.render_for:
        from codriver_relay.hook import render  # noqa: PLC0415  # most servers never hear of a hook

        return Answer(render(arguments.render_for, arguments.event, told), is_bare=True)
    return Answer(told)


async def _edited(call: Call, arguments: NoteEditArguments) -> str:
    """Note which caller changed which file, and return the syntax errors of Lisp files."""
    services, who = call.services, call.who(arguments.who)
    files = await services.work.files.run(call.client, partial(_inside, services.workspace, arguments))
    said: list[str] = []
    for path, file in files.items():
        if not await services.work.files.run(call.client, partial(os.path.isfile, path)):
            continue
        shown = show(services.workspace, path)
        services.ledger.edits.add(who, path)
        services.ledger.notebooks.forget(who, path)
        facts = edit_facts([(shown, _diff(file, arguments.before))], services.log.without_secrets)
        call.dispatch(AddServerLine(f"{who} edited {shown}", who=who, kind=EDIT, data=facts))
        said += await notes_of_edits(call, [written_file(call, who, path, shown)])
        said.append(await _fault(call, path, shown))
    return "\n".join(filter(None, said))[:FAULT_CHARACTERS]


def _diff(file: PatchedFile, before: str | None) -> str:
    """Return the changed lines of a file, as far as the hook gave its texts."""
    if file.added is not None and before is not None:
        return unified(before, file.added)
    return "\n".join([unified(old, new) for old, new in file.replaced])


def unified(before: str, after: str) -> str:
    """Return the lines in which two texts differ, with two lines around each change and without a head."""
    lines = [*unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2)][2:]
    return "\n".join(lines)


async def _fault(call: Call, path: Path, shown: str) -> str:
    """Return the syntax error of a Lisp file; an empty text for others."""
    services = call.services
    text = await services.work.files.run(call.client, partial(read_edited, services.workspace, path))
    if text is None:
        return ""
    return await services.work.editing.run(call.client, partial(describe_syntax_error, shown, text, FAULT_CHARACTERS))


async def _refusal(call: Call, arguments: NoteEditArguments) -> str:
    """The reason why a whole file should not be written so; none for readable Lisp, other languages, files outside."""
    services = call.services
    files = await services.work.files.run(call.client, partial(_inside, services.workspace, arguments))
    for path, file in files.items():
        if file.added is not None and is_lisp(path, file.added):
            shown, most = show(services.workspace, path), REFUSAL_CHARACTERS - len(NOTHING_WRITTEN)
            fault = await services.work.editing.run(
                call.client, partial(describe_syntax_error, shown, file.added, most)
            )
            if fault:
                return fault + NOTHING_WRITTEN
    return ""


def _inside(workspace: Path, arguments: NoteEditArguments) -> dict[Path, PatchedFile]:
    """Return the files of an event that are in the workspace, links followed: none whose path leads out of it.

    Blocks.
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
