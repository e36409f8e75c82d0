"""`balance_brackets`, `edit_files` and `undo_edit`: files changed by words, forms of Lisp, or definitions of Python.

An edit may not change files that would make a stranger's words run, or grant something.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, Self

from pydantic import ConfigDict, Field, WithJsonSchema, model_validator

from codriver.core import caller_names
from codriver.core.actions import Say
from codriver.core.values import LISP, PYTHON
from codriver.editing import HY, Act, Create, InsertDef, Limits, ReplaceDef, ReplaceText, Wanted, lint
from codriver.editing.batch import cut
from codriver.editing.file_changes import PYTHON_SUFFIXES, SUFFIXES, plain_name
from codriver.editing.guarded_files import guard_reason
from codriver.errors import refused
from codriver.log import facts
from codriver.repls.jupyter.connection_files import RuntimeFolder, runtime_folder
from codriver.repls.jupyter.kernel_discovery import where_open
from codriver.tools.acts.edit_acts import LiveSteps, put_files, told
from codriver.tools.acts.file_loads import Gone, unwatched
from codriver.tools.acts.since_passed import after
from codriver.tools.answers.conflicts import notes_of_edits
from codriver.tools.answers.drift_notes import notes_of_undo
from codriver.tools.answers.lean_answers import Evaluating, wants_detail
from codriver.tools.calls.base import (
    ROWS,
    UNLISTED,
    Answer,
    Arguments,
    Call,
    Given,
    Tool,
    answer_schema,
    unsaid_default,
)
from codriver.tools.calls.gate import switched_off
from codriver.tools.evaluate_code import TOOLS as EVALUATING
from codriver.tools.ledgers.cell_output_writes import digest_of
from codriver.tools.list_cells import CellName  # noqa: TC001  # pydantic asks for it
from codriver_lisp.edit import Append, Insert, Move, Rename, Replace
from codriver_lisp.parinfer import balance
from codriver_lisp.source_text import Target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from codriver.editing import Diagnostics, Elsewhere, FileEdit, FileResult, Outcome
    from codriver.editing.file_changes import Change
    from codriver.settings.model import Settings
    from codriver.tools.calls.base import Services
    from codriver_lisp.edit import Done


MAX_DIFF_CHARS = 12_000
"""The characters of all diffs of an answer together: as many as an agent reads at one go."""
MAX_LEFT_LINES = 10
"""Lines that an answer names of the places that a renaming left, for each reason."""
HY_NOTE = (
    "Hy: of scopes, fn, defn, defmacro and let are known; names bound by setv, for, with, except or a comprehension "
    "count as the module's, and are renamed with it"
)
MAX_TEXT_CHARS = 8 * 2**20
MAX_EDITS = 200
MAX_TESTS = 20
TESTED = frozenset({"tests"})
"""The fields of an answer whose tests passed."""
TEXT = "text"
"""The type of edit whose reader gave both the old and the new text."""
OWN_TEXT = frozenset({TEXT, "append", "create", "replace_def", "insert_def"})
"""The types of edits that write what their caller sent, outside of Lisp, where brackets and places are adapted."""
EVALUATE = EVALUATING[0]
"""The tool whose switch holds for loads, too."""

_FIELDS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "text": (frozenset({"old_text", "new_text"}), frozenset({"name", "line", "cell"})),
    "replace": (frozenset({"line", "target_line_text", "code"}), frozenset()),
    "delete": (frozenset({"line", "target_line_text"}), frozenset()),
    "insert": (frozenset({"line", "target_line_text", "code"}), frozenset()),
    "append": (frozenset({"code"}), frozenset()),
    "create": (frozenset({"code"}), frozenset({"overwrite"})),
    "move": (frozenset({"line", "target_line_text", "to_line", "to_line_text"}), frozenset({"side"})),
    "rename": (frozenset({"old_text", "new_text"}), frozenset({"line", "target_line_text", "files"})),
    "replace_def": (frozenset({"name", "code"}), frozenset({"line"})),
    "insert_def": (frozenset({"code"}), frozenset({"name", "side", "line"})),
}
"""By type of edit: its required fields, and its optional ones, beside its type and its file."""


OF_ANY: Final = (
    "Any text: oldText, newText, no type. code: of replace_def, by name; insert_def, at name?, side?; append, create"
)
LISP_ALONE: Final = ("targetLineText", "toLine", "toLineText")
DESCRIPTION: Final = (
    "Change files: text by oldText, Python by definitions{}; all edits or none. With load the live session runs the "
    "new code; with test and onFailure restore an edit that breaks a test is taken back."
)
OF_LISP: Final = (
    "; Lisp: replace, insert before, at line, targetLineText (first of a form), as delete; move: toLine, toLineText; "
    "rename: oldText, newText"
)


class EditArguments(Given):
    """One edit of `edit_files`; what each type takes is for clients to read in its schema."""

    model_config = ConfigDict(json_schema_extra={"description": OF_ANY + OF_LISP})
    OTHER_NAMES: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "oldName": "oldText",
            "newName": "newText",
            "newForm": "code",
            "content": "code",
            "cell_id": "cell",
            "cellId": "cell",
        }
    )

    type: Annotated[
        Literal[
            "text", "replace", "delete", "insert", "append", "create", "move", "rename", "replace_def", "insert_def"
        ],
        WithJsonSchema({"type": "string"}),  # the description names them all
    ] = Field("text", json_schema_extra=unsaid_default)
    file_path: str
    old_text: str | None = Field(None, max_length=MAX_TEXT_CHARS)
    new_text: str | None = Field(None, max_length=MAX_TEXT_CHARS)
    name: str | None = None
    cell: CellName | None = Field(None, json_schema_extra={UNLISTED: True})
    """A notebook's cell, by id or index; listed with its cells."""
    line: int | None = None
    target_line_text: str | None = None
    code: str | None = None
    overwrite: bool | None = Field(None, json_schema_extra={UNLISTED: True})
    to_line: int | None = None
    to_line_text: str | None = None
    side: Literal["before", "after", "in"] | None = None
    files: str | None = Field(None, json_schema_extra={UNLISTED: True})

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        needed, possible = _FIELDS[self.type]
        given = {name for name in self.model_fields_set if getattr(self, name) is not None} - {"type", "file_path"}
        if self.type == "rename" and given & {"line", "target_line_text"}:
            needed |= {"line", "target_line_text"}
        lacking, strange = sorted(needed - given), sorted(given - needed - possible)
        names = {name: field.alias or name for name, field in type(self).model_fields.items()}
        problems = [] if self.files in (None, "all") else ["files is all, or left out for this file alone"]
        if self.side is not None and self.name is None and self.type == "insert_def":
            problems.append("side is that of the definition name")
        if self.side == "in" and self.type == "move":
            problems.append("move takes side before or after")
        if lacking:
            problems.append(f"{self.type} needs {', '.join(names[name] for name in lacking)}")
        if strange:
            problems.append(f"{self.type} does not take {', '.join(names[name] for name in strange)}")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def to_edit(self) -> FileEdit | Create:
        """The edit in the editor's form."""
        target = Target(self.line or 0, self.target_line_text or "")
        match self.type:
            case "text":
                return ReplaceText(self.old_text or "", self.new_text or "", self.name, self.line, self.cell)
            case "replace" | "delete":
                return Replace(target, self.code or "")
            case "insert":
                return Insert(target, self.code or "")
            case "append":
                return Append(self.code or "")
            case "create":
                return Create(self.code or "", overwrite=self.overwrite or False)
            case "move":
                side: Literal["before", "after"] = "after" if self.side == "after" else "before"
                return Move(target, Target(self.to_line or 0, self.to_line_text or ""), side)
            case "replace_def":
                return ReplaceDef(self.name or "", self.code or "", self.line)
            case "insert_def":
                return InsertDef(self.name, self.code or "", self.side or "after", self.line)
            case "rename":
                return Rename(self.old_text or "", self.new_text or "", None if self.line is None else target)


