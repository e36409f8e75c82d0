"""The program of a new process that runs tests, passed to `python -c`. It shares no loaded code with the REPL.

The first line of its standard input describes the tests to run. After that, the pipe is a lifeline: it is closed when
the REPL ends, and then the process ends too.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import io
import json
import os
import signal
import sys
import threading

MAX_COMPILATION_NS = 10 * 10**9
"""The assumed maximum duration of a compilation, in nanoseconds.

Compiled code that was written this long after its source cannot be from an older version of the source.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def exit_with_repl(lifeline: int) -> None:
    """Wait until the REPL ends, then end this process. `lifeline` is a pipe that the REPL holds open."""
    while os.read(lifeline, 4096):
        pass
    os._exit(1)


def prefer_local_modules() -> None:
    """Make modules in the current directory and its `src` take precedence over installed ones."""
    sys.argv = [""]
    directory = os.getcwd()
    source = os.path.join(directory, "src")
    roots = [directory]
    if os.path.isdir(source) and not os.path.exists(os.path.join(source, "__init__.py")):
        roots.append(source)
    sys.path[:] = roots + [entry for entry in sys.path if entry not in ("", *roots)]


def ignore_recent_bytecode() -> None:
    """Ignore cached bytecode for project files unless it was written well after the source.

    Python compares only seconds and sizes, and a quick edit may change neither. An empty cache directory (`-X
    pycache_prefix`) would take four times the processor time, because all installed code would be compiled too.
    """
    loader: Any = importlib.machinery.SourceFileLoader
    standard, plain = os.path.dirname(os.__file__) + os.sep, loader.path_stats

    def path_stats(self: object, path: str) -> dict[str, Any]:
        stats: dict[str, Any] = plain(self, path)
        if path.startswith(standard) or any(
            directory in path.split(os.sep) for directory in ("site-packages", "dist-packages")
        ):
            return stats
        source = os.stat(path)
        try:
            compiled = os.stat(importlib.util.cache_from_source(path)).st_mtime_ns
        except (OSError, NotImplementedError):
            return stats
        if compiled <= max(source.st_mtime_ns, source.st_ctime_ns) + MAX_COMPILATION_NS:
            stats["size"] = -1  # no file has this size, so the cached bytecode is ignored
        return stats

    loader.path_stats = path_stats


def run_request(request: dict[str, Any]) -> dict[str, object]:
    """Run the program in a request, and return its answer or error."""
    space: dict[str, Any] = {"__name__": "tests"}
    try:
        exec(request["program"], space)
        return {"answer": space["answer"](*request["arguments"])}
    except BaseException as error:
        return {"error": [type(error).__name__, str(error)]}


def main() -> None:
    """Run the tests described on standard input, write the result to a file, and exit."""
    lifeline, nothing = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    with os.fdopen(lifeline, "rb", 0, closefd=False) as lifeline_file:
        request = json.loads(lifeline_file.readline())
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=exit_with_repl, args=(lifeline,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    prefer_local_modules()
    ignore_recent_bytecode()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    answer = run_request(request)
    sys.stdout.flush()
    sys.stderr.flush()
    with open(request["result"] + ".new", "w", encoding="utf-8") as file:
        json.dump(answer, file)
    os.replace(request["result"] + ".new", request["result"])
    # Threads that the tests left running would keep the process alive.
    os._exit(0)


if __name__ == "__main__":
    main()
