"""Give a registered Celery task the options of the task that would replace it after a load.

Celery registers each name only once, and returns the registered task if a function is decorated again.
"""

from __future__ import annotations

import contextlib
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..basics.undo_records import UndoRecord


def find_task(value: Any) -> Any:
    """Return the Celery task to which a value refers, perhaps through a proxy, or None."""
    kind: Any = getattr(sys.modules.get("celery.app.task"), "Task", None)
    proxy: Any = getattr(sys.modules.get("celery.local"), "Proxy", None)
    if kind is None or proxy is None:
        return None
    if issubclass(type(value), proxy):
        try:
            value = value._get_current_object()  # noqa: SLF001  # no other way
        except Exception:  # an error in user code, or an application that has no such task
            return None
    return value if issubclass(type(value), kind) else None


@contextlib.contextmanager
def renewing_task(space: dict[str, Any], name: str, undo: UndoRecord) -> Iterator[None]:
    """Let a module decorate the function of its task `name` again while the context is active.

    The previous task stays registered, and gets the class and the attributes of the new task.
    """
    before = space.get(name)
    task = find_task(before)
    registry = None if task is None else task.app.tasks
    if registry is None or registry.get(task.name) is not task:
        yield
        return
    name_before, kind, attributes = task.name, type(task), task.__dict__
    del registry[name_before]

    def restore() -> None:
        registry.pop(task.name, None)
        _set_state(task, kind, attributes)
        registry[name_before] = task

    try:
        yield
    except BaseException:
        restore()
        raise
    made = find_task(space.get(name))
    if made is not None and made is not task:
        undo.record_undo(restore)
        _set_state(task, type(made), made.__dict__)
        registry[task.name] = task
        if task.name == name_before:  # a proxy may refer to the task by its name
            space[name] = before


def _set_state(task: Any, kind: Any, attributes: dict[str, Any]) -> None:
    object.__setattr__(task, "__class__", kind)
    object.__setattr__(task, "__dict__", attributes)
