"""Store which functions each of a project's tests executed when it last ran.

Tests are identified by their functions, without parameters. If all tests in a file were recorded, and the files that
they used have not changed since, a change to functions that none of them executed does not affect them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.testing.file_digests import FileDigests, digest
from codriver.testing.recordings import executed_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from codriver.testing.runs import Recorded

    Function = tuple[str, str]
    """Absolute path of a file, and a qualified name in it."""

MAX_RECORDED_FUNCTIONS: Final = 2_000_000
"""Maximum total number of functions recorded for all tests, at most 100 MB. The oldest tests are discarded first."""


def without_parameters(nodeid: str) -> str:
    """Return the id of a test function, without the parameters of a test."""
    return nodeid.partition("[")[0]


class RecordedExecutions:
    """The functions that a workspace's tests executed when they last ran."""

    def __init__(self) -> None:
        self._by_test: dict[Function, frozenset[Function]] = {}
        """Executed functions by test: its file, and the rest of its id without parameters."""
        self._entries = 0
        self._known: dict[Function, Function] = {}
        self._at_import: set[Function] = set()
        """Functions that ran while files were imported. All tests may depend on them."""
        self._preloaded: set[str] = set()
        """Files that were loaded before a recording started. Their functions may have run while they were imported."""
        self._digests = FileDigests()
        self._whole: dict[str, _Contents] = {}
        """Test files whose tests were all recorded."""

    def add(self, recorded: Iterable[Recorded], *, is_finished: bool = False) -> None:
        """Add the records of a run. They replace earlier records of the same tests. Blocks.

        `is_finished` is true if all tests in the run finished and no file changed during the run.
        """
        found = executed_functions(recorded)
        fresh: dict[Function, frozenset[Function]] = {}
        for nodeid, functions in found.by_test.items():
            test = found.file_of[nodeid], without_parameters(nodeid).partition("::")[2]
            pairs = [(function.file, function.name) for function in functions]
            fresh[test] = fresh.get(test, frozenset()) | {self._known.setdefault(pair, pair) for pair in pairs}
        for test, executed in fresh.items():
            self._entries += len(executed) - len(self._by_test.pop(test, ()))
            self._by_test[test] = executed
        self._at_import |= {(executed_function.file, executed_function.name) for executed_function in found.at_import}
        self._preloaded |= found.preloaded
        whole = found.whole_files() if is_finished else frozenset()
        test_files = {*found.file_of.values()}
        used = {file: self._digests.digest_file(file) for file in found.files - test_files} if whole else {}
        executed_in: dict[str, set[str]] = {file: {file} for file in test_files}
        for nodeid, functions in found.by_test.items():
            executed_in[found.file_of[nodeid]].update(function.file for function in functions)
        for file in test_files:
            if file in whole:
                # Test files use code from other test files only if they executed some of it.
                of_tests = {
                    test_file: self._digests.digest_file(test_file) for test_file in executed_in[file] & test_files
                }
                self._whole[file] = _Contents({**used, **of_tests})
            elif file in self._whole and not self._whole[file].is_current(self._digests.digest_file):
                del self._whole[file]
        while self._entries > MAX_RECORDED_FUNCTIONS:
            oldest = next(iter(self._by_test))
            self._entries -= len(self._by_test.pop(oldest))
            self._whole.pop(oldest[0], None)

    def tests_executing(self, changed: Collection[Function]) -> list[Function]:
        """Return the tests that executed one of the changed definitions, or a function inside one of them.

        Tests that executed fewer functions come first, because they are more specific.
        """
        matching = self._matching_functions(changed)
        found = [test for test, executed in self._by_test.items() if not matching.isdisjoint(executed)]
        return sorted(found, key=lambda test: len(self._by_test[test]))

    def unaffected_files(
        self, test_files: Collection[str], changed: Collection[Function], before: Mapping[str, bytes]
    ) -> frozenset[str]:
        """Return the test files that a change in the bodies of functions does not affect. Blocks.

        `before` maps changed files to their previous contents. A file that contains tests that executed the changed
        functions is returned as well, because its other tests are not affected. If a file contains no such tests, its
        record remains valid for the new contents.
        """
        if self._matching_functions(changed) & self._at_import or not self._preloaded.isdisjoint(before):
            return frozenset()
        digests = {file: digest(content) for file, content in before.items()}

        def of(file: str) -> str:
            return digests.get(file) or self._digests.digest_file(file)

        found = [
            file
            for file in test_files
            if file not in before and file in self._whole and self._whole[file].is_current(of)
        ]
        executing = {file for file, _ in self.tests_executing(changed)}
        for file in found:
            for test_file in before if file not in executing else ():
                self._whole[file].accept(test_file, self._digests.digest_file(test_file))
        return frozenset(found)

    def _matching_functions(self, changed: Collection[Function]) -> set[Function]:
        """Return the recorded functions that are among the changed ones or inside them."""
        return {
            known
            for known in self._known
            if any(known[0] == file and f"{known[1]}.".startswith(f"{name}.") for file, name in changed)
        }


class _Contents:
    """Digests of the files that the tests in one file used, and of other contents with which the tests run the same."""

    def __init__(self, recorded: Mapping[str, str]) -> None:
        self._recorded = recorded
        self._accepted: set[tuple[str, str]] = set()

    def is_current(self, digest_of: Callable[[str], str]) -> bool:
        """Return whether the record is valid for the current contents of the files."""
        return all(
            (now := digest_of(file)) == then or (file, now) in self._accepted for file, then in self._recorded.items()
        )

    def accept(self, file: str, content: str) -> None:
        """Record that the tests execute the same functions if a file has this content, which is given as a digest."""
        self._accepted.add((file, content))
