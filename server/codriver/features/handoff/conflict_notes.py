"""Notify callers when another caller redefines a name that they use or are about to redefine.

Conflicts are advice. They never block or reject a call. They are computed from the code that callers sent or wrote, by
name and namespace. Code that an `import` or `require` loads is never sent, so its file is read when a caller first
defines a name in its namespace. If edits to the file are known, the text before the first one is used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.core import caller_names
from codriver.core.requests import MAIN_SESSION
from codriver.editing import code_names
from codriver.errors import format_count
from codriver.features.handoff.conflict_ledger import (
    MAX_CODE_CHARACTERS,
    Conflict,
    Conflicts,
    ReplHistory,
    Submission,
    find_conflicts,
    format_elapsed,
)
from codriver.files import FileRules, Links
from codriver.repls.kinds import dialects_by_suffix
from codriver.tools.calls.session_choice import find_serving_repl
from codriver.tools.ledgers.file_edits import is_made_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from codriver.core.evaluations import Evaluation
    from codriver.core.requests import Request
    from codriver.core.state import Repl, Session, State
    from codriver.editing.code_names import Language
    from codriver.tools.calls.call import Call
    from codriver.tools.ledgers.file_edits import Edit, EditedFile


MAX_CONFLICT_NOTES: Final = 3
"""Maximum number of notes on conflicts in an answer."""
MAX_INLINE_CHARACTERS: Final = 2**13
"""Maximum length of code to analyze in the event loop. Longer code is analyzed in a worker thread."""
RECENT_EDIT_MS: Final = 3_600_000
"""How long an edit by another caller counts as recent: one hour."""
LANGUAGES_BY_DIALECT: Final[Mapping[str, Language]] = MappingProxyType({"python": "python", "hy": "hy"})
"""Maps dialects of REPLs to the language to use when parsing their code."""
OTHER_LANGUAGE: Final[Language] = "lisp"
"""The language to use for dialects that `LANGUAGES_BY_DIALECT` does not contain."""


def record_sent_code(call: Call, repl: Repl, session: Session, request: Request) -> None:
    """Record code that was sent to a REPL, so that other callers can be notified of conflicts with it."""
    language = LANGUAGES_BY_DIALECT.get(repl.dialect, OTHER_LANGUAGE)
    is_apart = language != "lisp" and session.lane is None and session.name != MAIN_SESSION
    evaluation = call.services.core.state.evaluations.get(request.id)
    if is_apart or request.kind == "run-tests" or evaluation is None:
        return
    code = "\n".join(form.text for form in request.forms) if request.kind == "load-forms" else request.code
    if len(code) > MAX_CODE_CHARACTERS:
        return
    space = request.namespace or session.namespace or "user"
    history = call.services.part(Conflicts).history(repl)
    if language == "python":
        space = history.loaded_module(request.namespace or "__main__")
        if request.kind == "load-file" and request.file:
            space = _module_name(request.file, str(call.services.workspace))
            history.modules.add(space)
    elif language == "hy":
        space = "Hy"
    at, is_file = evaluation.started_at or call.services.now(), request.kind == "load-file"
    submission = Submission(
        request.id, evaluation.number, evaluation.who, call.client, at, code, language, space, is_file
    )
    history.add(submission)


async def conflict_notes(call: Call, evaluation: Evaluation) -> list[str]:
    """Return notes about names in an evaluation that other callers have redefined.

    The notes are included only in the first answer about the evaluation.
    """
    history = call.services.part(Conflicts).histories.get(evaluation.repl)
    if history is None or len(history.callers) < 2 or history.generation != evaluation.generation:
        return []
    submission = next((item for item in reversed(history.submissions) if item.evaluation == evaluation.id), None)
    if submission is None or submission.is_compared:
        return []
    submission.is_compared = True
    await record_original_code(call, history)
    return await _submission_notes(call, history, submission)


async def _submission_notes(call: Call, history: ReplHistory, submission: Submission) -> list[str]:
    """Find the conflicts of a submission, in a worker thread if its code is long. Return notes about new conflicts."""
    unread = sum(
        len(conflict.code)
        for conflict in takewhile(lambda conflict: conflict.number > history.glanced, reversed(history.submissions))
    )
    find = partial(find_conflicts, call.state, history, submission)
    if len(submission.code) + unread <= MAX_INLINE_CHARACTERS:
        met = find()
    else:
        met = await call.services.work.editing.run(call.client, find)
    return _unreported_notes(call, submission.who, met)


def _unreported_notes(call: Call, who: str, met: Sequence[Conflict]) -> list[str]:
    """Return notes about conflicts that the caller has not been notified of yet."""
    reported = [
        conflict for conflict in met if call.services.part(Conflicts).reported.claim((call.client, who), conflict.key)
    ]
    notes = [conflict.description(call.services.now()) for conflict in reported[:MAX_CONFLICT_NOTES]]
    more = len(reported) - len(notes)
    return [*notes, f"and {format_count(more, 'more conflicting definition')}: see repl_output_log"] if more else notes


async def edit_notes(call: Call, edited: EditedFile) -> list[str]:
    """Return notes about an edit.

    They describe edits to the same file by others, and others' changes to names that the edited definitions use.
    """
    if edited.edit.after is None:
        note = _recent_edit_note(call, edited)
        return [note] if note else []
    return await _edit_conflict_notes(call, edited)


async def _edit_conflict_notes(call: Call, edited: EditedFile) -> list[str]:
    services, state = call.services, call.state
    path, file_name, edit, earlier = edited.path, edited.display_path, edited.edit, edited.earlier
    is_shared = any(not is_made_by(state, earlier_edit, edit.who, edit.client) for earlier_edit in earlier)
    repl = find_serving_repl(path, state.repls.values(), services.workspace)
    history = (
        services.part(Conflicts).histories.get(repl.id) if repl is not None and not isinstance(repl, str) else None
    )
    is_repl_shared = history is not None and not all(
        caller_names.is_by_caller(state, edit.client, edit.who, caller) for caller in history.callers
    )
    language = _language_of_file(path)
    if language is None or not (is_shared or is_repl_shared):
        return []
    space = _module_name(str(path), str(services.workspace)) if language == "python" else "user"
    edits = FileEditHistory(language, space, file_name, (*earlier, edit) if is_shared else (edit,))
    find = partial(_find_edit_conflicts, state, edits, history if is_repl_shared else None)
    met = await services.work.editing.run(call.client, find)
    reported = _unreported_notes(call, edit.who, met)
    note = _recent_edit_note(call, edited)
    return reported or ([note] if note else [])


def _recent_edit_note(call: Call, edited: EditedFile) -> str:
    """Return a note if another caller made the previous edit to the file within the last hour.

    Each of these edits is reported once.
    """
    edit, last = edited.edit, edited.earlier[-1] if edited.earlier else None
    if last is None or is_made_by(call.state, last, edit.who, edit.client) or edit.at_ms - last.at_ms > RECENT_EDIT_MS:
        return ""
    is_unreported = call.services.part(Conflicts).reported.claim(
        (call.client, edit.who), (edited.display_path, last.at_ms)
    )
    return (
        f"{last.who} edited {edited.display_path} {format_elapsed(edit.at_ms - last.at_ms)} ago"
        if is_unreported
        else ""
    )


@dataclass(frozen=True, slots=True)
class FileEditHistory:
    """The edits to a file, newest last, with the language and namespace of its code."""

    language: Language
    space: str
    file_name: str
    edits: tuple[Edit, ...]


def _find_edit_conflicts(state: State, file_edits: FileEditHistory, history: ReplHistory | None) -> list[Conflict]:
    """Return the conflicts of the newest edit to a file with earlier edits and with code sent to a REPL. Blocks."""
    base = file_edits.edits[0].before or ""
    file_history = ReplHistory(0)
    file_history.add(Submission("", 1, "", None, 0, base, file_edits.language, file_edits.space, is_file=True))
    for number, edit in enumerate(file_edits.edits, 2):
        submission = _edit_submission(file_edits, edit, number)
        file_history.add(submission)
    # An earlier definition that has since been reverted or overwritten is not a conflict.
    now = _without_whitespace(file_edits.edits[-1].before or "")
    met = [
        conflict
        for conflict in find_conflicts(state, file_history, submission)
        if _without_whitespace(conflict.made) in now
    ]
    if history is not None:
        met = [*find_conflicts(state, history, replace(submission, number=state.evaluated + 1)), *met]
    # A definition that was both written and evaluated is reported once.
    return list(
        {
            (conflict.who, conflict.name, _without_whitespace(conflict.made)): conflict for conflict in reversed(met)
        }.values()
    )[::-1]


def _without_whitespace(text: str) -> str:
    """Remove all whitespace from a string, because evaluated code may be indented differently from its file."""
    return "".join(text.split())


def _edit_submission(file_edits: FileEditHistory, edit: Edit, number: int) -> Submission:
    """Convert an edit to a submission that consists of the definitions that it changed, added or removed."""
    before = code_names.find_definitions(edit.before or "", file_edits.language, file_edits.space)
    after = code_names.find_definitions(edit.after or "", file_edits.language, file_edits.space)
    old, names = (
        {(conflict.space, conflict.name, conflict.form) for conflict in before},
        {(conflict.space, conflict.name) for conflict in after},
    )
    new = [conflict for conflict in after if (conflict.space, conflict.name, conflict.form) not in old]
    gone = [
        replace(conflict, text="", form=None) for conflict in before if (conflict.space, conflict.name) not in names
    ]
    code = "\n".join(
        dict.fromkeys([*(conflict.text for conflict in new), *(f"(def {conflict.name})" for conflict in gone)])
    )
    space = after[0].space if after else file_edits.space
    head = code_names.import_statements(edit.after or "", file_edits.language)
    return Submission(
        "", number, edit.who, edit.client, edit.at_ms, code, file_edits.language, space,
        head=head, location=f"in {file_edits.file_name}", found=(*new, *gone),
    )  # fmt: skip


def _language_of_file(path: Path) -> Language | None:
    dialects = dialects_by_suffix().get(path.suffix, ())
    return LANGUAGES_BY_DIALECT.get(dialects[0], OTHER_LANGUAGE) if dialects else None


def _module_name(file: str, workspace: str) -> str:
    """Return the name of the Python module in a file, derived from the file's path in the workspace."""
    return file.removeprefix(workspace).removesuffix(".py").strip("/\\").replace("/", ".").replace("\\", ".")


