"""Record the code that each caller sent to a REPL or wrote to a file, and find names on which two callers conflict.

While only one caller is active, code is stored without being analyzed. Once there is a second caller, a regular
expression finds the names in it, and code is parsed only if it mentions a name that another caller defined.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final

from codriver.core import caller_names
from codriver.editing import code_names
from codriver.tools.ledgers.delivered_notes import DeliveredNotes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codriver.core.state import Repl, State
    from codriver.editing.code_names import Language, NameDefinition

MAX_SUBMISSIONS: Final = 1000
"""Maximum number of a REPL's evaluations to search for conflicts."""
MAX_CODE_CHARACTERS: Final = 4 * 2**20
"""Maximum length of the code stored for one REPL, and of a single submission to parse."""
MAX_SUBMISSIONS_PER_NAME: Final = 8
"""Maximum number of submissions to store for each defined name."""
MAX_NAMESPACE_HEADER_CHARACTERS: Final = 2**13
"""Maximum number of characters to store from a namespace's `ns` forms and imports."""
DEFINED_NAME_PATTERNS: Final = {
    "lisp": re.compile(
        r"\((?:[^\s()/]+/)?def[^\s()]*\s+(?:\^\S+\s+)*([^\s()\[\]{}\"';,@^`~]+)"
        r"|\((?:alter-var-root\s+(?:#'|\(var\s+)|intern\s+\S+\s+'?)(?:[^\s()/]+/)?([^\s()\[\]{}\"';,@^`~/]+)"
    ),
    "hy": re.compile(r"\((?:def[^\s()]*|setv)\s+(?:\[[^\]]*\]\s+)?([^\s()\[\]{}\"';,@^`~]+)"),
    "python": re.compile(
        r"^(?:async\s+)?(?:def|class)\s+(\w+)|^(?:[\w.]+\.)?(\w+)\s*(?::[^=\n]+)?=(?!=)", re.MULTILINE
    ),
}
"""Patterns that find the names of possible definitions without parsing, by language."""
NS_FORM_NAME: Final = re.compile(r"\(ns\s+(?:\^\S+\s+)*([^\s()\[\]{}\"';,@^`~]+)")
"""Matches the beginning of an `ns` form up to its name."""


@dataclass(slots=True, eq=False)
class Submission:
    """Code that a caller evaluated in a REPL or wrote to a file."""

    evaluation: str
    number: int
    who: str
    client: str | None
    at_ms: int
    code: str
    language: Language
    space: str
    is_file: bool = False
    """Whether a whole file was loaded. The first load of a file does not count as a change."""
    head: str = ""
    """The imports in the file that contains the code, needed to resolve names from other namespaces."""
    location: str = ""
    """A description of the file, for a definition that was written but not evaluated."""
    found: tuple[NameDefinition, ...] | None = None
    is_compared: bool = False
    """Whether an answer has already reported the conflicts of this code."""

    def definitions(self) -> tuple[NameDefinition, ...]:
        """Return the definitions in the code, which is parsed on the first call."""
        if self.found is None:
            self.found = code_names.find_definitions(self.code, self.language, self.space)
        return self.found

    def names(self) -> set[str]:
        """Return the names that the code probably defines, found without parsing it."""
        pattern = DEFINED_NAME_PATTERNS[self.language]
        return {name for match in pattern.finditer(self.code) for name in match.groups() if name}


