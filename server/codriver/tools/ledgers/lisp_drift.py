"""Detect drift in Lisp code: compare loaded definitions with the forms in their files.

A REPL does not retain forms. If an evaluation in the log defined a var, its form is known. If a file was loaded, the
form is known if the file has not been written since a comparison that found another definition. Any other form is
reported as unknown.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import anyio

from codriver.repls.contract.drift import Difference
from codriver.tools.ledgers.definition_history import DefinitionHistory, RecordedDefinition
from codriver_lisp.definitions import (
    NS_FORM_NAME,
    REBINDING_HEADS,
    VARLESS_HEADS,
    defines_within,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from codriver.files import Stamp
    from codriver.repls.contract.drift import DriftKind
    from codriver.repls.contract.loaded_code import LoadedCode, LoadedNamespace, LoadedVar
    from codriver_lisp.definitions import Definition, Definitions


REBOUND_DIGEST: Final = b"rebound"
"""Placeholder for the digest of an unknown form."""
REBINDING_PATTERN: Final = re.compile(r"alter-var-root|\(intern\b|bindRoot|with-redefs")
"""Matches code that may change the root value of a var without defining it."""
NO_VAR_STATE: Final = ("", None, "", "")
"""The state that is recorded for a definition without a var."""
NO_BROKEN_FILES: Final[Mapping[str, DriftKind]] = MappingProxyType({})
"""An empty mapping, for a comparison without broken files."""
TIMESTAMP_SLACK_MS: Final = 20
"""Tolerance for files' modification times, in milliseconds, because the kernel takes them from its last tick."""


@dataclass(frozen=True, slots=True)
class Source:
    """The current definitions in a file, and the file's stamp.

    `text` reads the text of the file again, because the text is not stored. This blocks.
    """

    path: str
    stamp: Stamp
    definitions: Definitions
    text: Callable[[], str]

    @property
    def written_ms(self) -> int:
        """Return the time when the file was last written or replaced, in epoch milliseconds."""
        return max(self.stamp[:2]) // 1_000_000


@dataclass(frozen=True, slots=True)
class _KnownForm:
    """The form with which a var was defined, as a digest, or None if it is unknown.

    It is valid while `var`, the state of the var, stays the same.
    """

    var: tuple[str, int | None, str, str]
    """File, line, root and stamp of the var."""
    digest: bytes | None
    made: RecordedDefinition | None
    number: int
    """Number of the newest evaluation in the log that was considered."""


@dataclass(slots=True)
class _NamespaceComparison:
    """The last comparison of a namespace: its source files at that time, and the differences found."""

    loaded: LoadedNamespace
    sources: tuple[Source, ...] = ()
    number: int = -1
    rows: tuple[Difference, ...] = ()


