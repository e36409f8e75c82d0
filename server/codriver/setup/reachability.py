"""Reachability: whether a client gets to the server through the relay, and who can reach a port of this machine."""

from __future__ import annotations

import json
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from codriver.net.admission import is_loopback
from codriver.net.kernel_sockets import listening_hosts, objection_at
from codriver.repls import kinds
from codriver.repls.launch.projects import port_text
from codriver.setup.doctor_report import Check

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codriver.setup.clients import Launch

ANSWER_S: Final = 10.0
NAME: Final = "codriver-doctor"
"""The client that the doctor itself is."""

CONNECT_S: Final = 0.3

QUESTION: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": NAME, "version": "0"},
    },
}


def obstacle(launch: Launch, port_file: Path) -> str | None:
    """The obstacle between a client and the running server; None when the relay brings the server's answer."""
    command = [str(launch.python), "-I", "-S", str(launch.relay), str(port_file)]  # as the clients' entries have it
    try:
        done = subprocess.run(  # noqa: S603  # what the clients' entries start
            command,
            input=json.dumps(QUESTION) + "\n",
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=ANSWER_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer came through it within {ANSWER_S:g} s"
    except OSError as error:
        return f"{command[0]} cannot be started: {error.strerror or error}"
    try:
        answer = json.loads(done.stdout.splitlines()[0])
        name = answer["result"]["serverInfo"]["name"]
    except (IndexError, ValueError, KeyError, TypeError):
        said = done.stderr.strip().splitlines() or done.stdout.strip().splitlines() or ["it said nothing"]
        return f"it ended with status {done.returncode}: {said[-1][:300]}"
    return None if name == "codriver" else f"what answers through it calls itself {name}"


def check_exposure(name: str, host: str, port: int) -> Iterator[Check]:
    """The check of a REPL that others than this user's programs may reach."""
    if not is_loopback(host):
        text = f"{name}: {host} is another machine; code and results cross the network as plain text"
        yield Check("REPLs", "note", text, "use a tunnel: ssh -L")
    elif wide := wide_listener(port):
        text = f"{name}: port {port} is open beyond loopback ({wide}): whoever reaches this machine can run code in it"
        yield Check("REPLs", "wrong", text, "start the REPL bound to 127.0.0.1")


def check_found_port(repl: Mapping[str, Any], text: str) -> Check | None:
    """The check of a REPL by a port file, as the server tells of it in `text`; None where nothing speaks against it."""
    host, _, port = str(repl.get("address", "")).rpartition(":")
    if repl.get("kind") != "port-file" or not port.isdecimal() or not has_listener(int(port)):
        return None
    why = objection_at((host, int(port)), Path(str(repl.get("origin"))))
    return Check("REPLs", "wrong", f"{text}: {why}", _way(f"{host}:{port}")) if why else None


def _way(address: str) -> str:
    """The way to a REPL that somebody else listens for."""
    return (
        f"codriver serve --nrepl {address}, or nrepl in your own settings, if that is meant; else start your REPL again"
    )


def check_port_files(workspace: Path) -> Iterator[Check]:
    """Without a server nobody has tried the REPLs, but who could reach them can be told."""
    for name in kinds.port_files():
        written = port_text(workspace, name)
        if written.isdecimal() and not has_listener(int(written)):
            told = f"{name} says {written}, where nothing listens: its REPL has ended, or was killed"
            yield Check("REPLs", "note", told, f"start the REPL again, or rm {name}")
        elif written.isdecimal() and (why := objection_at(("127.0.0.1", int(written)), workspace / name)):
            yield Check("REPLs", "wrong", f"{name} says {written}: {why}", _way(f"127.0.0.1:{written}"))
        elif written.isdecimal():
            yield Check("REPLs", "note", f"{name} says {written}", "codriver serve connects to it")
            yield from check_exposure(name, "127.0.0.1", int(written))


def wide_listener(port: int) -> str | None:
    """The address beyond loopback on which something listens at `port` here; None when there is none."""
    try:
        hosts = listening_hosts(port)
    except OSError:
        return _reached_from_outside(port)
    return next((host for host in hosts if not is_loopback(host)), None)


def has_listener(port: int) -> bool:
    """True where something on this machine takes connections at `port` by a loopback address."""
    for host in ("127.0.0.1", "::1"):
        with suppress(OSError, OverflowError), socket.create_connection((host, port), timeout=CONNECT_S):
            return True
    return False


def _reached_from_outside(port: int) -> str | None:
    """The outer address of this machine, if the port answers there: for systems without such a table."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            # Connecting a datagram socket sends nothing; it only chooses the address that would be used.
            probe.connect(("192.0.2.1", 9))
            host = str(probe.getsockname()[0])
        if is_loopback(host):
            return None
        with socket.create_connection((host, port), timeout=CONNECT_S):
            return host
    except OSError:
        return None
