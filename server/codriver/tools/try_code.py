"""`try_code`: the effects of several fixes on the live state, none of them applied but the one to keep.

A REPL tells of a tried candidate that it passed, failed or is undecided, and its differences.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

import anyio
from pydantic import Field, WithJsonSchema, model_validator

from codriver.core import evaluation_queue
from codriver.core.actions import Say
from codriver.core.records import dataclass
from codriver.core.values import PYTHON, Request
from codriver.editing import Wanted
from codriver.errors import RefusedError, cut, refused
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.repls.dialects.server_dialect import program_of_tests
from codriver.tools.acts.affected_tests import targets_of
from codriver.tools.acts.edit_acts import AFFECTED, LiveSteps
from codriver.tools.acts.file_loads import changed_files
from codriver.tools.acts.submission import begin
from codriver.tools.acts.test_arguments import TestArguments
from codriver.tools.acts.test_runs import report_of, run_tests
from codriver.tools.answers.evaluation_answers import describe
from codriver.tools.answers.lean_answers import Evaluating
from codriver.tools.calls.base import ROWS, TEXTS, UNLISTED, Answer, Call, Given, Tool, answer_schema
from codriver.tools.calls.evaluation_waits import evaluation_of, stop, wait
from codriver.tools.calls.gate import check_may_edit
from codriver.tools.calls.session_choice import check_tree, chosen, in_lane
from codriver.tools.edit_files import MAX_EDITS, MAX_TESTS, EditArguments, EditFilesArguments, dry_edit, edit_files
from codriver.tools.evaluate_code import EvaluateArguments, evaluate_code

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.core.values import Evaluation
    from codriver.editing import Outcome
    from codriver.tools.calls.session_choice import Target


MOST: Final = 8
MOST_LABEL: Final = 40
TIMEOUT_MS: Final = 10_000
BESIDE_S: Final = 35.0
"""The time for the answer, beyond that of the candidates."""
FALSE: Final = ("False", "np.False_")
STAYS: Final = "the code ran in the REPL: what it did is not taken back"
WAY_OUT: Final = "edit_files with onFailure: restore does one after the other"
_OF_EDIT: Final = ("type", "filePath", "oldText", "newText", "name", "code", "targetLineText")
"""The fields of an edit that are listed: clients that make schemas strict send no other."""
Edits = list[EditArguments]


def _cannot_try(why: str) -> RefusedError:
    """The REPL cannot try anything now; nothing was done."""
    return refused("cannot-try", f"nothing was tried: {why}", hint=WAY_OUT)


class Candidate(Given):
    """One candidate: code, or edits as `edit_files` takes them."""

    label: str = Field(min_length=1, max_length=MOST_LABEL)
    code: str | None = None
    edits: Edits = Field(default_factory=list, max_length=MAX_EDITS)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.code is None) == (not self.edits):
            raise ValueError(f"{self.label} needs code or edits, and not both")
        return self


Candidates = Annotated[
    list[Candidate],
    WithJsonSchema(
        {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["label"],
                "properties": {
                    "label": {"type": "string"},
                    "code": {"type": "string"},
                    "edits": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["filePath"],
                            "properties": {
                                **{name: {"type": "string"} for name in _OF_EDIT},
                                "line": {"type": "integer"},
                            },
                        },
                    },
                },
            },
            "description": "Code, or edits as in edit_files.",
        }
    ),
]


class TryArguments(Evaluating):
    """Arguments of `try_code`."""

    candidates: Candidates = Field(min_length=1, max_length=MOST)
    test: list[str] = Field(default_factory=list, max_length=MAX_TESTS)
    check: str | None = None
    keep: str | None = Field(None, description="Label or first-green.")
    repl_session_key: str | None = Field(None, json_schema_extra={UNLISTED: True})
    timeout_ms: int = Field(TIMEOUT_MS, ge=100, le=600_000, json_schema_extra={UNLISTED: True})

    @model_validator(mode="after")
    def _check(self) -> Self:
        labels = [one.label for one in self.candidates]
        if len(set(labels)) < len(labels) or FIRST_GREEN in labels:
            raise ValueError(f"each candidate needs a label of its own, and none is called {FIRST_GREEN}")
        if self.test and self.check is not None:
            raise ValueError("test and check exclude each other")
        if self.keep is not None and self.keep not in (*labels, FIRST_GREEN):
            raise ValueError(f"keep is {FIRST_GREEN}, or one of {', '.join(labels)}")
        if self.keep is not None and not self.test and self.check is None:
            raise ValueError("keep needs test or check, by which a candidate is green")
        return self


async def try_code(call: Call, arguments: TryArguments) -> Answer:
    """Try each candidate in a fork, tell the outcomes, and apply the one to keep."""
    who = call.who(arguments.who)
    if arguments.keep is not None and any(one.edits for one in arguments.candidates):
        check_may_edit("keep", call.services.live.settings)
    target = chosen(call, arguments.repl_session_key, who)
    check_tree(call, target, who, arguments.repl_session_key)
    if arguments.repl_session_key is None:
        target = in_lane(call, target, who)
    profile = target.repl.profile
    if profile is not None and "try" not in profile.capabilities:
        raise CapabilityMissingError("try", profile.missing.get("try"))
    if arguments.test and profile is not None and "test" not in profile.capabilities:
        raise CapabilityMissingError("test", profile.missing.get("test"))
    outcomes, unplanned = await _planned(call, arguments)
    tests = await _tests(call, arguments, outcomes)
    sent = [one for one in arguments.candidates if one.label not in unplanned]
    report: Mapping[str, Any] = {"told": [], "threads": []}
    if sent:
        trial = await _trial(call, target, arguments, [(one, outcomes.get(one.label)) for one in sent], tests)
        current = await _run(call, target, who, arguments, trial)
        if current.status != "done":
            return await _unfinished(call, current, arguments)
        report = await report_of(call, current) or {"refused": "what was told is forgotten"}
        if "refused" in report:
            raise _cannot_try(str(report["refused"]))
    told = dict(zip((one.label for one in sent), report["told"], strict=True)) | unplanned
    tried = [
        read_tried(one.label, told[one.label], report["threads"], arguments.timeout_ms) for one in arguments.candidates
    ]
    for one in tried:
        call.dispatch(Say(f"{who} tried {one.label}: {one.words}", who=who), who=who)
    fields: dict[str, object] = {"candidates": [one.json() for one in tried]}
    if differs := differences(tried):
        fields["differs"] = differs
    if "notShielded" in report:
        fields["filesAreNotShielded"] = report["notShielded"]
    return await _kept(call, target, arguments, tried, tests, fields)


async def _kept(
    call: Call,
    target: Target,
    arguments: TryArguments,
    tried: Sequence[Tried],
    tests: Sequence[str],
    fields: dict[str, object],
) -> Answer:
    """The answer, after the candidate to keep was applied in the REPL itself."""
    wanted = arguments.keep
    if wanted is None:
        return Answer(fields)
    green = [one for one in tried if one.outcome == "passed"]
    meant = green[:1] if wanted == FIRST_GREEN else [one for one in tried if one.label == wanted]
    # A candidate that waits for a thread, which a fork lacks, is decided by the REPL itself.
    if not meant or meant[0].outcome == "failed":
        return Answer({**fields, "notKept": "none passed" if wanted == FIRST_GREEN else f"{wanted} did not pass"})
    candidate = next(one for one in arguments.candidates if one.label == meant[0].label)
    answer = await _keep(
        call,
        target.key,
        arguments.who,
        code=candidate.code,
        edits=candidate.edits,
        tests=tests,
        check=arguments.check,
    )
    key = "kept" if answer.ok else "notKept"
    return replace(answer, fields={**fields, **answer.fields, key: candidate.label})


async def _planned(call: Call, arguments: TryArguments) -> tuple[dict[str, Outcome], dict[str, Mapping[str, Any]]]:
    """The files after the edits of each candidate, and the reasons why others' edits cannot be done."""
    outcomes: dict[str, Outcome] = {}
    unplanned: dict[str, Mapping[str, Any]] = {}
    for one in arguments.candidates:
        wanted = [Wanted(edit.file_path, edit.to_edit(), is_everywhere=edit.files == "all") for edit in one.edits]
        if not wanted:
            continue
        try:
            outcomes[one.label] = await dry_edit(call, arguments.who, wanted)
        except RefusedError as error:
            unplanned[one.label] = {"error": {"class": error.reason, "message": error.message, "step": "edits"}}
    return outcomes, unplanned


