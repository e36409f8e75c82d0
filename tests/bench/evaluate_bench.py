"""Compare one evaluation of `(+ 1 2)` through relay and server with raw nREPL clients, in turns on the same JVM.

Each way evaluates equally often in its own session, because a session of the JVM becomes slower with the number of
evaluations. A server that only translates shows how much time any asyncio server needs, and two processes that only
forward show what as many processes cost on this machine. `1+2` in the embedded Python is
compared with a server that evaluates in its own process, and with a program of `codriver run`. Finally, the embedded
Python returns a value of 3 MB, of which the answer contains a part and the server stores all.

Run with `python tests/bench/run.py evaluate`. The first part needs the JVM nREPL that the tests use.
"""

import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from live_server import CODRIVER, RELAY, Relayed, serving, until
from peers import BY_PACKAGE, MissingPeerError, serving_least, serving_peer
from real_repls import missing, repl
from report import in_turns, main

from codriver.wire.bencode import Decoder, encode

TITLE = "evaluate (+ 1 2) on JVM nREPL"
LEAST = "client, relay, a server that only translates"
FORWARDED = "raw client, two processes that only forward"
FORWARDER = Path(__file__).with_name("forwarder.py")
EMBEDDED_TITLE = "evaluate 1+2 on the embedded Python"
PEER = "mcp-python"
ONE_PLUS_TWO = {"name": "evaluate_code", "arguments": {"code": "1+2"}}
PROGRAM_TITLE = "evaluate 1+2 in a program of `codriver run`, client, relay, server"
LONG_TITLE = "a value of 3 MB from the embedded Python"
LONG = "'x' * 3_000_000"


class Raw:
    """A plain nREPL client on a socket."""

    def __init__(self, port, *, quick):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.quick = quick
        self.decoder = Decoder()
        self.number = 0
        self.session = self.request({"op": "clone"})["new-session"]

    def request(self, message):
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
        assert self.request({"op": "eval", "code": "(+ 1 2)", "session": self.session})["value"] == "3"

    def evaluate_long(self):
        assert len(self.request({"op": "eval", "code": LONG, "session": self.session})["value"]) == 3_000_002


@contextmanager
def forwarded(port, times):
    """Return the first port of a row of processes that forward to this port."""
    with ExitStack() as open_processes:
        for _ in range(times):
            words = [sys.executable, "-I", "-S", str(FORWARDER), str(port)]
            process = open_processes.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
            open_processes.callback(process.kill)
            port = int(process.stdout.readline())
        yield port


def warm_up(port):
    """Have the JVM compile what evaluations need, as in a REPL that is in use, in sessions that are not measured.

    Until then its compiler takes both cores of a small machine, and how much any way waits for one is chance.
    """
    for _ in range(20):
        raw = Raw(port, quick=True)
        for _ in range(300):
            raw.evaluate()
        raw.request({"op": "close", "session": raw.session})
        raw.socket.close()


def evaluate(client):
    """Evaluate, whatever the answer is wrapped in."""
    params = {"name": "evaluate_code", "arguments": {"code": "(+ 1 2)"}}
    assert client.request("tools/call", params)["result"]["structuredContent"]["result"] == "3"


def session_of(client):
    """Return the key of the session in which a client evaluates."""
    return client.call("evaluate_code", code="1")["sessionKey"]


def measure(report):
    measure_long(report)
    measure_embedded(report)
    measure_program(report)
    if why := missing("jvm"):
        report.skip(TITLE, why)
        return
    port = repl("jvm").endpoint.port
    warm_up(port)
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(folder, "--nrepl", str(port)) as live,
        serving_least(port) as (_, least_port),
        forwarded(port, 2) as forwarding_port,
    ):
        relayed, direct = live.relay(name="relayed"), live.client(name="direct")
        least = Relayed([sys.executable, "-I", "-S", RELAY, str(least_port)], live.environ)
        until(lambda: "interrupt_evaluation" in direct.tools(), "the REPL")
        assert session_of(direct) != session_of(relayed), "the ways are not comparable: two of them share a session"
        quick, plain = Raw(port, quick=True), Raw(port, quick=False)
        through_two = Raw(forwarding_port, quick=True)
        ways = {
            "raw client, QUICKACK re-armed": quick.evaluate,
            FORWARDED: through_two.evaluate,
            LEAST: lambda: evaluate(least),
            "client, server": lambda: evaluate(direct),
            "client, relay, server": lambda: evaluate(relayed),
        }
        samples = in_turns(ways, report.rounds(30), batch=10, warm_up=5)
        base = "raw client, QUICKACK re-armed"
        report.table(TITLE, "ms", samples, base=base, at_most={"client, relay, server": 1.5})
        report.table(
            "the same against a server that only translates, behind the same relay", "ms",
            {name: samples[name] for name in (LEAST, "client, relay, server")},
            base=LEAST, at_most={"client, relay, server": 1.4},
        )  # fmt: skip
        report.table(
            "the same against two processes that only forward", "ms",
            {name: samples[name] for name in (FORWARDED, "client, relay, server")},
            base=FORWARDED, at_most={"client, relay, server": 1.6},
        )  # fmt: skip
        slow = in_turns({"raw client, plain": plain.evaluate}, report.rounds(5), batch=5)["raw client, plain"]
        through = samples["client, relay, server"]
        report.table(
            "the same against a client that does not re-arm QUICKACK", "ms",
            {"client, relay, server": through, "raw client, plain": slow},
            base="client, relay, server", at_least={"raw client, plain": 15},
        )  # fmt: skip
        added = statistics.median(through) - statistics.median(samples[base])
        report.fact(TITLE + ": what codriver adds", "milliseconds per evaluation", added, "ms")
        for client in (relayed, direct, least):
            client.close()


