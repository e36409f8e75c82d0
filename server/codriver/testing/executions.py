"""The functions that the tests of a project executed when they last ran.

Tests are identified by their functions, without parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.testing.recordings import executed_functions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from codriver.testing.runs import Recorded

    Function = tuple[str, str]
    """Absolute path of a file, and a qualified name in it."""

MOST_ENTRIES: Final = 2_000_000
"""Maximum number of functions of all tests together, at most 100 MB. The oldest tests are discarded first."""


def function_of(nodeid: str) -> str:
    """Return the id of a test without its parameters."""
    return nodeid.partition("[")[0]


class Executions:
    """What the tests of one workspace executed, for the life of a server."""

    def __init__(self) -> None:
        self._by_test: dict[Function, frozenset[Function]] = {}
        """Executed functions by test: its file, and the rest of its id without parameters."""
        self._entries = 0
        self._known: dict[Function, Function] = {}

    def add(self, recorded: Iterable[Recorded]) -> None:
        """Add the records of a run, replacing earlier records of its tests."""
        found = executed_functions(recorded)
        fresh: dict[Function, frozenset[Function]] = {}
        for nodeid, functions in found.by_test.items():
            test = found.file_of[nodeid], function_of(nodeid).partition("::")[2]
            pairs = [(one.file, one.name) for one in functions]
            fresh[test] = fresh.get(test, frozenset()) | {self._known.setdefault(one, one) for one in pairs}
        for test, executed in fresh.items():
            self._entries += len(executed) - len(self._by_test.pop(test, ()))
            self._by_test[test] = executed
        while self._entries > MOST_ENTRIES:
            self._entries -= len(self._by_test.pop(next(iter(self._by_test))))

    def tests_of(self, changed: Collection[Function]) -> list[Function]:
        """Return the tests that executed one of these functions or classes, or a definition inside of one.

        Tests that executed the fewest functions come first, because they are the most specific.
        """
        matching = {
            known
            for known in self._known
            if any(known[0] == file and f"{known[1]}.".startswith(f"{name}.") for file, name in changed)
        }
        found = [test for test, executed in self._by_test.items() if not matching.isdisjoint(executed)]
        return sorted(found, key=lambda test: len(self._by_test[test]))