async def _tests(call: Call, arguments: TryArguments, outcomes: Mapping[str, Outcome]) -> list[str]:
    """The names of the tests; for `affected` those named after any of the changed files."""
    if arguments.test != [AFFECTED]:
        return arguments.test
    services = call.services
    changed = list(dict.fromkeys(result.change.path for one in outcomes.values() for result in one.files))
    found = await services.work.files.run(call.client, partial(targets_of, services.workspace, changed))
    if not found:
        raise _cannot_try("no test is named after the changed files: give names in test")
    return [name for _, name in found]


async def _trial(
    call: Call,
    target: Target,
    arguments: TryArguments,
    candidates: Sequence[tuple[Candidate, Outcome | None]],
    tests: Sequence[str],
) -> str:
    """The candidates in the form for the REPL."""
    profile = target.repl.profile
    root = (profile.project_root if profile is not None else None) or ""
    run = partial(_files, candidates)
    files = await call.services.work.texts.run(call.client, run)
    return json.dumps(
        {
            "candidates": [
                {"label": one.label, "code": one.code or "", "files": of}
                for (one, _), of in zip(candidates, files, strict=True)
            ],
            "check": arguments.check or "",
            "program": program_of_tests() if tests else "",
            "tests": [[name, "", "", [], [], "", root] for name in tests],
            "folders": [str(call.services.workspace), *([root] if root else [])],
            "wallMs": arguments.timeout_ms,
        }
    )


