"""Drift of Lisp: the definitions that a REPL has loaded beside those in the files, compared by their forms.

A REPL keeps no forms. A var's form is known from the evaluation that made the var, as the log has it, or from the var's
file, if that was not written since a time at which the var was still different. Every other form counts, and is told,
as unknown.

The ledger of definitions is computed from evaluations in their order: the last evaluated form of each name, its caller,
and its evaluation. Evaluations that left the log before are not known to the ledger. An evaluation that failed or was
interrupted may have made its definitions up to its end: those are not `is_sure`.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import anyio

from codriver.repls.contract.questions import Difference
from codriver_lisp.definitions import (
    EXTENDING,
    NO_ALIASES,
    NS_FORM,
    ONCE,
    REBINDING,
    WITHOUT_VARS,
    defines_within,
    read_definitions,
)
from codriver_lisp.errors import TooManyFormsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from codriver.files import Stamp
    from codriver.repls.contract.questions import DriftKind, Loaded, LoadedNamespace, LoadedVar
    from codriver_lisp.definitions import Aliases, Definition, Definitions


KEPT: Final = 20
"""The number of remembered makings of one name: the first, and the newest."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One evaluation of Lisp, as the log has it. `number` rises with each.

    `namespace` is the namespace at its begin. `file`: the file as which the code was loaded. `is_whole`: the text is
    that of the file, and lines are its lines. `forms`, or `before_line`: how far a failed evaluation came.
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
    """One making of a definition: the definition, and its evaluation. The text is not kept."""

    definition: Definition
    number: int
    evaluation: str
    who: str
    at_ms: int
    file: str
    is_whole: bool
    is_sure: bool


class Ledger:
    """The ledger of one life of a REPL: a new process has none of the former one's definitions.

    `once`: the words of its dialect that define nothing if the name is defined already, the second one only if the name
    was defined by the same word.
    """

    def __init__(self, features: Sequence[str] = ("clj",), once: Sequence[str] = ONCE) -> None:
        self._features = features
        self.once = once
        self._made: dict[tuple[str, str], list[Made]] = {}
        self._aliases: Aliases = NO_ALIASES

    def take(self, evaluated: Evaluated) -> tuple[Made, ...]:
        """Enter a finished evaluation: its makings, in order."""
        try:
            read = read_definitions(evaluated.text, evaluated.namespace, self._features, self._aliases)
        except TooManyFormsError:
            return ()
        self._aliases = read.aliases
        for one in read.ns_forms if evaluated.is_done or evaluated.forms else ():
            self._add((one.namespace, one.name), _made_by(evaluated, one, is_sure=True))
        made = tuple(self._enter(evaluated, read))
        return tuple(one for one in made if not one.definition.is_undoing)

    def _enter(self, evaluated: Evaluated, read: Definitions) -> Iterator[Made]:
        sure = _sure(evaluated, read)
        for place, one in enumerate(read.found):
            made = _made_by(evaluated, one, is_sure=place < sure)
            if one.is_undoing:
                self._undo(one)
            else:
                for name in {one.name, *one.makes}:
                    self._add((one.namespace, name), made)
                there = one.foreign
                if there is not None and not evaluated.file:  # the methods in a file are of that file's namespace
                    own = replace(one, digest=there.digest, foreign=None)
                    self._add((there.namespace, there.name), replace(made, definition=own))
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
        """Return the makings of a name since it was last undone, in order: the first, and the newest."""
        return tuple(self._made.get((namespace, name), ()))

    def methods(self, namespace: str) -> list[tuple[str, Made]]:
        """The newest making of each method, of a multimethod or of a protocol, that was given in a namespace.

        A protocol that was defined since is a new one, without these methods.
        """
        found = [(name, made[-1]) for (space, name), made in self._made.items() if space == namespace and made]
        newest = {name: made.number for name, made in found if made.definition.head == "defprotocol"}
        methods = [(name, made) for name, made in found if made.definition.head in EXTENDING]
        return [(name, made) for name, made in methods if newest.get(_protocol(name, made), 0) <= made.number]

    def living(self, namespace: str, name: str) -> Made | None:
        """The living making of a name, if all were sure and known: for `defonce` and `defmulti` not the last one."""
        living: Made | None = None
        for made in self.makings(namespace, name):
            head = made.definition.head
            is_kept = living is not None and head in self.once and head in ("defonce", living.definition.head)
            living = living if is_kept else made
        return living


