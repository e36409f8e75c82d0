"""Tasks that a context owns."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyio.abc import TaskGroup


@asynccontextmanager
async def own_tasks() -> AsyncIterator[TaskGroup]:
    """A task group whose tasks are cancelled when the context is left.

    What is raised in the context leaves it as it is: a plain task group would wrap it in a group of exceptions, and
    whoever looks for it would not find it.
    """
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        try:
            yield tasks
        except Exception as error:  # noqa: BLE001 - raised again below
            failure = error
        finally:
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
