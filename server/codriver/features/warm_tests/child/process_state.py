"""Describe the state of this process: its threads, descriptors, handlers and interpreter settings."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FORK_SAFE_THREADS = frozenset({"jemalloc_bg_thd"})
"""Names of threads that survive a fork. PyArrow's allocator restarts its thread in the child."""

real_stat = os.stat
real_fork: Any = getattr(os, "fork", None)  # missing on Windows, where nothing is forked
"""The original `os.fork`, without the wrapper that records what imports do."""

TRIAL_FORK_FILE = __file__
"""The file name in warnings about the trial forks in `thread_ids`."""

FILE_TYPE, DIRECTORY = 0o170000, 0o040000
"""File mode bits: the mask for the file type, and the type of directories.

The module `stat` defines them, but not every new interpreter has loaded it.
"""

CHECKED_SIGNALS = range(1, 32)
"""The signals whose handlers an import may change. Libraries do not use real-time signals."""


def thread_ids(*, after_fork: bool = False) -> set[str]:
    """Return the operating system's ids of all threads in the process, including those started by native code.

    With `after_fork`, return the threads that exist after a trial fork. Some libraries, such as OpenBLAS, stop their
    threads before a fork.
    """
    if after_fork:
        child = real_fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    found = set()
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/comm") as file:
                name = file.read().strip()
        except OSError:  # it has ended since it was listed
            continue
        if name not in FORK_SAFE_THREADS:
            found.add(thread)
    return found


def process_settings() -> dict[str, Any]:
    """Return the settings of the process that an import must not change.

    Such a change could not be repeated when the module is revealed. A setting is None if its module is not loaded.
    Loading the module does not count as a change.
    """
    signals = sys.modules["_signal"]
    locale, threading, logging, gc = map(loaded_module, ("_locale", "threading", "logging", "gc"))
    decimal, socket, events = map(loaded_module, ("_decimal", "_socket", "asyncio.events"))
    context, faulthandler = loaded_module("multiprocessing.context"), loaded_module("faulthandler")
    monitoring: Any = getattr(sys, "monitoring", None)
    return {
        "sys.path": sys.path[:],
        "sys.path_hooks": sys.path_hooks[:],
        "working directory": os.getcwd(),
        "recursion limit": sys.getrecursionlimit(),
        "switch interval": sys.getswitchinterval(),
        "sys.excepthook": sys.excepthook,
        "sys.unraisablehook": sys.unraisablehook,
        "sys.displayhook": sys.displayhook,
        "trace function": sys.gettrace(),
        "profile function": sys.getprofile(),
        "signal handlers": [signals.getsignal(number) for number in CHECKED_SIGNALS],
        "signal timer": signals.getitimer(signals.ITIMER_REAL),
        "open descriptors": len(os.listdir("/proc/self/fd")),
        "locale": locale and locale.setlocale(locale.LC_ALL),
        "threading.excepthook": threading and threading.excepthook,
        "root logger's handlers": logging and logging.root.handlers[:],
        "root logger's level": logging and logging.root.level,
        "logger class": logging and logging.getLoggerClass(),
        "log record factory": logging and logging.getLogRecordFactory(),
        "decimal context": decimal and (repr(decimal.getcontext()), repr(decimal.DefaultContext)),
        "limit of digits": sys.get_int_max_str_digits(),
        "fault handler": bool(faulthandler and faulthandler.is_enabled()),
        "monitoring tools": monitoring and [monitoring.get_tool(number) for number in range(6)],
        "socket timeout": socket and (socket.getdefaulttimeout(),),
        "process start method": context and (context._default_context._actual_context,),
        "event loop policy": events and (getattr(events, "_event_loop_policy", None),),
        "umask": read_umask(),
        "garbage collection": gc and (gc.isenabled(), gc.get_threshold(), gc.callbacks[:]),
    }


def read_umask() -> str:
    """Return the umask.

    It is read from the system, because `os.umask` can return it only by changing it.
    """
    with open("/proc/self/status") as file:
        return next((line.split()[1] for line in file if line.startswith("Umask:")), "")


def loaded_module(name: str) -> Any:
    """Return a module from `sys.modules`, or None if its import has not finished."""
    module = sys.modules.get(name)
    return None if getattr(getattr(module, "__spec__", None), "_initializing", False) else module


def changed_settings(before: dict[str, Any]) -> list[str]:
    """Return the names of the settings that have changed since `before`."""
    return [name for name, value in process_settings().items() if before[name] is not None and value != before[name]]


def file_stat(path: str) -> tuple[int, int, int] | None:
    """Return the modification time, the size and the inode of a file, or None if it does not exist.

    For a directory, only the inode is compared. If the path ends with a separator, the modification time of the
    directory is included, because its entries were listed.
    """
    try:
        found = real_stat(path)
    except (OSError, ValueError):
        return None
    if found.st_mode & FILE_TYPE == DIRECTORY and not path.endswith(os.sep):
        return 0, 0, found.st_ino
    return found.st_mtime_ns, found.st_size, found.st_ino


def random_state() -> Any:
    """Return a hash of the state of Python's random number generator, or None if `random` is not loaded."""
    instance = getattr(loaded_module("random"), "_inst", None)
    return instance and hash(instance.getstate())