@dataclass(slots=True)
class ReplHistory:
    """The code that callers sent over one connection to a REPL, in order."""

    generation: int
    submissions: deque[Submission] = field(default_factory=deque)
    characters: int = 0
    callers: set[tuple[str | None, str]] = field(default_factory=set)
    """The first three callers that sent code, which are enough to know whether there is more than one."""
    glanced: int = 0
    """The number of the newest submission whose names have been extracted."""
    by_name: dict[str, list[Submission]] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    """The imports of each namespace, needed to resolve names from other namespaces in the namespace's code."""

    modules: set[str] = field(default_factory=set)
    """The Python modules that were loaded as files, named by their paths in the workspace."""

    def loaded_module(self, name: str) -> str:
        """Return the full name of the loaded module whose name ends with `name`, or `name` itself."""
        for module in self.modules:
            if module.endswith(f".{name}"):
                return module
        return name

    based: int = 0
    """The number of the newest submission whose namespaces have been looked up on disk."""
    bases: dict[str, Submission | None] = field(default_factory=dict)
    """The first submission in each namespace, or None once the namespace's original code has been added."""

    def add_original(self, base: Submission) -> None:
        """Add the code that a namespace had on disk before any caller sent code for it."""
        self.index_new_names()
        self.submissions.appendleft(base)
        self.characters += len(base.code)
        for name in base.names():
            self.by_name.setdefault(name, []).insert(0, base)
        if head := code_names.import_statements(base.code, base.language):
            self.headers[base.space] = f"{head}\n{self.headers.get(base.space, '')}"[-MAX_NAMESPACE_HEADER_CHARACTERS:]

    def add(self, submission: Submission) -> None:
        """Add a submission. Drop the oldest ones if there are too many or they are too long."""
        self.submissions.append(submission)
        if len(self.callers) <= 2:
            self.callers.add((submission.client, submission.who))
        self.characters += len(submission.code)
        while len(self.submissions) > MAX_SUBMISSIONS or self.characters > MAX_CODE_CHARACTERS:
            oldest = self.submissions.popleft()
            self.characters -= len(oldest.code)
            for name in oldest.names() if oldest.number <= self.glanced else ():
                self.by_name[name] = [other for other in self.by_name.get(name, ()) if other is not oldest]

    def index_new_names(self) -> None:
        """Index the names in the submissions added since the last call."""
        unread = [*takewhile(lambda other: other.number > self.glanced, reversed(self.submissions))]
        for submission in reversed(unread):
            self.glanced = submission.number
            for name in submission.names():
                known = self.by_name.setdefault(name, [])
                known.append(submission)
                del known[: len(known) - MAX_SUBMISSIONS_PER_NAME]
            if head := code_names.import_statements(submission.code, submission.language):
                named = None if submission.language == "python" else NS_FORM_NAME.search(head)
                space = named[1] if named else submission.space
                self.headers[space] = f"{self.headers.get(space, '')}\n{head}"[-MAX_NAMESPACE_HEADER_CHARACTERS:]


@dataclass(slots=True)
class Conflicts:
    """The code that callers sent to each REPL, and the conflicts that have already been reported to callers."""

    histories: dict[str, ReplHistory] = field(default_factory=dict)
    reported: DeliveredNotes = field(default_factory=DeliveredNotes)
    """The conflicts that each caller has been notified of, by their keys."""

    def history(self, repl: Repl) -> ReplHistory:
        """Return the history of the current connection to a REPL, or of the next one while it is connecting."""
        generation = repl.generation + (repl.profile is None)
        known = self.histories.get(repl.id)
        if known is None or known.generation != generation:
            known = self.histories[repl.id] = ReplHistory(generation)
        return known


@dataclass(frozen=True, slots=True)
class Conflict:
    """A conflict between a submission and a definition by another caller.

    The submission's caller uses this definition, or replaces it with `text`. `before` is the text that the definition
    itself had replaced.
    """

    evaluation: str
    who: str
    at_ms: int
    name: str
    made: str
    before: str | None = None
    text: str | None = None
    location: str = ""
    """The file of a definition that was written but not evaluated."""

    @property
    def key(self) -> tuple[object, ...]:
        """Return a key that identifies the conflict for notifications.

        The key changes when a caller first uses a name and later replaces it, so the caller is notified of both.
        """
        return self.evaluation or self.at_ms, self.location, self.name, self.text is not None

    def description(self, now: int) -> str:
        """Return a sentence that describes the conflict."""
        age = format_elapsed(now - self.at_ms)
        what = f"eval {self.evaluation}" if self.evaluation else self.location
        change = code_names.short_difference(self.before, self.made) if self.before is not None else ""
        verb = "redefined" if self.before is not None or self.text is None else "defined"
        words = f"{self.who} {verb} `{self.name}` {age} ago ({what}{', ' + change if change else ''})"
        if self.text is None:
            return words
        return f"{words}, and this code replaces it:\n{code_names.line_diff(self.made, self.text)}"