SOURCE_RULES: Final = FileRules(Links.NEVER, 2**18)
"""Limits for reading a source file in the workspace."""
SOURCE_ROOTS: Final = ("", "src", "test", "tests")
"""Directories in a workspace to search for modules and namespaces."""
LISP_FILE_SUFFIXES: Final = (".clj", ".cljc", ".cljs", ".lpy")
SESSION_NAMESPACES: Final = frozenset({"__main__", "user", "Hy"})
"""Namespaces that exist only in a session and have no file."""
MAX_RECORDED_NAMESPACES: Final = 200
"""Maximum number of namespaces whose original code is recorded for a REPL."""
FILE_CALLER: Final = "a file"
"""Name used as the caller of code that was already in a file before any caller sent code."""


async def record_original_code(call: Call, history: ReplHistory) -> None:
    """Add the original code of namespaces to a history if their files can be found."""
    for submission in history.submissions:
        if submission.number > history.based:
            history.based = submission.number
            if submission.language != "hy" and len(history.bases) < MAX_RECORDED_NAMESPACES:
                history.bases |= {
                    making.space: submission
                    for making in submission.definitions()
                    if making.space not in {*history.bases, *SESSION_NAMESPACES}
                }
    requested = {space: submission for space, submission in history.bases.items() if submission is not None}
    if requested:
        work = partial(
            _read_originals, call.services.workspace, requested, dict(call.services.ledger.file_edits.by_file)
        )
        for space, base in (await call.services.work.files.run(call.client, work)).items():
            if history.bases.get(space) is not None:
                history.bases[space] = None
                if base is not None:
                    history.add_original(base)


