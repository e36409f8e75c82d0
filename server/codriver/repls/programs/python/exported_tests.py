"""Convert the tests in an exported Python document to `unittest` tests, for an interpreter without pytest."""

from __future__ import annotations

import importlib.util
import re
import sys
import types
import unittest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


class Raises:
    """A minimal replacement for `pytest.raises`."""

    def __init__(self, kind: type[BaseException], match: str = "") -> None:
        self.kind, self.match = kind, match

    def __enter__(self) -> Raises:  # noqa: PYI034  # Python 3.8 has no Self
        """Enter the block of code that must raise the error."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        """Return whether the code raised the expected error."""
        if kind is None:
            raise AssertionError("nothing was raised")
        return issubclass(kind, self.kind) and bool(re.search(self.match or "", str(error)))


def tests_of(file: str, names: Sequence[str]) -> Callable[[Any, Any, Any], unittest.TestSuite]:
    """Return a `load_tests` function for `unittest`.

    The first test imports the file. The named tests follow in order.
    """
    replacement: Any = types.ModuleType("pytest")
    replacement.raises = Raises
    sys.modules["pytest"] = replacement
    spec: Any = importlib.util.spec_from_file_location("exported_document", file)
    module = importlib.util.module_from_spec(spec)

    def document() -> None:
        sys.modules[module.__name__] = module
        spec.loader.exec_module(module)

    def case_of(name: str) -> unittest.FunctionTestCase:
        def test() -> None:
            getattr(module, name)()

        test.__name__ = name
        return unittest.FunctionTestCase(test)

    def load_tests(_loader: object, _tests: object, _pattern: object) -> unittest.TestSuite:
        return unittest.TestSuite([unittest.FunctionTestCase(document), *map(case_of, names)])

    return load_tests
