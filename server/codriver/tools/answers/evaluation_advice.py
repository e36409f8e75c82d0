"""Collect the notes in an answer about an evaluation, with one function, called an adviser, for each kind of note.

All advisers have the same parameters. Those that may have notes for the status of the evaluation are called in the
order in which their notes appear in the answer.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, get_args

from codriver.core.evaluations import UNFINISHED_STATUSES, EvaluationStatus
from codriver.core.profiles import NON_LISP_DIALECTS
from codriver.repls.contract.events import LOAD_IT_SUFFIX
from codriver.tools.answers.answer_notes import (
    AnswerInProgress,
    background_output_notes,
    first_use_notes,
    other_caller_notes,
    repetition_notes,
    restart_notes,
)
from codriver.tools.answers.drift_notes import outdated_namespace_notes
from codriver.tools.answers.file_editors import add_editor
from codriver.tools.answers.missing_module_notes import describe_missing_module
from codriver.tools.answers.undefined_name_notes import describe_undefined_name
from codriver.tools.calls.evaluation_waits import describe_how_to_stop, describe_queue

if TYPE_CHECKING:
    from codriver.core.evaluations import Evaluation
    from codriver.tools.calls.call import Call


BACKGROUND_OUTPUT_PATTERN: Final = re.compile(
    r"[Tt]hread|Executor|System/(?:out|err)|Timer|daemon|server|core\.async|log/"
)
"""Matches code that may produce output after its evaluation or outside it."""


Notes = list[str] | tuple[str, ...]  # these two types distinguish notes from an awaitable


Adviser = Callable[[AnswerInProgress], Notes | Awaitable[Notes]]


async def _evaluation_notes(answer: AnswerInProgress) -> Notes:
    """Return the notes from the REPL or the test runner.

    Each caller receives notes about edited files only once.
    """
    notes, repl = answer.evaluation.notes, answer.repl
    may_use = repl is not None and repl.dialect not in NON_LISP_DIALECTS and answer.evaluation.is_finished
    used = await outdated_namespace_notes(answer.call, answer.evaluation) if may_use else []
    if not notes and not used:
        return ()
    about_edits = [note for note in notes if note.endswith(LOAD_IT_SUFFIX)]
    edits = [*about_edits, *used]
    with_editors = [await add_editor(answer.call, answer.who, note) for note in answer.delivery.new_notes(edits)]
    return [*with_editors, *(note for note in notes if note not in about_edits)]


def _outcome_notes(answer: AnswerInProgress) -> Notes:
    """Return features' notes about the outcome."""
    return answer.of_outcome


def _text_notes(answer: AnswerInProgress) -> Notes:
    """Return notes about shortened or discarded text."""
    if answer.delivery.transcript is None:
        return ("the evaluation's output was discarded, because too much has been evaluated since",)
    return answer.left_out


def _next_step_notes(answer: AnswerInProgress) -> Notes:
    """Return a note about what the caller can do while an evaluation is queued, running or waiting for input."""
    call, evaluation = answer.call, answer.evaluation
    if evaluation.status == "queued":
        return describe_queue(call, evaluation)
    if evaluation.status == "running":
        ends = describe_how_to_stop(call, evaluation)
        note = f"still running: get_evaluation waits for it, {ends} stops it"
        profile = answer.repl.profile if answer.repl is not None else None
        note += ", background: true runs code in parallel" if profile is not None and profile.runs_concurrently else ""
        return answer.delivery.new_notes([note])
    return answer.delivery.new_notes([_input_note(call, evaluation)]) if evaluation.status == "needs-input" else ()


def _input_note(call: Call, evaluation: Evaluation) -> str:
    """Describe how to continue or stop code that is waiting for input."""
    repl = call.state.repls.get(evaluation.repl)
    profile = repl.profile if repl else None
    if profile and "stdin" in profile.capabilities:
        return (
            "the code is waiting for standard input. Send it a line with send_input, or pass stdin when you evaluate "
            "code that reads"
        )
    ends = describe_how_to_stop(call, evaluation)
    return f"the code is waiting for standard input, which this REPL does not support. {ends} stops it"


def _thread_output_notes(answer: AnswerInProgress) -> Notes:
    """Return a note about where output from threads goes if the code may start threads.

    Each caller receives it once for each REPL.
    """
    repl = answer.repl
    goes_to = repl.profile.thread_output if repl is not None and repl.profile is not None and not repl.is_owned else ""
    if repl is None or not goes_to or not BACKGROUND_OUTPUT_PATTERN.search(answer.evaluation.head):
        return ()
    return answer.delivery.new_notes([f"output from threads and System/out in {repl.key} goes to {goes_to}"])


def _test_difference_notes(answer: AnswerInProgress) -> Notes:
    """Return notes about how a failed test's calls differ from those of its last successful run.

    Only differences found since the caller's last answer are returned.
    """
    return answer.call.services.ledger.tests.pop_differences(answer.who)


async def _missing_module_notes(answer: AnswerInProgress) -> Notes:
    """Return a note about the directory in the workspace that contains a module that was not found."""
    return await describe_missing_module(answer.call, answer.evaluation)


async def _undefined_name_notes(answer: AnswerInProgress) -> Notes:
    """Return a note about how to import a name that was not defined."""
    return await describe_undefined_name(answer.call, answer.evaluation)


async def _feature_notes(answer: AnswerInProgress) -> Notes:
    """Return all features' notes about the evaluation."""
    call, evaluation = answer.call, answer.evaluation
    return [note for hook in call.services.hooks.notes for note in await hook(call, evaluation)]


def _tool_notes(answer: AnswerInProgress) -> Notes:
    """Return the notes from the tool that creates the answer."""
    return answer.given


ADVISERS: Final[tuple[Adviser, ...]] = (
    first_use_notes,
    _evaluation_notes,
    _outcome_notes,
    _text_notes,
    repetition_notes,
    _next_step_notes,
    _thread_output_notes,
    _test_difference_notes,
    restart_notes,
    _missing_module_notes,
    _undefined_name_notes,
    _feature_notes,
    _tool_notes,
    other_caller_notes,
    background_output_notes,
)
"""All advisers, in the order of the notes: about the evaluation, about its outcome, and about other events."""


_STATUSES_BY_ADVISER: Final[Mapping[Adviser, frozenset[EvaluationStatus]]] = MappingProxyType(
    {
        repetition_notes: frozenset(get_args(EvaluationStatus)) - UNFINISHED_STATUSES,
        _next_step_notes: UNFINISHED_STATUSES,
        _missing_module_notes: frozenset({"failed"}),
        _undefined_name_notes: frozenset({"failed"}),
    }
)
"""Statuses for which each adviser may have notes. Advisers that are not listed may have notes for any status."""


ADVISERS_BY_STATUS: Final[Mapping[EvaluationStatus, tuple[Adviser, ...]]] = MappingProxyType(
    {
        status: tuple(adviser for adviser in ADVISERS if status in _STATUSES_BY_ADVISER.get(adviser, (status,)))
        for status in get_args(EvaluationStatus)
    }
)
"""Advisers that may have notes about an evaluation, by its status."""
