"""Values that were truncated or have other displays, which are stored so that callers can read more of them."""

from __future__ import annotations

import collections
import weakref

from .print_limits import send_value
from .value_paths import NoSuchPartError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .jobs import Job

MAX_STORED_VALUES = 8
"""Maximum number of values stored because they were not printed completely."""
DISPLAY_METHODS = {"text/html": "_repr_html_", "text/markdown": "_repr_markdown_", "text/latex": "_repr_latex_"}
"""The method for each kind of display, by MIME type. Source: IPython's display protocol."""
MAX_REMEMBERED_VALUES = 200
"""Maximum number of further values that are remembered for as long as the program itself keeps them alive."""


def has_display(value: Any, kind: object) -> bool:
    """Return whether a value has a display of this kind, or of any kind if `kind` is None. No code runs."""
    requested = [kind] if kind is not None else DISPLAY_METHODS
    return not isinstance(value, type) and any(
        item in DISPLAY_METHODS and hasattr(type(value), DISPLAY_METHODS[item]) for item in requested
    )


def render_display(value: Any, kind: str, start: int) -> str:
    """Return the display of a value as text, starting at the character `start`.

    Raises:
        NoSuchPartError: the display could not be created.
    """
    try:
        text = getattr(value, DISPLAY_METHODS[kind])()
    except Exception as error:
        raise NoSuchPartError("the value has no page to display: " + type(error).__name__) from None
    return str(text or "")[start:]


class StoredValues:
    """Values that were not printed completely, by evaluation and by their number in the evaluation, starting at 1.

    Only the newest values are stored.
    """

    def __init__(self) -> None:
        self._counts: collections.OrderedDict[str, int] = collections.OrderedDict()
        """The number of values sent, by evaluation."""
        self._values: collections.deque[tuple[tuple[str, int], str, Any]] = collections.deque(maxlen=MAX_STORED_VALUES)
        self._alive: collections.OrderedDict[tuple[str, int], weakref.ref[Any]] = collections.OrderedDict()

    def send_value(self, job: Job, value: Any, text: str, namespace: str, cut: str) -> None:
        """Send a printed value. If it was truncated or has other displays, and the request has an id, also store it."""
        evaluation = job.message.get("codriver/keep")
        if isinstance(evaluation, str):
            number = self._counts[evaluation] = self._counts.get(evaluation, 0) + 1
            if len(self._counts) > MAX_REMEMBERED_VALUES:
                self._counts.popitem(last=False)
            if cut or has_display(value, None):
                self._store((evaluation, number), job.session.id, value)
        send_value(job, text, namespace, cut=cut)

    def _store(self, key: tuple[str, int], session: str, value: Any) -> None:
        self._values.append((key, session, value))
        try:
            self._alive[key] = weakref.ref(value)
        except TypeError:
            return
        if len(self._alive) > MAX_REMEMBERED_VALUES:
            self._alive.popitem(last=False)

    def drop(self, session: str) -> None:
        """Drop the values stored for a session that is being closed."""
        left = [value for value in self._values if value[1] != session]
        self._values.clear()
        self._values.extend(left)

    def find(self, evaluation: str, number: int | None) -> Any:
        """Return a value stored for an evaluation. By default, this is its last one.

        Raises:
            NoSuchPartError: the value is not stored.
        """
        numbers = {key[1] for key, _, _ in self._values if key[0] == evaluation}
        numbers.update(key[1] for key, value in self._alive.items() if key[0] == evaluation and value() is not None)
        if not numbers:
            raise NoSuchPartError(
                f"the REPL no longer has the value: it stores only the {MAX_STORED_VALUES} most recent of the "
                "values that were shortened"
            )
        chosen = max(numbers) if number is None else number
        for key, _, value in self._values:
            if key == (evaluation, chosen):
                return value
        alive = self._alive.get((evaluation, chosen))
        value = alive() if alive is not None else None
        if value is None:
            raise NoSuchPartError(f"only the values {sorted(numbers)} of this evaluation are stored")
        return value
