"""Describe the stacks of threads and asyncio tasks, including tasks that have failed unnoticed.

The stack of a thread with an event loop contains only the loop. Whatever is hanging is in the loop's tasks, and the
cause is often a task that has already failed. No user code runs here, because other code is running at the same time.
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
from .error_report import MAX_TEXT_FRAMES, is_library_file, is_worker_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    import types
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any, Callable

MAX_DUMPED_TASKS = 50
"""Maximum number of tasks in a dump. Further tasks at the same position are only counted."""
MAX_TASK_FRAMES = 5
"""Maximum number of frames per task, counted from the innermost."""
MAX_MESSAGE_CHARACTERS = 200
"""Maximum length of an error message."""
AWAIT_ATTRIBUTES = (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await"))
"""The attributes that contain the frame of a coroutine or generator and the object that it awaits.

Source: `inspect`, "Types and members".
"""
TASK_SET_NAMES = ("_all_tasks", "_scheduled_tasks")
"""Names of the sets in which `asyncio.tasks` stores tasks, including finished ones.

The first one is for Python up to 3.11, and the second one for 3.12 and 3.13.
"""


class TaskOrigins:
    """Records which evaluation created each task on a session's event loop, for as long as the task exists."""

    def __init__(self) -> None:
        self.evaluation = ""
        """The evaluation that is running or ran last."""
        self._made: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def follow(self, loop: asyncio.AbstractEventLoop) -> None:
        """Track tasks that are created on a loop from now on.

        A task belongs to the evaluation of the task that created it.
        """
        import asyncio

        create = loop.create_task

        def create_task(coroutine: Any, **options: Any) -> asyncio.Task[Any]:
            maker = asyncio.current_task(loop) if loop.is_running() else None
            task: asyncio.Task[Any] = create(coroutine, **options)
            self._made[task] = self._made.get(maker, self.evaluation) if maker is not None else self.evaluation
            return task

        # The task factory belongs to the user, and some versions of Python lose task names if one is set.
        with contextlib.suppress(AttributeError):
            loop.create_task = create_task  # type: ignore[method-assign,assignment]  # any loop takes attributes

    def evaluations(self) -> dict[int, str]:
        """Return the evaluation that created each task, by the `id` of the task."""
        made: list[tuple[Any, str]] = _copy_weak(self._made.items)
        return {id(task): evaluation for task, evaluation in made}


def _copy_weak(items: Callable[[], Iterable[Any]]) -> list[Any]:
    """Copy a weak collection that may change concurrently. Return [] if it changes too often."""
    tries = 3
    while tries:
        tries -= 1
        with contextlib.suppress(RuntimeError):
            return list(items())
    return []


def format_stacks(made: Iterable[TaskOrigins] = ()) -> str:
    """Format failed tasks, the stacks of user threads, and the tasks of running event loops.

    `made` records which evaluations created the tasks.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    dumps = []
    for ident, frame in sys._current_frames().items():  # noqa: SLF001  # no public API gives the frames
        if names.get(ident) == THREAD_NAME:
            continue
        frames = list(traceback.extract_stack(frame))
        # Frames outside the worker's own belong to the code that started the worker.
        first = next((number for number, frame in enumerate(frames) if is_worker_file(frame.filename)), 0)
        user_frames = [item for item in frames[first:] if not is_worker_file(item.filename)]
        if user_frames:
            dumps.append(
                names.get(ident, str(ident)) + ":\n" + "".join(traceback.format_list(user_frames)[-MAX_TEXT_FRAMES:])
            )
    if "asyncio" not in sys.modules:
        return "\n".join(dumps)
    evaluations = {task: evaluation for item in made for task, evaluation in item.evaluations().items()}
    return "\n".join([*describe_failed_tasks(evaluations), *dumps, *describe_waiting_tasks(evaluations, list)])


def describe_failed_tasks(evaluations: Mapping[int, str]) -> list[str]:
    """Describe tasks whose error nobody has retrieved, with one entry per distinct error."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for task in _existing_tasks():
        error = getattr(task, "_exception", None)
        # Calling `task.exception()` would mark the error as retrieved.
        if task.done() and isinstance(error, BaseException) and getattr(task, "_log_traceback", False):
            position = _error_position(error)
            where = f" at {_file_name(position.filename)}:{position.lineno}" if position is not None else ""
            lines = "" if position is None else "".join(traceback.format_list([position]))
            key = f"{_error_text(error)}{where}", lines
            found.setdefault(key, []).append((_task_name(task), evaluations.get(id(task), "")))
    return [
        f"ended with an error: {_describe_tasks(tasks, 'like it')}: {words}\n{lines}"
        for (words, lines), tasks in list(found.items())[:MAX_DUMPED_TASKS]
    ]


