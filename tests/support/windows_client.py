"""A socket client of a server that uses only the standard library, so that a Python for Windows can run it too."""

import json
import socket

WAIT_S = 300


class Client:
    """A client of the server whose state is in a directory. A context manager."""

    def __init__(self, state):
        self.socket = socket.create_connection(("127.0.0.1", int((state / "port").read_text())), WAIT_S)
        self.file = self.socket.makefile("rb")
        self.number = 0
        if (state / "token").exists():
            token = (state / "token").read_text()
            self.send({"method": "codriver/token", "params": {"token": token}})
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        self.request("initialize", about)
        self.send({"method": "notifications/initialized"})

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        self.file.close()
        self.socket.close()

    def send(self, message):
        self.socket.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def begin(self, method, params):
        """Send a request and return its id without waiting for the answer."""
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        return self.number

    def request(self, method, params):
        number = self.begin(method, params)
        for line in self.file:
            message = json.loads(line)
            if message.get("id") == number and "method" not in message:
                return message["result"]
        raise EOFError

    def call(self, tool, **arguments):
        answer = self.request("tools/call", {"name": tool, "arguments": arguments})
        return json.loads(answer["content"][0]["text"])

    def evaluate(self, code, **arguments):
        return self.call("evaluate_code", code=code, **{"timeoutMs": 60_000, **arguments})
