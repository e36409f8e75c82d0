"""The ledger of conflicts: each caller's code sent to a REPL or written to a file, and the names on which two meet.

As long as one caller works alone, code is kept and not looked at. With a second caller the names in it are found by a
glance, and code is parsed once it mentions a name of another caller's.
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
from codriver.tools.ledgers.delivered_notes import NotesTold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codriver.core.state import Repl, State
    from codriver.editing.code_names import Language, Making

MOST_KEPT: Final = 1000
"""Evaluations of one REPL that are looked through."""
MOST_CHARACTERS: Final = 4 * 2**20
"""The length of all code kept of one REPL, the newest; and of the longest code that is parsed."""
MOST_OF_NAME: Final = 8
HEADER_CHARACTERS: Final = 2**13
DEFINES: Final = {
    "lisp": re.compile(
        r"\((?:[^\s()/]+/)?def[^\s()]*\s+(?:\^\S+\s+)*([^\s()\[\]{}\"';,@^`~]+)"
        r"|\((?:alter-var-root\s+(?:#'|\(var\s+)|intern\s+\S+\s+'?)(?:[^\s()/]+/)?([^\s()\[\]{}\"';,@^`~/]+)"
    ),
    "hy": re.compile(r"\((?:def[^\s()]*|setv)\s+(?:\[[^\]]*\]\s+)?([^\s()\[\]{}\"';,@^`~]+)"),
    "python": re.compile(
        r"^(?:async\s+)?(?:def|class)\s+(\w+)|^(?:[\w.]+\.)?(\w+)\s*(?::[^=\n]+)?=(?!=)", re.MULTILINE
    ),
}
"""The words that may define a name, at a glance."""
NAMES_SPACE: Final = re.compile(r"\(ns\s+(?:\^\S+\s+)*([^\s()\[\]{}\"';,@^`~]+)")


@dataclass(slots=True, eq=False)
class Said:
    """One piece of code that a caller sent, or wrote to a file."""

    evaluation: str
    number: int
    who: str
    client: str | None
    at_ms: int
    code: str
    language: Language
    space: str
    is_file: bool = False
    """Whether a whole file was loaded: its first load is nobody's change."""
    head: str = ""
    """The imports of the code's file: the names by which the code, only a part of the file, knows other spaces."""
    place: str = ""
    """The file of a definition that was written and not evaluated, in words."""
    found: tuple[Making, ...] | None = None
    is_compared: bool = False
    """True once an answer told of the code's conflicts with the code of others."""

    def makings(self) -> tuple[Making, ...]:
        """The names that the code makes; read once."""
        if self.found is None:
            self.found = code_names.makings(self.code, self.language, self.space)
        return self.found

    def names(self) -> set[str]:
        """The names that the code may make, at a glance."""
        pattern = DEFINES[self.language]
        return {name for match in pattern.finditer(self.code) for name in match.groups() if name}


@dataclass(slots=True)
class Life:
    """One life of a REPL: the code sent to it, in order."""

    generation: int
    said: deque[Said] = field(default_factory=deque)
    characters: int = 0
    callers: set[tuple[str | None, str]] = field(default_factory=set)
    """The callers that sent code, the first three: enough to tell that there is more than one."""
    glanced: int = 0
    """The number of the newest code whose names are known."""
    by_name: dict[str, list[Said]] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    """By space: its imports, by which its code knows the names of other spaces."""

    modules: set[str] = field(default_factory=set)
    """The modules of Python that were loaded as files, by their paths in the workspace."""

    def module(self, name: str) -> str:
        """The loaded module whose path in the workspace ends in this name, else the name itself."""
        for module in self.modules:
            if module.endswith(f".{name}"):
                return module
        return name

    based: int = 0
    """The number of the newest code whose spaces were looked for."""
    bases: dict[str, Said | None] = field(default_factory=dict)
    """By space its first code of this life; None once the former code of the space is known."""

    def begin_with(self, base: Said) -> None:
        """Note the code that a space had by an import, before anybody sent any for it."""
        self.glance()
        self.said.appendleft(base)
        self.characters += len(base.code)
        for name in base.names():
            self.by_name.setdefault(name, []).insert(0, base)
        if head := code_names.header(base.code, base.language):
            self.headers[base.space] = f"{head}\n{self.headers.get(base.space, '')}"[-HEADER_CHARACTERS:]

    def add(self, said: Said) -> None:
        """Keep a piece of code, and forget the oldest ones beyond the limits."""
        self.said.append(said)
        if len(self.callers) <= 2:
            self.callers.add((said.client, said.who))
        self.characters += len(said.code)
        while len(self.said) > MOST_KEPT or self.characters > MOST_CHARACTERS:
            oldest = self.said.popleft()
            self.characters -= len(oldest.code)
            for name in oldest.names() if oldest.number <= self.glanced else ():
                self.by_name[name] = [one for one in self.by_name.get(name, ()) if one is not oldest]

    def glance(self) -> None:
        """Find the names in all code that was sent since the last glance."""
        news = [*takewhile(lambda one: one.number > self.glanced, reversed(self.said))]
        for said in reversed(news):
            self.glanced = said.number
            for name in said.names():
                known = self.by_name.setdefault(name, [])
                known.append(said)
                del known[: len(known) - MOST_OF_NAME]
            if head := code_names.header(said.code, said.language):
                named = None if said.language == "python" else NAMES_SPACE.search(head)
                space = named[1] if named else said.space
                self.headers[space] = f"{self.headers.get(space, '')}\n{head}"[-HEADER_CHARACTERS:]


