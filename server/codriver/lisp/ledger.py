"""The ledger of Lisp definitions: which form of each name was evaluated last, by whom, in which evaluation.

It is computed from evaluations in their order, as the log has them; what left the log before is not known to it. An
evaluation that failed or was interrupted may have made its definitions up to where it ended: those are not `is_sure`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver.lisp.definitions import EXTENDING, ONCE, definitions
from codriver.lisp.reader import TooManyFormsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codriver.lisp.definitions import Definition, Definitions

KEPT: Final = 20
"""How many makings of one name are remembered: the first, and the newest."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One evaluation of Lisp, as the log has it. `number` rises with each.

    `namespace` is where it began. `file`: the one that it was loaded as. `is_whole`: the text is that of the file, and
    lines are its lines. `forms`, or `before_line`: how far it came where it did not end well.
    """

    number: int
    evaluation: str
    who: str
    at_ms: int
    text: str
    namespace: str = ""
    file: str = ""
    is_whole: bool = False
    is_done: bool = True
    forms: int | None = None
    before_line: int | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """One making of a definition: what was evaluated, and by which evaluation. Its text is not kept."""

    definition: Definition
    number: int
    evaluation: str
    who: str
    at_ms: int
    file: str
    is_whole: bool
    is_sure: bool


class Ledger:
    """The ledger of one life of a REPL: a new process knows nothing of what the one before it was given.

    `once`: the words of its dialect that define nothing where the name is defined already, the second one only where
    it was defined by the same word.
    """

    def __init__(self, features: Sequence[str] = ("clj",), once: Sequence[str] = ONCE) -> None:
        self._features = features
        self.once = once
        self._made: dict[tuple[str, str], list[Made]] = {}

    def take(self, evaluated: Evaluated) -> tuple[Made, ...]:
        """Enter an evaluation that is over: its makings, in their order."""
        try:
            read = definitions(evaluated.text, evaluated.namespace, self._features)
        except TooManyFormsError:
            return ()
        made = tuple(self._enter(evaluated, read))
        return tuple(one for one in made if not one.definition.is_undoing)

    def _enter(self, evaluated: Evaluated, read: Definitions) -> Iterator[Made]:
        sure = _sure(evaluated, read)
        for place, one in enumerate(read.found):
            made = Made(
                one,
                evaluated.number,
                evaluated.evaluation,
                evaluated.who,
                evaluated.at_ms,
                evaluated.file,
                evaluated.is_whole,
                is_sure=place < sure,
            )
            if one.is_undoing:
                self._undo(one)
            else:
                for name in {one.name, *one.makes}:
                    self._add((one.namespace, name), made)
            yield made

    def _add(self, key: tuple[str, str], made: Made) -> None:
        known = self._made.setdefault(key, [])
        known.append(made)
        if len(known) > KEPT:
            del known[1]

    def _undo(self, one: Definition) -> None:
        for key in [key for key in self._made if key[0] == one.namespace and one.name in ("", key[1])]:
            del self._made[key]

    def makings(self, namespace: str, name: str) -> tuple[Made, ...]:
        """The makings of a name since it was last undone, in their order: the first, and the newest."""
        return tuple(self._made.get((namespace, name), ()))

    def methods(self, namespace: str) -> list[tuple[str, Made]]:
        """The newest making of each method, of a multimethod or of a protocol, that was given in a namespace."""
        found = [(name, made[-1]) for (space, name), made in self._made.items() if space == namespace and made]
        return [(name, made) for name, made in found if made.definition.head in EXTENDING]

    def living(self, namespace: str, name: str) -> Made | None:
        """The making of a name that lives, if all were sure and known: of `defonce` and `defmulti` not the last one."""
        living: Made | None = None
        for made in self.makings(namespace, name):
            head = made.definition.head
            is_kept = living is not None and head in self.once and head in ("defonce", living.definition.head)
            living = living if is_kept else made
        return living


def _sure(evaluated: Evaluated, read: Definitions) -> int:
    """The number of definitions that were made for sure."""
    if evaluated.is_done:
        return len(read.found)
    if evaluated.forms is not None:
        return read.ends[min(evaluated.forms, len(read.ends)) - 1] if evaluated.forms > 0 and read.ends else 0
    if evaluated.before_line is not None:
        # The last one before the line may be what failed.
        return max(0, sum(one.line <= evaluated.before_line for one in read.found) - 1)
    return 0
