"""Stacks of threads and of asyncio's tasks, and the tasks that ended with an error which nobody has retrieved.

A thread with an event loop shows only the loop. What hangs is in its tasks, and the cause is often a task that is gone:
its error stays in the task until somebody awaits it. No code of the user's runs here, as other code runs meanwhile.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
import traceback
import weakref
from functools import partial

from .connections import THREAD_NAME
from .error_report import FRAMES, is_library, is_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    import types
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any, Callable

MOST_TASKS = 50
"""The most tasks told; further tasks at the same place are only counted."""
MOST_TASK_FRAMES = 5
"""The innermost frames told of each task."""
MESSAGE_CHARACTERS = 200
AWAITING = (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await"))
"""The attributes with a coroutine's or generator's frame, and with the awaited object. Source: `inspect`, types and
members.
"""
KNOWN_TASKS = ("_all_tasks", "_scheduled_tasks")
"""The sets in which `asyncio.tasks` has tasks, also finished ones, until 3.11 and in 3.12 and 3.13."""


class MadeTasks:
    """The evaluation that made each task on the event loop of one session, for as long as the task lives."""

    def __init__(self) -> None:
        self.evaluation = ""
        """The evaluation that runs now, or ran last."""
        self._made: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def follow(self, loop: asyncio.AbstractEventLoop) -> None:
        """Note the tasks that are made on a loop from now on. A task that a task makes is of the same evaluation."""
        import asyncio

        create = loop.create_task

        def create_task(coroutine: Any, **options: Any) -> asyncio.Task[Any]:
            maker = asyncio.current_task(loop) if loop.is_running() else None
            task: asyncio.Task[Any] = create(coroutine, **options)
            self._made[task] = self._made.get(maker, self.evaluation) if maker is not None else self.evaluation
            return task

        # A factory of tasks is the user's to set, and some versions of Python lose names with one.
        with contextlib.suppress(AttributeError):
            loop.create_task = create_task  # type: ignore[method-assign,assignment]  # any loop takes attributes

    def evaluations(self) -> dict[int, str]:
        """Return the evaluation of each task, by the task's `id`."""
        made: list[tuple[Any, str]] = _copied(self._made.items)
        return {id(task): evaluation for task, evaluation in made}


def _copied(items: Callable[[], Iterable[Any]]) -> list[Any]:
    """The items of a weak collection, in which tasks come and go meanwhile; none if they do so too fast."""
    tries = 3
    while tries:
        tries -= 1
        with contextlib.suppress(RuntimeError):
            return list(items())
    return []


def stacks(made: Iterable[MadeTasks] = ()) -> str:
    """A dump of the tasks that ended with an error, of all present threads of user code, and of asyncio's tasks.

    `made` knows the evaluations of tasks.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    dumps = []
    for ident, frame in sys._current_frames().items():  # noqa: SLF001  # no public API gives the frames
        if names.get(ident) == THREAD_NAME:
            continue
        frames = list(traceback.extract_stack(frame))
        # The frames above the worker's own started it.
        first = next((number for number, one in enumerate(frames) if is_worker(one.filename)), 0)
        user_frames = [one for one in frames[first:] if not is_worker(one.filename)]
        if user_frames:
            dumps.append(names.get(ident, str(ident)) + ":\n" + "".join(traceback.format_list(user_frames)[-FRAMES:]))
    if "asyncio" not in sys.modules:
        return "\n".join(dumps)
    evaluations = {task: evaluation for one in made for task, evaluation in one.evaluations().items()}
    return "\n".join([*failed_tasks(evaluations), *dumps, *_waiting_tasks(evaluations)])


def failed_tasks(evaluations: Mapping[int, str]) -> list[str]:
    """The tasks that ended with an error which nobody has retrieved, one entry for all with the same error."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for task in _known_tasks():
        error = getattr(task, "_exception", None)
        # Retrieving the error by the public method would count as doing so.
        if task.done() and isinstance(error, BaseException) and getattr(task, "_log_traceback", False):
            position = _position_of(error)
            where = f" at {_base(position.filename)}:{position.lineno}" if position is not None else ""
            lines = "" if position is None else "".join(traceback.format_list([position]))
            key = f"{_words_of(error)}{where}", lines
            found.setdefault(key, []).append((_name(task), evaluations.get(id(task), "")))
    return [
        f"ended with an error: {_titled(tasks, 'like it')}: {words}\n{lines}"
        for (words, lines), tasks in list(found.items())[:MOST_TASKS]
    ]


