"""A kernel on real ZeroMQ sockets whose messages a test makes up, to cover what no real kernel sends.

It answers requests for its kernel info. Code is the name of an entry in `LIES`: the messages of that entry are sent
before a correct reply and idle status.
"""

import json
import socket
import threading
import uuid
from contextlib import contextmanager, suppress

from codriver.features.jupyter.kernels.messages import new_header
from codriver.features.jupyter.kernels.signed_messages import DELIMITER, Signer
from codriver.features.jupyter.kernels.zmtp import GREETING, Decoder, encode, ready_command

KEY = "3333"
MIB = 2**20
BLOCK = bytes(8 * MIB)
INFO = {"implementation": "liar", "language_info": {"name": "lies"}, "status": "ok"}
LONG_DOC_BYTES = 50 * MIB


class LyingKernel:
    """One kernel, in threads of the test process, that lives as long as `lying_kernel`."""

    def __init__(self, folder):
        self.file = folder / "kernel-liar.json"
        self._session = uuid.uuid4().hex
        self._signer = Signer(KEY.encode(), "hmac-sha256")
        self._listeners = {}
        self._iopub = []
        self._lock = threading.RLock()
        ports = {}
        for name, kind in (("shell", "ROUTER"), ("control", "ROUTER"), ("stdin", "ROUTER"), ("iopub", "XPUB")):
            self._listeners[name] = listener = socket.create_server(("127.0.0.1", 0))
            ports[f"{name}_port"] = listener.getsockname()[1]
            threading.Thread(target=self._listen, args=(listener, name, kind), daemon=True).start()
        about = {"ip": "127.0.0.1", "transport": "tcp", "key": KEY, "signature_scheme": "hmac-sha256"}
        self.file.write_text(json.dumps({**about, **ports, "hb_port": 1}))
        self.file.chmod(0o600)

    def close(self):
        for listener in self._listeners.values():
            listener.close()
        for peer in self._iopub:
            peer.close()

    def _listen(self, listener, name, kind):
        with suppress(OSError):
            while True:
                peer, _ = listener.accept()
                threading.Thread(target=self._serve, args=(peer, name, kind), daemon=True).start()

    def _serve(self, peer, name, kind):
        decoder, parts, part = Decoder(), [], b""
        with suppress(OSError), peer:
            peer.sendall(GREETING + ready_command(kind))
            while data := peer.recv(2**16):
                for piece in decoder.feed(data):
                    part += piece.data
                    if piece.ends_part:
                        parts, part = [*parts, part], b""
                    if piece.ends_message:
                        self._take(peer, name, parts)
                        parts = []

    def _take(self, peer, name, parts):
        if name == "iopub":
            with self._lock:
                self._iopub.append(peer)
            return
        if DELIMITER not in parts:
            return
        header, _, _, content = (json.loads(part) for part in parts[parts.index(DELIMITER) + 2 :][:4])
        kind = header["msg_type"]
        self.publish("status", {"execution_state": "busy"}, header)
        reply = {"status": "ok"}
        if kind == "kernel_info_request":
            reply = INFO
        elif kind == "inspect_request":
            reply = {"status": "ok", "found": True, "data": {"text/plain": "d" * LONG_DOC_BYTES}, "metadata": {}}
        elif kind == "execute_request":
            LIES.get(content["code"], lambda *_: None)(self, header)
        peer.sendall(encode(self._parts(kind.replace("_request", "_reply"), reply, header)))
        self.publish("status", {"execution_state": "idle"}, header)

    def _parts(self, kind, content, parent):
        return self._signer.sign_parts(new_header(kind, self._session), parent, {}, content)

    def publish(self, kind, content, parent):
        """Publish a message."""
        self.write(encode([b"topic", *self._parts(kind, content, parent)]))

    def begin(self, kind, parent):
        """Publish the first parts of an incomplete message."""
        self.write(b"".join(b"\x03" + len(part).to_bytes(8, "big") + part for part in self._parts(kind, {}, parent)))

    def publish_bytes(self, kind, content, parent):
        """Publish a message whose content is these bytes, signed."""
        header, metadata = json.dumps(new_header(kind, self._session)).encode(), b"{}"
        parts = (header, json.dumps(parent).encode(), metadata, content)
        signature = self._signer.new_signature()
        for part in parts:
            signature.update(part)
        self.write(encode([DELIMITER, signature.hexdigest().encode(), *parts]))

    def write(self, data):
        with self._lock:
            for peer in self._iopub:
                with suppress(OSError):
                    peer.sendall(data)


def one_gib_of_buffers(kernel, parent):
    kernel.begin("stream", parent)
    for _ in range(1024 // 8):
        kernel.write(b"\x03" + len(BLOCK).to_bytes(8, "big"))
        kernel.write(BLOCK)
    kernel.write(b"\x00\x00")


def one_gib_before_the_message(kernel, parent):
    kernel.write(b"\x03" + (1024 * MIB).to_bytes(8, "big"))
    for _ in range(1024 // 8):
        kernel.write(BLOCK)
    kernel.publish("stream", {"name": "stdout", "text": "after it"}, parent)


def three_million_parts(kernel, parent):
    kernel.begin("stream", parent)
    for _ in range(300):
        kernel.write(b"\x01\x00" * 10_000)
    kernel.write(b"\x00\x00")


def unsigned_garbage(kernel, parent):
    for _ in range(32):
        kernel.write(encode([DELIMITER, b"0" * 64, b"{}", b"{}", b"{}", BLOCK]))
    for _ in range(50):
        kernel.write(encode([b"garbage"]) * 1000)


def deep(kernel, parent):
    kernel.publish_bytes("display_data", b'{"data": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", parent)


def many_elements(kernel, parent):
    kernel.publish_bytes("display_data", b'{"data": [' + b"[]," * (4 * MIB) + b"1]}", parent)


def states_without_end(kernel, parent):
    for _ in range(100):
        kernel.write(b"".join(encode(kernel._parts("status", {"execution_state": "busy"}, parent)) for _ in range(100)))


LIES = {
    name.replace("_", " "): lie
    for name, lie in list(globals().items())
    if name in {
        "one_gib_of_buffers", "one_gib_before_the_message", "three_million_parts", "unsigned_garbage", "deep",
        "many_elements", "states_without_end",
    }
}  # fmt: skip


@contextmanager
def lying_kernel(folder):
    """Start a kernel whose connection file is in `folder`."""
    kernel = LyingKernel(folder)
    try:
        yield kernel
    finally:
        kernel.close()