@dataclass
class LispDrift:
    """Compares the code loaded in one process of a REPL with its files, reusing earlier results.

    - `number` is the number of the last recorded evaluation.
    - `line` is the last processed line of the log.
    - `waiting` contains earlier lines whose evaluations were unfinished.
    """

    ledger: DefinitionHistory = field(default_factory=DefinitionHistory)
    generation: int = 0
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while comparing, because each comparison builds on the previous one."""
    number: int = 0
    line: int = 0
    waiting: set[int] = field(default_factory=set)
    _spaces: dict[str, _NamespaceComparison] = field(default_factory=dict)
    _marks: dict[str, tuple[str, bool]] = field(default_factory=dict)
    _known: dict[tuple[str, str], _KnownForm] = field(default_factory=dict)
    _compared_ms: int = 0
    _seen: dict[str, Stamp | None] = field(default_factory=dict)
    """Files' stamps when they were last checked for changes."""

    @property
    def marks(self) -> Mapping[str, tuple[str, bool]]:
        """Return the mark of each known namespace and whether it has files, for `Adapter.changed_namespaces`."""
        return self._marks

    def files(self, loaded: LoadedCode) -> set[str]:
        """Return the files of all namespaces, including those that the REPL just reported."""
        known_spaces = [space.loaded for space in self._spaces.values()]
        return {file for namespace in (*known_spaces, *loaded.changed) for file in namespace.files}

    def home_files(self) -> set[str]:
        """Return the known files of all loaded namespaces."""
        return {file for space in self._spaces.values() for file in space.loaded.files}

    def is_written(self, stamps: Mapping[str, Stamp | None]) -> bool:
        """Return whether one of the files was written since it was last compared or checked."""
        compared = {source.path: source.stamp for space in self._spaces.values() for source in space.sources}
        known = {**compared, **self._seen}
        self._seen = dict(stamps)
        return any(file in known and known[file] != stamp for file, stamp in stamps.items())

    def last_differences(self) -> Iterator[Difference]:
        """Yield the differences found by the last comparison."""
        for space in self._spaces.values():
            yield from space.rows

    def dependents(self, namespace: str) -> list[tuple[str, str]]:
        """Return the namespaces that depend on `namespace`, directly or indirectly, and their files.

        Each namespace comes after those that it requires.
        """
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
            # Namespaces that require each other, which no REPL could load, keep their order.
            name = next(
                (candidate for candidate in left if not requires[candidate] & (set(left) - {candidate})), left[0]
            )
            left.remove(name)
            ordered.append((name, homes[name].path))
        return ordered

    def compare(
        self,
        loaded: LoadedCode,
        sources: Mapping[str, Source],
        compared_ms: int,
        broken: Mapping[str, DriftKind] = NO_BROKEN_FILES,
    ) -> tuple[Difference, ...]:
        """Compare the code that was loaded at `compared_ms` with the given sources, and return the differences.

        `broken` contains the files that are missing or cannot be read as Lisp.
        """
        floor_ms = (self._compared_ms or loaded.started_ms) - TIMESTAMP_SLACK_MS
        self._update_namespaces(loaded)
        rows: list[Difference] = []
        for name in sorted(self._spaces):
            space = self._spaces[name]
            now = tuple(sources[file] for file in space.loaded.files if file in sources)
            if len(now) < len(space.loaded.files):
                # Nothing is known about its definitions.
                space.rows, space.number = (), -1
                broken_files = {file: broken[file] for file in space.loaded.files if file in broken}
                rows += [Difference(name, PurePath(file).name, kind, joint="/") for file, kind in broken_files.items()]
                continue
            if space.number != self.number or space.sources != now:
                space.rows = tuple(_Comparison(self, space.loaded, now, floor_ms).rows())
                space.sources, space.number = now, self.number
            rows += space.rows
        self._compared_ms = compared_ms
        for live in loaded.lives_on:
            joint = "." if live.kind == "instances" else "/"
            rows.append(Difference(live.module, live.name, live.kind, of=live.of, joint=joint))
        return tuple(rows)

    def _update_namespaces(self, loaded: LoadedCode) -> None:
        """Record changed namespaces and discard namespaces that no longer exist."""
        for namespace in loaded.changed:
            self._marks[namespace.name] = namespace.mark, bool(namespace.files)
            if namespace.files:
                self._spaces[namespace.name] = _NamespaceComparison(namespace)
        for name in self._marks.keys() - loaded.names:
            del self._marks[name]
            self._spaces.pop(name, None)

    def known_definition(self, key: tuple[str, str]) -> _KnownForm | None:
        """Return the result of the last comparison for a definition, or None."""
        return self._known.get(key)

    def definitions_without_vars(self, namespace: str) -> list[tuple[str, _KnownForm]]:
        """Return the names and states of a namespace's known definitions that have no var, such as methods."""
        return [
            (name, known)
            for (space, name), known in self._known.items()
            if space == namespace and known.var == NO_VAR_STATE
        ]

    def is_known(self, namespace: str, home: str) -> bool:
        """Return whether a namespace other than `home` has known files.

        Its files determine which methods it defines.
        """
        return namespace != home and namespace in self._spaces

    def store_known_definition(self, key: tuple[str, str], known: _KnownForm) -> None:
        """Record the result of a comparison for a definition."""
        self._known[key] = known


