"""`edit_files`: edit files as text, as Lisp forms, or as Python definitions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from codriver.core import log_facts
from codriver.core.profiles import LISP, PYTHON
from codriver.editing import EditRequest, EditTransaction, SearchLimits, lint
from codriver.errors import RefusedError, refused
from codriver.tools import evaluate_code
from codriver.tools.answers.drift_notes import undo_notes
from codriver.tools.answers.file_editors import edited_files, find_other_editor
from codriver.tools.answers.lean_answers import Evaluating, wants_detail
from codriver.tools.calls.answer import ROWS_SCHEMA, Answer, answer_schema
from codriver.tools.calls.gate import check_switched_off
from codriver.tools.calls.hooks import collect_edit_notes, notify_of_failures
from codriver.tools.calls.tool import Tool
from codriver.tools.edit_arguments import COMMON_TYPES_DESCRIPTION, UNDO_TYPE, EditArguments
from codriver.tools.edit_records import editor_caller_key, named_editor_key, record_edits
from codriver.tools.edit_refusals import find_refusal_reason
from codriver.tools.edit_rows import edit_rows
from codriver.tools.execution.edit_loads import edit_unseen_by_watchers, load_undone
from codriver.tools.execution.edit_steps import LiveSteps, restore_files, restored_fields
from codriver.tools.ledgers.file_edits import is_made_by
from codriver.tools.removed_decorators import removed_decorator_notes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from codriver.editing import Diagnostics, FileResult, Outcome
    from codriver.tools.calls.call import Call

MAX_EDITS = 200
"""Maximum number of edits in a call."""
MAX_TESTS = 20
"""Maximum number of tests in a call."""
TEST_RESULT_FIELDS = frozenset({"tests"})
"""Fields of an answer that are included if the tests passed."""

NOTHING_TO_UNDO: Final = "nothing-to-undo"
"""Reason for refusing an undo if there is no edit to revert."""
OTHER_EDIT_HINT: Final = 'status with about: "activity" and file shows who edited the file, with diffs.'
"""Hint about other callers' edits."""
LISP_ONLY_FIELDS: Final = ("line", "targetLineText", "toLine", "toLineText")
"""Fields in an edit that only apply to Lisp."""
DESCRIPTION_TEMPLATE: Final = (
    "Change files: text by oldText, Python by definitions{}. All edits apply, or none. With load, the live session "
    "runs the new code. With test and onFailure: restore, edits that break a test are reverted."
)


class EditFilesArguments(Evaluating):
    """Arguments of `edit_files`: the edits, whether to load and test them, and when to revert them."""

    CHOOSES_SESSION: ClassVar[bool] = True

    edits: list[EditArguments] = Field(min_length=1, max_length=MAX_EDITS)
    dry_run: bool = Field(default=False, description="Only show the diff.")
    load: bool = Field(default=False, description="Load the changed code into the live session.")
    test: list[str] = Field(
        default_factory=list,
        max_length=MAX_TESTS,
        description='Tests that must pass, as paths of run_tests; ["affected"]: those that the edit can break.',
    )
    on_failure: Literal["keep", "restore"] = Field(
        "keep", description="restore: revert the edit if a test fails that passed before."
    )
    limit_ms: int | None = Field(None, ge=100, le=86_400_000, description="Tests' time limit.")
    repl_session_key: str | None = None
    """Key of the session that loads the files."""

    @property
    def chooses_session(self) -> bool:
        """Return whether the call loads or tests code but names no session, so the server chooses one."""
        return super().chooses_session and (self.load or bool(self.test)) and not self.dry_run

    @property
    def session_files(self) -> tuple[str, ...]:
        """Return the edited files, which determine the session."""
        return tuple(edit.file_path for edit in self.edits if edit.file_path)

    @property
    def is_undo(self) -> bool:
        """Return whether the call reverts the previous edits instead of making new ones."""
        return self.edits[0].type == UNDO_TYPE

    @property
    def undone_caller(self) -> str | None:
        """Return the caller whose edits the call reverts, if the call names one."""
        return self.edits[0].name if self.is_undo else None

    @model_validator(mode="after")
    def _check_undo(self) -> Self:
        """Check that an edit of the type `undo` is the only one in the call."""
        if any(edit.type == UNDO_TYPE for edit in self.edits) and (len(self.edits) > 1 or self.dry_run):
            raise ValueError(
                "undo cannot be combined with other edits, because it reverts your whole last call of edit_files"
            )
        return self


