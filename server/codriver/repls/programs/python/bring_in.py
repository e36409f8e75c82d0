"""Install Codriver modules in a kernel, as a private package that lasts until the kernel ends."""

from __future__ import annotations

import sys
import threading
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def install(package: str, directory: str, sources: Iterable[tuple[str, str]]) -> object:
    """Install a package in this process and return its `KernelAnswers`.

    `sources` contains dotted module names and source texts, in import order. Tracebacks display the modules as files in
    `directory`. If one module fails, all of them are removed. Threads that need the package at the same time, such as
    those of subshells, get the same object.
    """
    turn = types.ModuleType(package + ".installing")
    turn.lock = threading.RLock()  # type: ignore[attr-defined]  # kept where every thread finds the same
    turn = sys.modules.setdefault(turn.__name__, turn)
    try:
        with turn.lock:
            known = getattr(sys.modules.get(package), "answers", None)
            return known or _install(package, directory, sources)
    finally:
        sys.modules.pop(turn.__name__, None)


def _install(package: str, directory: str, sources: Iterable[tuple[str, str]]) -> object:
    made = []

    def module_of(full: str, home: str) -> types.ModuleType:
        module = sys.modules[full] = types.ModuleType(full)
        module.__package__ = home
        made.append(full)
        return module

    try:
        whole = module = module_of(package, package)
        for name, text in sources:
            full = package + "." + name
            home = full.rpartition(".")[0]
            if home not in made:
                module_of(home, home).__path__ = []
            module = module_of(full, home)
            module.__file__ = directory + name.replace(".", "/") + ".py"
            exec(compile(text, module.__file__, "exec", dont_inherit=True), module.__dict__)
        answers = module.KernelAnswers()
        whole.__path__, whole.answers = [], answers  # type: ignore[attr-defined]  # the package's own name
    except BaseException:
        for full in made:
            sys.modules.pop(full, None)
        raise
    return answers