@dataclass
class LispRecords:
    """Records about loaded Lisp code, for the lifetime of one server."""

    read: dict[tuple[str, tuple[str, ...]], Source] = field(default_factory=dict)
    """Sources by path and by the features for which the file was read."""
    drifts: dict[str, LispDrift] = field(default_factory=dict)
    """The comparison of loaded code and files for each REPL, by its id, possibly for a generation that has ended."""


class _Comparison:
    """Compares one namespace with its files."""

    def __init__(self, drift: LispDrift, loaded: LoadedNamespace, sources: Sequence[Source], floor_ms: int) -> None:
        self._drift = drift
        self._loaded = loaded
        self._sources = sources
        self._floor_ms = floor_ms
        self._vars = {var.name: var for var in loaded.vars}
        self._written: dict[str, list[tuple[Definition, Source]]] = {}
        for source in sources:
            for definition in source.definitions.found:
                if definition.namespace == loaded.name and not definition.is_removal:
                    self._written.setdefault(definition.name, []).append((definition, source))
        self._is_loaded_unseen = False

    def rows(self) -> Iterator[Difference]:
        """Yield the differences between the namespace and its files."""
        made = {name for found in self._written.values() for definition, _ in found for name in definition.makes}
        methods = []
        for name, found in self._written.items():
            live = [self._vars[var] for definition, _ in found for var in definition.makes if var in self._vars]
            if found[0][0].head in VARLESS_HEADS:
                methods.append(name)
            elif live:
                yield from self._compare_var(name, live[0], found)
            elif found[0][0].is_sure and found[0][0].makes:
                yield self._difference(name, "missing")
        for name in methods:
            yield from self._compare_methods(name, self._written[name])
        yield from self._removed_methods()
        if ns_forms := [(form, source) for source in self._sources for form in self._ns_forms(source)]:
            yield from self._compare_methods(NS_FORM_NAME, ns_forms[:1])
        for name, method in self._drift.ledger.find_methods(self._loaded.name):
            is_unrecorded = name not in self._written and not method.file and method.definition.head != "remove-method"
            if is_unrecorded and not self._drift.is_known(method.definition.namespace, self._loaded.name):
                yield self._difference(name, "gone", method, evaluated=True)
        for name in sorted(self._vars.keys() - made - self._written.keys()):
            yield from self._compare_unwritten_var(self._vars[name])

    def _compare_var(
        self, name: str, var: LoadedVar, found: Sequence[tuple[Definition, Source]]
    ) -> Iterator[Difference]:
        """Compare a var with its definitions in the files, and yield the difference, if any."""
        is_once = all(definition.head in self._drift.ledger.once for definition, _ in found)
        known = self._determine_form(name, var, found, is_once=is_once)
        self._drift.store_known_definition((self._loaded.name, name), known)
        if known.digest in {definition.digest for definition, _ in found}:
            return
        if known.digest is None:
            if not is_once:
                yield self._difference(name, "unknown")
        elif is_once:
            yield self._difference(name, "kept")
        elif var.file and known.digest != REBOUND_DIGEST and (known.made is None or known.made.file):
            yield self._difference(name, "edited")
        else:
            yield self._difference(name, "redefined", known.made, evaluated=True)

    def _determine_form(
        self, name: str, var: LoadedVar, found: Sequence[tuple[Definition, Source]], *, is_once: bool
    ) -> _KnownForm:
        """Determine the form with which a var was defined, from the most recent evidence."""
        key = self._loaded.name, name
        old = self._drift.known_definition(key)
        if (
            old is not None
            and all(definition.head == "defprotocol" for definition, _ in found)
            and old.var[3] == var.stamp
        ):
            old = replace(old, var=_state(var))  # extending a protocol changes the root of its var
        is_same = old is not None and (old.var[2] == var.root if is_once else old.var == _state(var))
        if is_once and old is not None and is_same:
            return old
        if (again := self._determine_rebound_form(name, var, found, old)) is not None:
            return again
        made = self._drift.ledger.effective_definition(*key) if is_once else self._defining_evaluation(name, var)
        # A definition before the last comparison was known then, and did not cause a later change.
        made = made if made is not None and (old is None or made.number > old.number) else None
        if made is not None:
            if made.is_sure:
                return self._known_form(var, made.definition.digest, made)
            if not is_same:
                return self._known_form(var, None, made)
        if old is not None and is_same:
            return old
        if var.file:
            self._is_loaded_unseen = True
            for definition, source in found:
                if source.path == var.file and source.written_ms < self._floor_ms:
                    return self._known_form(var, definition.digest, None)
        return self._known_form(var, None, made)

    def _determine_rebound_form(
        self, name: str, var: LoadedVar, found: Sequence[tuple[Definition, Source]], old: _KnownForm | None
    ) -> _KnownForm | None:
        """Determine the form of a var whose root value changed without a new definition.

        Returns None if this does not apply to the var.
        """
        makings = self._drift.ledger.find_definitions(self._loaded.name, name)
        made = makings[-1] if makings and makings[-1].definition.head in REBINDING_HEADS else None
        if made is not None and (old is None or made.number > old.number):
            return self._known_form(var, made.definition.digest, made)
        is_as_defined = old is not None and old.var[3] == var.stamp and old.var[0] == var.file
        if old is None or not is_as_defined or not var.stamp or old.var[2] == var.root or old.digest is None:
            return None
        if any(REBINDING_PATTERN.search(source.text()) for _, source in found):
            return replace(old, var=_state(var))  # code in the file may rebind it
        return self._known_form(var, REBOUND_DIGEST, None)

    def _known_form(self, var: LoadedVar, digest: bytes | None, made: RecordedDefinition | None) -> _KnownForm:
        """Return the record of a var's form in the current state of the var."""
        return _KnownForm(_state(var), digest, made, self._drift.number)

    def _defining_evaluation(self, name: str, var: LoadedVar) -> RecordedDefinition | None:
        """Return the evaluation that defined a var, found by the var's file and line, or None."""
        for made in reversed(self._drift.ledger.find_definitions(self._loaded.name, name)):
            is_placed = var.line in (None, made.definition.line) or not (made.is_whole or not made.file)
            if is_placed and made.file == var.file:
                return made
        return None

    def _compare_methods(self, name: str, found: Sequence[tuple[Definition, Source]]) -> Iterator[Difference]:
        """Yield the differences of methods. They have no var, so only code in the log shows their definitions."""
        key = self._loaded.name, name
        old = self._drift.known_definition(key)
        makings = self._drift.ledger.find_definitions(*key)
        if name == NS_FORM_NAME:
            # A form like this is often evaluated only to enter the namespace, and removes nothing from it.
            digests = {definition.digest for definition, _ in found}
            makings = tuple(making for making in makings if making.file or making.definition.digest in digests)
        made = makings[-1] if makings else None
        is_newer = made is not None and not made.file and (old is None or made.number > old.number)
        if not is_newer and (self._is_loaded_unseen or not self._loaded.vars):
            definition, source = found[0]
            digest = definition.digest if source.written_ms < self._floor_ms else None
            known = _KnownForm(NO_VAR_STATE, digest, None, self._drift.number)
        elif made is not None and (old is None or made.number > old.number):
            known = _KnownForm(NO_VAR_STATE, made.definition.digest if made.is_sure else None, made, self._drift.number)
        elif old is None:
            return
        else:
            known = old
        self._drift.store_known_definition(key, known)
        if known.digest is not None and known.digest not in {definition.digest for definition, _ in found}:
            is_evaluated = known.made is not None and not known.made.file and name != NS_FORM_NAME
            yield self._difference(
                name, "redefined" if is_evaluated else "edited", known.made if is_evaluated else None
            )

    def _removed_methods(self) -> Iterator[Difference]:
        """Yield a difference for each method that the files no longer define."""
        ledger = self._drift.ledger
        for name, known in self._drift.definitions_without_vars(self._loaded.name):
            makings = ledger.find_definitions(self._loaded.name, name)
            is_undone = bool(makings) and makings[-1].definition.head == "remove-method"
            protocol = (
                ledger.find_definitions(self._loaded.name, name.rpartition(" ")[2]) if name.startswith("extend") else ()
            )
            is_lost = bool(protocol) and protocol[-1].number > known.number  # the protocol was redefined
            is_evaluated = known.made is not None and not known.made.file
            if not (name in self._written or name == NS_FORM_NAME or is_undone or is_lost or is_evaluated):
                yield self._difference(name, "gone")

    def _compare_unwritten_var(self, var: LoadedVar) -> Iterator[Difference]:
        """Yield a difference for a var that no definition in the files creates, unless a macro may have created it."""
        made = self._defining_evaluation(var.name, var)
        if not var.file:
            if var.line is not None or made is not None:
                yield self._difference(var.name, "gone", made, evaluated=True)
            return
        source = next((candidate for candidate in self._sources if candidate.path == var.file), None)
        if source is None:
            return
        unknown, known = source.definitions.unknown, self._drift.known_definition((self._loaded.name, var.name))
        if made is not None or known is not None:
            is_made_otherwise = any(form.defines(var.name) for form in unknown)
        else:
            # The form that defined the var is unknown. It may come from a macro, or be inside a function.
            is_made_otherwise = (
                var.name in source.definitions.declared
                or any(form.may_define(var.name) for form in unknown)
                or self._is_at_unknown_form(var, source)
                or defines_within(source.text(), var.name)
            )
        if not is_made_otherwise:
            yield self._difference(var.name, "gone")

    def _is_at_unknown_form(self, var: LoadedVar, source: Source) -> bool:
        """Return whether a form with unknown effects may have been at a var's line when the file was loaded.

        Lines between known definitions may have moved since then by as much as the definitions around them.
        """
        if var.line is None:
            return bool(source.definitions.unknown)
        moves = [
            (definition.line, definition.line - line_now)
            for definition in source.definitions.found
            for name in definition.makes[:1]
            if (line_now := self._find_line(name)) is not None
        ]
        for form in source.definitions.unknown:
            before = [move for line, move in moves if line < form.line][-1:]
            behind = [move for line, move in moves if line > form.last_line][:1]
            if any(form.line <= var.line + move <= form.last_line for move in (*before, *behind, 0)):
                return True
        return False

    def _find_line(self, name: str) -> int | None:
        """Return the line of a var, or None if it is unknown."""
        var = self._vars.get(name)
        return var.line if var is not None else None

    def _ns_forms(self, source: Source) -> Iterator[Definition]:
        """Yield the `ns` forms in a file for this namespace."""
        return (form for form in source.definitions.ns_forms if form.namespace == self._loaded.name)

    def _difference(
        self, name: str, kind: DriftKind, made: RecordedDefinition | None = None, *, evaluated: bool = False
    ) -> Difference:
        """Create a difference, with the caller, evaluation and time of the definition if known."""
        at = time.strftime("%H:%M:%S", time.localtime(made.at_ms / 1000)) if made is not None else ""
        by = f"{made.who}, {made.evaluation}, {at}" if made is not None else ""
        return Difference(self._loaded.name, name, kind, evaluated, by=by, joint="/")


def _state(var: LoadedVar) -> tuple[str, int | None, str, str]:
    """Return the values of a var that change when it is redefined."""
    return var.file, var.line, var.root, var.stamp
