"""Run the evaluations of an adapter as background tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from codriver.errors import ReplDisconnectedError
from codriver.net.task_set import TaskSet
from codriver.repls.contract.events import Ending

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable

    from codriver.core.requests import Form
    from codriver.repls.contract.events import OnEnd


async def evaluate_in_order(forms: Iterable[Form], evaluate: Callable[[Form, int], Awaitable[Ending]]) -> Ending:
    """Evaluate forms in order until one fails. Return the last ending, with the notes from all forms.

    `evaluate` is called with a form and its number, starting at 1, and returns the ending.
    """
    ending, notes = Ending("done"), dict[str, None]()
    for number, form in enumerate(forms, 1):
        ending = await evaluate(form, number)
        notes |= dict.fromkeys(ending.notes)
        if ending.status != "done":
            break
    return ending if len(notes) == len(ending.notes) else replace(ending, notes=tuple(notes))


class EvaluationTasks(TaskSet):
    """The running evaluations of one adapter. Each evaluation is a task, and reports its end exactly once."""

    def start_task(self, on_end: OnEnd, act: Coroutine[object, object, Ending]) -> None:
        """Start a task that runs an evaluation and reports its ending or error to `on_end`."""
        self.start(run_and_report(on_end, act))


async def run_and_report(on_end: OnEnd, act: Coroutine[object, object, Ending]) -> None:
    """Run an evaluation, and pass its ending or error to `on_end`.

    If it is cancelled, the error is `ReplDisconnectedError`.
    """
    how: Ending | Exception = ReplDisconnectedError("Codriver closed the connection")
    try:
        how = await act
    except Exception as error:  # noqa: BLE001  # `on_end` receives it
        how = error
    finally:
        on_end(how)
