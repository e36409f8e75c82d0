"""A port that forwards to the page's, as with ssh, and programs that answer or only count connections."""

import contextlib
import socket
import threading


class Forwarding:
    """A forwarded port. `cut` closes it with all its connections, `listen` opens it again at the same number."""

    def __init__(self, target):
        self.target, self.port = target, 0
        self.listen()

    def listen(self):
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        self._open = []
        threading.Thread(target=self._accept, args=(self._listener, self._open), daemon=True).start()

    def _accept(self, listener, opened):
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
                opened += [near, far]
                for item, other in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(item, other), daemon=True).start()

    def _carry(self, item, other):
        with contextlib.suppress(OSError):
            while data := item.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)

    def cut(self):
        # A listener on which another thread is waiting is closed only once that wait is over.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for item in self._open:
            with contextlib.suppress(OSError):
                item.shutdown(socket.SHUT_RDWR)
            item.close()

    close = cut


class Liar:
    """A program that answers each request as if it were the page's server, and records what it receives."""

    ANSWER = b'{"proof": "%s", "token": "x", "ok": true}' % (b"ab" * 32)

    def __init__(self, port):
        self.requests = []
        self._listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(peer,), daemon=True).start()

    def _answer(self, peer):
        with peer, contextlib.suppress(OSError):
            if data := peer.recv(65536):
                self.requests.append(data.decode("latin-1"))
                head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
                peer.sendall(head + b"Content-Length: %d\r\n\r\n" % len(self.ANSWER) + self.ANSWER)

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


class Trap:
    """A port that counts the connections to it and answers none."""

    def __init__(self):
        self.count = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self.count += 1
                peer.close()

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
