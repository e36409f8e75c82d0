"""The minimal work of a Python server for an evaluation: converting JSON to bencode, and the value back to JSON.

It has no session, log, history, limit, timeout or second client, so no asyncio server can be faster. Run it with the
port of an nREPL server; it prints its own port. On SIGUSR2 it writes its processor time so far, in seconds, as a line
to the file named by the second argument.
"""

import asyncio
import json
import signal
import socket
import sys
import time
from pathlib import Path

from codriver.wire.bencode import Decoder, encode


class Repl(asyncio.Protocol):
    """The connection to the REPL: each request has a function that is called with its value."""

    def __init__(self):
        self.decoder = Decoder()
        self.asked = {}
        self.session = None

    def connection_made(self, transport):
        self.transport = transport
        self.socket = transport.get_extra_info("socket")

    def data_received(self, data):
        self.rearm()
        for message in self.decoder.feed(data):
            self.session = message.get("new-session", self.session)
            request = self.asked[message["id"]]
            request["value"] = message.get("value", request["value"])
            if "done" in message.get("status", ()):
                del self.asked[message["id"]]
                request["tell"](request["value"])

    def request(self, message, callback):
        identity = str(len(self.asked) + 1)
        self.asked[identity] = {"tell": callback, "value": None}
        self.rearm()
        self.transport.write(encode({**message, "id": identity}))

    def rearm(self):
        if hasattr(socket, "TCP_QUICKACK"):
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


class Client(asyncio.Protocol):
    """The connection to the client, which sends one request at a time."""

    def __init__(self, repl):
        self.repl = repl

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        for line in data.splitlines():
            self.handle(json.loads(line))

    def handle(self, request):
        if "id" not in request:
            return
        if request["method"] != "tools/call":
            self.answer(request, {"capabilities": {}})
            return
        code = request["params"]["arguments"]["code"]
        message = {"op": "eval", "code": code, "session": self.repl.session}
        self.repl.request(message, lambda value: self.answer(request, {"structuredContent": {"result": value}}))

    def answer(self, request, result):
        line = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result})
        self.transport.write(line.encode() + b"\n")


async def main(port):
    loop = asyncio.get_running_loop()
    _, repl = await loop.create_connection(Repl, "127.0.0.1", port)
    ready = asyncio.Event()
    repl.request({"op": "clone"}, lambda _: ready.set())
    await ready.wait()
    server = await loop.create_server(lambda: Client(repl), "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


def write_processor_time(file):
    """Write one line for each signal."""
    with file.open("a") as lines:
        lines.write(f"{time.process_time()}\n")


if __name__ == "__main__":
    if any(sys.argv[2:]):
        signal.signal(signal.SIGUSR2, lambda *_: write_processor_time(Path(sys.argv[2])))
    asyncio.run(main(int(sys.argv[1])))
