"""One evaluation of `(+ 1 2)` on JVM nREPL: through relay and server, against raw nREPL clients, in one paired run.

Run with `python tests/bench/evaluate_bench.py [ROUNDS]`; needs the JVM nREPL that the tests need. Prints medians in
milliseconds and the ratios to the raw client that re-arms TCP_QUICKACK.
"""

import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from codriver.wire.bencode import Decoder, encode
from live_server import serving, until
from real_repls import repl

BATCH = 10


class Raw:
    """A plain nREPL client on a socket."""

    def __init__(self, port, *, quick):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.quick = quick
        self.decoder = Decoder()
        self.number = 0
        self.session = self.ask({"op": "clone"})["new-session"]

    def ask(self, message):
        self.number += 1
        answer = {}
        self._rearm()
        self.socket.sendall(encode(message | {"id": str(self.number)}))
        while "done" not in answer.get("status", []):
            self._rearm()
            for part in self.decoder.feed(self.socket.recv(65536)):
                answer |= part
        return answer

    def _rearm(self):
        if self.quick and hasattr(socket, "TCP_QUICKACK"):
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def evaluate(self):
        assert self.ask({"op": "eval", "code": "(+ 1 2)", "session": self.session})["value"] == "3"


def timed(work):
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    port = repl("jvm").endpoint.port
    with tempfile.TemporaryDirectory() as folder, serving(folder, "--nrepl", str(port)) as live:
        relayed, direct = live.relay(), live.client()
        until(lambda: "interrupt_evaluation" in direct.tools(), "the REPL")
        quick, plain = Raw(port, quick=True), Raw(port, quick=False)
        ways = {
            "raw client, QUICKACK re-armed": quick.evaluate,
            "raw client, plain": plain.evaluate,
            "client, server": lambda: direct.call("evaluate_code", code="(+ 1 2)"),
            "client, relay, server": lambda: relayed.call("evaluate_code", code="(+ 1 2)"),
        }
        times = {name: [] for name in ways}
        for number in range(rounds + 3):
            for name, way in ways.items():
                batch = [timed(way) for _ in range(BATCH)]
                if number >= 3:  # the first rounds warm up both sides
                    times[name] += batch
        base = statistics.median(times["raw client, QUICKACK re-armed"])
        for name, measured in times.items():
            median = statistics.median(measured)
            print(f"{name:32} {median:8.2f} ms  {median / base:6.2f}x")  # noqa: T201  # a benchmark prints
        relayed.close()
        direct.close()


if __name__ == "__main__":
    main()