def _made_by(evaluated: Evaluated, one: Definition, *, is_sure: bool) -> Made:
    """Return the making of a definition by an evaluation."""
    return Made(
        one,
        evaluated.number,
        evaluated.evaluation,
        evaluated.who,
        evaluated.at_ms,
        evaluated.file,
        evaluated.is_whole,
        is_sure=is_sure,
    )


def _protocol(name: str, made: Made) -> str:
    """Return the protocol that a method extends; blank for a multimethod's method."""
    return name.rpartition(" ")[2] if made.definition.head.startswith("extend") else ""


def _sure(evaluated: Evaluated, read: Definitions) -> int:
    """Return the number of definitions that were surely made."""
    if evaluated.is_done:
        return len(read.found)
    if evaluated.forms is not None:
        return read.ends[min(evaluated.forms, len(read.ends)) - 1] if evaluated.forms > 0 and read.ends else 0
    if evaluated.before_line is not None:
        # The last definition before the line may be the failing one.
        return max(0, sum(one.line <= evaluated.before_line for one in read.found) - 1)
    return 0


REBOUND: Final = b"rebound"
"""In place of the digest of a form that nobody saw."""
REBINDS: Final = re.compile(r"alter-var-root|\(intern\b|bindRoot|with-redefs")
NO_VAR: Final = ("", None, "", "")
NOTHING: Final[Mapping[str, DriftKind]] = MappingProxyType({})
SLACK_MS: Final = 20
"""How far a file's time, which the kernel takes from its last tick, may be off."""


@dataclass(frozen=True, slots=True)
class Source:
    """The present state of a file: its definitions, and its time of writing, in epoch milliseconds.

    `text` reads the file once more, as its text is not kept; it blocks.
    """

    path: str
    stamp: Stamp
    definitions: Definitions
    text: Callable[[], str]

    @property
    def written_ms(self) -> int:
        """Return the time at which the file was written, or became another file."""
        return max(self.stamp[:2]) // 1_000_000


@dataclass(frozen=True, slots=True)
class _Known:
    """The digest of the form that a var has, None if unknown; it holds as long as `var` stays the same."""

    var: tuple[str, int | None, str, str]
    """The var's file, line, root and stamp."""
    digest: bytes | None
    made: Made | None
    number: int
    """The number of the newest evaluation in the log that is taken into account."""


@dataclass(slots=True)
class _Space:
    """The last comparison of one namespace: the sources compared and the differences found."""

    loaded: LoadedNamespace
    sources: tuple[Source, ...] = ()
    number: int = -1
    rows: tuple[Difference, ...] = ()


