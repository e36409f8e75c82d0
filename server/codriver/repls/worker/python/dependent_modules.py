"""Find the modules that import an edited module and mention a name that may have changed."""

from __future__ import annotations

import sys

from .module_text import Outline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Mapping

    from .load_records import Load
    from .module_text import Text


class DependentModules:
    """Finds the modules that depend on an edited module.

    - `words` contains the names that may have changed.
    - `reached` contains the names of the modules that mention one of these names.
    - `roots` contains the names of other modules with objects that may have changed.
    - `earlier` contains the names of those dependent modules that are imported before the edited module.

    `has_getter` returns whether the edited module has a `__getattr__` that creates names when they are looked up.
    """

    def __init__(
        self,
        text: Text,
        loads: Mapping[str, Load],
        text_of: Callable[[str], Text | None],
        has_getter: Callable[[], bool],
    ) -> None:
        self._text, self._loads, self._text_of, self._has_getter = text, loads, text_of, has_getter
        self.words: set[str] = set()
        self.reached: list[str] = []
        self.roots: set[str] = set()
        self.earlier: set[str] = set()
        self._importers: list[Text] | None = None
        self._data: dict[int, bytes] = {}

    def close(self) -> None:
        """Drop all references to modules."""
        self._importers = None
        self._data.clear()

    def find_importers(self, seeds: set[str]) -> list[Text]:
        """Return the sources of modules that directly or indirectly import the edited module, imported modules first.

        Modules are omitted if nothing that runs when they are imported mentions a name that may have changed.
        """
        if self._importers is None:
            words = set(seeds)
            self._text.statements_mentioning(words)
            found, follows = self._importers_mentioning(words)
            self.words = words
            self.reached = list(found)
            ordered = list(_sort_by_imports({**found, self._text.name: Outline(self._text)} if self.roots else found))
            self.earlier = set(ordered[: ordered.index(self._text.name)]) if self.roots else set()
            self._importers = [
                text for name in ordered if name in follows and (text := self._text_of(name)) is not None
            ]
        return self._importers

    def _importers_mentioning(self, words: set[str]) -> tuple[dict[str, Outline], set[str]]:
        """Return the outlines of importers that mention one of the words, and the names of the importers to update."""
        waiting, outlines = self._other_loads(), {}
        found: dict[str, Outline] = {}
        follows: set[str] = set()
        fresh = set(words)
        while fresh:
            for name, load in list(waiting.items()):
                if name in self.roots or self._mentions(load, fresh):
                    del waiting[name]
                    outline = self._find_outline(name, load)
                    if outline is not None:
                        outlines[name] = outline
            known, is_growing = set(words), True
            reached = {part for name in (self._text.name, *self.roots, *found) for part in _iter_parents(name)}
            while is_growing:
                is_growing = False
                for name, outline in outlines.items():
                    if name not in found and (name in self.roots or not reached.isdisjoint(outline.imports)):
                        found[name], is_growing = outline, True
                        reached.update(_iter_parents(name))
            for name, outline in found.items():
                if name in follows or outline.may_be_affected(words) or self._has_getter():
                    follows.add(name)
                    text = self._text_of(name)
                    if text is not None:
                        text.statements_mentioning(words)
            fresh = words - known
        return found, follows

    def _other_loads(self) -> dict[str, Load]:
        """Return the loads of other workspace modules that are still current."""
        return {
            name: load
            for name, load in list(self._loads.items())
            if name != self._text.name and (module := sys.modules.get(name)) is not None
            and load.module() is module and not load.is_rewritten
        }  # fmt: skip

    def _find_outline(self, name: str, load: Load) -> Outline | None:
        """Return the outline of another module. It is cached in the module's load."""
        if load.outline is None:
            text = self._text_of(name)
            load.outline = None if text is None else Outline(text)
        return load.outline

    def _mentions(self, load: Load, words: set[str]) -> bool:
        """Return whether the source of a load mentions one of the words."""
        data = self._source_data(load)
        return b"import" in data and (
            self._has_getter() or b"import *" in data or any(word.encode() in data for word in words)
        )

    def _source_data(self, load: Load) -> bytes:
        """Return the source of a load. It is decompressed only once."""
        if id(load) not in self._data:
            load.read()
            self._data[id(load)] = load.data or b""
        return self._data[id(load)]


def _iter_parents(name: str) -> Iterator[str]:
    """Yield a dotted name, followed by the names of the packages that contain it."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def _sort_by_imports(found: dict[str, Outline]) -> Iterator[str]:
    """Yield the names of modules, with imported modules first.

    Modules that import one another are in the order of `sys.modules`. Python moves a module to the end of `sys.modules`
    when its import has finished. Source: `importlib._bootstrap._load_unlocked`.
    """
    positions = {name: position for position, name in enumerate(list(sys.modules)) if name in found}
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    done: set[str] = set()

    def visit(name: str) -> Iterator[str]:  # Tarjan's algorithm for strongly connected components
        lowest[name] = numbers[name] = len(numbers)
        stack.append(name)
        for other in sorted(found[name].imports & positions.keys(), key=positions.__getitem__):
            if other not in numbers:
                yield from visit(other)
            if other not in done:
                lowest[name] = min(lowest[name], lowest[other])
        if lowest[name] == numbers[name]:
            start = stack.index(name)
            circle, stack[start:] = stack[start:], []
            done.update(circle)
            yield from sorted(circle, key=positions.__getitem__)

    for module_name in positions:
        if module_name not in numbers:
            yield from visit(module_name)
