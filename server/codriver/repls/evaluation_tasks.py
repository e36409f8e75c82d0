"""Evaluations of an adapter that run in tasks of their own. Each of them ends exactly once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from codriver.errors import ReplDisconnectedError
from codriver.net.task_set import TaskSet
from codriver.repls.contract.adapter_values import Ending

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable

    from codriver.core.values import Form
    from codriver.repls.contract.adapter_values import OnEnd


async def in_order(forms: Iterable[Form], evaluate: Callable[[Form, int], Awaitable[Ending]]) -> Ending:
    """The ending of forms, each sent after the success of the one before: the last ending, with all notes.

    `evaluate` gives the ending of one form, by its number from 1.
    """
    ending, notes = Ending("done"), dict[str, None]()
    for number, form in enumerate(forms, 1):
        ending = await evaluate(form, number)
        notes |= dict.fromkeys(ending.notes)
        if ending.status != "done":
            break
    return ending if len(notes) == len(ending.notes) else replace(ending, notes=tuple(notes))


class Evaluations(TaskSet):
    """The evaluations of one adapter that run in tasks of their own: each gets its end once, whatever happens."""

    def start_reporting(self, on_end: OnEnd, act: Coroutine[object, object, Ending]) -> None:
        """Run the function that gives an evaluation's ending, and tell it; or an error, or that we closed the REPL."""
        self.start(report_end(on_end, act))


async def report_end(on_end: OnEnd, act: Coroutine[object, object, Ending]) -> None:
    """Run an evaluation, and report how it ended, whatever happens."""
    how: Ending | Exception = ReplDisconnectedError("it was closed by us")
    try:
        how = await act
    except Exception as error:  # noqa: BLE001  # it goes to the callback for the end
        how = error
    finally:
        on_end(how)