@dataclass
class LispDrift:
    """The drift of one life of a REPL, asked again and again.

    `number` is that of the last evaluation in the ledger, `line` the last line of the log that was seen; `waiting` are
    the earlier lines whose evaluations were unfinished.
    """

    ledger: Ledger = field(default_factory=Ledger)
    generation: int = 0
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    """The lock held while comparing, as each comparison builds on the one before."""
    number: int = 0
    line: int = 0
    waiting: set[int] = field(default_factory=set)
    _spaces: dict[str, _Space] = field(default_factory=dict)
    _marks: dict[str, tuple[str, bool]] = field(default_factory=dict)
    _known: dict[tuple[str, str], _Known] = field(default_factory=dict)
    _asked_ms: int = 0
    _seen: dict[str, Stamp | None] = field(default_factory=dict)
    """The stamps of files at the last look whether one was written."""

    @property
    def marks(self) -> Mapping[str, tuple[str, bool]]:
        """Return the namespaces that are known, for `Adapter.loaded`."""
        return self._marks

    def files(self, loaded: Loaded) -> set[str]:
        """Return the files of all namespaces, the newly told ones among them."""
        kept = [space.loaded for space in self._spaces.values()]
        return {file for namespace in (*kept, *loaded.changed) for file in namespace.files}

    def home_files(self) -> set[str]:
        """Return the known files of all loaded namespaces."""
        return {file for space in self._spaces.values() for file in space.loaded.files}

    def is_written(self, stamps: Mapping[str, Stamp | None]) -> bool:
        """True if one of these files, by their present stamps, was written since it was last compared or looked at."""
        compared = {source.path: source.stamp for space in self._spaces.values() for source in space.sources}
        known = {**compared, **self._seen}
        self._seen = dict(stamps)
        return any(file in known and known[file] != stamp for file, stamp in stamps.items())

    def last(self) -> Iterator[Difference]:
        """Yield the differences from files that the last comparison found."""
        for space in self._spaces.values():
            yield from space.rows

    def dependents(self, namespace: str) -> list[tuple[str, str]]:
        """The namespaces that require another, directly or not, each with its file and behind the ones it requires."""
        homes = {
            name: source
            for name, space in self._spaces.items()
            for source in space.sources
            if source.definitions.namespace == name
        }
        requires = {name: set(source.definitions.requires) for name, source in homes.items()}
        found: set[str] = set()
        waiting = [namespace]
        while waiting:
            now = waiting.pop()
            new = {name for name, required in requires.items() if now in required and name != namespace} - found
            found |= new
            waiting += new
        ordered: list[tuple[str, str]] = []
        left = sorted(found)
        while left:
            # Namespaces that require one another, which no REPL would load, keep their order.
            name = next((one for one in left if not requires[one] & (set(left) - {one})), left[0])
            left.remove(name)
            ordered.append((name, homes[name].path))
        return ordered

    def compare(
        self, loaded: Loaded, sources: Mapping[str, Source], asked_ms: int, broken: Mapping[str, DriftKind] = NOTHING
    ) -> tuple[Difference, ...]:
        """Return the differences of the code loaded at `asked_ms` from the files as they are read.

        `broken`: the files that are missing, or cannot be read as Lisp any more.
        """
        floor_ms = (self._asked_ms or loaded.began_ms) - SLACK_MS
        self._take(loaded)
        rows: list[Difference] = []
        for name in sorted(self._spaces):
            space = self._spaces[name]
            now = tuple(sources[file] for file in space.loaded.files if file in sources)
            if len(now) < len(space.loaded.files):
                # Nothing can be said of its definitions.
                space.rows, space.number = (), -1
                told = {file: broken[file] for file in space.loaded.files if file in broken}
                rows += [Difference(name, PurePath(file).name, kind, joint="/") for file, kind in told.items()]
                continue
            if space.number != self.number or space.sources != now:
                space.rows = tuple(_Comparison(self, space.loaded, now, floor_ms).rows())
                space.sources, space.number = now, self.number
            rows += space.rows
        self._asked_ms = asked_ms
        for one in loaded.lives_on:
            joint = "." if one.kind == "instances" else "/"
            rows.append(Difference(one.module, one.name, one.kind, of=one.of, joint=joint))
        return tuple(rows)

    def _take(self, loaded: Loaded) -> None:
        """Enter the changed namespaces, and forget the missing ones."""
        for one in loaded.changed:
            self._marks[one.name] = one.mark, bool(one.files)
            if one.files:
                self._spaces[one.name] = _Space(one)
        for name in self._marks.keys() - loaded.names:
            del self._marks[name]
            self._spaces.pop(name, None)

    def known(self, key: tuple[str, str]) -> _Known | None:
        """Return the state of a definition at the last look at it."""
        return self._known.get(key)

    def without_vars(self, namespace: str) -> list[tuple[str, _Known]]:
        """Return the known definitions of a namespace that no var stands for, by name."""
        return [
            (name, known) for (space, name), known in self._known.items() if space == namespace and known.var == NO_VAR
        ]

    def is_known(self, namespace: str, home: str) -> bool:
        """Return true if another namespace than `home` has files, from which its methods are known."""
        return namespace != home and namespace in self._spaces

    def keep(self, key: tuple[str, str], known: _Known) -> None:
        """Keep this state of a definition from now on."""
        self._known[key] = known


@dataclass
class LispKnown:
    """The knowledge of Lisp, for the life of one server: files as last read, and the drift of each REPL."""

    read: dict[tuple[str, tuple[str, ...]], Source] = field(default_factory=dict)
    """By path and by the features that the file was read for."""
    drifts: dict[str, LispDrift] = field(default_factory=dict)
    """By the REPL's id; of its present generation, or an earlier one that is over."""