async def edit_files(call: Call, arguments: EditFilesArguments) -> Answer:
    """Apply a batch of edits, load and test the changed code if requested, and describe the outcome."""
    services = call.services
    settings = services.live.settings
    who, started_ms = call.who(arguments.who), services.now()
    step = "load" if arguments.load else "test"
    if (arguments.load or arguments.test) and (
        obstacle := check_switched_off(evaluate_code.TOOL, settings, by=f"edit_files with {step}")
    ):
        raise obstacle
    requests: list[EditRequest] = []
    edit: Callable[[], Awaitable[Outcome]]
    if arguments.is_undo:
        edit = partial(_revert, call, arguments)
    else:
        requests = [EditRequest(edit.file_path, edit.to_edit()) for edit in arguments.edits]
        edit = partial(
            services.editor.edit,
            editor_caller_key(call, arguments.who),
            requests,
            limits=SearchLimits(settings.fuzzy_line_targeting_padding, settings.line_context_response_padding),
            allow_outside=settings.allow_edits_outside_workspace,
            guard=partial(find_refusal_reason, services, who),
            dry_run=arguments.dry_run,
        )
    if not (arguments.load or arguments.test) or arguments.dry_run:
        return await _edit_without_steps(call, arguments, edit)
    restores = arguments.on_failure == "restore"
    steps = LiveSteps(
        call, who, arguments, arguments.test, restores=restores,
        loads=arguments.load,
        limit_s=None if arguments.limit_ms is None else arguments.limit_ms / 1000,
    )  # fmt: skip
    if arguments.test:
        services.tests.end_comparisons()
    await steps.check_steps(edit_argument.file_path for edit_argument in arguments.edits if edit_argument.file_path)
    restore = partial(restore_files, call, editor_caller_key(call, arguments.who))
    transaction = EditTransaction(restore, steps, restores=restores)
    result = await transaction.run(partial(edit_unseen_by_watchers, call, edit))
    if "reason" not in steps.fields:
        steps.fields |= steps.unserved
    failed = "reason" in steps.fields
    if result.put_back is not None:
        job = str(steps.fields.get("evaluationId", ""))
        failed_tests = f" tests ({job})" if job else ""
        files, left = result.outcome.files, set(result.put_back.files)
        record_edits(call, arguments.who, "edited", [file for file in files if file.display_path in left])
        record_edits(
            call,
            arguments.who,
            f"reverted the edits that failed{failed_tests} in",
            [file for file in files if file.display_path not in left],
            log_facts.UNDO_KIND,
            job,
        )
        rows = [{"filePath": file.display_path, "applied": file.display_path in left} for file in files]
        return Answer({"files": rows, "count": len(rows), **steps.fields, **restored_fields(result.put_back)}, ok=False)
    services.ledger.recent_edits.add(started_ms, (file.change for file in result.outcome.files))
    if not arguments.is_undo:
        services.editor.record_load(editor_caller_key(call, arguments.who), result.outcome, steps.loaded)
    rows, fields = await _record_and_describe(call, arguments, result.outcome)
    for index, row in enumerate(rows):
        row.update(_load_fields(steps.rows.get(index, {}), is_tested=not TEST_RESULT_FIELDS.isdisjoint(steps.fields)))
    handed_out = partial(notify_of_failures, call, str(steps.fields.get("evaluationId", "")), None)
    if not (failed or wants_detail(call, arguments)) and all(row.keys() == {"filePath", "applied"} for row in rows):
        # The answer would only repeat the caller's request.
        del fields["files"], fields["count"]
    return Answer({**fields, **steps.fields}, ok=not failed, handed_out=handed_out)


async def _edit_without_steps(
    call: Call, arguments: EditFilesArguments, edit: Callable[[], Awaitable[Outcome]]
) -> Answer:
    """Make an edit that is neither loaded nor tested. Reverting an edit loads the previous code where it was loaded."""
    started_ms = call.services.now()
    outcome = await edit()
    if not arguments.dry_run:
        call.services.ledger.recent_edits.add(started_ms, (file.change for file in outcome.files))
    rows, fields = await _record_and_describe(call, arguments, outcome)
    if not arguments.is_undo:
        return Answer(fields)
    loads = await load_undone(call, arguments, outcome)
    for index, row in enumerate(rows):
        row.update(loads.rows.get(index, {}))
    if notes := await undo_notes(call, outcome.files):
        known = fields.get("notes")
        fields["notes"] = [*(known if isinstance(known, list) else []), *notes]
    return Answer({**fields, **loads.failure}, ok=not loads.failure)


async def _revert(call: Call, arguments: EditFilesArguments) -> Outcome:
    """Revert the last batch of edits of the caller, or of the caller that the call names.

    If the call names a file, the batch must include it. Another caller's edits are reverted only if the call names that
    caller.
    """
    file, name = arguments.edits[0].file_path, arguments.undone_caller
    caller = editor_caller_key(call, arguments.who) if name is None else named_editor_key(name)
    try:
        outcome, _ = await call.services.editor.undo(caller, file or None)
    except RefusedError as error:
        if error.reason != NOTHING_TO_UNDO:
            raise
        if name is not None:
            raise refused(
                NOTHING_TO_UNDO, f"{name} has not made an edit that can be reverted", hint=OTHER_EDIT_HINT
            ) from error
        path = call.services.workspace / file
        edits = call.services.ledger.file_edits.by_file.get(path, ()) if file else ()
        if not edits or is_made_by(call.state, edits[-1], call.who(arguments.who), call.client):
            raise
        other = edits[-1].who
        if not await find_other_editor(call, call.who(arguments.who), path):
            message = f"{file} has changed since the last edit, which is {other}'s, so the edit cannot be reverted"
            raise refused(NOTHING_TO_UNDO, message, hint=OTHER_EDIT_HINT) from error
        hint = f'To revert it, add name: "{other}" to the edit of type undo. {OTHER_EDIT_HINT}'
        raise refused(NOTHING_TO_UNDO, f"the last edit of {file} was made by {other}, not by you", hint=hint) from error
    return outcome


