"""The definitions that evaluations made: the last evaluated form of each name, its caller and its evaluation.

They are computed from evaluations in order. Evaluations that have left the log are missing. `is_sure` is false for a
definition that an evaluation may not have reached, because it failed or was interrupted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from codriver_lisp.definitions import (
    EXTENDING_HEADS,
    NO_ALIASES,
    ONCE_HEADS,
    read_definitions,
)
from codriver_lisp.errors import TooManyFormsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codriver_lisp.definitions import Aliases, Definition, Definitions

MAX_DEFINITIONS: Final = 20
"""Maximum number of recorded definitions per name: the first one and the most recent ones."""


@dataclass(frozen=True, slots=True)
class LispEvaluation:
    """An evaluation of Lisp code, read from the log."""

    number: int
    """The number of the evaluation. Later evaluations have higher numbers."""
    evaluation: str
    who: str
    at_ms: int
    text: str
    namespace: str = ""
    """The current namespace before the evaluation."""
    file: str = ""
    """The file from which the code was loaded."""
    is_whole: bool = False
    """Whether the text is the whole file and the line numbers are those of the file."""
    is_done: bool = True
    forms: int | None = None
    """The number of forms that a failed evaluation has run, if it is known."""
    before_line: int | None = None
    """The line at which a failed evaluation stopped, if it is known."""


@dataclass(frozen=True, slots=True)
class RecordedDefinition:
    """A recorded definition and the evaluation that made it. The text of the definition is not stored."""

    definition: Definition
    number: int
    evaluation: str
    who: str
    at_ms: int
    file: str
    is_whole: bool
    is_sure: bool


class DefinitionHistory:
    """The definitions made in one process of a REPL.

    `once` contains the dialect's macros that have no effect if the name is already defined. These are `defonce` and, in
    Clojure, `defmulti`, which only has no effect if the name was itself defined by `defmulti`.
    """

    def __init__(self, features: Sequence[str] = ("clj",), once: Sequence[str] = ONCE_HEADS) -> None:
        self._features = features
        self.once = once
        self._made: dict[tuple[str, str], list[RecordedDefinition]] = {}
        self._aliases: Aliases = NO_ALIASES

    def record(self, evaluated: LispEvaluation) -> tuple[RecordedDefinition, ...]:
        """Record a finished evaluation, and return the definitions that it made, in order."""
        try:
            read = read_definitions(evaluated.text, evaluated.namespace, self._features, self._aliases)
        except TooManyFormsError:
            return ()
        self._aliases = read.aliases
        for form in read.ns_forms if evaluated.is_done or evaluated.forms else ():
            self._add((form.namespace, form.name), _to_recorded_definition(evaluated, form, is_sure=True))
        made = tuple(self._record_definitions(evaluated, read))
        return tuple(definition for definition in made if not definition.definition.is_removal)

    def _record_definitions(self, evaluated: LispEvaluation, read: Definitions) -> Iterator[RecordedDefinition]:
        """Record the definitions of an evaluation, and yield each one."""
        sure = _certain_count(evaluated, read)
        for index, definition in enumerate(read.found):
            made = _to_recorded_definition(evaluated, definition, is_sure=index < sure)
            if definition.is_removal:
                self._remove(definition)
            else:
                for name in {definition.name, *definition.makes}:
                    self._add((definition.namespace, name), made)
                foreign_definition = definition.foreign
                if (
                    foreign_definition is not None and not evaluated.file
                ):  # methods in a file belong to that file's namespace
                    of_file_namespace = replace(definition, digest=foreign_definition.digest, foreign=None)
                    self._add(
                        (foreign_definition.namespace, foreign_definition.name),
                        replace(made, definition=of_file_namespace),
                    )
            yield made

    def _add(self, key: tuple[str, str], made: RecordedDefinition) -> None:
        """Add a definition of a name. If there are too many, the second oldest is discarded."""
        known = self._made.setdefault(key, [])
        known.append(made)
        if len(known) > MAX_DEFINITIONS:
            del known[1]

    def _remove(self, definition: Definition) -> None:
        """Discard the definitions removed by a form such as `ns-unmap`."""
        for key in [key for key in self._made if key[0] == definition.namespace and definition.name in ("", key[1])]:
            del self._made[key]

    def find_definitions(self, namespace: str, name: str) -> tuple[RecordedDefinition, ...]:
        """Return the definitions of a name since it was last removed, oldest first."""
        return tuple(self._made.get((namespace, name), ()))

    def find_methods(self, namespace: str) -> list[tuple[str, RecordedDefinition]]:
        """Return the names of methods defined in a namespace, with their newest definitions.

        These are methods of multimethods and protocols. If a protocol was redefined after a method, the method is left
        out, because the new protocol does not have it.
        """
        found = [(name, made[-1]) for (space, name), made in self._made.items() if space == namespace and made]
        newest = {name: made.number for name, made in found if made.definition.head == "defprotocol"}
        methods = [(name, made) for name, made in found if made.definition.head in EXTENDING_HEADS]
        return [(name, made) for name, made in methods if newest.get(_extended_protocol(name, made), 0) <= made.number]

    def effective_definition(self, namespace: str, name: str) -> RecordedDefinition | None:
        """Return the definition of a name that is in effect, or None if some of its definitions are uncertain.

        For `defonce` and `defmulti`, this may not be the last definition but an earlier one.
        """
        effective_definition: RecordedDefinition | None = None
        for made in self.find_definitions(namespace, name):
            head = made.definition.head
            has_no_effect = (
                effective_definition is not None
                and head in self.once
                and head in ("defonce", effective_definition.definition.head)
            )
            effective_definition = effective_definition if has_no_effect else made
        return effective_definition


def _to_recorded_definition(evaluated: LispEvaluation, definition: Definition, *, is_sure: bool) -> RecordedDefinition:
    """Create the record of a definition made by an evaluation."""
    return RecordedDefinition(
        definition,
        evaluated.number,
        evaluated.evaluation,
        evaluated.who,
        evaluated.at_ms,
        evaluated.file,
        evaluated.is_whole,
        is_sure=is_sure,
    )


def _extended_protocol(name: str, made: RecordedDefinition) -> str:
    """Return the name of the protocol that a method extends, or an empty string for a multimethod's method."""
    return name.rpartition(" ")[2] if made.definition.head.startswith("extend") else ""


def _certain_count(evaluated: LispEvaluation, read: Definitions) -> int:
    """Return the number of an evaluation's definitions that certainly took effect, even if it failed."""
    if evaluated.is_done:
        return len(read.found)
    if evaluated.forms is not None:
        return read.ends[min(evaluated.forms, len(read.ends)) - 1] if evaluated.forms > 0 and read.ends else 0
    if evaluated.before_line is not None:
        # The last definition before the line may be the one that failed.
        return max(0, sum(definition.line <= evaluated.before_line for definition in read.found) - 1)
    return 0
