"""The REPL of a running application: the embedded REPL of Codriver, in the application's own process.

The REPL is refused unless enabled, listens on this machine alone, and is found by its port file. Its code is loaded
only at its start.
"""

from __future__ import annotations

import importlib
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from typing import Any, Protocol

    class Repl(Protocol):
        """A REPL in this process."""

        port: int
        """Where it listens; 0 for one that connects out when it is used."""
        port_file: str | None

        @property
        def is_open(self) -> bool:
            """Return whether it takes clients."""

        def stop(self) -> None:
            """End it, and remove its port file."""

        def use_loop(self, loop: asyncio.AbstractEventLoop) -> None:
            """Run `await` at the top of what is evaluated on that loop."""


WORKER = "_codriver_worker"
"""The name under which the embedded REPL is loaded, so that the application may have modules of any other."""
HERE = os.path.dirname(os.path.abspath(__file__))
PLACES = (os.path.join(os.path.dirname(HERE), "codriver", "repls", "worker"), os.path.join(HERE, "worker"))
"""The folders of its files: beside this package as it is installed, or in the package if both were copied."""

_started: list[Repl] = []
"""The REPL of this process, or of the parent that it was forked from."""


def start_repl(
    enabled: bool | None = None,  # noqa: FBT001  # as `install` takes it
    *,
    folder: str | None = None,
    loop: asyncio.AbstractEventLoop | None = None,
) -> Repl | None:
    """Start a REPL in this process; the REPL, or None for a refusal. Twice gives the same one.

    A process that `codriver run` started has its REPL already, which is returned. Otherwise the start is refused unless
    `enabled` is true, or, without that argument, `install` was enabled or the environment
    has CODRIVER_SEAM=1. It is also refused in a process of Codriver's own, and in a helper process of one with a REPL.
    `folder`: the project's, in which the port file is written; by default the current one. `loop`: the application's
    event loop for `await`; by default the running one. The logger `codriver_seam` tells the outcome.
    """
    if not (_is_enabled() if enabled is None else enabled):
        _log("warning", "no REPL is started: it is not enabled by install(True) or CODRIVER_SEAM=1")
        return None
    loop = loop or _running_loop()
    shared = _of_run()
    if shared is not None:
        return _RunRepl(shared, loop)
    if _started and _started[0].is_open:
        if loop is not None:
            _started[0].use_loop(loop)
        return _started[0]
    if WORKER in sys.modules and not _started:
        sys.modules[WORKER].declined += 1  # type: ignore[attr-defined]  # ours alone, told with what is evaluated
        _log("info", "no REPL is started: this process is a REPL of Codriver's")
        return None
    return _start(os.path.abspath(folder or os.getcwd()), loop)


class _RunRepl:
    """The REPL of a process that `codriver run` started: an agent's server has it connect when it is used."""

    port = 0
    port_file: str | None = None

    def __init__(self, shared: dict[str, Any], loop: asyncio.AbstractEventLoop | None) -> None:
        self._shared = shared
        if loop is not None:
            self.use_loop(loop)

    @property
    def is_open(self) -> bool:
        """Whether agents can use it: as long as the process lives."""
        return True

    def stop(self) -> None:
        """Hang up on the agent that uses it, if any."""
        repl = self._shared["repl"]
        if repl is not None and self._shared["pid"] == os.getpid():
            repl.stop()

    def use_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run top-level `await` of evaluated code on that loop from now on."""
        self._shared["loop"] = loop
        repl = self._shared["repl"]
        if repl is not None and self._shared["pid"] == os.getpid():
            repl.use_loop(loop)


def _of_run() -> Any:
    """What this process shares with its REPL if `codriver run` started it, otherwise None."""
    import signal

    number = getattr(signal, "SIGURG", None)
    return None if number is None else getattr(signal.getsignal(number), "codriver_run", None)


def _start(folder: str, loop: asyncio.AbstractEventLoop | None) -> Repl | None:
    repl: Repl = _load("serving.embedded").EmbeddedRepl(folder, loop)
    try:
        repl.start()  # type: ignore[attr-defined]  # ours alone
    except FileExistsError as error:
        _log("info", "no REPL is started: this process helps the one that wrote %s", error.args[0])
        return None
    except OSError as error:
        if not repl.port:
            _log("warning", "no REPL is started: %s", error)
            return None
        _log("warning", "the port file cannot be written in %s: %s", folder, error)
    _started[:] = [repl]
    where = repl.port_file or "no port file, as all places are taken"
    _log("info", "REPL on 127.0.0.1:%s, process %s, %s", repl.port, os.getpid(), where)
    return repl


def _is_enabled() -> bool:
    package = sys.modules[__name__.rpartition(".")[0]]
    return bool(getattr(package, "session_id", None)) or os.environ.get("CODRIVER_SEAM") == "1"


def _running_loop() -> asyncio.AbstractEventLoop | None:
    if "asyncio" not in sys.modules:
        return None
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _load(name: str) -> Any:
    """Return a module of the embedded REPL.

    Raises:
        ImportError: the module's files are not next to this package.
    """
    if WORKER not in sys.modules:
        folder = next((place for place in PLACES if os.path.isdir(place)), None)
        if folder is None:
            raise ImportError(f"the embedded REPL is in none of {PLACES}: install codriver, or copy its worker there")
        loading: dict[str, Any] = {"__name__": f"{WORKER}.loading"}
        with open(os.path.join(folder, "loading.py"), encoding="utf-8") as file:
            exec(compile(file.read(), "<codriver loading>", "exec", dont_inherit=True), loading)  # noqa: S102  # see `loading`
        loading["load"](folder, WORKER)
    return importlib.import_module(f"{WORKER}.{name}")


def _log(level: str, text: str, *values: object) -> None:
    import logging

    getattr(logging.getLogger("codriver_seam"), level)(text, *values)
