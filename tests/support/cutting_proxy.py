"""A TCP proxy on loopback that can cut, half-close or stall connections."""

import socket
import threading
from contextlib import contextmanager, suppress


class CuttingProxy:
    """The proxy in front of a server. `seen` counts the connections."""

    def __init__(self, listener, target):
        self._listener = listener
        self._target = target
        self._pairs = []
        self._stopped = []
        """The connections whose far half stays open for the time being."""
        self._flows = threading.Event()
        self._flows.set()
        self._is_refusing = False
        self.seen = 0

    @property
    def port(self):
        return self._listener.getsockname()[1]

    def cut(self):
        """Close all connections on both sides."""
        for pair in self._pop_pairs():
            for side in pair:
                with suppress(OSError):
                    side.shutdown(socket.SHUT_RDWR)

    def cut_near_side(self):
        """Close the client's half of all connections; the server's half stays open."""
        for near, _far in self._pop_pairs():
            with suppress(OSError):
                near.shutdown(socket.SHUT_RDWR)

    def stall(self):
        """Accept connections, but forward nothing until `flow`."""
        self._flows.clear()

    def flow(self):
        """Forward everything again."""
        self._flows.set()

    def refuse(self, *, is_refusing=True):
        """Close new connections at once, until called with `is_refusing=False`."""
        self._is_refusing = is_refusing

    def _pop_pairs(self):
        pairs, self._pairs = self._pairs, []
        self._stopped += pairs
        return pairs

    def serve(self):
        """Accept connections until the listener is closed."""
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self.seen += 1
                if self._is_refusing:
                    near.close()
                    continue
                far = socket.create_connection(self._target)
                self._pairs.append((near, far))
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source, sink):
        with suppress(OSError):
            while data := source.recv(65536):
                self._flows.wait()
                sink.sendall(data)
        if not any(source is near for near, _ in self._stopped):
            with suppress(OSError):
                sink.shutdown(socket.SHUT_WR)

    def close(self):
        """Close everything."""
        self.flow()
        self.cut()
        for near, far in self._stopped:
            near.close()
            far.close()


@contextmanager
def cutting_proxy(base):
    """Start a proxy in front of the server at the URL `base`, and return its URL."""
    port = int(base.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = CuttingProxy(listener, ("127.0.0.1", port))
        thread = threading.Thread(target=proxy.serve)
        thread.start()
        try:
            yield proxy, f"http://127.0.0.1:{proxy.port}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)
            proxy.close()
