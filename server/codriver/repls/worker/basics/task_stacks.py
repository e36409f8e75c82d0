"""Stacks of asyncio's tasks: a thread that runs an event loop shows the loop alone, and not where its tasks wait."""

from __future__ import annotations

import sys
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    import types
    from collections.abc import Iterator
    from typing import Any

MOST_TASKS = 50
"""Tasks that are told, those at other places first counted with one that is told."""
FRAMES = 5
"""The innermost frames of each: where it waits, and for whom."""
AWAITING = (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await"))
"""The frame of a coroutine or generator, and the one that it awaits. Source: `inspect`, types and members."""


def task_stacks() -> list[str]:
    """The tasks of all loops that run, in the form of a dump of threads, one of those that wait at the same place."""
    if "asyncio" not in sys.modules:
        return []
    import asyncio

    places: dict[str, list[str]] = {}
    for loop in loops():
        try:
            tasks = asyncio.all_tasks(loop)
        except RuntimeError:  # they come and go too fast
            continue
        for task in tasks:
            frames = list(frames_of(task))[-FRAMES:]
            told = "".join(traceback.format_list([_summary(frame) for frame in frames]))
            if told:
                places.setdefault(told, []).append(_name(task))
    shown = sorted(places.items(), key=lambda place: sorted(place[1]))[:MOST_TASKS]
    return ["task " + _names(sorted(names)) + ":\n" + told for told, names in shown]


def loops() -> list[asyncio.AbstractEventLoop]:
    """The event loops that run, by the frames that run them: each thread has at most one."""
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


def _names(names: list[str]) -> str:
    return names[0] if len(names) == 1 else names[0] + " and " + str(len(names) - 1) + " more that wait there"