def _files(candidates: Sequence[tuple[Candidate, Outcome | None]]) -> list[list[dict[str, object]]]:
    """The files of each candidate after its edits: their bytes, and of Python the text and the changed statements."""
    found: list[list[dict[str, object]]] = []
    for _, outcome in candidates:
        results = outcome.files if outcome is not None else ()
        loaded = {one.place: one for one in changed_files(results)}
        order = [*loaded, *(place for place in range(len(results)) if place not in loaded)]
        rows: list[dict[str, object]] = []
        for place in order:
            change, file = results[place].change, loaded.get(place)
            is_loaded = file is not None and file.fault is None and change.path.suffix == ".py"
            rows.append(
                {
                    "path": str(change.path),
                    "data": None if change.after is None else change.after.decode("latin-1"),
                    "text": file.text if is_loaded and file is not None else None,
                    "lines": [form.line for form in file.forms] if is_loaded and file is not None else None,
                }
            )
        found.append(rows)
    return found


async def _run(call: Call, target: Target, who: str, arguments: TryArguments, trial: str) -> Evaluation:
    """The evaluation that tries the candidates, at the end of its time."""
    labels = ", ".join(one.label for one in arguments.candidates)
    request = Request(
        id=evaluation_queue.next_id(call.state),
        code=f"try_code {labels}",
        session=target.session.name,
        kind="try-code",
        trial=trial,
    )
    begin(call, target, who, request)
    current = await wait(call, request.id, arguments.timeout_ms / 1000 + BESIDE_S, may_last=False)
    if not current.over:
        with anyio.CancelScope(shield=True):
            await stop(call, request.id, "the candidates ran longer than they may")
        current = evaluation_of(call.state, request.id)
    return current


async def _unfinished(call: Call, current: Evaluation, arguments: TryArguments) -> Answer:
    """The answer about an unfinished try."""
    return await describe(call, current, arguments)


async def _keep(
    call: Call,
    session: str,
    who: str | None,
    *,
    code: str | None,
    edits: Sequence[EditArguments],
    tests: Sequence[str],
    check: str | None,
) -> Answer:
    """Apply a candidate in the REPL: edits as one act, taken back if a step fails; code once, which stays."""
    given: dict[str, Any] = {"who": who}
    if code is not None:
        return await _evaluated(call, {**given, "replSessionKey": session}, code, tests, check)

    class Checked(LiveSteps):
        """The steps of the act, with the check in place of tests."""

        async def test(self, outcome: Outcome) -> bool:
            """Run the tests, or the check."""
            if check is None:
                return await super().test(outcome)
            self.fields = await _failed_check(call, {**given, "replSessionKey": session}, check)
            return not self.fields

    dumped = [edit.model_dump(by_alias=True, exclude_unset=True) for edit in edits]
    asked = {**given, "edits": dumped, "load": True, "test": list(tests), "onFailure": "restore"}
    return await edit_files(call, EditFilesArguments.model_validate(asked), Checked)


async def _evaluated(call: Call, given: dict[str, Any], code: str, tests: Sequence[str], check: str | None) -> Answer:
    """The answer about code that is evaluated, then tested."""
    answer = await evaluate_code(call, EvaluateArguments.model_validate({**given, "code": code}))
    if not answer.ok:
        return answer
    failed = await _failed_check(call, given, check) if check is not None else await _failed_tests(call, given, tests)
    if not failed:
        return answer
    return type(answer)({**answer.fields, **failed, "notes": [STAYS]}, ok=False)


async def _failed_check(call: Call, given: dict[str, Any], check: str) -> dict[str, object]:
    """The fields that say why the check does not hold; none if it holds."""
    answer = await evaluate_code(call, EvaluateArguments.model_validate({**given, "code": check}))
    if not answer.ok:
        return {key: answer.fields[key] for key in ("reason", "error", "hint") if key in answer.fields}
    if answer.fields.get("result") in FALSE:
        return {"reason": "check-failed", "message": f"the check is {answer.fields['result']}"}
    return {}


