"""Compare the latency of evaluations through the adapter with a raw socket client, for each REPL.

Run with `python tests/bench/nrepl_bench.py`. Both clients enable TCP_QUICKACK again after each read. Their turns
alternate in small batches, so that a busy machine slows both alike. The decoder's row compares decoding a 10 MB value
in 64 KB chunks with the copies that cannot be avoided: joining the chunks and decoding the text.
"""

import socket
import sys
import time
from contextlib import contextmanager

import anyio
import real_repls
from evaluations import evaluate
from report import main

from codriver.core.requests import Request
from codriver.repls.nrepl.nrepl_adapter import connect
from codriver.wire.bencode import Decoder, encode

ROUNDS = 20
BATCH = 10
WARM_UP = 20
PIECE = 64 * 1024
VALUE_BYTES = 10_000_000


class RawClient:
    """The least that a client can do: one socket, one request, read until `done`."""

    def __init__(self, endpoint):
        self.socket = socket.create_connection((endpoint.host, endpoint.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.decoder = Decoder()
        answer = self.request({"op": "clone", "id": "clone"})
        self.session = next((message["new-session"] for message in answer if "new-session" in message), None)

    def request(self, message):
        self.rearm()
        self.socket.sendall(encode(message))
        answer = []
        while not any("done" in item.get("status", []) for item in answer):
            answer += self.decoder.feed(self.socket.recv(PIECE))
            self.rearm()
        return answer

    def evaluate(self, code, identity):
        message = {"op": "eval", "id": identity, "code": code}
        self.request({**message, "session": self.session} if self.session else message)

    def rearm(self):
        if sys.platform == "linux":
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


@contextmanager
def raw_client(endpoint):
    client = RawClient(endpoint)
    try:
        yield client
    finally:
        client.socket.close()


async def compare(endpoint, code, *, one_client):
    """Measure each evaluation in milliseconds, over the raw protocol and through the adapter."""
    raw, adapted = [], []

    async def through_adapter(adapter, number):
        started = time.perf_counter()
        await evaluate(adapter, Request(f"e{number}", code))
        adapted.append(1000 * (time.perf_counter() - started))

    def by_hand(client, number):
        started = time.perf_counter()
        client.evaluate(code, f"r{number}")
        raw.append(1000 * (time.perf_counter() - started))

    if one_client:
        # This server takes one connection at a time, so the turns cannot alternate.
        with raw_client(endpoint) as client:
            for number in range(WARM_UP + ROUNDS * BATCH):
                by_hand(client, number)
        async with connect(endpoint, listener=lambda _evaluation, _event: None) as adapter:
            for number in range(WARM_UP + ROUNDS * BATCH):
                await through_adapter(adapter, number)
        return raw[WARM_UP:], adapted[WARM_UP:]
    with raw_client(endpoint) as client:
        async with connect(endpoint, listener=lambda _evaluation, _event: None) as adapter:
            for number in range(WARM_UP):
                by_hand(client, number)
                await through_adapter(adapter, number)
            raw.clear()
            adapted.clear()
            for turn in range(ROUNDS):
                for number in range(BATCH):
                    by_hand(client, WARM_UP + turn * BATCH + number)
                for number in range(BATCH):
                    await through_adapter(adapter, WARM_UP + turn * BATCH + number)
    return raw, adapted


def decode_ratio():
    """Measure the milliseconds to decode a value of 10 MB from chunks, and to join the chunks and decode the text."""
    data = encode({"id": "1", "value": "x" * VALUE_BYTES})
    pieces = [data[at : at + PIECE] for at in range(0, len(data), PIECE)]
    decoding, copying = [], []
    for _ in range(15):
        decoder = Decoder()
        started = time.perf_counter()
        found = [value for piece in pieces for value in decoder.feed(piece)]
        decoding.append(1000 * (time.perf_counter() - started))
        assert len(found) == 1
        started = time.perf_counter()
        copied = b"".join(pieces).decode()
        copying.append(1000 * (time.perf_counter() - started))
        assert len(copied) == len(data)
    return decoding, copying


def measure(report):
    for name in real_repls.NAMES:
        title = f"one evaluation, {name}"
        if why := real_repls.missing(name):
            report.skip(title, why)
            continue
        code = "1 + 2" if name == "python" else "(+ 1 2)"
        endpoint = real_repls.repl(name).endpoint
        raw, adapted = anyio.run(lambda: compare(endpoint, code, one_client=name == "hy"))  # noqa: B023 - run at once
        report.table(title, "ms", {"raw client": raw, "adapter": adapted}, base="raw client")
    decoding, copying = decode_ratio()
    samples = {"joined and made text": copying, "decoded": decoding}
    report.table("a 10 MB value in 64 KB pieces", "ms", samples, base="joined and made text")


if __name__ == "__main__":
    main(measure)
