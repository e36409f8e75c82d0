"""Hide what only POSIX systems have from our own code; the `sitecustomize` of a test's processes.

The standard library still sees it: its event loop is built on it. What Python does not have on Windows is removed
for everybody if nothing here needs it. Locks stay, since each system has some kind: tests/windows tests those of
Windows.
"""

import builtins
import os
import select
import sys

MODULES = frozenset({"grp", "pwd", "resource", "termios", "tty", "pty"})
FUNCTIONS = (
    "fork", "forkpty", "getpgid", "getpgrp", "getsid", "killpg", "register_at_fork", "setpgid", "setpgrp", "setsid",
)  # fmt: skip
OURS = ("/server/codriver/", "/relay/codriver_relay/")
real_import = builtins.__import__


def is_codriver_module(given):
    file = (given or {}).get("__file__") or ""
    return any(place in file for place in OURS)


def limited_import(name, globals=None, *others, **named):  # noqa: A002  # its own name there
    if name in MODULES and is_codriver_module(globals):
        raise ModuleNotFoundError(f"No module named {name!r}, as on another system", name=name)
    return real_import(name, globals, *others, **named)


builtins.__import__ = limited_import
for name in FUNCTIONS:
    if hasattr(os, name):
        delattr(os, name)
for name in ("poll", "epoll", "devpoll", "kqueue"):
    if hasattr(select, name):
        delattr(select, name)
sys.without_posix = True  # type: ignore[attr-defined]  # ours