def _known_tasks() -> list[Any]:
    import asyncio

    for name in KNOWN_TASKS:
        known = getattr(asyncio.tasks, name, None)
        if known is not None and sys.version_info < (3, 14):
            return _copied(partial(iter, known))
    # Newer ones forget a task as it ends.
    return [one for one in gc.get_objects() if issubclass(type(one), asyncio.Task)]


def _words_of(error: BaseException) -> str:
    """The class of an error and its message, if no code of the user's makes that."""
    kind = type(error)
    is_plain = all(type(one) in (str, int, float, bool, type(None)) for one in error.args)
    overrides_str = kind.__module__ != "builtins" and kind.__str__ is not BaseException.__str__
    message = "" if overrides_str or not is_plain else str(error)[:MESSAGE_CHARACTERS].replace("\n", " ")
    return f"{kind.__name__}: {message}" if message else kind.__name__


def _position_of(error: BaseException) -> traceback.FrameSummary | None:
    """The innermost frame of the user's code in which an error was raised; else the innermost of all."""
    frames = traceback.extract_tb(error.__traceback__)
    user_frames = [one for one in frames if not is_library(one.filename) and not is_worker(one.filename)]
    return next(reversed(user_frames or frames), None)


def _base(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def _waiting_tasks(evaluations: Mapping[int, str]) -> list[str]:
    """The tasks of all running loops, in the form of a dump of threads; one for all that wait at the same place."""
    import asyncio

    groups: dict[str, list[tuple[str, str]]] = {}
    for loop in loops():
        try:
            tasks = asyncio.all_tasks(loop)
        except RuntimeError:  # tasks come and go too fast
            continue
        for task in tasks:
            frames = list(frames_of(task))[-MOST_TASK_FRAMES:]
            stack = "".join(traceback.format_list([_summary(frame) for frame in frames]))
            if stack:
                groups.setdefault(stack, []).append((_name(task), evaluations.get(id(task), "")))
    user_frames = sorted(groups.items(), key=lambda entry: sorted(entry[1]))[:MOST_TASKS]
    return [f"task {_titled(tasks, 'that wait there')}:\n{stack}" for stack, tasks in user_frames]


def loops() -> list[asyncio.AbstractEventLoop]:
    """The running event loops, found by their frames: each thread has at most one."""
    import asyncio

    found: list[asyncio.AbstractEventLoop] = []
    for frame in sys._current_frames().values():  # noqa: SLF001  # no other way to them
        walked: types.FrameType | None = frame
        while walked is not None:
            if walked.f_code.co_name in ("run_forever", "run"):
                holder = walked.f_locals.get("self")
                for one in (holder, getattr(holder, "_loop", None)):
                    if isinstance(one, asyncio.AbstractEventLoop) and one.is_running() and one not in found:
                        found.append(one)
            walked = walked.f_back
    return found


def frames_of(task: Any) -> Iterator[types.FrameType]:
    """The frames of a task, from its own coroutine to the innermost that it awaits."""
    awaited: Any = task.get_coro()
    while awaited is not None:
        for frame, further in AWAITING:
            if hasattr(awaited, frame):
                if getattr(awaited, frame) is not None:
                    yield getattr(awaited, frame)
                awaited = getattr(awaited, further)
                break
        else:
            return


def _summary(frame: types.FrameType) -> traceback.FrameSummary:
    return traceback.FrameSummary(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def _name(task: Any) -> str:
    name = task.get_name()
    return name if isinstance(name, str) else type(task).__name__


def _titled(tasks: list[tuple[str, str]], alike: str) -> str:
    """The name of the first of several tasks and their number, with the evaluations that made them."""
    tasks = sorted(tasks)
    more = "" if len(tasks) == 1 else f" and {len(tasks) - 1} more {alike}"
    made_by = sorted({evaluation for _, evaluation in tasks if evaluation})
    return f"{tasks[0][0]}{more}" + (f", made by evaluation {', '.join(made_by)}" if made_by else "")
