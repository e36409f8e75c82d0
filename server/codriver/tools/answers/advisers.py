"""Advisers: notes of an answer about an evaluation, each kind by one function, all asked in one loop.

Each is asked of the same things and gives its notes, in the order in which an answer has them. One with nothing to say
costs a call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from codriver.repls.contract.adapter_values import LOAD_IT
from codriver.tools.answers.answer_notes import (
    notes_of_background,
    notes_of_generation,
    notes_of_others,
    notes_of_place,
    notes_of_repetition,
)
from codriver.tools.calls.evaluation_waits import queue_notes, way_to_end
from codriver.tools.truth.conflicts import notes_of_conflicts, with_editor
from codriver.tools.truth.module_places import notes_of_missing_module

if TYPE_CHECKING:
    from codriver.core.state import Seen
    from codriver.core.values import Evaluation
    from codriver.tools.answers.telling import Telling
    from codriver.tools.calls.base import Call


@dataclass(slots=True)
class Asking:
    """The answer that notes are wanted for, and what its advisers found on the way."""

    call: Call
    evaluation: Evaluation
    who: str
    """The caller that asks."""
    session: str
    """The key of the evaluation's session."""
    stands: Seen
    """The generation and namespace that the caller sees by this answer."""
    telling: Telling
    left_out: tuple[str, ...] = ()
    """Words about texts that the answer cuts."""
    given: tuple[str, ...] = ()
    """Notes of the tool that answers."""
    repetition: list[str] = field(default_factory=list)
    """The comparison with the same code before, once it is made."""
    is_same: bool = False
    """True where result and output are as they were then, so that nobody will ask for more."""


Notes = Iterable[str]
Adviser = Callable[[Asking], Notes | Awaitable[Notes]]


def _of_place(asking: Asking) -> Notes:
    """The difference of the place where it ran from the one that the caller takes it for."""
    return asking.telling.news(notes_of_place(asking.call, asking.evaluation))


def _of_its_own(asking: Asking) -> Notes:
    """The notes that its REPL or its runner made; on files that were edited since their load, each once."""
    edits = [note for note in asking.evaluation.notes if note.endswith(LOAD_IT)]
    told = [with_editor(asking.call, asking.who, note) for note in asking.telling.news(edits)]
    return [*told, *(note for note in asking.evaluation.notes if note not in edits)]


def _of_cell(asking: Asking) -> Notes:
    """The outputs that are on their way into a notebook."""
    cell = asking.call.services.ledger.cells.told(asking.evaluation.id)
    return filter(None, cell[1:]) if cell else ()


def _of_texts(asking: Asking) -> Notes:
    """The texts that are cut, or forgotten."""
    if asking.telling.transcript is None:
        return ("what it said is forgotten: too much was evaluated since",)
    return asking.left_out


async def _of_repetition(asking: Asking) -> Notes:
    """The comparison with the same code before."""
    if asking.evaluation.over and asking.telling.transcript is not None:
        found = await notes_of_repetition(asking.call, asking.evaluation, asking.telling.transcript)
        asking.repetition, asking.is_same = found
    return asking.repetition


def _of_standing(asking: Asking) -> Notes:
    """The note on what to do while an evaluation runs or reads; each caller is told once."""
    call, evaluation = asking.call, asking.evaluation
    if evaluation.status == "queued":
        return queue_notes(call, evaluation)
    if evaluation.status == "running":
        ends = way_to_end(call, evaluation)
        way = f"it goes on: get_evaluation with its evaluationId and waitMs waits, {ends} ends it"
        profile = call.state.repls[evaluation.repl].profile if evaluation.repl in call.state.repls else None
        way += ", background: true runs code beside it" if profile is not None and profile.runs_beside else ""
        return asking.telling.news([way])
    return asking.telling.news([_input_note(call, evaluation)]) if evaluation.status == "needs-input" else ()


def _input_note(call: Call, evaluation: Evaluation) -> str:
    repl = call.state.repls.get(evaluation.repl)
    profile = repl.profile if repl else None
    if profile and "stdin" in profile.capabilities:
        return "the code reads from standard input: give it a line with send_input"
    ends = way_to_end(call, evaluation)
    return f"the code reads from standard input, which this REPL cannot be given: {ends} ends it"


def _of_generation(asking: Asking) -> Notes:
    """A new generation of the REPL: what was defined is gone."""
    return notes_of_generation(asking.call, asking.evaluation, asking.who)


async def _of_missing_module(asking: Asking) -> Notes:
    """The folder of the workspace that has a module which was not found."""
    return await notes_of_missing_module(asking.call, asking.evaluation)


async def _of_conflicts(asking: Asking) -> Notes:
    """Redefinitions by others of names that it uses."""
    return await notes_of_conflicts(asking.call, asking.evaluation)


def _of_tool(asking: Asking) -> Notes:
    """The notes of the tool that answers."""
    return asking.given


def _of_others(asking: Asking) -> Notes:
    """The doings of others meanwhile."""
    return notes_of_others(asking.call, asking.who, asking.session, asking.stands)


def _of_background(asking: Asking) -> Notes:
    """The output of background threads and tasks meanwhile."""
    return notes_of_background(asking.call, asking.who, asking.evaluation)


ADVISERS: Final[tuple[Adviser, ...]] = (
    _of_place,
    _of_its_own,
    _of_cell,
    _of_texts,
    _of_repetition,
    _of_standing,
    _of_generation,
    _of_missing_module,
    _of_conflicts,
    _of_tool,
    _of_others,
    _of_background,
)
"""In the order of an answer's notes: what it is about, then what came of it, then what happens around it."""


async def notes_for(asking: Asking) -> list[str]:
    """The notes of an answer."""
    said: list[str] = []
    for adviser in ADVISERS:
        found = adviser(asking)
        said += await found if isinstance(found, Awaitable) else found
    return said
