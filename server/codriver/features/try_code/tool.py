"""The tool `try_code`: test alternative edits with the same tests, and apply only the one to keep.

A candidate's tests run in a new process, which reads the candidate's contents in place of the files, as do the Python
processes that it starts. Nothing is written.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Self

from pydantic import Field, WithJsonSchema, model_validator

from codriver.core.actions import AddServerLine
from codriver.core.profiles import PYTHON
from codriver.editing import EditRequest
from codriver.errors import RefusedError
from codriver.features.try_code.candidates import CandidateResult, Trial, check_candidates, describe_outcome_differences
from codriver.tools.answers.lean_answers import Evaluating
from codriver.tools.calls.answer import ROWS_SCHEMA, STRINGS_SCHEMA, Answer, answer_schema
from codriver.tools.calls.arguments import UNLISTED_KEY, ArgumentModel
from codriver.tools.calls.gate import require_editing_allowed
from codriver.tools.calls.tool import Tool
from codriver.tools.edit_arguments import EditArguments
from codriver.tools.edit_files import MAX_EDITS, MAX_TESTS, EditFilesArguments, dry_edit, edit_files
from codriver.tools.execution.affected_tests import AFFECTED_SELECTOR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.editing import Outcome
    from codriver.tools.calls.call import Call

MAX_CANDIDATES: Final = 8
"""Maximum number of candidates."""
MAX_LABEL_CHARACTERS: Final = 40
"""Maximum length of a candidate's label."""
DEFAULT_TESTS_TIMEOUT_MS: Final = 10_000
"""Default maximum duration of one candidate's tests."""
SELECT_FIRST_PASSING: Final = "first-green"
"""Value of `keep` that applies the first candidate whose tests all pass."""
_LISTED_EDIT_FIELDS: Final = ("type", "filePath", "oldText", "newText", "name", "code")
"""The fields of an edit in the tool's schema. Clients that apply the schema strictly cannot send other fields."""
Edits = list[EditArguments]


class Candidate(ArgumentModel):
    """A labelled list of edits to try, in the form used by the tool `edit_files`."""

    label: str = Field(min_length=1, max_length=MAX_LABEL_CHARACTERS)
    edits: Edits = Field(min_length=1, max_length=MAX_EDITS)


Candidates = Annotated[
    list[Candidate],
    WithJsonSchema(
        {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["label", "edits"],
                "properties": {
                    "label": {"type": "string"},
                    "edits": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["filePath"],
                            "properties": {name: {"type": "string"} for name in _LISTED_EDIT_FIELDS},
                        },
                    },
                },
            },
            "description": "Edits as in edit_files.",
        }
    ),
]


class TryCodeArguments(Evaluating):
    """Arguments of `try_code`: the candidates, the tests to run for each, and the candidate to keep."""

    CHOOSES_SESSION: ClassVar[bool] = True

    candidates: Candidates = Field(min_length=1, max_length=MAX_CANDIDATES)
    test: list[str] = Field([AFFECTED_SELECTOR], min_length=1, max_length=MAX_TESTS, description="As in edit_files.")
    keep: str | None = Field(None, description="Label to apply if its tests pass, or first-green.")
    parallel: bool = Field(default=False, json_schema_extra={UNLISTED_KEY: True})
    """Whether to test all candidates at once. They then share databases and ports."""
    limit_ms: int = Field(DEFAULT_TESTS_TIMEOUT_MS, ge=100, le=600_000, json_schema_extra={UNLISTED_KEY: True})
    """Time limit for one candidate's tests, in milliseconds."""
    repl_session_key: str | None = Field(None, json_schema_extra={UNLISTED_KEY: True})

    @model_validator(mode="after")
    def _check(self) -> Self:
        labels = [candidate.label for candidate in self.candidates]
        if len(set(labels)) < len(labels) or SELECT_FIRST_PASSING in labels:
            raise ValueError(f"each candidate needs its own label, and no label may be {SELECT_FIRST_PASSING}")
        if self.keep is not None and self.keep not in (*labels, SELECT_FIRST_PASSING):
            raise ValueError(f"keep must be {SELECT_FIRST_PASSING}, or one of {', '.join(labels)}")
        return self


