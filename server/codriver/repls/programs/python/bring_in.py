"""Modules of ours brought into a kernel as a private package, which lives until the kernel ends."""

from __future__ import annotations

import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def install(package: str, folder: str, texts: Iterable[tuple[str, str]]) -> object:
    """The answers of the package, whose modules are given by name and text, each after those that it needs.

    In tracebacks the modules lie in `folder`. Where one of them fails, none of them stays.
    """
    made = {package: types.ModuleType(package)}
    made[package].__path__ = []
    module = made[package]
    try:
        for name, text in [("", ""), *texts]:
            full = (package + "." + name).rstrip(".")
            module = made.setdefault(full, types.ModuleType(full))
            module.__package__, module.__file__ = package, folder + name + ".py"
            sys.modules[full] = module
            exec(compile(text, module.__file__, "exec", dont_inherit=True), module.__dict__)
        answers = module.KernelAnswers()
        made[package].answers = answers  # type: ignore[attr-defined]  # it is the package's own name
    except BaseException:
        for full in made:
            sys.modules.pop(full, None)
        raise
    return answers
