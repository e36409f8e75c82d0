"""The script that a test process starts with: it loads the other programs, and becomes `python -m pytest`.

Its only argument is the path of a request. The other programs come as one file of sources, which is compiled once for
each version of Python. Everything here is loaded already when Python starts: to the tests, nothing was imported before
them that their runner does not import itself.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any


def _module(name: str) -> "Any":
    return sys.modules[name]


def compiled_programs(sources: str, cache: str) -> "list[tuple[str, CodeType]]":
    """Return the name and the code of each program, from the cache if it has them."""
    marshal = _module("marshal")
    try:
        with open(cache, "rb") as file:
            found: list[tuple[str, CodeType]] = marshal.load(file)
            return found
    except (OSError, EOFError, ValueError, TypeError):
        pass
    with open(sources, encoding="utf-8") as file:
        texts = eval(file.read(), {})
    # Names in angle brackets are no files: coverage does not measure them.
    codes = [(name, compile(text, "<" + name + ">", "exec", dont_inherit=True)) for name, text in texts]
    new = cache + "." + str(os.getpid())
    try:
        with open(new, "wb") as file:
            marshal.dump(codes, file)
        os.replace(new, cache)
    except OSError:
        pass
    return codes


def load_programs(codes: "list[tuple[str, CodeType]]") -> "dict[str, Any]":
    """Return the module of each program by the last part of its name. None of them stays in `sys.modules`."""
    modules: dict[str, Any] = {}
    module: Any
    is_future_known = "__future__" in sys.modules
    packages = sorted({name[:end] for name, _ in codes for end, letter in enumerate(name) if letter == "."})
    for name in packages:
        sys.modules[name] = module = type(sys)(name)
        module.__path__ = []
    try:
        for name, code in codes:
            sys.modules[name] = modules[name.rpartition(".")[2]] = module = type(sys)(name)
            module.__package__, module.__file__ = name.rpartition(".")[0], "<" + name + ">"
            exec(code, module.__dict__)
    finally:
        if not is_future_known:
            sys.modules.pop("__future__", None)
        for name in [*packages, *[name for name, _ in codes]]:
            sys.modules.pop(name, None)
    return modules


def become_main(directory: str) -> None:
    """Leave `__main__`, and the path, as Python has them when it starts with `-m`."""
    first, frozen = vars(sys.modules["__main__"]), _module("_frozen_importlib")
    module: Any = type(sys)("__main__")
    sys.modules["__main__"] = module
    module.__loader__ = frozen.BuiltinImporter
    for name in ("__annotations__", "__builtins__"):
        if name in first:
            setattr(module, name, first[name])
    here = os.path.dirname(__file__)
    if sys.path and sys.path[0] == here:
        sys.path[0] = directory
    for path in (here, __file__):
        sys.path_importer_cache.pop(path, None)


def prepare(path: str) -> "Callable[[], object]":
    """Make the process ready for the request, and return the function that runs the tests."""
    with open(path, encoding="utf-8") as file:
        request = eval(file.read(), {})
    become_main(os.getcwd())
    sys.argv[:] = request["argv"]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = request["orig_argv"]
    problem: BaseException | None = None
    try:
        for name in request["imports"]:
            __import__(name)
    except BaseException as error:
        problem = error
    magic = _module("_frozen_importlib_external").MAGIC_NUMBER.hex()
    cache = ".".join([request["programs"], sys.implementation.cache_tag, str(sys.flags.optimize), magic])
    codes = compiled_programs(request["programs"], cache)
    names = request["modules"] if problem is None else request["modules_without_runner"]
    modules = load_programs([one for one in codes if one[0] in names])
    run: Callable[[], object] = modules["process"].prepared(request, problem, modules)
    return run


run_tests = prepare(sys.argv[1])
run_tests()
