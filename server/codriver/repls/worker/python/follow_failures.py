"""Report errors that occur while updating dependent code after a load, instead of letting the load fail."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Callable

WORKER_DIRECTORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""The directory of the worker's code. An error raised there is a bug in the worker and not in the project."""
STANDARD_LIBRARY_DIRECTORY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
"""The directory of the standard library."""
INSTALLED_PATH_PART = os.sep + "site-packages" + os.sep
"""Part of the path of every installed library. Libraries may be installed in a subdirectory of the standard library."""
MAX_MESSAGE_CHARACTERS = 80
"""Maximum number of characters reported from an error message."""
WAY_OUT_HINT = "load the file with `whole: true` and `dependents: true`, or restart the REPL"


def is_internal_error(error: BaseException) -> bool:
    """Return whether an error was raised by the worker itself, or by the standard library when the worker called it.

    An error in the project, or in a library that it uses, has passed through one of their frames.
    """
    codes = [code for code, _ in _frames(error)]
    while codes and not codes[-1].co_filename.startswith(WORKER_DIRECTORY):
        file = codes.pop().co_filename
        if not file.startswith(STANDARD_LIBRARY_DIRECTORY) or INSTALLED_PATH_PART in file:
            return False
    return True


def explain_unfollowed_change(error: BaseException) -> str:
    """Return a message that says why a change was not followed, where that happened, and what to do."""
    text = " ".join(str(error).split())
    text = text if len(text) <= MAX_MESSAGE_CHARACTERS else text[:MAX_MESSAGE_CHARACTERS] + "…"
    what = type(error).__name__ + (f": {text}" if text else "")
    if not is_internal_error(error):
        return f"running the statement again because of the change raised an error: {what}"
    internal = [frame for frame in _frames(error) if frame[0].co_filename.startswith(WORKER_DIRECTORY)]
    where = ", ".join(f"{os.path.basename(code.co_filename)}:{line}" for code, line in internal[-1:])
    return (
        "the change could not be applied to everything that depends on it, because of an error in Codriver "
        f"({what}, {where}); {WAY_OUT_HINT}"
    )


class Reporting:
    """A context manager that passes the reason for an error to `report`, after which the load continues.

    With `only_internal`, errors in the project are raised.
    """

    def __init__(self, report: Callable[[str], object], *, only_internal: bool = False) -> None:
        self._report, self._only_internal = report, only_internal

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if not isinstance(error, Exception) or (self._only_internal and not is_internal_error(error)):
            return False
        self._report(explain_unfollowed_change(error))
        return True


def _frames(error: BaseException) -> list[tuple[types.CodeType, int]]:
    """Return the code and line of each frame of an error, innermost last."""
    found, traceback = [], error.__traceback__
    while traceback is not None:
        found.append((traceback.tb_frame.f_code, traceback.tb_lineno))
        traceback = traceback.tb_next
    return found
