"""The script that a test process starts with: it loads the other programs, which make it `python -m pytest`.

Its arguments are the file with the sources of the programs, and a request. The programs are compiled once for each
version of Python. This one is compiled at each start, and is kept short.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any


def compiled(sources: str) -> "list[tuple[str, CodeType]]":
    """Return the name and the code of each program, from a file next to the sources if it has them."""
    loaded: dict[str, Any] = sys.modules
    marshal, external = loaded["marshal"], loaded["_frozen_importlib_external"]
    version = (sys.implementation.cache_tag, str(sys.flags.optimize), external.MAGIC_NUMBER.hex())
    cache = ".".join((sources, *version))
    try:
        with open(cache, "rb") as file:
            found: list[tuple[str, CodeType]] = marshal.loads(file.read())
            return found
    except (OSError, EOFError, ValueError, TypeError):
        pass
    with open(sources, encoding="utf-8") as file:
        texts = eval(file.read(), {})
    flags = 0x1000000  # `from __future__ import annotations`, which as a statement would import a module
    # Names in angle brackets are no files: coverage does not measure them.
    codes = [
        (name, compile(text, "<" + name + ">", "exec", flags, dont_inherit=True, optimize=2)) for name, text in texts
    ]
    new = cache + "." + str(os.getpid())
    try:
        with open(new, "wb") as file:
            marshal.dump(codes, file)
        os.replace(new, cache)
    except OSError:
        pass
    return codes


def first(sources: str) -> "tuple[dict[str, Any], list[tuple[str, CodeType]]]":
    """Return the names of the first program, which loads the others, and the code of those."""
    codes = compiled(sources)
    space: dict[str, Any] = {"__name__": codes[0][0]}
    exec(codes[0][1], space)
    return space, codes[1:]


def started() -> "Callable[[], object]":
    """Return the function that runs the tests."""
    space, codes = first(sys.argv[1])
    run: Callable[[], object] = space["prepare"](codes, sys.argv[2], __file__)
    return run


def attach(sources: str, request: str) -> None:
    """Attach the programs to a worker process of pytest-xdist, before pytest is configured there."""
    space, codes = first(sources)
    space["attach"](codes, request)


def hide_own_frames(error: BaseException) -> None:
    """Let the traceback that Python prints of an error begin where `python -m` has its first frame."""
    hook, trace = sys.excepthook, error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith((__file__, "<_codriver")):
        trace = trace.tb_next
    if trace is not None:
        sys.excepthook = lambda kind, value, _trace: hook(kind, value.with_traceback(trace), trace)


if __name__ == "__main__":
    try:
        started()()
    except BaseException as _error:
        hide_own_frames(_error)
        raise