def find_conflicts(state: State, history: ReplHistory, submission: Submission) -> list[Conflict]:
    """Return the conflicts of a submission with earlier submissions by other callers, newest first."""
    history.index_new_names()
    met: list[Conflict] = []
    for name in code_names.possible_names(submission.code, submission.language) & history.by_name.keys():
        earlier = [
            other
            for other in history.by_name[name]
            if other.number < submission.number and other.language == submission.language
        ]
        if all(is_same_caller(state, submission, other) for other in earlier):
            continue
        chains: dict[str, list[tuple[Submission, NameDefinition]]] = {}
        for other in earlier:
            for making in other.definitions() if _is_effective(state, other) else ():
                if making.name == name:
                    chains.setdefault(making.space, []).append((other, making))
        for chain in chains.values():
            met += _conflicts_about_name(state, history, submission, chain)
    return sorted(met, key=lambda conflict: (conflict.at_ms, conflict.name), reverse=True)


def _conflicts_about_name(
    state: State, history: ReplHistory, submission: Submission, chain: list[tuple[Submission, NameDefinition]]
) -> Iterator[Conflict]:
    """Yield the conflicts about one name. `chain` contains its definitions, in order."""
    last, definition = chain[-1]
    theirs = [*takewhile(lambda other: not is_same_caller(state, submission, other[0]), reversed(chain))]
    if not theirs:
        return
    position = len(chain) - len(theirs)
    if definition.retains_value and len(chain) > 1:
        return  # the definition was reverted
    first = max(position - 1, 0)
    before = chain[first][1] if first < len(chain) - 1 else None
    is_changed = before is not None and before.form != definition.form
    common = (last.evaluation, last.who, last.at_ms, _qualified_name(submission, definition), definition.text)
    conflict = partial(Conflict, *common, location=last.location)
    mine = next(
        (
            making
            for making in reversed(submission.definitions())
            if (making.space, making.name) == (definition.space, definition.name)
        ),
        None,
    )
    if mine is not None:
        if mine.form != definition.form and not mine.retains_value and (is_changed or not last.is_file):
            yield conflict(before.text if before is not None and is_changed else None, mine.text)
        return
    if before is not None and not is_changed:
        return
    if before is None and definition.is_dotted:
        return  # the object whose attribute is assigned is unknown
    if before is None and (last.is_file or not _has_used_before(state, history, submission, last, definition)):
        return
    client = state.clients.get(submission.client or "")
    if client is not None and client.since >= last.number:
        return  # a caller that joined later never saw the old definition
    if _uses_definition(history, submission, definition):
        yield conflict(before.text if before else "")


def _has_used_before(
    state: State, history: ReplHistory, submission: Submission, last: Submission, definition: NameDefinition
) -> bool:
    """Return whether the caller used a name before another caller first defined it.

    If so, the name already existed, and the other caller has replaced it.
    """
    earlier = (other for other in history.submissions if other.number < last.number and definition.name in other.code)
    same_caller = (
        other for other in earlier if is_same_caller(state, submission, other) and _is_effective(state, other)
    )
    return any(_uses_definition(history, other, definition) for other in islice(same_caller, MAX_SUBMISSIONS_PER_NAME))


def _uses_definition(history: ReplHistory, submission: Submission, definition: NameDefinition) -> bool:
    name, known = (definition.space, definition.name), submission.head or history.headers.get(submission.space, "")
    return code_names.uses_name(submission.code, submission.language, submission.space, name, known=known)


def is_same_caller(state: State, submission: Submission, other: Submission) -> bool:
    """Return whether two submissions are from the same caller, even if the caller has reconnected since."""
    is_back = other.who == submission.who and other.client not in state.clients
    return is_back or caller_names.is_by_caller(state, submission.client, submission.who, (other.client, other.who))


def _is_effective(state: State, submission: Submission) -> bool:
    """Return whether a submission's code has run or is running, in which case its definitions took effect."""
    evaluation = state.evaluations.get(submission.evaluation)
    return evaluation is None or evaluation.status in ("done", "running", "needs-input")


def _qualified_name(submission: Submission, definition: NameDefinition) -> str:
    if submission.language == "lisp":
        return f"{definition.space}/{definition.name}"
    return definition.name if definition.space in ("__main__", "Hy") else f"{definition.space}.{definition.name}"


def format_elapsed(ms: int) -> str:
    """Format a duration in milliseconds as text, such as "3 min"."""
    seconds = max(0, ms) // 1000
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"
