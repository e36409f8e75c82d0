"""The machine itself: since when it runs, how its users are called, how many files a process may open."""

from __future__ import annotations

import sys
import time
from typing import Final

TELLS_USERS: Final = sys.platform == "linux"
"""Whether the kernel tells whose a connection is. Elsewhere a token has to."""

if sys.platform == "win32":

    def started_at() -> float:
        """The time at which the machine was started, in seconds since the epoch."""
        return time.time() - time.monotonic()

    def user_name(_number: int) -> str | None:
        """None: users have no numbers here."""
        return None

    def allow_open_files(_wanted: int) -> str:
        """Empty, as sockets are not counted here."""
        return ""

else:

    def started_at() -> float:
        """The time at which the machine was started, in seconds since the epoch."""
        # The usual clock of Linux stands still while the machine sleeps; those of others go on.
        clock = time.CLOCK_MONOTONIC
        if sys.platform == "linux":
            clock = time.CLOCK_BOOTTIME
        return time.time() - time.clock_gettime(clock)

    def user_name(number: int) -> str | None:
        """The name of a user; None where no name is known."""
        try:
            import pwd  # noqa: PLC0415  # some builds of Python lack it, and a refusal is rare

            return pwd.getpwuid(number).pw_name
        except (ImportError, KeyError):
            return None

    def allow_open_files(wanted: int) -> str:
        """Let this process open so many files, as far as the system allows; its words of refusal, else nothing."""
        try:
            import resource  # noqa: PLC0415  # as above
        except ImportError:
            return ""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY:
            wanted = min(wanted, hard)
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            return ""
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as error:
            return f"not more than {soft} files may be open: {error}"
        return ""
