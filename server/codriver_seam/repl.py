"""The REPL of a running application: Codriver's embedded REPL in the application's own process.

It starts only if it is enabled, listens only on this machine, and is found by its port file. Its code is loaded when it
starts.
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
        """The port on which it listens, or 0 if it connects to its client when it is used."""
        port_file: str | None

        @property
        def is_open(self) -> bool:
            """Return whether the REPL accepts clients."""

        def stop(self) -> None:
            """Stop the REPL, and remove its port file."""

        def use_loop(self, loop: asyncio.AbstractEventLoop) -> None:
            """Run `await` in evaluated code on this loop."""


WORKER_PACKAGE_NAME = "_codriver_worker"
"""The name under which the embedded REPL is imported, so that it cannot conflict with the application's modules."""
PACKAGE_DIRECTORY = os.path.dirname(os.path.abspath(__file__))
WORKER_DIRECTORIES = (
    os.path.join(os.path.dirname(PACKAGE_DIRECTORY), "codriver", "repls", "worker"),
    os.path.join(PACKAGE_DIRECTORY, "worker"),
)
"""Possible directories for the REPL's code: next to this package, or in the package if both were copied."""

_started: list[Repl] = []
"""The REPL of this process, or of the parent from which it was forked."""


def start_repl(
    enabled: bool | None = None,  # noqa: FBT001  # as `install` takes it
    *,
    folder: str | None = None,
    loop: asyncio.AbstractEventLoop | None = None,
) -> Repl | None:
    """Start a REPL in this process and return it, or return None if no REPL may be started.

    A second call returns the same REPL. A process started by `codriver run` already has a REPL, which is returned.
    Otherwise, the REPL starts if `enabled` is true or, without this argument, if `install` was enabled or
    CODRIVER_SEAM=1 is set. It is refused in Codriver's own processes, and in helper processes of a process with a REPL.

    `folder` is the directory of the project, in which the port file is written. It defaults to the current directory.
    `loop` is the application's event loop for `await`. It defaults to the running one. The logger `codriver_seam` logs
    the outcome.
    """
    if not (_is_enabled() if enabled is None else enabled):
        _log("warning", "no REPL is started: neither install(True) nor CODRIVER_SEAM=1 has enabled the seam")
        return None
    loop = loop or _running_loop()
    shared = _shared_run_state()
    if shared is not None:
        return _RunRepl(shared, loop)
    if _started and _started[0].is_open:
        if loop is not None:
            _started[0].use_loop(loop)
        return _started[0]
    if WORKER_PACKAGE_NAME in sys.modules and not _started:
        sys.modules[WORKER_PACKAGE_NAME].declined += 1  # type: ignore[attr-defined]  # reported with evaluations
        _log("info", "no REPL is started: this process is already one of Codriver's REPLs")
        return None
    return _start(os.path.abspath(folder or os.getcwd()), loop)


class _RunRepl:
    """The REPL of a process started by `codriver run`. It connects to an agent's server on demand."""

    port = 0
    port_file: str | None = None

    def __init__(self, shared: dict[str, Any], loop: asyncio.AbstractEventLoop | None) -> None:
        self._shared = shared
        if loop is not None:
            self.use_loop(loop)

    @property
    def is_open(self) -> bool:
        """Return True, because the REPL can be used for as long as the process runs."""
        return True

    def stop(self) -> None:
        """Disconnect the agent that is using the REPL, if any."""
        repl = self._shared["repl"]
        if repl is not None and self._shared["pid"] == os.getpid():
            repl.stop()

    def use_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Use this event loop to run `await` in evaluated code."""
        self._shared["loop"] = loop
        repl = self._shared["repl"]
        if repl is not None and self._shared["pid"] == os.getpid():
            repl.use_loop(loop)


def _shared_run_state() -> Any:
    """Return the state that `codriver run` shares with this process, or None if it did not start the process."""
    import signal

    number = getattr(signal, "SIGURG", None)
    return None if number is None else getattr(signal.getsignal(number), "codriver_run", None)


def _start(directory: str, loop: asyncio.AbstractEventLoop | None) -> Repl | None:
    repl: Repl = _load("serving.embedded").EmbeddedRepl(directory, loop)
    try:
        repl.start()  # type: ignore[attr-defined]  # not part of the public interface
    except FileExistsError as error:
        _log("info", "no REPL is started: this is a helper of the process that wrote %s", error.args[0])
        return None
    except OSError as error:
        if not repl.port:
            _log("warning", "no REPL is started: %s", error)
            return None
        _log("warning", "the port file cannot be written in %s: %s", directory, error)
    _started[:] = [repl]
    where = repl.port_file or "no port file was written, because all file names are in use"
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
    """Import a module of the embedded REPL.

    Raises:
        ImportError: the REPL's files were not found.
    """
    if WORKER_PACKAGE_NAME not in sys.modules:
        directory = next((path for path in WORKER_DIRECTORIES if os.path.isdir(path)), None)
        if directory is None:
            raise ImportError(
                f"the embedded REPL was not found in any of {WORKER_DIRECTORIES}. Install Codriver, or copy its "
                "worker to one of them"
            )
        loading: dict[str, Any] = {"__name__": f"{WORKER_PACKAGE_NAME}.loading"}
        with open(os.path.join(directory, "loading.py"), encoding="utf-8") as file:
            exec(compile(file.read(), "<codriver loading>", "exec", dont_inherit=True), loading)  # noqa: S102  # see `loading`
        loading["load_package"](directory, WORKER_PACKAGE_NAME)
    return importlib.import_module(f"{WORKER_PACKAGE_NAME}.{name}")


def _log(level: str, text: str, *values: object) -> None:
    import logging

    getattr(logging.getLogger("codriver_seam"), level)(text, *values)
