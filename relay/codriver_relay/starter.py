"""Start a detached server, at most once per round of attempts to connect.

This module is imported when a server may have to be started.
"""

from __future__ import annotations

import errno
import os
import sys
import time

from codriver_relay.peer import is_locked
from codriver_relay.safe_files import (
    SERVER_DIRECTORY,
    Directory,
    close_directory,
    is_mine,
    is_open,
    make_in,
    make_private,
    open_directory,
    open_file,
    read_file,
    remove_in,
    status_in,
    status_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from subprocess import Popen

STOPPED_FOR_GOOD_STATUS = 5
"""The exit status of a server that the user has stopped for good, in which case no other one will appear."""
CLIENT_PYTHONPATH_VARIABLE = "PYTHONPATH_OF_CLIENT"
"""The environment variable with the client's whole PYTHONPATH, for a server started with only part of it.
"""


class Starter:
    """Starts a server that outlives the relay, at most once per round of attempts to connect."""

    def __init__(self, workspace: str, port: int | None, start_grace_s: float) -> None:
        self.workspace = workspace
        self.start_grace_s = start_grace_s
        self.arguments = ["serve", "--workspace", workspace, "--on-demand", "--detach"]
        if port is not None:
            self.arguments += ["--port", str(port)]
        self.log: int | None = None
        """The descriptor of `serve.log`, which receives the server's output."""
        self.reset()

    @property
    def is_starting(self) -> bool:
        """Return whether a server was started in this round and has not failed, as far as is known."""
        return self.process is not None and self.failure is None

    def reset(self) -> None:
        """Start a new round of attempts, in which the server may be started again."""
        if self.log is not None:
            os.close(self.log)
        self.log = None
        self.process: Popen[bytes] | None = None
        self.log_start = 0
        self.failure: str | None = None
        self.failed_at = 0.0

    def start(self) -> None:
        """Start the server, unless that was already tried in this round.

        If another server holds the lock, the started process exits on its own.
        """
        if self.process is not None or self.failure is not None:
            return
        # -P prevents Python from importing modules from the workspace, in which it runs.
        default = [sys.executable, "-P", "-m", "codriver"]
        command = split_command(os.environ.get("CODRIVER_SERVER_COMMAND", "")) or default
        try:
            self.log = self.open_log()
            self.log_start = os.fstat(self.log).st_size
        except OSError as error:
            directory = os.path.join(self.workspace, *SERVER_DIRECTORY)
            cure = "free some space" if error.errno == errno.ENOSPC else "make it a writable folder of yours"
            reason = f"serve.log in {directory} could not be opened: {error.strerror}"
            self.record_failure(f"{reason}. To fix this, {cure}, or choose another workspace", is_final=True)
            return
        try:
            environ = server_environment(self.workspace)
            self.process = start_detached([*command, *self.arguments], self.workspace, self.log, environ)
        except OSError as error:
            self.record_failure(f"{command[0]} could not be started: {error}")

    def open_log(self) -> int:
        """Open the server's log file in a private directory, and return its descriptor.

        Links are not followed, and the call never blocks on a pipe.

        Raises:
            OSError: the log is not a regular file, or cannot be written.
        """
        directory = open_directory(self.workspace)
        for name in SERVER_DIRECTORY:
            above = directory
            try:
                if not has_name(above, name):
                    make_in(above, name)
                directory = open_directory(name, above)
            finally:
                close_directory(above)
        try:
            if not is_mine(status_of(directory).st_uid):
                raise OSError(1, "the directory belongs to another user")
            if is_open(status_of(directory), 0o077) and not is_locked(directory):
                remove_server_files(directory)
            make_private(directory)
            return open_file(directory, "serve.log", os.O_RDWR | os.O_APPEND | os.O_CREAT)
        finally:
            close_directory(directory)

    def silent_failure_reason(self) -> str:
        """Return the likely reason why the server ended without logging anything."""
        statvfs = getattr(os, "fstatvfs", None)
        if self.log is not None and statvfs is not None and not statvfs(self.log).f_bavail:
            return f"its log could not be written, because the disk of {self.workspace} is full. Free some space there"
        return "nothing was logged"

    def record_failure(self, failure: str, *, is_final: bool = False) -> None:
        """Store the reason why no server will be available.

        Unless `is_final` is set, a server that another process is starting may still appear.
        """
        self.failure, self.failed_at = failure, float("-inf") if is_final else time.monotonic()

    @property
    def has_failed(self) -> bool:
        """Return whether the start failed so long ago that no other process is expected to start a server."""
        return self.failure is not None and time.monotonic() - self.failed_at > self.start_grace_s

    def check_process(self) -> None:
        """Check whether the started process has failed, and record the end of its log as the reason.

        The process exits with status 0 once its child, the server, is ready.
        """
        if self.failure is None and self.process is not None and self.log is not None and self.process.poll():
            start = max(self.log_start, os.fstat(self.log).st_size - 1000)
            os.lseek(self.log, start, os.SEEK_SET)  # the server appends to it
            tail = os.read(self.log, 1000).decode("utf-8", "replace").strip() or self.silent_failure_reason()
            is_final = (status := self.process.returncode) == STOPPED_FOR_GOOD_STATUS
            prefix = "" if is_final else f"the server that the relay started ended with status {status}: "
            self.record_failure(prefix + tail, is_final=is_final)


def split_command(line: str) -> list[str]:
    """Split a command line as the system's shell does.

    Raises:
        ValueError: a quote is not closed.
    """
    if sys.platform == "win32":
        from codriver_relay.windows import split_command as split
    else:
        from shlex import split  # slower than starting the interpreter, and most relays start nothing
    return split(line)


def start_detached(command: Sequence[str], directory: str | None, log: int, environ: Mapping[str, str]) -> Popen[bytes]:
    """Start a program that outlives the terminal and its parent. The descriptor `log` receives its output.

    Raises:
        OSError: the program cannot be started.
    """
    from subprocess import DEVNULL, Popen  # imported here for the same reason

    def start(flags: int = 0) -> Popen[bytes]:
        return Popen(  # noqa: S603  # the user's own command
            command,
            cwd=directory,
            stdin=DEVNULL,
            stdout=log,
            stderr=log,
            env=environ,
            start_new_session=True,
            creationflags=flags,
        )

    if sys.platform == "win32":
        from codriver_relay.windows import start_flags

        alone, within_job = start_flags()
        try:
            process = start(alone)
        except PermissionError:  # the job does not allow it
            process = start(within_job)
    else:
        process = start()
    return process


def server_environment(workspace: str, given_environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment in which a Python program does not run code from the workspace.

    The environment is based on `given_environ`, which defaults to that of this process. Entries of PYTHONPATH that are
    empty, relative, or in the workspace or its main checkout are removed, because each may contain a `sitecustomize`.
    The previous value is stored in `CLIENT_PYTHONPATH_VARIABLE`, for the REPLs of a workspace that the user has
    accepted.
    """
    environ = dict(os.environ if given_environ is None else given_environ)
    given = environ.get("PYTHONPATH")
    if given is None:
        return environ
    inside = [os.path.realpath(directory) for directory in (workspace, main_checkout(workspace)) if directory]

    def is_outside(entry: str) -> bool:
        real = os.path.realpath(entry)
        return all(os.path.commonpath((directory, real)) != directory for directory in inside)

    entries = os.pathsep.join(
        [entry for entry in given.split(os.pathsep) if os.path.isabs(entry) and is_outside(entry)]
    )
    if entries != given:
        environ[CLIENT_PYTHONPATH_VARIABLE] = given
        environ["PYTHONPATH"] = entries
        if not entries:
            del environ["PYTHONPATH"]  # an empty value would name the current directory
    return environ


def main_checkout(workspace: str) -> str:
    """Return the main checkout of a linked git worktree, or "" for any other directory."""
    try:
        directory = open_directory(workspace)
        try:
            pointer = read_file(directory, ".git").decode().strip()
        finally:
            close_directory(directory)
    except (OSError, ValueError):
        return ""
    git_directory = os.path.normpath(os.path.join(workspace, pointer.removeprefix("gitdir:").strip()))
    return (
        git_directory.partition(os.path.join("", ".git", "worktrees", ""))[0].rstrip(os.sep)
        if "worktrees" in git_directory
        else ""
    )


def remove_server_files(directory: Directory) -> None:
    """Remove a server's files from a directory that others could write to, before it is made private and trusted."""
    for name in ("port", "server.json", "token"):
        try:  # noqa: SIM105  # importing contextlib takes time
            remove_in(directory, name)
        except (FileNotFoundError, IsADirectoryError, PermissionError):
            pass  # ignore a directory of that name, for which macOS reports missing permission


def has_name(directory: Directory, name: str) -> bool:
    """Return whether a directory has an entry with this name."""
    try:
        status_in(directory, name)
    except FileNotFoundError:
        return False
    return True
