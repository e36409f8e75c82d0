"""A document run with its tests, in their order or in the other, in a module of its own."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import re
import sys
import traceback
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Raises:
    """A stand-in for `pytest.raises` without pytest."""

    def __init__(self, kind: type[BaseException], match: str = "") -> None:
        self.kind, self.match = kind, match

    def __enter__(self) -> Raises:  # noqa: PYI034  # the oldest Python has no Self
        """Begin the code that has to raise."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        """True if the code raised the expected error."""
        if kind is None:
            raise AssertionError("nothing was raised")
        return issubclass(kind, self.kind) and bool(re.search(self.match or "", str(error)))


def verify(text: str, name: str, *, is_reversed: bool = False) -> str:
    """The failures as JSON: test, lines of the document, error."""
    if importlib.util.find_spec("pytest") is None:
        stand_in: Any = types.ModuleType("pytest")
        stand_in.raises = Raises
        sys.modules["pytest"] = stand_in
    failed: list[tuple[str, list[int | None], str]] = []

    def note(test: str, error: BaseException) -> None:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
        failed.append((test, lines, type(error).__name__ + ": " + str(error)))

    module = sys.modules[name] = types.ModuleType(name)
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            exec(compile(text, name, "exec"), module.__dict__)
        except BaseException as error:
            note("", error)
            return json.dumps(failed)
        tests = [test for test in module.__dict__ if test.startswith("test_")]
        for test in reversed(tests) if is_reversed else tests:
            try:
                module.__dict__[test]()
            except BaseException as error:  # noqa: PERF203  # each test by itself
                note(test, error)
    return json.dumps(failed)
