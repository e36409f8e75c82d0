"""Values that printing cut, or that have more to show, kept for a while so that more of them can be asked for."""

from __future__ import annotations

import collections
import weakref

from .printing import NoSuchPartError, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .jobs import Job

HELD = 8
"""So many of the newest cut values are kept alive."""
HTML = "text/html"
"""The path that means what a value shows of itself in a page. Source: IPython's display protocol."""
REMEMBERED = 200
"""So many are found as long as the program itself keeps them alive, where values of their class can say so."""


def shows_html(value: Any) -> bool:
    """True of a value whose class has a page to show of it; nothing of the value is run."""
    return hasattr(type(value), "_repr_html_") and not isinstance(value, type)


def html_of(value: Any, start: int) -> str:
    """The page that a value shows of itself, from a character on.

    Raises:
        NoSuchPartError: it fails to.
    """
    try:
        text = value._repr_html_()
    except Exception as error:
        raise NoSuchPartError("it has no page to show: " + type(error).__name__) from None
    return str(text or "")[start:]


class KeptValues:
    """The cut values of one worker, by evaluation and by their number in it, from 1; the oldest are dropped first."""

    def __init__(self) -> None:
        self._told: collections.OrderedDict[str, int] = collections.OrderedDict()
        """By evaluation: how many values it told."""
        self._held: collections.deque[tuple[tuple[str, int], str, Any]] = collections.deque(maxlen=HELD)
        self._alive: collections.OrderedDict[tuple[str, int], weakref.ref[Any]] = collections.OrderedDict()

    def tell(self, job: Job, value: Any, text: str, namespace: str, cut: str) -> None:
        """Tell a value of a job, and keep one that is cut or has a page to show, where the request says under what."""
        evaluation = job.message.get("codriver/keep")
        if isinstance(evaluation, str):
            number = self._told[evaluation] = self._told.get(evaluation, 0) + 1
            if len(self._told) > REMEMBERED:
                self._told.popitem(last=False)
            if cut or shows_html(value):
                self._keep((evaluation, number), job.session.id, value)
        tell(job, text, namespace, cut=cut)

    def _keep(self, key: tuple[str, int], session: str, value: Any) -> None:
        self._held.append((key, session, value))
        try:
            self._alive[key] = weakref.ref(value)
        except TypeError:
            return
        if len(self._alive) > REMEMBERED:
            self._alive.popitem(last=False)

    def drop(self, session: str) -> None:
        """Let go of what a session that ends was told."""
        left = [one for one in self._held if one[1] != session]
        self._held.clear()
        self._held.extend(left)

    def find(self, evaluation: str, number: int | None) -> Any:
        """A cut value of an evaluation, by default its last.

        Raises:
            NoSuchPartError: it is not kept, or not any more.
        """
        numbers = {key[1] for key, _, _ in self._held if key[0] == evaluation}
        numbers.update(key[1] for key, value in self._alive.items() if key[0] == evaluation and value() is not None)
        if not numbers:
            raise NoSuchPartError(f"no cut value of this evaluation is kept: the REPL keeps the {HELD} newest")
        wanted = max(numbers) if number is None else number
        for key, _, value in self._held:
            if key == (evaluation, wanted):
                return value
        alive = self._alive.get((evaluation, wanted))
        value = alive() if alive is not None else None
        if value is None:
            raise NoSuchPartError(f"of this evaluation the values {sorted(numbers)} are kept, and no other")
        return value
