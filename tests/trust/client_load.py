"""Many simultaneous clients of a real server, some of them rude, and counts of what they saw, which have to agree.

The test runs it for seconds, `tests/bench/soak.py` for minutes.
"""

import asyncio
import functools
import itertools
import json
import socket
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

from live_server import WAIT_S, serving

from codriver.protocol.resources import LOG_URI
from trust.open_files import open_files

SHORT_BYTES = 200
"""Shorter lines are notifications and answers to pings, which are frequent."""
OUTBOX_MESSAGES = 50
"""A small maximum, so that clients that do not read soon lose notifications."""


@dataclass
class Plan:
    """How many clients of each kind to run, and for how long. `rude` of the silent ones do not read answers."""

    seconds: float = 5.0
    evaluating: int = 10
    listening: int = 190
    silent: int = 50
    rude: int = 5
    queued: int = 1000
    lines: int = 100_000


@dataclass
class Seen:
    """What the clients saw. Sizes are in KiB, times in milliseconds."""

    rss_before: int = 0
    rss_highest: int = 0
    rss_after: int = 0
    rss_over_time: list = field(default_factory=list)
    """Measured at ten moments during the evaluations."""
    files_before: int = 0
    files_after: list = field(default_factory=list)
    """The names of the open files, one per line."""
    files_closed_ms: float = 0.0
    """How long after the last client left it took until no more files were open than before."""
    clients_most: int = 0
    clients_after: int = 0
    sent: int = 0
    """The number of evaluations sent, and of those answered with the right value."""
    right: int = 0
    health: dict = field(default_factory=dict)
    """The server's own counts when it was idle."""
    calls: dict = field(default_factory=dict)
    """Calls by each client's name, as the clients counted them."""
    updates: dict = field(default_factory=dict)
    """The notifications that each listener read, by its name."""
    queue_seen: int = 0
    queue_order: list = field(default_factory=list)
    """The positions in which each client's queued evaluations ran."""
    long_text: bool = False
    """Whether the whole of the long output could be fetched."""
    flood_sent: int = 0
    flood_answered: int = 0
    flood_held_up: bool = False
    """Whether the server stopped reading from the client that does not read."""
    pings: list = field(default_factory=list)
    evaluations: list = field(default_factory=list)
    seconds: float = 0.0

    def report(self):
        """Return the numbers as lines for people."""
        dropped = sum(row["droppedNotifications"] for row in self.health["clients"])
        return "\n".join(
            [
                f"{self.seconds:.0f} s, {self.clients_most} clients at once",
                f"evaluations: {self.sent} sent, {self.right} answered right, {self.queue_seen} queued at once",
                f"evaluation ms: {_spread(self.evaluations)}",
                f"ping ms: {_spread(self.pings)}",
                f"notifications: {sum(self.updates.values())} read, {dropped} dropped",
                f"flood: {self.flood_sent} sent unread, {self.flood_answered} answered in the end",
                f"memory KiB: {self.rss_before} before, {self.rss_highest} highest, {self.rss_after} after",
                f"memory KiB while evaluating: {self.rss_over_time}",
                f"open files: {self.files_before} before, {len(self.files_after)} after {self.files_closed_ms:.0f} ms",
            ]
        )


def _spread(times):
    ordered = sorted(times)
    median, most = statistics.median(ordered), ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return f"median {median:.1f}, 99 % {most:.1f}, longest {ordered[-1]:.1f}, of {len(ordered)}"


@functools.lru_cache(maxsize=256)
def parse_line(line):
    """Describe a line. Most lines are the same notification to hundreds of clients."""
    return json.loads(line)


