"""Another user of this machine, for `attack.py`: connects to ports, reads files, and listens on ports of ended
processes.

Root starts this script with a line of Python that switches to the other user. It accepts commands as lines of JSON:

- `{"knock": [PORT, ...], "says": {NAME: HEX, ...}}`: connect, send each, and return the answers by port and name
- `{"read": FOLDER}`: return the files below the directory that can be opened
- `{"take": [PORT, ...]}`: listen on those ports that are free, and return them
- `{"leave": true}`: stop listening, and return what was received
"""

import contextlib
import encodings.idna  # noqa: F401  # the other user may not be allowed to read it later
import json
import os
import socket
import sys
import threading
import time
from pathlib import Path

WAIT_S = 2
MAX_BYTES = 4096
listeners, received = {}, []


def knock(port, data):
    """Return the beginning of the answer in hexadecimal, if there is one within a moment."""
    came, ends = b"", time.monotonic() + WAIT_S
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as peer:
        peer.sendall(data)
        while (left_s := ends - time.monotonic()) > 0 and len(came) < MAX_BYTES:
            peer.settimeout(left_s)
            if not (more := peer.recv(1 << 16)):
                break
            came += more
    return came[:MAX_BYTES].hex()


def readable(folder):
    """Return the files below a directory that this user can open."""
    found = []
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            with contextlib.suppress(OSError), path.open("rb") as file:
                file.read(1)
                found.append(str(path))
    return found


def read_all(peer):
    """Record everything that a peer sends until it disconnects."""
    with contextlib.suppress(OSError):
        while data := peer.recv(1 << 16):
            received.append(data.hex())


def accept(listener):
    """Accept connections and record what they send, until the listener is closed."""
    with contextlib.suppress(OSError):
        while True:
            threading.Thread(target=read_all, args=(listener.accept()[0],), daemon=True).start()


def listen_on(ports):
    """Listen on these ports, and return those that were free. Waits a moment for a port that has just been released."""
    ends = time.monotonic() + WAIT_S
    while (left := [port for port in ports if port not in listeners]) and time.monotonic() < ends:
        for port in left:
            with contextlib.suppress(OSError):
                listeners[port] = socket.create_server(("127.0.0.1", port))
                threading.Thread(target=accept, args=(listeners[port],), daemon=True).start()
        time.sleep(0.01)
    return sorted(listeners)


def leave():
    """Return everything that was received."""
    for listener in listeners.values():
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
    listeners.clear()
    reported, received[:] = list(received), []
    return reported


def act(requested):
    if "knock" in requested:
        says = {name: bytes.fromhex(data) for name, data in requested["says"].items()}
        return {f"{port} {name}": knock(port, data) for port in requested["knock"] for name, data in says.items()}
    if "read" in requested:
        return readable(requested["read"])
    return listen_on(requested["take"]) if "take" in requested else leave()


exec(sys.argv[1])  # it makes this process another user's
for line in sys.stdin:
    sys.stdout.write(json.dumps(act(json.loads(line))) + "\n")
    sys.stdout.flush()