def measure_long(report):
    with tempfile.TemporaryDirectory() as folder, serving(folder, "--repl", "python") as live, live.client() as direct:
        assert direct.call("evaluate_code", code="1", timeoutMs=60_000)["ok"]
        raw = Raw(int(live.repl_address().rpartition(":")[2]), quick=True)
        ways = {
            "raw client, QUICKACK re-armed": raw.evaluate_long,
            "client, server": lambda: direct.call("evaluate_code", code=LONG),
        }
        samples = in_turns(ways, report.rounds(10), batch=2, warm_up=2)
        report.table(LONG_TITLE, "ms", samples, base="raw client, QUICKACK re-armed", at_most={"client, server": 2})
        raw.socket.close()


def measure_embedded(report):
    """Compare with a server that evaluates in its own process, on stdio."""
    with tempfile.TemporaryDirectory() as folder, serving(folder, "--repl", "python") as live, live.client() as direct:
        assert direct.call("evaluate_code", code="1", timeoutMs=60_000)["ok"]
        peer = BY_PACKAGE[PEER]
        try:
            with serving_peer(peer, live.workspace) as other, closing(live.relay()) as relayed:
                ways = {
                    PEER: lambda: other.line("tools/call", {"name": peer.tool, "arguments": peer.arguments("1+2")}),
                    "client, server": lambda: direct.line("tools/call", ONE_PLUS_TWO),
                    "client, relay, server": lambda: relayed.line("tools/call", ONE_PLUS_TWO),
                }
                samples = in_turns(ways, report.rounds(30), batch=10, warm_up=5)
            report.table(EMBEDDED_TITLE, "ms", samples, base=PEER, at_most={"client, relay, server": 1.2})
        except MissingPeerError as error:
            report.skip(EMBEDDED_TITLE, str(error))


def measure_program(report):
    """Compare the REPL in a program of `codriver run` with the embedded REPL, and measure the first value."""
    with tempfile.TemporaryDirectory() as folder, serving(folder, "--repl", "python") as live, live.client() as direct:
        assert direct.call("evaluate_code", code="1", replSessionKey="py", timeoutMs=60_000)["ok"]
        words = [*CODRIVER, "run", "-w", str(live.workspace), "--name", "shop", "--"]
        words += [sys.executable, "-c", "import sys; print(1, flush=True); sys.stdin.read()"]
        first = []
        for number in range(report.rounds(5)):
            program = subprocess.Popen(
                words, env=live.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            with program, closing(live.relay()) as in_program, closing(live.relay()) as embedded:
                program.stdout.readline()
                started = time.perf_counter()
                until(lambda: in_program.call("evaluate_code", code="1", replSessionKey="shop")["ok"], "the program")
                first.append((time.perf_counter() - started) * 1000)
                if number:
                    continue
                ways = {
                    "embedded REPL": lambda: value(embedded, "py"),
                    "program of `codriver run`": lambda: value(in_program, "shop"),
                }
                samples = in_turns(ways, report.rounds(30), batch=10, warm_up=5)
        report.table(PROGRAM_TITLE, "ms", samples, base="embedded REPL", at_most={"program of `codriver run`": 1.2})
        name = "first value in a program, bytecode of the REPL"
        report.fact(name, "not stored yet", first[0], "ms")
        report.fact(name, "stored", statistics.median(first[1:]), "ms")


def value(client, key):
    """Evaluate `1+2` in a session."""
    params = {"name": "evaluate_code", "arguments": {"code": "1+2", "replSessionKey": key}}
    assert '"3"' in client.line("tools/call", params).decode()


if __name__ == "__main__":
    main(measure)