class Peer:
    """A client that reads when instructed to."""

    def __init__(self, name, *, small=False):
        self.name = name
        self.updates = 0
        self.calls = 0
        self.answered = 0
        self._numbers = itertools.count(1)
        self._waiting = {}
        self._rest = b""
        self._failure = None
        self.socket = socket.socket()
        if small:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(0)

    async def connect(self, port):
        """Connect, make the handshake and subscribe to the log. From then on, it reads."""
        await asyncio.get_running_loop().sock_connect(self.socket, ("127.0.0.1", port))
        self.read()
        about = {"name": self.name, "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about}
        await self.request("initialize", params)
        await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await self.request("resources/subscribe", {"uri": LOG_URI})
        return self

    def read(self):
        """Resume reading."""
        asyncio.get_running_loop().add_reader(self.socket, self._read)

    def stop_reading(self):
        """Stop reading. Errors in what was read are raised here."""
        asyncio.get_running_loop().remove_reader(self.socket)
        if self._failure:
            raise self._failure

    def close(self):
        self.stop_reading()
        self.socket.close()

    async def send(self, *messages):
        data = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
        await asyncio.get_running_loop().sock_sendall(self.socket, data)

    def message(self, method, params=None):
        """Return a request and its expected answer."""
        number = next(self._numbers)
        self._waiting[number] = answer = asyncio.get_running_loop().create_future()
        return {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}, answer

    async def request(self, method, params=None):
        message, answer = self.message(method, params)
        await self.send(message)
        return await asyncio.wait_for(answer, WAIT_S)

    def calling(self, tool, **arguments):
        self.calls += 1
        return self.message("tools/call", {"name": tool, "arguments": arguments})

    async def call(self, tool, **arguments):
        message, answer = self.calling(tool, **arguments)
        await self.send(message)
        return (await asyncio.wait_for(answer, WAIT_S))["result"]["structuredContent"]

    @property
    def unanswered(self):
        return len(self._waiting)

    def _read(self):
        try:
            if not (data := self.socket.recv(2**18)):
                asyncio.get_running_loop().remove_reader(self.socket)
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._receive(parse_line(line) if len(line) < SHORT_BYTES else json.loads(line))
        except BlockingIOError:
            pass
        except Exception as error:  # noqa: BLE001  # whatever it is, whoever stops reading gets it
            asyncio.get_running_loop().remove_reader(self.socket)
            self._failure = error

    def _receive(self, message):
        if message.get("method") == "notifications/resources/updated":
            self.updates += 1
        if "method" not in message:
            self.answered += 1
            answer = self._waiting.pop(message["id"])  # a repeated or unexpected answer fails here
            if not answer.done():
                answer.set_result(message)


class Load:
    """One run of a plan against one server."""

    def __init__(self, live, plan):
        self.live, self.plan, self.seen = live, plan, Seen()
        self.is_over = asyncio.Event()

    async def run(self):
        seen, plan, began = self.seen, self.plan, time.monotonic()
        self.watcher = await Peer("watcher").connect(self.live.port)
        await self.watcher.call("evaluate_code", code="done = 0", timeoutMs=60_000)
        # The history keeps its file open from the second code on.
        await self.watcher.call("evaluate_code", code="done", timeoutMs=60_000)
        seen.rss_before, seen.files_before = self.rss("VmRSS"), len(self.files())
        self.evaluators = await self.connect("evaluates", plan.evaluating)
        self.listeners = await self.connect("listens", plan.listening)
        self.silent = await self.connect("silent", plan.silent - plan.rude)
        self.silent += await self.connect("rude", plan.rude, small=True)
        self.flooder = await Peer("floods", small=True).connect(self.live.port)
        for peer in (*self.silent, self.flooder):
            peer.stop_reading()
        for peer in self.silent[-plan.rude :]:
            await self.clog(peer)
        flood = asyncio.create_task(self.flood())
        pings = [asyncio.create_task(self.ping(peer)) for peer in self.listeners]
        seen.clients_most = (await self.watcher.call("server_health"))["count"]

        until = time.monotonic() + plan.seconds
        await asyncio.gather(self.weigh(), *(self.evaluate(peer, until) for peer in self.evaluators))
        await self.queue()
        await self.print_much()
        await self.until(lambda health: self.row(health, "floods")["queued"], "the flood to be held up")
        seen.flood_held_up = not flood.done()

        # Do not cancel: `wait_for` loses a cancellation that coincides with its answer.
        self.is_over.set()
        await asyncio.gather(*pings)
        for peer in (*self.silent, self.flooder):
            peer.read()
        await flood
        seen.health = await self.until(self.is_quiet, "everything to be read")
        seen.flood_answered = self.flooder.answered
        seen.rss_highest = self.rss("VmHWM")
        everybody = [self.watcher, *self.evaluators, *self.listeners, *self.silent, self.flooder]
        seen.calls = {peer.name: peer.calls for peer in everybody}
        seen.updates = {peer.name: peer.updates for peer in everybody}
        for peer in everybody[1:]:
            peer.close()
        after = await self.until(lambda health: health["count"] == 1, "the clients to be gone")
        seen.clients_after = after["count"]
        seen.rss_after = self.rss("VmRSS")
        await self.until_closed()
        self.watcher.close()
        seen.seconds = time.monotonic() - began
        return seen

    async def connect(self, name, count, **options):
        peers = [Peer(f"{name}-{number}", **options) for number in range(count)]
        return list(await asyncio.gather(*(peer.connect(self.live.port) for peer in peers)))

    async def clog(self, peer):
        """Send requests without reading until the server has answers that the socket does not accept."""

        def is_clogged(health):
            row = self.row(health, peer.name)
            return not row["openRequests"] and row["queued"]

        for _ in range(100):
            await peer.send(*(peer.message("tools/list")[0] for _ in range(100)))
            health = await self.until(
                lambda health: not self.row(health, peer.name)["openRequests"], "the answers to be made"
            )
            if is_clogged(health):
                return
        raise AssertionError("the socket took everything")

    async def flood(self):
        """Send without reading for as long as the server accepts data, until the load ends."""
        # Send long requests, because the kernel's buffers hold megabytes before the server receives any.
        padding = {"_meta": {"padding": "x" * 8000}}
        while not self.is_over.is_set():
            batch = [self.flooder.message("tools/list", padding)[0] for _ in range(20)]
            self.seen.flood_sent += len(batch)
            await self.flooder.send(*batch)
            await asyncio.sleep(0)

    async def ping(self, peer):
        """Send pings at short intervals, like a client that checks whether its server responds."""
        while not self.is_over.is_set():
            began = time.perf_counter()
            await peer.request("ping")
            self.seen.pings.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(1)

    async def weigh(self):
        """Record the server's memory at intervals."""
        for _ in range(10):
            await asyncio.sleep(self.plan.seconds / 10)
            self.seen.rss_over_time.append(self.rss("VmRSS"))

    async def evaluate(self, peer, until):
        for number in itertools.count():
            if time.monotonic() >= until:
                return
            began = time.perf_counter()
            self.seen.sent += 1
            answer = await peer.call("evaluate_code", code=f"print({number})\n{number} * 2")
            self.seen.evaluations.append((time.perf_counter() - began) * 1000)
            self.seen.right += (answer["stdout"], answer["result"]) == (f"{number}\n", str(2 * number))

    async def queue(self):
        """Fill the session's queue behind one evaluation, then let it run."""
        gate = Path(self.live.workspace) / "gate"
        gate.unlink(missing_ok=True)  # of an earlier run
        wait = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)"
        retained, opened = self.watcher.calling("evaluate_code", code=wait, timeoutMs=600_000)
        await self.watcher.send(retained)
        await self.until(lambda health: health["evaluations"]["running"], "the session to be held")
        share = self.plan.queued // len(self.evaluators)
        waiting = []
        for peer in self.evaluators:
            calls = [peer.calling("evaluate_code", code="done += 1\ndone", timeoutMs=600_000) for _ in range(share)]
            waiting.append([answer for _, answer in calls])
            await peer.send(*(message for message, _ in calls))
        size = share * len(self.evaluators)
        health = await self.until(lambda health: health["evaluations"]["queued"] == size, "all to be queued")
        self.seen.queue_seen = health["evaluations"]["queued"]
        self.seen.sent += size
        gate.touch()
        for answers in waiting:
            results = [
                (await asyncio.wait_for(answer, 2 * WAIT_S))["result"]["structuredContent"] for answer in answers
            ]
            self.seen.right += sum(result.get("status", "done") == "done" for result in results)
            self.seen.queue_order.append([int(result["result"]) for result in results])
        await opened

    async def print_much(self):
        """Run an evaluation that prints endlessly, and fetch its output in parts."""
        lines = self.plan.lines
        code = f"for number in range({lines}): print('line', number)"
        self.seen.sent += 1
        answer = await self.watcher.call("evaluate_code", code=code, timeoutMs=60_000)
        self.seen.right += answer.get("status", "done") == "done"
        text, start = "", 0
        while start is not None:
            part = await self.watcher.call(
                "get_evaluation",
                evaluationId=answer["evaluationId"],
                part="stdout",
                **{"from": start, "length": 40_000},
            )
            text += part["text"]
            start = part.get("next")
        self.seen.long_text = text == "".join(f"line {number}\n" for number in range(lines))

    def is_quiet(self, health):
        """Return whether all requests are answered, and every notification is read or counted as dropped.

        Clients that evaluate are notified immediately, and therefore more often than those that only listen.
        """
        rows = {row["name"]: row for row in health["clients"]}
        listening = [*self.listeners, *self.silent, self.flooder]
        fields = {peer.updates + rows[peer.name]["droppedNotifications"] for peer in listening}
        everybody = (*self.evaluators, *listening)
        is_written = not any(rows[peer.name]["queued"] or rows[peer.name]["openRequests"] for peer in everybody)
        return is_written and len(fields) == 1 and not any(peer.unanswered for peer in everybody)

    @staticmethod
    def row(health, name):
        return next(row for row in health["clients"] if row["name"] == name)

    async def until(self, condition, what):
        """Query the server's health until a condition is true, and return that answer."""
        deadline = time.monotonic() + 2 * WAIT_S
        while True:
            health = await self.watcher.call("server_health")
            if condition(health):
                return health
            assert time.monotonic() < deadline, f"waited in vain for: {what}"
            await asyncio.sleep(0.05)

    def rss(self, name):
        for line in Path(f"/proc/{self.live.process.pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
        raise AssertionError(name)

    async def until_closed(self):
        """Wait until no more files are open than before. A client is taken off the list before its socket is closed."""
        began = time.monotonic()
        while len(left := self.files()) > self.seen.files_before and time.monotonic() < began + WAIT_S:
            await asyncio.sleep(0.01)
        self.seen.files_after, self.seen.files_closed_ms = left, (time.monotonic() - began) * 1000

    def files(self):
        """Return the server's open files and sockets, except for the lock that it holds since its first long text."""
        return [line for line in open_files(self.live.process.pid) if not line.endswith(".lock")]


def run(folder, plan):
    """Run a plan in a folder of its own, and return what was seen."""
    [seen] = run_again(folder, plan, 1)
    return seen


def run_again(folder, plan, times):
    """Run a plan several times against the same server, and return what was seen each time."""
    workspace = Path(folder) / "workspace"
    workspace.mkdir(parents=True)
    (workspace / "codriver.toml").write_text(f"outboxMessages = {OUTBOX_MESSAGES}\n")
    with serving(folder, "--repl", "python") as live:
        for _ in range(times):
            yield asyncio.run(Load(live, plan).run())