async def try_code(call: Call, arguments: TryCodeArguments) -> Answer:
    """Test each candidate without changing files, and then apply the one to keep."""
    who = call.who(arguments.who)
    if arguments.keep is not None:
        require_editing_allowed("keep", call.services.live.settings)
    outcomes, tried = await _plan_candidates(call, arguments)
    names, limit_s = tuple(arguments.test), arguments.limit_ms / 1000
    trial = Trial(names, limit_s, arguments.parallel, arguments.who, arguments.repl_session_key)
    tried |= await check_candidates(call, trial, who, outcomes)
    ordered = [tried[candidate.label] for candidate in arguments.candidates]
    for result in ordered:
        call.dispatch(AddServerLine(f"{who} tried {result.label}: {result.outcome}", who=who), who=who)
    fields: dict[str, object] = {"candidates": [result.to_json() for result in ordered]}
    if differs := describe_outcome_differences(ordered):
        fields["differs"] = differs
    return await _apply_chosen(call, arguments, ordered, fields)


async def _plan_candidates(
    call: Call, arguments: TryCodeArguments
) -> tuple[dict[str, Outcome], dict[str, CandidateResult]]:
    """Return the files that each candidate's edits would produce, and results for candidates that cannot be applied."""
    outcomes: dict[str, Outcome] = {}
    impossible: dict[str, CandidateResult] = {}
    for candidate in arguments.candidates:
        requests = [EditRequest(edit.file_path, edit.to_edit()) for edit in candidate.edits]
        try:
            outcomes[candidate.label] = await dry_edit(call, arguments.who, requests)
        except RefusedError as error:
            impossible[candidate.label] = CandidateResult(
                candidate.label, "failed", {}, {"error": f"edits: {error.message}"}
            )
    return outcomes, impossible


async def _apply_chosen(
    call: Call, arguments: TryCodeArguments, tried: Sequence[CandidateResult], fields: dict[str, object]
) -> Answer:
    """Apply the chosen candidate, and add the result to the answer.

    The edits are reverted if a test fails afterwards. Nothing is applied if no candidate was chosen or none passed.
    """
    chosen = arguments.keep
    if chosen is None:
        return Answer(fields)
    passing = [
        trial.label for trial in tried if trial.outcome == "passed" and chosen in (SELECT_FIRST_PASSING, trial.label)
    ]
    if not passing:
        return Answer(
            {**fields, "notKept": "none passed" if chosen == SELECT_FIRST_PASSING else f"{chosen} did not pass"}
        )
    candidate = next(trial for trial in arguments.candidates if trial.label == passing[0])
    given: dict[str, object] = {"who": arguments.who, "edits": candidate.edits, "load": True, "test": arguments.test}
    given |= {"onFailure": "restore", "limitMs": arguments.limit_ms}
    answer = await edit_files(call, EditFilesArguments.model_validate(given))
    key = "kept" if answer.ok else "notKept"
    return replace(answer, fields={**fields, **answer.fields, key: candidate.label})


TOOLS = (
    Tool(
        name="try_code",
        title="Try code",
        description=(
            "Test one or more versions of an edit, each in a new Python process. Files only change with keep."
        ),
        arguments=TryCodeArguments,
        output=answer_schema(candidates=ROWS_SCHEMA, differs=STRINGS_SCHEMA, kept="string", notKept="string"),
        run=try_code,
        needs=("test",),
        is_default=True,
        setting="enable_mcp_repl_evaluation",
        destructive=True,
        open_world=True,
        languages=(PYTHON,),
        search_hint="compare candidate fixes speculative tests",
    ),
)
