"""The new process in which tests run, as the text of `python -c`: it knows nothing of the REPL's loaded code.

Its standard input has a line with the tests to run, and is then the lifeline: the REPL's end closes the pipe, and the
process ends. As `sitecustomize` the same text shows the process, and each Python that it starts, files from before an
edit, while the disk stays as it is.
"""

from __future__ import annotations

import builtins
import functools
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
    from collections.abc import Callable
    from typing import Any


def watch(lifeline: int) -> None:
    """End with the REPL."""
    while os.read(lifeline, 4096):
        pass
    os._exit(1)


def find_as_the_repl_does() -> None:
    """Find modules in the folder and in its `src`, before installed ones."""
    sys.argv = [""]
    folder = os.getcwd()
    source = os.path.join(folder, "src")
    roots = [folder]
    if os.path.isdir(source) and not os.path.exists(os.path.join(source, "__init__.py")):
        roots.append(source)
    sys.path[:] = roots + [entry for entry in sys.path if entry not in ("", *roots)]


def believe_no_former_code() -> None:
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


class AsBefore:
    """A function on files that acts as a built-in one: a class that holds it passes no `self`."""

    def __init__(self, call: Callable[..., Any], former: Callable[[Any], Any]) -> None:
        functools.update_wrapper(self, call)
        self.former = former

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Call the function with the place of the former file."""
        call: Any = self.__wrapped__  # type: ignore[attr-defined]  # `update_wrapper` sets it
        if given:
            return call(self.former(given[0]), *given[1:], **named)
        return call(**{key: self.former(one) if key in ("file", "path") else one for key, one in named.items()})


def see_former(folder: str) -> None:
    """Show the files named in the folder's `former.json` as they were: by `open`, `os.open`, `os.stat`, an import.

    Other programs than Python see the present files. No code is taken from a cache or put there.
    """
    with open(os.path.join(folder, "former.json"), encoding="utf-8") as file:
        places = {os.path.realpath(path): place for path, place in json.load(file).items()}
    names = {os.path.basename(path) for path in places}
    loader: Any = importlib.machinery.SourceFileLoader
    plain, system = loader.path_stats, sys.modules[os.name]

    def former(path: Any) -> Any:
        try:
            text = os.fsdecode(path)
        except TypeError:  # a descriptor, or a mistake that the system tells
            return path
        return places.get(os.path.realpath(text), path) if os.path.basename(text) in names else path

    def path_stats(self: object, path: str) -> object:
        if former(path) != path:
            raise OSError("its code is in no cache")
        return plain(self, path)

    open_plain, open_code, open_system, stat = builtins.open, io.open_code, os.open, os.stat
    seen = {call: AsBefore(call, former) for call in (open_plain, open_code, open_system, stat)}
    for owner in (builtins, io, sys.modules["_io"], os, system, sys.modules.get("tokenize")):
        for name in ("open", "open_code", "stat", "_builtin_open"):
            if (call := getattr(owner, name, None)) in seen:
                setattr(owner, name, seen[call])
    for able in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
        able.update([seen[call] for call in (open_system, stat) if call in able])
    loader.path_stats, sys.dont_write_bytecode = path_stats, True


def be_the_next(folder: str) -> None:
    """Run the project's own `sitecustomize`, which this one hides."""
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != os.path.realpath(folder)]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        sys.modules["sitecustomize"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


def said(asked: dict[str, Any]) -> dict[str, object]:
    """The answer of the requested program, or its error."""
    space: dict[str, Any] = {"__name__": "tests"}
    if asked["is_as_before"] and not hasattr(os.stat, "former"):
        return {"error": ["RuntimeError", "this Python passes sitecustomize over, which shows files as they were"]}
    try:
        for name in asked["needs"]:
            importlib.import_module(name)
        exec(asked["program"], space)
        return {"answer": space["answer"](*asked["arguments"])}
    except BaseException as error:
        return {"error": [type(error).__name__, str(error)]}


def main() -> None:
    """Run the tests named on standard input, write the result into a file, and end."""
    lifeline, nothing = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    with os.fdopen(lifeline, "rb", 0, closefd=False) as told:
        asked = json.loads(told.readline())
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=watch, args=(lifeline,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    find_as_the_repl_does()
    believe_no_former_code()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    answer = said(asked)
    sys.stdout.flush()
    sys.stderr.flush()
    with open(asked["result"] + ".new", "w", encoding="utf-8") as file:
        json.dump(answer, file)
    os.replace(asked["result"] + ".new", asked["result"])
    # Threads left by tests would keep a process from ending.
    os._exit(0)


if __name__ == "__main__":
    main()
elif __name__ == "sitecustomize":
    see_former(os.path.dirname(__file__))
    be_the_next(os.path.dirname(__file__))
