"""The relay's command line, as written into configuration files that are shared with other machines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver_relay.starter import server_environment

if TYPE_CHECKING:
    from codriver.setup.environment import Environment

RELAY_COMMAND: Final = ("codriver-relay", "--workspace", "auto", "--start")
"""The command line of a relay on the PATH. With `auto`, the relay finds the workspace itself."""
INSTALLERS: Final = frozenset({"pip", "uv", "poetry", "pdm"})
"""Installers that fetch packages by name. Source: the INSTALLER files that they write."""
HELP_TIMEOUT_S: Final = 10.0
"""Maximum time to wait for the output of `codriver-relay --help`."""


def shared_command(environment: Environment) -> tuple[str, ...]:
    """Return a command line that starts the relay on any machine with Codriver, or () if it does not work here.

    The relay on the PATH may belong to another installation, so this checks that it supports `auto`.
    """
    relay = environment.which(RELAY_COMMAND[0])
    if relay is not None and _supports_auto(relay):
        return RELAY_COMMAND
    version = registry_version()
    return (
        ("uvx", "--from", f"codriver=={version}", *RELAY_COMMAND) if version and environment.has_command("uvx") else ()
    )


def _supports_auto(relay: str) -> bool:
    if Path(relay).parent == Path(sys.executable).parent:
        return True
    if not Path(relay).is_absolute():
        return False  # a file in the current directory is not trusted
    try:
        done = subprocess.run(  # noqa: S603  # a program on the user's PATH
            [relay, "--help"],
            env=server_environment(str(Path.cwd())),
            capture_output=True,
            timeout=HELP_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and b"`auto`" in done.stdout


def registry_version() -> str:
    """Return the installed version if it can be installed from a package registry, or ""."""
    from importlib import metadata  # noqa: PLC0415  # not needed if the relay is on the PATH

    try:
        installed = metadata.distribution("codriver")
        direct, installer = installed.read_text("direct_url.json"), installed.read_text("INSTALLER")
    except (metadata.PackageNotFoundError, OSError):
        return ""
    words = (installer or "").lower().split()
    return installed.version if direct is None and words and words[0] in INSTALLERS else ""
