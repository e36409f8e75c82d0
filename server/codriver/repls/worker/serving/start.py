"""Start the worker: parse its options, set its search path, and end it with its parent process.

A checkout's environment has the project's packages installed from the checkout, often as links. In a linked git
worktree, importing such a package would run the checkout's code, so these packages are detected and reported.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.machinery
import importlib.util
import itertools
import os
import signal
import socket
import sys

from ..basics.connections import start_thread
from ..basics.definition_access import INSTALLED_DIRECTORIES
from ..basics.error_report import CODRIVER_DIRECTORY
from ..basics.jobs import Interrupts
from .nrepl_server import Server
from .standard_streams import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from importlib.machinery import ModuleSpec
    from typing import Any

    from ..basics.dialect import Dialect

PR_SET_PDEATHSIG = 1
"""The prctl(2) option that requests a signal when the parent process ends."""
CLIENT_PATH_VARIABLE = "PYTHONPATH_OF_CLIENT"
"""The environment variable with the client's PYTHONPATH, as in `codriver_relay.starter`."""
NO_BASILISP_EXIT_STATUS = 3
"""The exit status if Lisp was requested but Basilisp is missing."""


def main() -> None:
    """Run the worker until its parent process ends, or until Ctrl-C in a terminal."""
    options = _parse()
    if options.supervised:
        _end_with_parent()
    # User code and its children must not read the parent's input.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    make_dialect = _dialect_factory(options.dialect)
    roots = find_roots(os.path.abspath(options.workspace))
    # The worker's directory must not be searched, so that none of its modules are imported by accident.
    not_again = {"", CODRIVER_DIRECTORY.rstrip(os.sep), *roots}
    sys.path[:] = [entry for entry in sys.path if entry not in not_again]
    sys.argv = [""]
    if options.dialect == "lisp":
        _exit_without_basilisp()
    outside = packages_outside(roots, options.checkout) if options.checkout else {}
    interrupts = Interrupts(is_supervised=options.supervised)
    about = {"codriver/outside": outside} if outside else {}
    is_managed = options.supervised and not options.unaccepted
    server = Server(make_dialect(roots), interrupts, Output(interrupts.shield), about, compares=is_managed)
    listener = socket.create_server((options.host, options.port))
    host, port = options.host, listener.getsockname()[1]
    sys.stdout.write(f"nREPL server started on port {port} on host {host} - nrepl://{host}:{port}\n")
    sys.stdout.flush()
    server.capture_process()
    server.accept_connections(listener)
    # Lookups need this module. Loading it later might load a project module with the same name.
    importlib.import_module("inspect")
    if options.unaccepted:
        server.while_evaluating = AppendedSearchPath([*roots, *pop_client_pythonpath()])
    else:
        server.at_first.append(lambda: extend_search_path(roots))
    with contextlib.suppress(KeyboardInterrupt):
        server.run()


def extend_search_path(roots: list[str]) -> None:
    """Add the project's directories and the client's PYTHONPATH to the search path.

    The worker itself was started without that PYTHONPATH.
    """
    given = os.environ.get(CLIENT_PATH_VARIABLE, "")
    named = pop_client_pythonpath()
    if given:
        os.environ["PYTHONPATH"] = given  # for processes started by evaluated code
    known = {*roots, *sys.path}
    sys.path[:0] = [*roots, *(entry for entry in named if entry not in known)]


def pop_client_pythonpath() -> list[str]:
    """Return the directories of the client's PYTHONPATH, and remove the environment variable that contains them."""
    given = os.environ.pop(CLIENT_PATH_VARIABLE, "")
    return list(dict.fromkeys(os.path.abspath(entry) for entry in given.split(os.pathsep))) if given else []


class AppendedSearchPath:
    """A context manager that appends directories to the search path.

    Because they come last, modules in them cannot replace standard library modules.
    """

    def __init__(self, directories: list[str]) -> None:
        self._directories = directories
        self._added: list[str] = []

    def __enter__(self) -> None:
        self._added = [directory for directory in self._directories if directory not in sys.path]
        sys.path.extend(self._added)

    def __exit__(self, *_error: object) -> None:
        for directory in self._added:
            if directory in sys.path:  # code may have removed or moved it
                del sys.path[len(sys.path) - 1 - sys.path[::-1].index(directory)]


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Codriver's embedded REPL, which is an nREPL server.")
    parser.add_argument("--dialect", choices=["python", "lisp"], default="python")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="port to listen on, or 0 for any free port")
    parser.add_argument("--workspace", default=os.getcwd(), help="the project's folder")
    parser.add_argument("--checkout", help="the main checkout, if the workspace is a linked working tree")
    parser.add_argument(
        "--unaccepted", action="store_true", help="import modules of the project only in evaluated code"
    )
    parser.add_argument("--supervised", action="store_true", help="end when standard input closes")
    return parser.parse_args()


def _dialect_factory(name: str) -> Callable[[list[str]], Dialect]:
    """Return a function that creates the dialect with this name.

    Only that dialect is imported. Like the whole worker, it is imported before the project's modules can be found,
    because those may have any name.
    """
    if name == "python":
        from ..python.python import Python

        return Python
    from ..lisp.lisp import Lisp

    return lambda _roots: Lisp()


