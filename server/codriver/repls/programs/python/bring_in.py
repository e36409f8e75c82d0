"""Modules of ours in a kernel, as a private package that lives until the kernel ends."""

from __future__ import annotations

import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def install(package: str, folder: str, texts: Iterable[tuple[str, str]]) -> object:
    """The answers of the package; its modules come by dotted name and text, each after the modules that it needs.

    In tracebacks the modules lie in `folder`. If one module fails, none stays.
    """
    made = []

    def module_of(full: str, home: str) -> types.ModuleType:
        module = sys.modules[full] = types.ModuleType(full)
        module.__package__ = home
        made.append(full)
        return module

    try:
        whole = module = module_of(package, package)
        for name, text in texts:
            full = package + "." + name
            home = full.rpartition(".")[0]
            if home not in made:
                module_of(home, home).__path__ = []
            module = module_of(full, home)
            module.__file__ = folder + name.replace(".", "/") + ".py"
            exec(compile(text, module.__file__, "exec", dont_inherit=True), module.__dict__)
        answers = module.KernelAnswers()
        whole.__path__, whole.answers = [], answers  # type: ignore[attr-defined]  # the package's own name
    except BaseException:
        for full in made:
            sys.modules.pop(full, None)
        raise
    return answers
