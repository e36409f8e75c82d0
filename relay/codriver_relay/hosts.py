"""Recognize that a project's server runs on another host that shares the project's files."""

from __future__ import annotations

import os

from codriver_relay.peer import try_lock
from codriver_relay.safe_files import Directory, json_member, open_file, read_if_possible


def host_identity() -> str:
    """Return the identity of this host's kernel and network, or "" if it is unknown.

    Processes with another identity cannot connect to servers on this host's loopback interface. Renaming the host does
    not change it, but a restart does. Source: random(4), `boot_id`, and network_namespaces(7).
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read(64).strip()} {os.readlink('/proc/self/ns/net')}"
    except (OSError, ValueError):
        return ""


def is_other_host(identity: str) -> bool:
    """Return whether an identity is that of another host. If either identity is unknown, it is not."""
    current = host_identity()
    return bool(identity) and bool(current) and identity != current


def remote_server_host(directory: Directory) -> str:
    """Return the name of the other host on which the server with the lock in a directory runs, or "" if there is none.

    A record that a stopped server left does not count, because its lock is free.
    """
    record = read_if_possible(directory, "server.json")
    if not is_other_host(json_member(record, b"hostId")[1:-1].decode("ascii", "replace")):
        return ""
    try:
        lock = open_file(directory, "lock", os.O_RDWR)
    except OSError:
        return ""
    try:
        if try_lock(lock):
            return ""
    except (OSError, ImportError):
        return ""  # it is unknown whether the server is running
    finally:
        os.close(lock)
    return json_member(record, b"hostName")[1:-1].decode("ascii", "replace") or "another host"
