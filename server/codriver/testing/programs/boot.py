"""The script that a test process runs first. It loads the programs that make the process act like `python -m pytest`.

Its arguments are the file with the sources of the programs, and a request. The programs are compiled once for each
version of Python. This script is compiled at each start, so it is short.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any


def load_compiled(sources: str) -> "list[tuple[str, CodeType]]":
    """Return the name and the code of each program. The code is cached in a file next to `sources`."""
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
        programs = eval(file.read(), {})
    flags = 0x1000000  # `from __future__ import annotations`, without importing a module as the statement does
    # Coverage does not measure names in angle brackets.
    codes = [
        (name, compile(text, "<" + name + ">", "exec", flags, dont_inherit=True, optimize=2)) for name, text in programs
    ]
    new = cache + "." + str(os.getpid())
    try:
        with open(new, "wb") as file:
            marshal.dump(codes, file)
        os.replace(new, cache)
    except OSError:
        pass
    return codes


def run_first_program(
    codes: "list[tuple[str, CodeType]]",
) -> "tuple[dict[str, Any], list[tuple[str, CodeType]]]":
    """Run the first program, which loads the others. Return its namespace and the code of the others."""
    space: dict[str, Any] = {"__name__": codes[0][0]}
    exec(codes[0][1], space)
    return space, codes[1:]


def prepare_run() -> "Callable[[], object]":
    """Prepare the process, and return the function that runs the tests.

    The namespace of this script may contain `before_retention`, a function to call before the process of a failed run
    is retained, and `compiled_programs`, the result of `load_compiled`.
    """
    space, codes = run_first_program(globals().get("compiled_programs") or load_compiled(sys.argv[1]))
    run: Callable[[], object] = space["prepare"](codes, sys.argv[2], __file__, globals().get("before_retention"))
    return run


def attach(sources: str, request: str) -> None:
    """Attach the programs to a worker process of pytest-xdist, before pytest is configured in it."""
    space, codes = run_first_program(load_compiled(sources))
    space["attach"](codes, request)


def hide_program_frames(error: BaseException) -> None:
    """Remove the frames of Codriver's programs from the printed traceback of an error."""
    hook, trace = sys.excepthook, error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith((__file__, "<_codriver", "<string>")):
        trace = trace.tb_next
    if trace is not None:
        sys.excepthook = lambda kind, value, _trace: hook(kind, value.with_traceback(trace), trace)


if __name__ == "__main__":
    try:
        prepare_run()()
    except BaseException as _error:
        hide_program_frames(_error)
        raise
