"""`codriver stop`: stop the server of a workspace."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from codriver.commands.options import workspace_option
from codriver.commands.status import describe_restarting_relays
from codriver.commands.terminal import convert_field_errors, echo
from codriver.errors import CodriverError, StartError
from codriver.files.codriver_paths import server_directory
from codriver.log.control_characters import escape_to_one_line
from codriver.net import registration, server_record
from codriver.net.client import connect, request_stop, server_process_id
from codriver.systems.other_processes import HAS_SIGNALS, has_exited, is_running
from codriver.systems.programs import kill_command, open_file_users_command

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.net.server_record import ServerRecord

STOP_TIMEOUT_S = 15.0
"""Maximum time to wait for the server to stop."""

EXIT_TIMEOUT_S = 3.0 if sys.platform == "darwin" else 15.0
"""Maximum time to wait for the process to end after it has stopped serving, which usually takes less than a second.

On macOS, a process that has ended but that its parent has not waited for looks like a running one.
"""

STARTING_TIMEOUT_S = 15.0
"""Maximum time to wait for a server that is just starting or stopping, which usually takes a second or two."""
POLL_INTERVAL_S = 0.02
"""Interval for checking the state of the server, in seconds."""


@click.command("stop")
@click.option(
    "--for-good",
    is_flag=True,
    help="Keep relays from starting another server until you run `codriver serve` or a command with --start.",
)
@workspace_option
def stop_command(*, workspace: Path, for_good: bool) -> None:
    """Stop the workspace's server.

    A server that is still starting is stopped, too. If an MCP client keeps a relay with --start open, the
    relay starts another server immediately, unless you pass --for-good.
    """
    workspace = workspace.resolve()
    if for_good:
        registration.stop_for_good(workspace)
    was_starting = registration.is_starting(workspace)
    registration.record_stop(workspace)
    keepers, unkept = _query_before_stop(workspace)
    _stop(workspace, was_starting=was_starting)
    if unkept:
        echo(f"the most recently evaluated code may not be stored: {escape_to_one_line(unkept)}", err=True)
    if for_good:
        echo("no server will be started in this workspace until you run `codriver serve` or a command with --start")
    elif keepers:
        echo(
            f"{escape_to_one_line(keepers)} may start another server immediately. To prevent that, run `codriver "
            "stop --for-good`",
            err=True,
        )


def _query_before_stop(workspace: Path) -> tuple[str, str]:
    """Ask the running server which clients would start another one, and about errors in writing its history.

    Each of the two descriptions is empty if there is nothing to report, or if the server does not answer.
    """
    try:
        with connect(workspace, name="codriver-stop") as connection, convert_field_errors("server_health"):
            health = connection.call("server_health", {})
            errors = {latch["code"]: str(latch["message"]) for latch in health["errors"]}
            return describe_restarting_relays(health), errors.get("history-unwritable", "")
    except (CodriverError, OSError):
        return "", ""


def _stop(workspace: Path, *, was_starting: bool) -> None:
    """Stop the running server and print the outcome. A server that was still starting ends on its own."""
    directory = server_directory(workspace)
    if host := server_record.remote_server_host(directory):
        echo(server_record.describe_remote_server(host), err=True)
        sys.exit(1)
    claimed = _wait_for_record(directory)
    if claimed is None:
        echo("stopped a server that was still starting" if was_starting else "no server is running for this workspace")
        return
    process = server_process_id(workspace, claimed)
    if process is None:
        _report_no_server(directory, claimed)
        return
    _request_stop(workspace, claimed, process)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while server_record.read_record(directory) == claimed and is_running(process):
        if time.monotonic() > deadline:
            echo(
                f"pid {process} did not stop within {STOP_TIMEOUT_S:g} s. Kill it with `{kill_command(process)}`",
                err=True,
            )
            sys.exit(1)
        time.sleep(POLL_INTERVAL_S)
    deadline = time.monotonic() + EXIT_TIMEOUT_S
    while not has_exited(process):
        if time.monotonic() > deadline:
            echo(f"pid {process} has stopped serving this workspace, but its process is still ending")
            return
        time.sleep(POLL_INTERVAL_S)
    echo(f"stopped pid {process}")


def _request_stop(workspace: Path, claimed: ServerRecord, process: int) -> None:
    """Ask the server to stop.

    If possible, a signal is used, because it works even if the server is busy. Otherwise, the server's port is used.
    """
    if HAS_SIGNALS:
        os.kill(process, signal.SIGTERM)
        return
    with suppress(CodriverError, OSError, ValueError):  # it has just stopped, or the caller notices that it has not
        request_stop(workspace, claimed)


def _report_no_server(directory: Path, claimed: ServerRecord) -> None:
    """Explain that no server was stopped, because the recorded process is not known to be the server."""
    if not is_running(claimed.pid) or server_record.is_claimed(directory) is False:
        removed: list[str] = []
        with suppress(StartError):  # then the next server removes them
            removed = registration.remove_stale_files(directory)
        now = f". They have been removed: {', '.join(removed)}" if removed else ""
        echo(
            f"no server is running for this workspace. The last one, pid {claimed.pid}, died without removing its "
            f"files{now}"
        )
    else:
        lock = server_record.lock_file(directory)
        echo(
            f"{directory} names pid {claimed.pid}, but it is not known whether that process is the server of this "
            f"workspace. `{open_file_users_command(lock)}` lists the processes that hold the workspace's lock. If one "
            f"of them is a server that hangs, end it with `{kill_command('PID')}`",
            err=True,
        )
        sys.exit(1)


def _wait_for_record(directory: Path) -> ServerRecord | None:
    """Return the record of the workspace's server, or None. Waits for a server that is starting or stopping."""
    deadline = time.monotonic() + STARTING_TIMEOUT_S
    is_reported = False
    # A server acquires the lock before it writes the record, and releases it after removing the record.
    while (is_locked := server_record.is_claimed(directory)) and time.monotonic() < deadline:
        claimed = server_record.read_record(directory)
        if claimed is not None and is_running(claimed.pid):
            return claimed
        if not is_reported:
            echo("a server is starting or stopping in this workspace. Waiting for it to finish", err=True)
            is_reported = True
        time.sleep(POLL_INTERVAL_S)
    if is_locked:
        lock = server_record.lock_file(directory)
        echo(
            f"a process has held {lock} for {STARTING_TIMEOUT_S:g} s and cannot be reached, so it is a server that "
            f"hangs while starting or stopping. `{open_file_users_command(lock)}` prints its pid. End the process "
            f"with `{kill_command('PID')}`",
            err=True,
        )
        sys.exit(1)
    return server_record.read_record(directory)