async def _failed_tests(call: Call, given: dict[str, Any], tests: Sequence[str]) -> dict[str, object]:
    """The fields that say which test fails; none if all pass."""
    for name in tests:
        asked = TestArguments.model_validate({**given, "namespace": name})
        try:
            answer = await run_tests(call, asked)
        except RefusedError as error:
            return {"reason": error.reason, "message": error.message, "hint": error.hint}
        if not answer.ok:
            return dict(answer.fields)
    return {}


TOOLS = (
    Tool(
        name="try_code",
        title="Try code",
        description=(
            "Try fixes side by side in forks of the live REPL, by test or check (code). Not shielded: network, "
            "databases, other folders, its processes."
        ),
        arguments=TryArguments,
        output=answer_schema(candidates=ROWS, differs=TEXTS, kept="string", notKept="string"),
        run=try_code,
        needs=("try",),
        setting="enable_mcp_repl_evaluation",
        destructive=True,
        open_world=True,
        languages=(PYTHON,),
        search_hint="compare candidate fixes speculative fork",
    ),
)


FIRST_GREEN: Final = "first-green"
MOST_DIFFERENCES: Final = 10
MOST_THREADS: Final = 5
VALUE_CHARACTERS: Final = 300
"""The characters of a value, and of an error's message."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One tried candidate. `ended` has the outcome of each test by name."""

    label: str
    outcome: Literal["passed", "failed", "undecided"]
    ended: Mapping[str, str]
    value: str | None
    fields: Mapping[str, object]
    """The further keys of the answer."""

    @property
    def words(self) -> str:
        """The outcome, and the number of passed tests."""
        return f"{self.outcome}, {self.counts}" if self.ended else self.outcome

    @property
    def counts(self) -> str:
        """The passed tests, of all."""
        return f"{sum(how == 'pass' for how in self.ended.values())} of {len(self.ended)} tests"

    def json(self) -> dict[str, object]:
        """The candidate under the keys of an answer."""
        passed = {"passed": self.counts} if self.ended else {}
        value = {} if self.value is None else {"value": cut(self.value, VALUE_CHARACTERS)}
        return {"label": self.label, "outcome": self.outcome, **passed, **value, **self.fields}


def read_tried(label: str, told: Mapping[str, Any], threads: Sequence[str], timeout_ms: int) -> Tried:
    """The outcome of one candidate, as the REPL told it.

    `threads` are those of the user's code there, which a fork lacks.
    """
    ended: Mapping[str, str] = told.get("ended", {})
    fields: dict[str, object] = {}
    outcome: Literal["passed", "failed", "undecided"] = "failed"
    if told.get("timedOut"):
        at = f" at {told['at']}" if told.get("at") else ""
        if told.get("waits") and threads:
            outcome = "undecided"
            fields = {"waitsAt": told.get("at"), "threads": list(threads[:MOST_THREADS])}
        else:
            fields = {"error": f"timed out after {timeout_ms} ms{at}"}
    elif "died" in told:
        fields = {"error": str(told["died"]) + (f", at {told['at']}" if told.get("at") else "")}
    elif "error" in told:
        fields = {"error": _words(told["error"])}
    elif "firstFailure" in told:
        fields = {"error": _words(told["firstFailure"])}
    elif not told.get("isFalse"):
        outcome = "passed"
    if printed := str(told.get("printed", "")):
        fields["stdout"] = printed
    return Tried(label, outcome, ended, told.get("value"), fields)


def _words(error: Mapping[str, Any]) -> str:
    """An error in one line: the step or test, class and message, and the place."""
    named = error.get("test") or (error["step"] if error.get("step") not in (None, "tests") else "")
    said = ": ".join(str(part) for part in (named, error.get("class"), error.get("message")) if part)
    line = " ".join(cut(said, VALUE_CHARACTERS).split("\n"))
    return f"{line} ({error['file']}:{error.get('line')})" if error.get("file") else line


def differences(tried: Sequence[Tried]) -> list[str]:
    """The tests with different outcomes among the candidates, and the values that differ, a line each."""
    lines = []
    for test in dict.fromkeys(name for one in tried for name in one.ended):
        by_outcome: dict[str, list[str]] = {}
        for one in tried:
            if test in one.ended:
                by_outcome.setdefault(one.ended[test], []).append(one.label)
        if len(by_outcome) > 1:
            lines.append(f"{test}: " + "; ".join(f"{how} in {', '.join(names)}" for how, names in by_outcome.items()))
    left = len(lines) - MOST_DIFFERENCES
    return [*lines[:MOST_DIFFERENCES], f"… {left} more tests"] if left > 0 else lines