async def dry_edit(call: Call, given_who: str | None, requests: Sequence[EditRequest]) -> Outcome:
    """Return the outcome that edits to files in the workspace would have, without writing anything.

    Raises:
        RefusedError: the edits cannot be applied.
    """
    services = call.services
    settings = services.live.settings
    return await services.editor.edit(
        editor_caller_key(call, given_who),
        requests,
        limits=SearchLimits(settings.fuzzy_line_targeting_padding, settings.line_context_response_padding),
        allow_outside=False,
        guard=partial(find_refusal_reason, services, call.who(given_who)),
        dry_run=True,
    )


async def _record_and_describe(
    call: Call, arguments: EditFilesArguments, outcome: Outcome
) -> tuple[list[dict[str, object]], dict[str, object]]:
    """Record the edits in the log, and describe them for the answer. The result also includes linters' findings."""
    is_whole = arguments.dry_run or wants_detail(call, arguments)
    rows = edit_rows(outcome.files, arguments.edits, applied=not arguments.dry_run, is_whole=is_whole)
    fields: dict[str, object] = {"files": rows, "count": len(rows)}
    if arguments.dry_run:
        fields["dryRun"] = True
        return rows, fields
    changes = [result.change for result in outcome.files]
    contents = {change.path: change.after for change in changes if change.after is not None}
    diagnostics = await lint(call.services.workspace, contents)
    _add_diagnostics(fields, rows, outcome.files, diagnostics)
    if arguments.is_undo:
        name = arguments.undone_caller
        did = "reverted the edits of" if name is None else f"reverted the edits by {name} of"
        record_edits(call, arguments.who, did, outcome.files, log_facts.UNDO_KIND)
        fields |= {"editsBy": name} if name is not None else {}
    else:
        record_edits(call, arguments.who, "edited", outcome.files)
    who = call.who(arguments.who)
    found = call.services.ledger.tests.pop_differences(who)
    of_features = await collect_edit_notes(call, edited_files(call, who, outcome.files))
    find_removed = partial(removed_decorator_notes, outcome.files, arguments.edits)
    removed = await call.services.work.files.run(call.client, find_removed) if not arguments.is_undo else []
    if notes := [*call.services.editor.pop_recovery_notes(), *removed, *found, *of_features]:
        fields["notes"] = notes
    return rows, fields


def _load_fields(row: Mapping[str, object], *, is_tested: bool) -> dict[str, object]:
    """Return the fields of an answer about loading a file. If tests passed, only notes are included."""
    load = row.get("load")
    if is_tested and isinstance(load, dict):
        return {"load": {"notes": load["notes"]}} if load.get("notes") else {}
    return dict(row)


def _add_diagnostics(
    fields: dict[str, object], rows: list[dict[str, object]], files: Sequence[FileResult], diagnostics: Diagnostics
) -> None:
    """Add the linters' findings to the descriptions of the files, and the linters' note to the answer."""
    if diagnostics.note is not None:
        fields["diagnosticsNote"] = diagnostics.note
    for row, result in zip(rows, files, strict=True):
        if result.change.path in diagnostics.rows:
            row["diagnostics"] = diagnostics.rows[result.change.path]


def _without_lisp_fields(tool: Tool) -> Tool:
    """Return the variant of the tool that is listed in workspaces without Lisp. It accepts the same arguments."""
    plain = replace(tool, description=DESCRIPTION_TEMPLATE.format(" too (Order.total, RATE)"))
    named = tool.schema["properties"]
    edit = named["edits"]["items"]
    properties = {name: schema for name, schema in edit["properties"].items() if name not in LISP_ONLY_FIELDS}
    edits = {**named["edits"], "items": {**edit, "description": COMMON_TYPES_DESCRIPTION, "properties": properties}}
    object.__setattr__(plain, "schema", {**tool.schema, "properties": {**named, "edits": edits}})
    return plain


_TOOL_WITH_LISP: Final = Tool(
    name="edit_files",
    other_names=("clojure_edit_files",),
    title="Edit files",
    description=DESCRIPTION_TEMPLATE.format(" too (Order.total, RATE), Lisp by forms"),
    arguments=EditFilesArguments,
    output=answer_schema(files=ROWS_SCHEMA, count="integer", problems={"type": "array"}, error="object"),
    run=edit_files,
    setting="enable_edits",
    destructive=True,
    open_world=True,
    languages=(LISP, PYTHON),
    is_core=True,
)
"""The tool as it is listed in a workspace with Lisp."""
TOOL: Final = replace(_TOOL_WITH_LISP, without_lisp=_without_lisp_fields(_TOOL_WITH_LISP))