def _read_originals(
    workspace: Path, requested: Mapping[str, Submission], edits: Mapping[Path, tuple[Edit, ...]]
) -> dict[str, Submission | None]:
    """Return the original code of each namespace as a submission, or None if it has no file. Blocks.

    A namespace is omitted if its first submission was the whole file and no edits to the file are known. In this case,
    the file on disk already contains the new code, and an edit that becomes known later may reveal the original.
    """
    found: dict[str, Submission | None] = {}
    for space, submission in requested.items():
        path = next((path for path in _candidate_paths(workspace, space, submission.language) if path.is_file()), None)
        befores = [edit.before for edit in edits.get(path, ()) if edit.before is not None] if path is not None else []
        if path is None or befores or not submission.is_file:
            found[space] = _original_submission(workspace, space, submission, path, befores)
    return found


def _original_submission(
    workspace: Path, space: str, submission: Submission, path: Path | None, befores: list[str]
) -> Submission | None:
    """Return the original code of a namespace, or None if its file cannot be read.

    `befores` are the contents of the file before each known edit, oldest first.
    """
    if path is None:
        return None
    try:
        code = befores[0] if befores else files.read_text(path, SOURCE_RULES, root=workspace)
    except (OSError, ValueError):
        return None
    return Submission("", 0, FILE_CALLER, None, 0, code, submission.language, space, is_file=True, location=path.name)


def _candidate_paths(workspace: Path, space: str, language: str) -> Iterator[Path]:
    """Yield the paths where the file of a module or namespace may be located."""
    parts = space.split(".") if language == "python" else space.replace("-", "_").split(".")
    for root in SOURCE_ROOTS:
        location = workspace.joinpath(root, *parts)
        if language == "python":
            yield location.with_name(f"{location.name}.py")
            yield location / "__init__.py"
        else:
            yield from (location.with_name(location.name + ending) for ending in LISP_FILE_SUFFIXES)