class _Comparison:
    """One namespace beside its files."""

    def __init__(self, drift: LispDrift, loaded: LoadedNamespace, sources: Sequence[Source], floor_ms: int) -> None:
        self._drift = drift
        self._loaded = loaded
        self._sources = sources
        self._floor_ms = floor_ms
        self._vars = {one.name: one for one in loaded.vars}
        self._written: dict[str, list[tuple[Definition, Source]]] = {}
        for source in sources:
            for one in source.definitions.found:
                if one.namespace == loaded.name and not one.is_undoing:
                    self._written.setdefault(one.name, []).append((one, source))
        self._is_loaded_unseen = False

    def rows(self) -> Iterator[Difference]:
        """Yield a row for each difference."""
        made = {name for found in self._written.values() for one, _ in found for name in one.makes}
        methods = []
        for name, found in self._written.items():
            live = [self._vars[var] for one, _ in found for var in one.makes if var in self._vars]
            if found[0][0].head in WITHOUT_VARS:
                methods.append(name)
            elif live:
                yield from self._judged(name, live[0], found)
            elif found[0][0].is_sure and found[0][0].makes:
                yield self._row(name, "missing")
        for name in methods:
            yield from self._of_method(name, self._written[name])
        yield from self._of_removed_methods()
        if own := [(one, source) for source in self._sources for one in self._ns_forms(source)]:
            yield from self._of_method(NS_FORM, own[:1])
        for name, method in self._drift.ledger.methods(self._loaded.name):
            is_told = name not in self._written and not method.file and method.definition.head != "remove-method"
            if is_told and not self._drift.is_known(method.definition.namespace, self._loaded.name):
                yield self._row(name, "gone", method, evaluated=True)
        for name in sorted(self._vars.keys() - made - self._written.keys()):
            yield from self._of_unwritten(self._vars[name])

    def _judged(self, name: str, var: LoadedVar, found: Sequence[tuple[Definition, Source]]) -> Iterator[Difference]:
        is_once = all(one.head in self._drift.ledger.once for one, _ in found)
        known = self._find(name, var, found, is_once=is_once)
        self._drift.keep((self._loaded.name, name), known)
        if known.digest in {one.digest for one, _ in found}:
            return
        if known.digest is None:
            if not is_once:
                yield self._row(name, "unknown")
        elif is_once:
            yield self._row(name, "kept")
        elif var.file and known.digest != REBOUND and (known.made is None or known.made.file):
            yield self._row(name, "edited")
        else:
            yield self._row(name, "redefined", known.made, evaluated=True)

    def _find(self, name: str, var: LoadedVar, found: Sequence[tuple[Definition, Source]], *, is_once: bool) -> _Known:
        """Return the form that a var has, from the newest evidence."""
        key = self._loaded.name, name
        old = self._drift.known(key)
        if old is not None and all(one.head == "defprotocol" for one, _ in found) and old.var[3] == var.stamp:
            old = replace(old, var=_state(var))  # an extended protocol's var gets another root
        is_same = old is not None and (old.var[2] == var.root if is_once else old.var == _state(var))
        if is_once and old is not None and is_same:
            return old
        if (again := self._rebound(name, var, found, old)) is not None:
            return again
        made = self._drift.ledger.living(*key) if is_once else self._making(name, var)
        # A making older than the last look was known then, and is not the cause of a later change.
        made = made if made is not None and (old is None or made.number > old.number) else None
        if made is not None:
            if made.is_sure:
                return self._now(var, made.definition.digest, made)
            if not is_same:
                return self._now(var, None, made)
        if old is not None and is_same:
            return old
        if var.file:
            self._is_loaded_unseen = True
            for one, source in found:
                if source.path == var.file and source.written_ms < self._floor_ms:
                    return self._now(var, one.digest, None)
        return self._now(var, None, made)

    def _rebound(
        self, name: str, var: LoadedVar, found: Sequence[tuple[Definition, Source]], old: _Known | None
    ) -> _Known | None:
        """Return the state of a var with a new root that no definition gave it: its metadata are the same."""
        makings = self._drift.ledger.makings(self._loaded.name, name)
        made = makings[-1] if makings and makings[-1].definition.head in REBINDING else None
        if made is not None and (old is None or made.number > old.number):
            return self._now(var, made.definition.digest, made)
        is_as_defined = old is not None and old.var[3] == var.stamp and old.var[0] == var.file
        if old is None or not is_as_defined or not var.stamp or old.var[2] == var.root or old.digest is None:
            return None
        if any(REBINDS.search(source.text()) for _, source in found):
            return replace(old, var=_state(var))  # the file's own code may do it
        return self._now(var, REBOUND, None)

    def _now(self, var: LoadedVar, digest: bytes | None, made: Made | None) -> _Known:
        return _Known(_state(var), digest, made, self._drift.number)

    def _making(self, name: str, var: LoadedVar) -> Made | None:
        """Return the evaluation that made a var, by the file and line that the var has."""
        for made in reversed(self._drift.ledger.makings(self._loaded.name, name)):
            is_placed = var.line in (None, made.definition.line) or not (made.is_whole or not made.file)
            if is_placed and made.file == var.file:
                return made
        return None

    def _of_method(self, name: str, found: Sequence[tuple[Definition, Source]]) -> Iterator[Difference]:
        """Yield changed methods, which have no var and so are known only from code that was seen."""
        key = self._loaded.name, name
        old = self._drift.known(key)
        makings = self._drift.ledger.makings(*key)
        if name == NS_FORM:
            # Evaluated by itself, such a form often only enters the namespace, and takes nothing away from it.
            digests = {one.digest for one, _ in found}
            makings = tuple(one for one in makings if one.file or one.definition.digest in digests)
        made = makings[-1] if makings else None
        is_newer = made is not None and not made.file and (old is None or made.number > old.number)
        if not is_newer and (self._is_loaded_unseen or not self._loaded.vars):
            one, source = found[0]
            digest = one.digest if source.written_ms < self._floor_ms else None
            known = _Known(NO_VAR, digest, None, self._drift.number)
        elif made is not None and (old is None or made.number > old.number):
            known = _Known(NO_VAR, made.definition.digest if made.is_sure else None, made, self._drift.number)
        elif old is None:
            return
        else:
            known = old
        self._drift.keep(key, known)
        if known.digest is not None and known.digest not in {one.digest for one, _ in found}:
            is_evaluated = known.made is not None and not known.made.file and name != NS_FORM
            yield self._row(name, "redefined" if is_evaluated else "edited", known.made if is_evaluated else None)

    def _of_removed_methods(self) -> Iterator[Difference]:
        """Yield the methods, types of protocols and interfaces that a file gave, and has no more."""
        ledger = self._drift.ledger
        for name, known in self._drift.without_vars(self._loaded.name):
            makings = ledger.makings(self._loaded.name, name)
            is_undone = bool(makings) and makings[-1].definition.head == "remove-method"
            protocol = ledger.makings(self._loaded.name, name.rpartition(" ")[2]) if name.startswith("extend") else ()
            is_lost = bool(protocol) and protocol[-1].number > known.number  # the protocol is a new one
            is_evaluated = known.made is not None and not known.made.file
            if not (name in self._written or name == NS_FORM or is_undone or is_lost or is_evaluated):
                yield self._row(name, "gone")

    def _of_unwritten(self, var: LoadedVar) -> Iterator[Difference]:
        """A var that no definition in the files makes: only in the REPL, unless a macro may have made it."""
        made = self._making(var.name, var)
        if not var.file:
            if var.line is not None or made is not None:
                yield self._row(var.name, "gone", made, evaluated=True)
            return
        source = next((one for one in self._sources if one.path == var.file), None)
        if source is None:
            return
        unknown, known = source.definitions.unknown, self._drift.known((self._loaded.name, var.name))
        if made is not None or known is not None:
            is_made_otherwise = any(form.defines(var.name) for form in unknown)
        else:
            # Nobody saw the form that made the var. It may have been a macro's, or one within a function.
            is_made_otherwise = (
                var.name in source.definitions.declared
                or any(form.may_define(var.name) for form in unknown)
                or self._is_at_unknown_form(var, source)
                or defines_within(source.text(), var.name)
            )
        if not is_made_otherwise:
            yield self._row(var.name, "gone")

    def _is_at_unknown_form(self, var: LoadedVar, source: Source) -> bool:
        """Return whether an unknown form of the file may have been at the var's line when it was loaded.

        The lines in between may have moved since, as far as those of the next definitions before and behind it did.
        """
        if var.line is None:
            return bool(source.definitions.unknown)
        moves = [
            (one.line, one.line - there)
            for one in source.definitions.found
            for name in one.makes[:1]
            if (there := self._line_of(name)) is not None
        ]
        for form in source.definitions.unknown:
            before = [move for line, move in moves if line < form.line][-1:]
            behind = [move for line, move in moves if line > form.last_line][:1]
            if any(form.line <= var.line + move <= form.last_line for move in (*before, *behind, 0)):
                return True
        return False

    def _line_of(self, name: str) -> int | None:
        var = self._vars.get(name)
        return var.line if var is not None else None

    def _ns_forms(self, source: Source) -> Iterator[Definition]:
        return (one for one in source.definitions.ns_forms if one.namespace == self._loaded.name)

    def _row(self, name: str, kind: DriftKind, made: Made | None = None, *, evaluated: bool = False) -> Difference:
        at = time.strftime("%H:%M:%S", time.localtime(made.at_ms / 1000)) if made is not None else ""
        by = f"{made.who}, {made.evaluation}, {at}" if made is not None else ""
        return Difference(self._loaded.name, name, kind, evaluated, by=by, joint="/")


def _state(var: LoadedVar) -> tuple[str, int | None, str, str]:
    return var.file, var.line, var.root, var.stamp
