"""The new process in which tests run, as the text of `python -c`: it knows nothing of the REPL's loaded code.

Its standard input has a line with the tests to run, and is then the lifeline: the REPL's end closes the pipe, and the
process ends.
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

SETTLED_NS = 10 * 10**9
"""The longest compilation: code compiled this long after its source was written is of no former text."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def watch(lifeline: int) -> None:
    """End with the REPL."""
    while os.read(lifeline, 4096):
        pass
    os._exit(1)


def find_as_the_repl_does() -> None:
    """Find modules in the folder and in its `src`, before installed ones."""
    sys.argv = [""]
    directory = os.getcwd()
    source = os.path.join(directory, "src")
    roots = [directory]
    if os.path.isdir(source) and not os.path.exists(os.path.join(source, "__init__.py")):
        roots.append(source)
    sys.path[:] = roots + [entry for entry in sys.path if entry not in ("", *roots)]


def ignore_cached_code() -> None:
    """Believe compiled code of the project's files only if it was written well after its source.

    Python tells texts apart by second and size alone, and a quick edit may change neither. An empty folder for compiled
    code (`-X pycache_prefix`) would take four times the processor time, as all installed code would be compiled too.
    """
    loader: Any = importlib.machinery.SourceFileLoader
    standard, plain = os.path.dirname(os.__file__) + os.sep, loader.path_stats

    def path_stats(self: object, path: str) -> dict[str, Any]:
        stats: dict[str, Any] = plain(self, path)
        if path.startswith(standard) or any(one in path.split(os.sep) for one in ("site-packages", "dist-packages")):
            return stats
        source = os.stat(path)
        try:
            compiled = os.stat(importlib.util.cache_from_source(path)).st_mtime_ns
        except (OSError, NotImplementedError):
            return stats
        if compiled <= max(source.st_mtime_ns, source.st_ctime_ns) + SETTLED_NS:
            stats["size"] = -1  # no file has this size, and compiled code of another size is ignored
        return stats

    loader.path_stats = path_stats


def run(request: dict[str, Any]) -> dict[str, object]:
    """The answer of the requested program, or its error."""
    space: dict[str, Any] = {"__name__": "tests"}
    try:
        for name in request["needs"]:
            importlib.import_module(name)
        exec(request["program"], space)
        return {"answer": space["answer"](*request["arguments"])}
    except BaseException as error:
        return {"error": [type(error).__name__, str(error)]}


def main() -> None:
    """Run the tests named on standard input, write the result into a file, and end."""
    lifeline, nothing = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    with os.fdopen(lifeline, "rb", 0, closefd=False) as lifeline_file:
        request = json.loads(lifeline_file.readline())
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=watch, args=(lifeline,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    find_as_the_repl_does()
    ignore_cached_code()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    answer = run(request)
    sys.stdout.flush()
    sys.stderr.flush()
    with open(request["result"] + ".new", "w", encoding="utf-8") as file:
        json.dump(answer, file)
    os.replace(request["result"] + ".new", request["result"])
    # Threads left by tests would keep a process from ending.
    os._exit(0)


if __name__ == "__main__":
    main()