class EditFilesArguments(Evaluating):
    """Arguments of `edit_files`."""

    edits: list[EditArguments] = Field(min_length=1, max_length=MAX_EDITS)
    dry_run: bool = Field(default=False, json_schema_extra={UNLISTED: True})
    load: bool = Field(default=False, description="Load the changed code into the live session.")
    test: list[str] = Field(
        default_factory=list,
        max_length=MAX_TESTS,
        description='Tests that must pass, as paths of run_tests; ["affected"]: those that the edit can break.',
    )
    on_failure: Literal["keep", "restore"] = Field(
        "keep", description="restore: put the files back if a test fails that passed before."
    )
    limit_ms: int | None = Field(None, ge=100, le=86_400_000, description="End the tests after this time.")
    repl_session_key: str | None = Field(None, json_schema_extra={UNLISTED: True})
    """The session that loads the files."""


class UndoArguments(Arguments):
    """Arguments of `undo_edit`."""

    who: str | None = None


class BalanceArguments(Arguments):
    """Arguments of `balance_brackets`."""

    text: str = Field(max_length=MAX_TEXT_CHARS, description="All of it, well indented.")


async def balance_brackets(call: Call, arguments: BalanceArguments) -> Answer:
    """The text with the brackets that its indentation asks for."""
    balanced = await call.services.work.texts.run(call.client, partial(balance, arguments.text))
    if balanced.error is not None:
        raise refused(
            "unbalanced",
            f"the brackets cannot be balanced by indentation: {balanced.error.message}",
            hint="correct it by hand at the line and column of error",
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
        fields["note"] = f"the brackets balance, so nothing was changed; the indentation of line {line} suggests others"
    return Answer(fields)


async def edit_files(call: Call, arguments: EditFilesArguments) -> Answer:
    """Do a batch of edits, load the changes if asked to, and tell the outcome."""
    services = call.services
    settings = services.live.settings
    who, began_ms = call.who(arguments.who), services.now()
    step = "load" if arguments.load else "test"
    if (arguments.load or arguments.test) and (
        obstacle := switched_off(EVALUATE, settings, by=f"edit_files with {step}")
    ):
        raise obstacle
    wanted = [Wanted(edit.file_path, edit.to_edit(), is_everywhere=edit.files == "all") for edit in arguments.edits]
    edit = partial(
        services.editor.edit,
        _caller(call, arguments.who),
        wanted,
        limits=Limits(settings.fuzzy_line_targeting_padding, settings.line_context_response_padding),
        allow_outside=settings.allow_edits_outside_workspace,
        guard=partial(_why_not_now, services, who),
        dry_run=arguments.dry_run,
    )
    if not (arguments.load or arguments.test) or arguments.dry_run:
        outcome = await edit()
        if not arguments.dry_run:
            services.ledger.acts.add(began_ms, (one.change for one in outcome.files))
        rows, fields = await _describe(call, arguments, wanted, outcome)
        return Answer(fields)
    restores = arguments.on_failure == "restore"
    steps = LiveSteps(
        call, who, arguments, arguments.test, partial(_gone, wanted=wanted), restores=restores, loads=arguments.load,
        limit_s=None if arguments.limit_ms is None else arguments.limit_ms / 1000,
    )  # fmt: skip
    await steps.check(want.file for want in wanted)
    act = Act(partial(put_files, call, _caller(call, arguments.who)), steps, restores=restores)
    ended = await act.run(partial(unwatched, call, edit))
    if "reason" not in steps.fields:
        steps.fields |= steps.unserved
    failed = "reason" in steps.fields
    if ended.put_back is not None:
        red = f" tests ({steps.fields['evaluationId']})" if "evaluationId" in steps.fields else ""
        files, left = ended.outcome.files, set(ended.put_back.files)
        _tell(call, arguments.who, "edited", [one for one in files if one.shown in left])
        _tell(
            call,
            arguments.who,
            f"took back what failed{red} in",
            [one for one in files if one.shown not in left],
            facts.UNDO,
        )
        rows = [{"filePath": one.shown, "applied": one.shown in left} for one in files]
        return Answer({"files": rows, "count": len(rows), **steps.fields, **told(ended.put_back)}, ok=False)
    services.ledger.acts.add(began_ms, (one.change for one in ended.outcome.files))
    rows, fields = await _describe(call, arguments, wanted, ended.outcome)
    for place, row in enumerate(rows):
        row.update(_of_load(steps.rows.get(place, {}), is_tested=not TESTED.isdisjoint(steps.fields)))
    handed_out = after(call, str(steps.fields.get("evaluationId", "")))
    return Answer({**fields, **steps.fields}, ok=not failed, handed_out=handed_out)


async def dry_edit(call: Call, given_who: str | None, wanted: Sequence[Wanted]) -> Outcome:
    """The outcome that edits within the workspace would have; nothing is written.

    Raises:
        RefusedError: the edits cannot be done.
    """
    services = call.services
    settings = services.live.settings
    return await services.editor.edit(
        _caller(call, given_who),
        wanted,
        limits=Limits(settings.fuzzy_line_targeting_padding, settings.line_context_response_padding),
        allow_outside=False,
        guard=partial(why_not, services.workspace, settings),
        dry_run=True,
    )


async def _describe(
    call: Call, arguments: EditFilesArguments, wanted: Sequence[Wanted], outcome: Outcome
) -> tuple[list[dict[str, object]], dict[str, object]]:
    """The rows of an answer and its fields, with the findings of linters, after the log was told."""
    is_whole = arguments.dry_run or wants_detail(call, arguments)
    rows = _rows(outcome.files, arguments.edits, applied=not arguments.dry_run, is_whole=is_whole)
    _add_elsewhere(rows, wanted, outcome.elsewhere)
    fields: dict[str, object] = {"files": rows, "count": len(rows)}
    if arguments.dry_run:
        fields["dryRun"] = True
        return rows, fields
    changes = [result.change for result in outcome.files]
    texts = {change.path: change.after for change in changes if change.after is not None}
    diagnostics = await lint(call.services.workspace, texts)
    _add_diagnostics(fields, rows, outcome.files, diagnostics)
    _tell(call, arguments.who, "edited", outcome.files)
    who = call.who(arguments.who)
    found = call.services.ledger.tests.take_differences(who)
    notes = [*found, *await notes_of_edits(call, who, outcome.files)]
    if notes := [*call.services.editor.take_untold(), *notes]:
        fields["notes"] = notes
    return rows, fields


def _of_load(row: Mapping[str, object], *, is_tested: bool) -> dict[str, object]:
    """The answer's fields on a file's load: after tests passed, only notes on deviations from the request."""
    load = row.get("load")
    if is_tested and isinstance(load, dict):
        return {"load": {"notes": load["notes"]}} if load.get("notes") else {}
    return dict(row)


async def undo_edit(call: Call, arguments: UndoArguments) -> Answer:
    """Take back the caller's last batch."""
    began_ms = call.services.now()
    outcome, left = await call.services.editor.undo(_caller(call, arguments.who))
    call.services.ledger.acts.add(began_ms, (one.change for one in outcome.files))
    rows = _rows(outcome.files, [], applied=True)
    _tell(call, arguments.who, "took back the edits of", outcome.files, facts.UNDO)
    fields: dict[str, object] = {"files": rows, "count": len(rows), "left": left}
    if not rows:
        fields["note"] = "that batch had changed nothing"
    elif notes := await notes_of_undo(call, outcome.files):
        fields["note"] = "; ".join(notes)
    return Answer(fields)


def _caller(call: Call, who: str | None) -> str:
    """The caller whose batch it is: by the name that it gave, now or before, else by this connection."""
    name, unnamed = call.who(who), f"connection {call.client} {call.conversation}"
    if who is None and caller_names.name_of(call.state, call.client, call.conversation) is None:
        return unnamed
    call.services.editor.adopt(f"who {name}", unnamed)
    return f"who {name}"


def _tell(call: Call, given: str | None, did: str, results: Sequence[FileResult], kind: str = facts.EDIT) -> None:
    """Record in the log who changed which files."""
    if results:
        who = call.who(given)
        for one in results:
            call.services.ledger.edits.add(who, one.change.path)
            call.services.ledger.notebooks.forget(who, one.change.path)
        changed = ", ".join(f"{one.shown} ({len(one.done)})" if one.done else one.shown for one in results)
        diffs = facts.edit_facts([(one.shown, one.diff) for one in results], call.services.log.without_secrets)
        call.dispatch(Say(f"{who} {did} {changed}", who=who, kind=kind, data=diffs))


def _rows(
    files: Sequence[FileResult], edits: Sequence[EditArguments], *, applied: bool, is_whole: bool = True
) -> list[dict[str, object]]:
    """One row a file; unless `is_whole`, without differences that only repeat the reader's own edits."""
    rows: list[dict[str, object]] = []
    left = MAX_DIFF_CHARS
    for result in files:
        row: dict[str, object] = {"filePath": result.shown, "applied": applied}
        if result.is_new:
            row["created"] = True
        if result.change.after is None:
            row["deleted"] = True
        if result.done:
            row["edits"] = [_edit_row(index, edits[index].type, done) for index, done in result.done.items()]
            if result.change.path.suffix == HY and any(edits[index].type == "rename" for index in result.done):
                row["note"] = HY_NOTE
        if not is_whole and _is_as_written(result, edits):
            row["edits"] = [{"index": index, "line": done.new_line} for index, done in result.done.items()]
            rows.append(row)
            continue
        diff, is_cut = cut(result.diff, left)
        left = max(0, left - len(diff))
        row["diff"] = diff
        if is_cut:
            row["diffCut"] = True
        rows.append(row)
    return rows


def _is_as_written(result: FileResult, edits: Sequence[EditArguments]) -> bool:
    """True of a file whose only differences are text that its reader sent."""
    if len(result.done) == 1 and result.change.path.suffix in SUFFIXES:
        sent, change = (edits[next(iter(result.done))].code or "").encode(), result.change
        if result.is_new:
            return change.after == sent
        if sent.strip() and change.after is not None and sent.strip() in change.after:
            rest = change.after.replace(sent.strip(), b"", 1)
            return rest.split() == (change.before.data or b"").split()
    own = {TEXT} if result.change.path.suffix in SUFFIXES else OWN_TEXT
    return bool(result.done) and all(edits[index].type in own for index in result.done)


def _edit_row(index: int, kind: str, done: Done) -> dict[str, object]:
    """The row of one edit: its place, and its changes."""
    row: dict[str, object] = {
        "index": index,
        "type": kind,
        "line": done.line,
        "newLine": done.new_line,
        "changes": done.changes,
    }
    if done.is_of_undefined:
        row["note"] = "this file does not define that name: only its uses here were renamed"
    if done.left:
        row["left"] = [
            {"why": why, "count": len(lines), "lines": sorted(set(lines))[:MAX_LEFT_LINES]}
            for why, lines in done.left.items()
        ]
    return row


def _add_diagnostics(
    fields: dict[str, object], rows: list[dict[str, object]], files: Sequence[FileResult], diagnostics: Diagnostics
) -> None:
    if diagnostics.note is not None:
        fields["diagnosticsNote"] = diagnostics.note
    for row, result in zip(rows, files, strict=True):
        if result.change.path in diagnostics.rows:
            row["diagnostics"] = diagnostics.rows[result.change.path]


def _add_elsewhere(
    rows: Sequence[dict[str, object]], wanted: Sequence[Wanted], elsewhere: Mapping[int, Elsewhere]
) -> None:
    """Add to each renaming of one file the places where other files use the name, once."""
    left = {index: found.told() for index, found in elsewhere.items() if not wanted[index].is_everywhere}
    for row in rows:
        edits = row.get("edits")
        for edit in edits if isinstance(edits, list) else []:
            edit.update(left.pop(edit["index"], {}))


def _gone(outcome: Outcome, wanted: Sequence[Wanted]) -> dict[int, list[Gone]]:
    """The names that renamings took away, by the place of the file that defined them."""
    gone: dict[int, list[Gone]] = {}
    for place, result in enumerate(outcome.files):
        for index in result.done:
            edit, found = wanted[index].edit, outcome.elsewhere.get(index)
            if found is not None and found.name is not None and found.name.namespace is not None:
                names = [Gone(old, found.name.namespace) for old in found.name.changes]
                gone.setdefault(place, []).extend(names)
            elif result.change.path.suffix == HY and isinstance(edit, Rename) and edit.target is None:
                gone.setdefault(place, []).append(Gone(edit.old, ""))
    return gone


def _without_lisp(tool: Tool) -> Tool:
    """The tool as listed in a workspace without Lisp; it takes the same arguments."""
    plain = replace(tool, description=DESCRIPTION.format(" too (Order.total)"))
    named = tool.schema["properties"]
    edit = named["edits"]["items"]
    kept = {name: one for name, one in edit["properties"].items() if name not in LISP_ALONE}
    edits = {**named["edits"], "items": {**edit, "description": OF_ANY, "properties": kept}}
    object.__setattr__(plain, "schema", {**tool.schema, "properties": {**named, "edits": edits}})
    return plain


_WHOLE: Final = Tool(
    name="edit_files",
    other_names=("clojure_edit_files",),
    title="Edit files",
    description=DESCRIPTION.format(" too (Order.total), Lisp by forms"),
    arguments=EditFilesArguments,
    output=answer_schema(files=ROWS, count="integer", problems={"type": "array"}, error="object"),
    run=edit_files,
    setting="enable_edits",
    destructive=True,
    open_world=True,
    languages=(LISP, PYTHON),
    is_core=True,
)
EDIT: Final = replace(_WHOLE, elsewhere=_without_lisp(_WHOLE))

TOOLS = (
    Tool(
        name="balance_brackets",
        other_names=("clojure_balance_brackets",),
        title="Balance brackets",
        description="Lisp code with closing brackets where its indentation says. Changes no file.",
        arguments=BalanceArguments,
        output=answer_schema(balancedText="string", changed="boolean", note="string", error="object"),
        run=balance_brackets,
        read_only=True,
        idempotent=True,
        languages=(LISP,),
        search_hint="parinfer repair parentheses",
    ),
    EDIT,
    Tool(
        name="undo_edit",
        title="Undo edit",
        description="Take back your last edit_files; again: the one before.",
        arguments=UndoArguments,
        output=answer_schema(files=ROWS, count="integer", left="integer", note="string"),
        run=undo_edit,
        setting="enable_edits",
        destructive=True,
        languages=(LISP, PYTHON),
        search_hint="revert edits of files",
    ),
)


NOTEBOOK: Final = ".ipynb"
ASK: Final = "ask your human to edit it, or to set allowEditsOfClientFiles in their own settings"


def _why_not_now(services: Services, who: str, change: Change) -> str:
    """The reason why a caller must not make a change; empty for none. Waits for servers."""
    before, path = change.before.data, change.path
    is_notebook = path.suffix == NOTEBOOK and before is not None
    if is_notebook and services.ledger.notebooks.is_stale(who, path, digest_of(before or b"")):
        return "it changed since you read it: list_cells shows its cells as they are now"
    return why_not(services.workspace, services.live.settings, change)


def why_not(workspace: Path, settings: Settings, change: Change) -> str:
    """The reason why a change must not be made; empty for none. Waits for servers that may have a notebook open."""
    path, name = change.path, plain_name(change.path.name)
    is_code = PurePath(name).suffix in (*SUFFIXES, *PYTHON_SUFFIXES)
    if not settings.enable_mcp_repl_evaluation and not is_code:
        return "where evaluation is switched off, files of Python and Lisp alone are edited"
    if path.suffix == NOTEBOOK and change.before.data is not None and (where := find_open_notebook(path)):
        return f"it is open in {where}, whose copy would not have the edit: ask your human to close it there"
    if settings.allow_edits_of_client_files or not path.is_relative_to(workspace):
        return ""
    reason = guard_reason(workspace, change)
    return f"{reason}: {ASK}" if reason else ""


def find_open_notebook(path: Path) -> str | None:
    """The Jupyter Server in which a notebook is open, in words; None if it is open in none. Waits for servers."""
    return where_open(path, RuntimeFolder(runtime_folder(os.environ)).look().servers)
