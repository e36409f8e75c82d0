"""The open files and sockets of a process, named for people. Source: Linux' proc(5), `/proc/PID/fd` and `net/tcp`."""

from pathlib import Path

TCP_STATES = (
    "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT", "CLOSE", "CLOSE_WAIT", "LAST_ACK",
    "LISTEN", "CLOSING",
)  # fmt: skip
"""The states of TCP connections, by number from 1. In CLOSE_WAIT the other end has closed and this process has not."""


def open_files(pid):
    """Return a line per descriptor: its path, or the ports and the state of a TCP connection."""
    links = {}
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            links[int(descriptor.name)] = str(descriptor.readlink())
        except FileNotFoundError:
            continue  # closed in the meantime
    connections = _tcp_connections(pid)
    return [f"{number} {connections.get(link, link)}" for number, link in sorted(links.items())]


def _tcp_connections(pid):
    """Return the ports and the state of each TCP connection, by the link of its descriptor."""
    found = {}
    for version in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{version}").read_text().splitlines()[1:]:
            _, here, there, state, *_, inode = line.split()[:10]
            ends = " to ".join(str(int(end.rpartition(":")[2], 16)) for end in (here, there))
            found[f"socket:[{inode}]"] = f"port {ends}, {TCP_STATES[int(state, 16) - 1]}"
    return found
