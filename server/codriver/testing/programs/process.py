"""Prepare a test process: signals, compiled code, and the runner with the plugin that writes events."""

from __future__ import annotations

import os
import sys

from .bytecode import ignore_unsettled_code
from .event_file import EventFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_signal: Any = sys.modules["_signal"]
NO_SITECUSTOMIZE_MESSAGE = "this Python does not run sitecustomize, which provides the content to test"
SIGNALS_IGNORED_BY_PYTHON = ("SIGPIPE", "SIGXFSZ", "SIGXFZ")
"""Signals that Python itself ignores when it starts."""


def use_default_signals() -> None:
    """Reset the signal handlers to those of a Python process started by a shell.

    A background process may have inherited ignored signals.
    """
    for name in dir(_signal):
        if not name.startswith("SIG") or name.startswith("SIG_") or name in SIGNALS_IGNORED_BY_PYTHON:
            continue
        number = getattr(_signal, name)
        if isinstance(number, int) and _is_ignored(number):
            _signal.signal(number, _signal.SIG_DFL)
    if _signal.getsignal(_signal.SIGINT) is not _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    if hasattr(_signal, "pthread_sigmask"):
        _signal.pthread_sigmask(_signal.SIG_SETMASK, ())


def _is_ignored(number: int) -> bool:
    """Return whether the process ignores a signal."""
    try:
        return bool(_signal.getsignal(number) == _signal.SIG_IGN)
    except (ValueError, OSError):
        return False


def prepare_process(
    request: Mapping[str, Any], import_error: BaseException | None, modules: Mapping[str, Any]
) -> Callable[[], object]:
    """Prepare the process, and return the function that runs the tests.

    `import_error` is the error raised when the test runner was imported, or None.
    """
    use_default_signals()
    ignore_unsettled_code()
    events = EventFile(request["events"])
    keeper = None
    if "retained_process" in modules:
        keeper = modules["retained_process"].FailureKeeper(events, os.path.dirname(request["events"]))
        request = dict(request, keeper=keeper)
    if request["has_sources"] and not hasattr(os.stat, "__wrapped__"):
        events.write("problem", kind="no-sources", message=NO_SITECUSTOMIZE_MESSAGE)
        return lambda: sys.exit(1)
    if import_error is None:
        refusal = modules[request["plugin"]].attach(events, request, modules)
        if refusal:
            events.write("problem", **refusal)
    else:
        missing = isinstance(import_error, ModuleNotFoundError) and import_error.name == request["package"]
        kind = "no-" + request["package"] if missing else "internal"
        message = type(import_error).__name__ + ": " + str(import_error)
        if missing:
            message = request["package"] + " is not installed in " + sys.prefix
        events.write("problem", kind=kind, message=message)
    run = make_run(request)
    if isinstance(import_error, Exception) and hasattr(os, "fork") and not request["has_sources"]:
        # A second import would take a different path from the first. Replacing a process is safe where `fork` exists.
        command = request["orig_argv"]
        return lambda: os.execv(command[0], command)  # noqa: S606 - itself
    if keeper is None:
        return run

    def run_and_wait() -> None:
        try:
            run()
        except SystemExit as error:
            status = int(error.code) if isinstance(error.code, int) else 1 if error.code else 0
            if status:
                events.write("status", status=status)
                if request["before_retention"] is not None:
                    request["before_retention"]()
                keeper.serve_requests()
            raise

    return run_and_wait


def attach_to_worker(request: Mapping[str, Any], modules: Mapping[str, Any]) -> None:
    """Make a worker of pytest-xdist describe failures and run recorders like the main process."""
    ignore_unsettled_code()
    modules[request["plugin"]].attach(EventFile(request["events"]), request, modules, is_worker=True)


def make_run(request: Mapping[str, Any]) -> Callable[[], object]:
    """Return a function that runs the tests as `python -m` or `python SCRIPT` does."""
    script = request["script"]
    if not script:
        runpy: Any = __import__("runpy")
        return lambda: runpy._run_module_as_main(request["module"])

    def run_script() -> None:
        main = sys.modules["__main__"]
        main.__file__ = script
        loader: Any = sys.modules["_frozen_importlib_external"]
        main.__loader__ = loader.SourceFileLoader("__main__", script)
        main.__cached__ = None  # type: ignore[attr-defined]  # as Python sets it
        with open(script, "rb") as file:
            code = compile(file.read(), script, "exec", dont_inherit=True)
        exec(code, main.__dict__)

    return run_script
