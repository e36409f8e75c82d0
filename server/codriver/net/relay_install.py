"""Install the relay: a directory for each version, and two scripts that clients start.

    codriver_relay.py, codriver_hook.py  two lines that refer to the directory of the version installed last
    relays/<digest>/codriver_relay/      the relay's modules, whose bytecode Python caches there
    relays/<digest>/__main__.py          also runs them: `python -I -S relays/<digest>`
    relays/<digest>/in-use               locked by each running relay, so that its version is not removed

A directory is named after the digest of its files, so its content never changes, and the scripts are replaced
atomically once it is complete. So a relay uses a single version, even if it starts during an upgrade or imports a
module long after one. Only one server installs at a time. Unused versions are removed except for the newest. Clients
start the scripts because Python takes longer to run a directory, which imports `runpy`, than to run the whole relay.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import time
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.errors import StartError
from codriver.files import FileRules, Links
from codriver.files.codriver_paths import hook_file
from codriver.files.file_locks import try_lock
from codriver.systems.file_system import is_open

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE_RULES: Final = FileRules(Links.ANY, files.MEBIBYTE)
PACKAGE_NAME: Final = "codriver_relay"
VERSIONS_DIRECTORY: Final = "relays"
DIGEST_PATTERN: Final = re.compile(r"[0-9a-f]{16}")
"""Matches the directory name of an installed version."""
MAX_RETAINED_VERSIONS: Final = 4
"""Number of the newest versions that are retained even if unused, because a relay may be about to start."""
IN_USE_FILE: Final = "in-use"
"""The name of the file that a running relay locks.

`codriver_relay.command_line` uses the same name, but the server does not import that module.
"""
LOCK_FILE: Final = "codriver_relay.lock"
LOCK_TIMEOUT_S: Final = 10.0
"""Maximum time, in seconds, to wait for another server's installation, which takes a few milliseconds."""
SCRIPT_TEMPLATE: Final = (
    'import os, sys; sys.path.insert(0, os.path.join(os.path.dirname(__file__), "{folders}", "{digest}"))\n'
    "from {package}.{module} import main; del sys.path[0]; sys.exit(main())\n"
)
"""Content of the installed scripts."""


class RelayNotInstalledError(StartError):
    """Raised when the relay cannot be installed."""

    def __init__(self, target: Path, error: OSError) -> None:
        super().__init__(
            f"cannot install the relay as {target}: {error.strerror or error}. Make its folder writable, or set "
            "XDG_CONFIG_HOME to a writable folder"
        )


def shipped_relay_directory() -> Path:
    """Return the directory of the relay package that this server includes."""
    found = find_spec(PACKAGE_NAME)
    return Path(str(found.origin if found else None)).parent


def relay_files(source: Path, target: Path) -> dict[Path, bytes]:
    """Return the files to install, as a dict from paths to contents. `source` is the directory of the relay package.

    The last one is the script `target`, which clients start. The script for hooks precedes it.

    Raises:
        OSError: a file of the package cannot be read.
    """
    sources = {path.name: files.read(path, SOURCE_RULES) for path in sorted(source.glob("*.py"))}
    digest = hashlib.sha256(
        b"".join(b"%s\0%d\0%s" % (name.encode(), len(sources[name]), sources[name]) for name in sources)
    )
    directory = target.with_name(VERSIONS_DIRECTORY) / digest.hexdigest()[:16]
    parts = {directory / PACKAGE_NAME / name: text for name, text in sources.items()}
    scripts = {
        position: SCRIPT_TEMPLATE.format(
            folders=VERSIONS_DIRECTORY, digest=directory.name, package=PACKAGE_NAME, module=module
        ).encode()
        for position, module in ((hook_file(target), "hook"), (target, "command_line"))
    }
    return {**parts, directory / "__main__.py": sources["__main__.py"], **scripts}


def install_relay(source: Path, target: Path) -> Path:
    """Install the relay unless the same version is already installed, and return the path of its script.

    Raises:
        RelayNotInstalledError: the relay is missing or outdated, and cannot be written.
    """
    position = target
    try:
        expected = relay_files(source, target)
        if all(map(_is_installed, expected, expected.values())):
            return target
        with _install_lock(target.with_name(LOCK_FILE)):
            for position, text in expected.items():
                if not _is_installed(position, text):
                    files.replace(position, text, links=Links.ANY, make_mode=files.PRIVATE_DIRECTORY_MODE)
            _remove_old_versions(target)
    except OSError as error:
        raise RelayNotInstalledError(position, error) from error
    return target


@contextmanager
def _install_lock(path: Path) -> Iterator[None]:
    """Lock the installation for the duration of the context, if the file system supports locks.

    Raises:
        OSError: the directory cannot be written.
    """
    with files.locate(path, Links.OF_USER, make_mode=files.PRIVATE_DIRECTORY_MODE) as opened:
        descriptor = opened.open_private(os.O_RDWR | os.O_CREAT)
    try:
        with suppress(OSError):
            ends = time.monotonic() + LOCK_TIMEOUT_S
            while not try_lock(descriptor) and time.monotonic() < ends:
                time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)


def _is_installed(target: Path, text: bytes) -> bool:
    """Return whether a private file with this content exists."""
    try:
        now, status = files.read_with_status(target, SOURCE_RULES)
    except OSError:
        return False
    return now == text and not is_open(status, files.OTHERS_PERMISSIONS)


def _remove_old_versions(target: Path) -> None:
    """Remove versions that are not in use, except for the newest ones. Errors are ignored."""
    named = DIGEST_PATTERN.search(files.read_text(target, SOURCE_RULES))
    with suppress(OSError):
        os.utime(
            target.with_name(VERSIONS_DIRECTORY) / (named[0] if named else "")
        )  # an old version may have been reinstalled
        found = [
            directory
            for directory in target.with_name(VERSIONS_DIRECTORY).iterdir()
            if DIGEST_PATTERN.fullmatch(directory.name)
        ]
        oldest = sorted(found, key=lambda directory: directory.lstat().st_mtime_ns)[:-MAX_RETAINED_VERSIONS]
        for directory in oldest:
            if not _is_in_use(directory):
                files.remove_tree(directory)


def _is_in_use(directory: Path) -> bool:
    """Return whether a relay of this version is running."""
    try:
        with files.locate(directory / IN_USE_FILE, Links.OF_USER) as position:
            if sys.platform == "win32":
                position.path.unlink()  # Windows cannot remove an open file
            else:
                descriptor = position.open_private(os.O_RDWR)
                try:
                    os.lockf(descriptor, os.F_TEST, 0)
                finally:
                    os.close(descriptor)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
