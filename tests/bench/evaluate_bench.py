"""One evaluation of `(+ 1 2)` on JVM nREPL: through relay and server, against raw nREPL clients, in one paired run.

Run with `python tests/bench/evaluate_bench.py`; needs the JVM nREPL that the tests need.
"""

import socket
import statistics
import tempfile

from report import in_turns, main

from codriver.wire.bencode import Decoder, encode
from live_server import serving, until
from real_repls import missing, repl

TITLE = "evaluate (+ 1 2) on JVM nREPL"


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


def measure(report):
    if why := missing("jvm"):
        report.skip(TITLE, why)
        return
    port = repl("jvm").endpoint.port
    with tempfile.TemporaryDirectory() as folder, serving(folder, "--nrepl", str(port)) as live:
        relayed, direct = live.relay(), live.client()
        until(lambda: "interrupt_evaluation" in direct.tools(), "the REPL")
        quick, plain = Raw(port, quick=True), Raw(port, quick=False)
        ways = {
            "raw client, QUICKACK re-armed": quick.evaluate,
            "client, server": lambda: direct.call("evaluate_code", code="(+ 1 2)"),
            "client, relay, server": lambda: relayed.call("evaluate_code", code="(+ 1 2)"),
        }
        samples = in_turns(ways, report.rounds(30), batch=10, warm_up=5)
        base = "raw client, QUICKACK re-armed"
        report.table(TITLE, "ms", samples, base=base, at_most={"client, relay, server": 1.5})
        slow = in_turns({"raw client, plain": plain.evaluate}, report.rounds(5), batch=5)["raw client, plain"]
        through = samples["client, relay, server"]
        report.table(
            "the same against a client that does not re-arm QUICKACK", "ms",
            {"client, relay, server": through, "raw client, plain": slow},
            base="client, relay, server", at_least={"raw client, plain": 15},
        )  # fmt: skip
        added = statistics.median(through) - statistics.median(samples[base])
        report.fact(TITLE + ": what codriver adds", "milliseconds per evaluation", added, "ms")
        relayed.close()
        direct.close()


if __name__ == "__main__":
    main(measure)