def _exit_without_basilisp() -> None:
    if importlib.util.find_spec("basilisp") is None:
        words = f"Basilisp is not installed for {sys.executable}: run `pip install 'basilisp>=0.5.1,<0.6'` there"
        sys.stderr.write(f"codriver-worker: {words}\n")
        sys.exit(NO_BASILISP_EXIT_STATUS)


def _end_with_parent() -> None:
    """End this process when its parent closes the pipe to stdin or, on Linux, when its parent ends."""
    with contextlib.suppress(Exception):
        if sys.platform == "linux":
            import ctypes

            # The thread below cannot run while code holds the interpreter lock.
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    pipe = os.dup(0)

    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(pipe, 4096):
                pass
        os._exit(0)

    start_thread(watch)


def find_roots(workspace: str) -> list[str]:
    """Return the directories with the project's modules: the workspace, and its `src` unless `src` is a package."""
    source = os.path.join(workspace, "src")
    if os.path.isdir(source) and not os.path.exists(os.path.join(source, "__init__.py")):
        return [workspace, source]
    return [workspace]


def packages_outside(roots: list[str], checkout: str) -> dict[str, str]:
    """Return the location of each project package that is imported from `checkout` instead of the workspace.

    `roots` are the workspace and its directories that will be searched first. They must not be in `sys.path` yet. A
    checkout's packages may be in directories on the search path, be found by an editable install's importer, or have
    been installed from the checkout. None of them are imported.
    """
    workspace = roots[0]
    names = {
        *_packages_on_search_path(workspace, checkout),
        *_packages_of_importers(checkout),
        *_packages_of_distributions(checkout),
    }
    found: dict[str, str] = {}
    for name in sorted(names):
        with contextlib.suppress(Exception):  # importers may be third-party code
            locations = _find_locations(name, roots)
            if locations and not any(_is_within(location, workspace) for location in locations):
                found[name] = locations[0]
    return found


def _is_within(path: str, directory: str) -> bool:
    real, root = os.path.realpath(path), os.path.realpath(directory)
    return real == root or real.startswith(root.rstrip(os.sep) + os.sep)


def _packages_on_search_path(workspace: str, checkout: str) -> Iterator[str]:
    """Yield the names of packages in directories of the checkout that are on the search path."""
    import pkgutil  # the import takes a tenth of the start-up time, and few worktrees need it

    for directory in sys.path:
        if (
            not directory
            or any(name in directory.split(os.sep) for name in INSTALLED_DIRECTORIES)
            or _is_within(directory, sys.prefix)
        ):
            continue
        if _is_within(directory, checkout) and not _is_within(directory, workspace):
            yield from (module.name for module in pkgutil.iter_modules([directory]))


def _packages_of_importers(checkout: str) -> Iterator[str]:
    """Yield the names of packages that the importers of editable installs map to directories in the checkout."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("__editable__")]
    for holder in [*modules, *sys.meta_path]:
        for mapping in list(getattr(holder, "__dict__", {}).values()):
            for name, location in list(mapping.items()) if isinstance(mapping, dict) else ():
                if isinstance(name, str) and isinstance(location, str) and _is_within(location, checkout):
                    yield name.partition(".")[0]


def _packages_of_distributions(checkout: str) -> Iterator[str]:
    """Yield the names of packages that were installed from a directory in the checkout.

    Source: PEP 610, `direct_url.json`.
    """
    import json
    from importlib import metadata
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    for distribution in metadata.distributions():
        with contextlib.suppress(Exception):  # metadata may have any shape
            text = distribution.read_text("direct_url.json")
            url = urlsplit(json.loads(text)["url"]) if text else None
            if url is not None and url.scheme == "file" and _is_within(url2pathname(url.path), checkout):
                yield from _top_level_names(distribution)


def _top_level_names(distribution: Any) -> Iterator[str]:
    """Yield the names of the top-level packages and modules in a distribution."""
    top_level = (distribution.read_text("top_level.txt") or "").split()
    firsts = {file.parts[0] for file in distribution.files or () if file.suffix == ".py"}
    files = {first[:-3] if first.endswith(".py") else first for first in firsts}
    plain = [distribution.metadata["Name"].replace("-", "_")]
    names = top_level or [name for name in files if not name.startswith("__editable__")] or plain
    return (name for name in names if name.isidentifier())


def _find_locations(name: str, roots: list[str]) -> list[str]:
    """Return the directories of a package or the file of a module. Return [] if it does not exist."""
    spec = _find_spec(name, roots)
    if spec is None:
        return []
    directories = list(itertools.islice(spec.submodule_search_locations or (), 10))
    locations = directories or [spec.origin or ""]
    return [location for location in locations if os.path.isabs(location) and os.path.exists(location)]


def _find_spec(name: str, roots: list[str]) -> ModuleSpec | None:
    """Return the import spec of a package, searching `roots` before `sys.path`. Return None if it is not found."""
    if name in sys.modules:
        return sys.modules[name].__spec__
    for finder in sys.meta_path:
        is_by_path = finder is importlib.machinery.PathFinder
        spec = finder.find_spec(name, [*roots, *sys.path] if is_by_path else None)
        if spec is not None:
            return spec
    return None