@dataclass(slots=True)
class Conflicts:
    """The ledger of the code that callers sent to the REPLs of one server, for its life."""

    lives: dict[str, Life] = field(default_factory=dict)
    told: NotesTold = field(default_factory=NotesTold)
    """The conflicts that callers were told of, by their keys."""

    def life(self, repl: Repl) -> Life:
        """The code sent to a REPL since its connection; for a REPL still connecting, the code that waits."""
        generation = repl.generation + (repl.profile is None)
        known = self.lives.get(repl.id)
        if known is None or known.generation != generation:
            known = self.lives[repl.id] = Life(generation)
        return known


@dataclass(frozen=True, slots=True)
class Conflict:
    """A definition of another caller's that somebody uses, or replaces by `text`. `before`: the text it replaced."""

    evaluation: str
    who: str
    at_ms: int
    name: str
    made: str
    before: str | None = None
    text: str | None = None
    place: str = ""
    """The file of a definition that was written and not evaluated."""

    @property
    def key(self) -> tuple[object, ...]:
        """The key of a conflict: a caller is told of each key once, and again of replacing what it only used before."""
        return self.evaluation or self.at_ms, self.place, self.name, self.text is not None

    def told(self, now: int) -> str:
        """The conflict in words."""
        age = ago(now - self.at_ms)
        what = f"eval {self.evaluation}" if self.evaluation else self.place
        change = code_names.delta(self.before, self.made) if self.before is not None else ""
        verb = "redefined" if self.before is not None or self.text is None else "defined"
        words = f"{self.who} {verb} `{self.name}` {age} ago ({what}{', ' + change if change else ''})"
        if self.text is None:
            return words
        return f"{words}, and this replaces it:\n{code_names.diff(self.made, self.text)}"


def found(state: State, life: Life, said: Said) -> list[Conflict]:
    """The conflicts of a piece of code with earlier code of others."""
    life.glance()
    met: list[Conflict] = []
    for name in code_names.words(said.code, said.language) & life.by_name.keys():
        earlier = [one for one in life.by_name[name] if one.number < said.number and one.language == said.language]
        if all(is_own(state, said, one) for one in earlier):
            continue
        chains: dict[str, list[tuple[Said, Making]]] = {}
        for one in earlier:
            for making in one.makings() if _counts(state, one) else ():
                if making.name == name:
                    chains.setdefault(making.space, []).append((one, making))
        for chain in chains.values():
            met += _of_chain(state, life, said, chain)
    return sorted(met, key=lambda one: (one.at_ms, one.name), reverse=True)


def _of_chain(state: State, life: Life, said: Said, chain: list[tuple[Said, Making]]) -> Iterator[Conflict]:
    """The conflicts about one name, by its makings in their order."""
    last, made = chain[-1]
    theirs = [*takewhile(lambda one: not is_own(state, said, one[0]), reversed(chain))]
    if not theirs:
        return
    place = len(chain) - len(theirs)
    if made.is_kept and len(chain) > 1:
        return  # the name is as it was before
    first = max(place - 1, 0)
    before = chain[first][1] if first < len(chain) - 1 else None
    is_changed = before is not None and before.form != made.form
    told = (last.evaluation, last.who, last.at_ms, _qualified(said, made), made.text)
    conflict = partial(Conflict, *told, place=last.place)
    mine = next((one for one in reversed(said.makings()) if (one.space, one.name) == (made.space, made.name)), None)
    if mine is not None:
        if mine.form != made.form and not mine.is_kept and (is_changed or not last.is_file):
            yield conflict(before.text if before is not None and is_changed else None, mine.text)
        return
    if before is not None and not is_changed:
        return
    if before is None and made.is_dotted:
        return  # nobody knows of what object it is an attribute
    if before is None and (last.is_file or not _knew(state, life, said, last, made)):
        return
    client = state.clients.get(said.client or "")
    if client is not None and client.since >= last.number:
        return  # a later caller knows nothing else
    if _uses(life, said, made):
        yield conflict(before.text if before else "")


def _knew(state: State, life: Life, said: Said, last: Said, made: Making) -> bool:
    """Whether a caller used a name before another made it, so that the name existed before its first known making."""
    earlier = (one for one in life.said if one.number < last.number and made.name in one.code)
    own = (one for one in earlier if is_own(state, said, one) and _counts(state, one))
    return any(_uses(life, one, made) for one in islice(own, MOST_OF_NAME))


def _uses(life: Life, said: Said, made: Making) -> bool:
    name, known = (made.space, made.name), said.head or life.headers.get(said.space, "")
    return code_names.uses(said.code, said.language, said.space, name, known=known)


def is_own(state: State, said: Said, one: Said) -> bool:
    """Whether two pieces of code are of one caller, also after it connected again."""
    is_back = one.who == said.who and one.client not in state.clients
    return is_back or caller_names.is_by_caller(state, said.client, said.who, (one.client, one.who))


def _counts(state: State, said: Said) -> bool:
    """Whether the code's definitions are there: it has run, or runs."""
    evaluation = state.evaluations.get(said.evaluation)
    return evaluation is None or evaluation.status in ("done", "running", "needs-input")


def _qualified(said: Said, made: Making) -> str:
    if said.language == "lisp":
        return f"{made.space}/{made.name}"
    return made.name if made.space in ("__main__", "Hy") else f"{made.space}.{made.name}"


def ago(ms: int) -> str:
    """The time since something happened, in words."""
    seconds = max(0, ms) // 1000
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"
