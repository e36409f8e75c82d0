"""Functions of the project that each test executes, told to the REPL's own note of them, if the REPL has one."""

from __future__ import annotations

import contextlib
import os
import sys

from .run_values import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Item = Any  # pytest's own objects, of any of its versions

OWN_PACKAGE = "_codriver_"
around: Callable[..., Any] = pytest.hookimpl(hookwrapper=True) if pytest else staticmethod
first: Callable[..., Any] = pytest.hookimpl(tryfirst=True) if pytest else staticmethod


class ExecutedPlugin:
    """A plugin of pytest for one run. `name` gives the namespace and the name by which a test is told."""

    def __init__(self, executed: Any, name: Callable[[Item], tuple[str, str]]) -> None:
        self.executed, self.name = executed, name
        self.place: tuple[str, ...] = ("", "")

    def enter(self, *place: str) -> None:
        """Note what runs from now on for a place."""
        self.place = place
        self.executed.enter(*place)

    @around
    def pytest_make_collect_report(self, collector: Any) -> Iterator[None]:
        """Note for all tests of a file the functions that its import executes."""
        if isinstance(collector, pytest.Module):
            self.enter("module", file_in(collector))
        yield

    @around
    def pytest_runtest_protocol(self, item: Item) -> Iterator[None]:
        """Note for a test what runs from its fixtures' beginning to their end."""
        named = self.name(item)
        shared = [one for one in getattr(item, "fixturenames", ()) if isinstance(one, str)]
        self.executed.uses(*named, file_in(item), shared)
        self.enter(*named)
        yield
        self.enter("", "")

    @around
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        """A fixture that others may use too is prepared for all of those."""
        before = self.place
        if fixturedef.scope != "function":
            self.enter("fixture", fixturedef.argname)
        yield
        if fixturedef.scope != "function":
            self.enter(*before)


def file_in(node: Any) -> str:
    """The file of a test, or of a collector."""
    return os.path.realpath(str(getattr(node, "path", None) or node.fspath))


@contextlib.contextmanager
def noting(name: Callable[[Item], tuple[str, str]]) -> Iterator[list[Any]]:
    """A time in which is noted what tests execute; the plugins that do so, none without means for it."""
    packages = [module for named, module in list(sys.modules.items()) if named.startswith(OWN_PACKAGE)]
    executed = next((module.executed for module in packages if hasattr(module, "executed")), None)
    if executed is None or not executed.begin(os.getcwd()):
        yield []
        return
    try:
        yield [ExecutedPlugin(executed, name)]
    finally:
        executed.end()