def _existing_tasks() -> list[Any]:
    """Return all existing tasks, including finished ones."""
    import asyncio

    for name in TASK_SET_NAMES:
        known = getattr(asyncio.tasks, name, None)
        if known is not None and sys.version_info < (3, 14):
            return _copy_weak(partial(iter, known))
    # Newer versions forget a task when it ends.
    return [candidate for candidate in gc.get_objects() if issubclass(type(candidate), asyncio.Task)]


def _error_text(error: BaseException) -> str:
    """Return the class and message of an error. The message is omitted if creating it would run user code."""
    kind = type(error)
    is_plain = all(type(argument) in (str, int, float, bool, type(None)) for argument in error.args)
    overrides_str = kind.__module__ != "builtins" and kind.__str__ is not BaseException.__str__
    message = "" if overrides_str or not is_plain else str(error)[:MAX_MESSAGE_CHARACTERS].replace("\n", " ")
    return f"{kind.__name__}: {message}" if message else kind.__name__


def _error_position(error: BaseException) -> traceback.FrameSummary | None:
    """Return the frame of user code that raised an error, or the innermost frame if there is no user code."""
    frames = traceback.extract_tb(error.__traceback__)
    user_frames = [
        frame for frame in frames if not is_library_file(frame.filename) and not is_worker_file(frame.filename)
    ]
    return next(reversed(user_frames or frames), None)


def _file_name(path: str) -> str:
    """Return the last component of a path with slashes or backslashes."""
    return path.replace("\\", "/").rpartition("/")[2]


def describe_waiting_tasks(
    evaluations: Mapping[int, str],
    select_frames: Callable[[list[traceback.FrameSummary]], list[traceback.FrameSummary]],
) -> list[str]:
    """Describe the tasks on all running event loops, with one entry for all tasks waiting at the same position.

    Only selected frames are included, and only tasks that have any.
    """
    import asyncio

    groups: dict[str, list[tuple[str, str]]] = {}
    for loop in loops():
        try:
            tasks = asyncio.all_tasks(loop)
        except RuntimeError:  # tasks are created and finished too fast
            continue
        for task in tasks:
            frames = select_frames([_summary(frame) for frame in task_frames(task)])[-MAX_TASK_FRAMES:]
            stack = "".join(traceback.format_list(frames))
            if stack:
                groups.setdefault(stack, []).append((_task_name(task), evaluations.get(id(task), "")))
    user_frames = sorted(groups.items(), key=lambda entry: sorted(entry[1]))[:MAX_DUMPED_TASKS]
    return [f"task {_describe_tasks(tasks, 'that wait there')}:\n{stack}" for stack, tasks in user_frames]


def loops() -> list[asyncio.AbstractEventLoop]:
    """Return the running event loops. There is at most one per thread, and it is found through the thread's frames."""
    import asyncio

    found: list[asyncio.AbstractEventLoop] = []
    for frame in sys._current_frames().values():  # noqa: SLF001  # no other way to them
        walked: types.FrameType | None = frame
        while walked is not None:
            if walked.f_code.co_name in ("run_forever", "run"):
                holder = walked.f_locals.get("self")
                for item in (holder, getattr(holder, "_loop", None)):
                    if isinstance(item, asyncio.AbstractEventLoop) and item.is_running() and item not in found:
                        found.append(item)
            walked = walked.f_back
    return found


def task_frames(task: Any) -> Iterator[types.FrameType]:
    """Yield the frames of a task, from its coroutine to the innermost awaitable."""
    awaited: Any = task.get_coro()
    while awaited is not None:
        for frame, further in AWAIT_ATTRIBUTES:
            if hasattr(awaited, frame):
                if getattr(awaited, frame) is not None:
                    yield getattr(awaited, frame)
                awaited = getattr(awaited, further)
                break
        else:
            return


def _summary(frame: types.FrameType) -> traceback.FrameSummary:
    return traceback.FrameSummary(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def _task_name(task: Any) -> str:
    name = task.get_name()
    return name if isinstance(name, str) else type(task).__name__


def _describe_tasks(tasks: list[tuple[str, str]], alike: str) -> str:
    """Return the name of the first task, the number of others, and the evaluations that created them.

    `alike` describes what the tasks have in common.
    """
    tasks = sorted(tasks)
    more = "" if len(tasks) == 1 else f" and {len(tasks) - 1} more {alike}"
    made_by = sorted({evaluation for _, evaluation in tasks if evaluation})
    return f"{tasks[0][0]}{more}" + (f", created by evaluation {', '.join(made_by)}" if made_by else "")
