"""Start a test process with the `__main__` module, path and arguments that Python sets with `-m`.

Only modules that Python loads when it starts are used, so that tests find no modules imported except those that their
runner imports. The other programs are loaded after the runner, and leave nothing in `sys.modules`.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType
    from typing import Any

    Codes = Sequence[tuple[str, CodeType]]


def load_programs(codes: Codes) -> dict[str, Any]:
    """Load the programs as modules that are not in `sys.modules`. Return them by the last part of their names."""
    modules: dict[str, Any] = {}
    module: Any
    packages = sorted({name[:end] for name, _ in codes for end, letter in enumerate(name) if letter == "."})
    for name in packages:
        sys.modules[name] = module = type(sys)(name)
        module.__path__ = []
    try:
        for name, code in codes:
            sys.modules[name] = modules[name.rpartition(".")[2]] = module = type(sys)(name)
            module.__package__ = name.rpartition(".")[0]
            # A file that does not exist, so that modules do not mistake the project's directory for theirs.
            module.__file__ = os.sep + os.path.join("<codriver>", *name.split("."))
            exec(code, module.__dict__)
    finally:
        for name in [*packages, *[name for name, _ in codes]]:
            sys.modules.pop(name, None)
    return modules


def become_main(script: str, *, is_isolated: bool) -> None:
    """Set `__main__` and `sys.path` as `python -m` does.

    If the process is isolated, the current directory is the last entry of `sys.path` instead of the first.
    """
    frozen: Any = sys.modules["_frozen_importlib"]
    module: Any = type(sys)("__main__")
    first, sys.modules["__main__"] = vars(sys.modules["__main__"]), module
    module.__loader__ = frozen.BuiltinImporter
    for name in ("__annotations__", "__builtins__"):
        if name in first:
            setattr(module, name, first[name])
    directory = os.path.dirname(script)
    if sys.path and sys.path[0] == directory:
        del sys.path[0]
        sys.path.insert(len(sys.path) if is_isolated else 0, os.getcwd())
    for path in (directory, script):
        sys.path_importer_cache.pop(path, None)


def prepare(
    codes: Codes, path: str, script: str, before_retention: Callable[[], object] | None = None
) -> Callable[[], object]:
    """Prepare the process for the request in a file, and return the function that runs the tests."""
    with open(path, encoding="utf-8") as file:
        request = eval(file.read(), {})
    request["before_retention"] = before_retention
    become_main(script, is_isolated=request["is_isolated"])
    sys.argv[:] = request["argv"]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = request["orig_argv"]
    import_error: BaseException | None = None
    try:
        for name in request["imports"]:
            __import__(name)
    except BaseException as error:
        import_error = error
    if import_error is not None:
        codes = [code for code in codes if code[0] in request["without_runner"]]
    modules = load_programs(codes)
    run: Callable[[], object] = modules["process"].prepare_process(request, import_error, modules)
    return run


def attach(codes: Codes, path: str) -> None:
    """Attach the programs to a worker process of pytest-xdist."""
    with open(path, encoding="utf-8") as file:
        request = eval(file.read(), {})
    modules = load_programs(codes)
    modules["process"].attach_to_worker(request, modules)
