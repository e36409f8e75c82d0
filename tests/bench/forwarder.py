"""Forward the bytes of connections to a port, as the least that a process between a client and a server can do.

Run it with the port of a server. It prints its own port. Two of them in a row are as many processes as a relay and a
server of Codriver.
"""

import socket
import sys
import threading

PIECE = 65536


def forward(source, target):
    """Forward each received chunk immediately, until the connection ends."""
    while data := source.recv(PIECE):
        if hasattr(socket, "TCP_QUICKACK"):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        target.sendall(data)
    target.shutdown(socket.SHUT_WR)


def connect(client, port):
    """Forward one client's connection in both directions."""
    server = socket.create_connection(("127.0.0.1", port))
    for end in (client, server):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for source, target in ((client, server), (server, client)):
        threading.Thread(target=forward, args=(source, target), daemon=True).start()


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    while True:
        connect(listener.accept()[0], int(sys.argv[1]))


if __name__ == "__main__":
    main()
