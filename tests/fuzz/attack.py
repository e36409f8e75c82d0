"""Attack a server with ten clients, real REPLs, hostile notebooks, floods and kills at random moments, all together.

Run with `python tests/fuzz/attack.py [MINUTES] [SEED]` (10, 1). The server is killed, stopped or paused at random
moments, and its embedded Python and the kernel are killed. Meanwhile clients evaluate in these, on the JVM and in
Basilisp, run cells, list notebooks, print floods, interrupt and query. At the end, each call must have one answer or be
reported as lost. No code may run twice, and code that was answered as done must have written to its file.

The history and the log are compared with what the clients sent. Everything answered as done must be in them once, with
its text, its caller and its result, in the order of the calls, except for the last half second before a server was
killed. The program prints counts, and fails if any of this does not hold.

As root on Linux, another user of the machine takes part. That user connects to the ports of the server, its REPL and
the kernel, reads files in their directories, and listens on the ports of killed processes. No byte may reach that user,
and none of that user's code may run.
"""

import contextlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "support")]

import other_user  # noqa: E402 - found by the lines above
import posix_only  # noqa: E402
import real_kernels  # noqa: E402
import real_repls  # noqa: E402
from live_server import Live, user_settings_file  # noqa: E402

from codriver.log.history import History  # noqa: E402

CLIENTS = 10
CASES = TESTS / "fuzz" / "cases" / "notebook"
CELL = '{"cell_type":"code","source":"1 + 1","outputs":[%s]}'
WIDE = CELL % '{"output_type":"stream","text":"%s\U0001f600"}'
FLOODS = (
    "print('y' * 30_000_000)",
    "display({'text/plain': 'a' * 20_000_000}, raw=True)",
    "[print('z' * 99) for _ in range(9999)]",
)
PYTHON = "with open({file!r}, 'a') as file: file.write('{mark}\\n')\n'{mark}'"
CODE = {
    "jup": PYTHON,
    "py": PYTHON,
    "jvm": '(do (spit "{file}" "{mark}\\n" :append true) "{mark}")',
    "basilisp": '(do (with [file (python/open "{file}" "a")] (.write file "{mark}\\n")) "{mark}")',
}
"""Code for each REPL that appends its marker to the file of all code that ran, and returns the marker."""
SETTINGS = (
    "logMaxEntities = 1000000\nlogMaxBytes = 268435456\nhistoryMaxEntities = 1000000\nhistoryMaxBytes = 1073741824\n"
)
"""Settings that keep the compared data from being discarded."""
UNFLUSHED_S = 0.5
"""Maximum time until an entry in the history is on the disk."""
LOG_ROWS = 10_000


@dataclass
class Sent:
    """One evaluation as its client knows it; times are of the monotonic clock."""

    code: str
    who: str
    key: str
    begun: float
    ended: float = float("inf")
    outcome: str = ""
    result: str = ""


def answered(message):
    """Return the fields of an answer, with the message of an error as the reason."""
    if "error" in message:
        return {"ok": False, "reason": message["error"]["message"]}
    return json.loads(message["result"]["content"][0]["text"])


def outcome(fields):
    """Return how a call ended: its status, `ok`, `lost` if it may have run, or the reason why it did not."""
    if fields["ok"]:
        return fields.get("status", "ok")
    if "may have run" in json.dumps(fields):
        return "lost"
    why = fields.get("reason", fields.get("status"))
    return "not carried out" if "was not carried out" in why else why


class Client(threading.Thread):
    """One client behind a relay, which makes calls without a pause until the attack is over."""

    def __init__(self, live, number, counted, is_over, seed):
        super().__init__(name=f"client{number}", daemon=True)
        self.client = live.relay(name=self.name)
        self.counted, self.is_over = counted, is_over
        self.dice = random.Random(f"{seed} {number}")
        self.calls = Counter()
        self.sent, self.asked = {}, set()
        self.notebooks = sorted(path.name for path in live.workspace.glob("*.ipynb"))

    def call(self, tool, **arguments):
        """Call a tool, wait for the answer, and return its fields."""
        self.calls[tool] += 1
        requested = self.client.begin_call(tool, **arguments)
        self.asked.add(requested)
        return answered(self.client.answer(requested))

    def evaluate(self, number):
        """Evaluate code that contains a unique marker."""
        mark, key = f"{self.name}-{number}-", self.dice.choice(list(CODE))
        code = CODE[key].format(file=str(self.counted), mark=mark)
        self.sent[mark] = sent = Sent(code, self.name, key, time.monotonic())
        fields = self.call("evaluate_code", code=code, replSessionKey=key, timeoutMs=60_000)
        sent.ended, sent.outcome, sent.result = time.monotonic(), outcome(fields), fields.get("result", "")

    def run(self):
        number = 0
        while not self.is_over.is_set():
            number += 1
            act = self.dice.random()
            if act < 0.6:
                self.evaluate(number)
            elif act < 0.8:
                self.call("list_cells", filePath=self.dice.choice(self.notebooks))
            elif act < 0.85:
                self.call("run_cell", filePath="sound.ipynb", cell="0", replSessionKey="jup", timeoutMs=20_000)
            elif act < 0.9:
                code = self.dice.choice(FLOODS)
                self.call("evaluate_code", code=code, replSessionKey="jup", timeoutMs=60_000)
            elif act < 0.95:
                self.call("repl_output_log", since=0, limit=20)
            else:
                code = "import time\nwhile True: time.sleep(0.01)"
                self.call("evaluate_code", code=code, replSessionKey=self.dice.choice(["jup", "py"]), timeoutMs=200)
                self.call("interrupt_evaluation")

    def answered_again(self):
        """Return repeated answers to calls that had already been answered."""
        return [
            notification
            for notification in self.client.notifications
            if "method" not in notification and notification.get("id") in self.asked
        ]


class Stranger:
    """Another user of the machine, who runs `stranger.py`. Does nothing unless this process belongs to root."""

    def __init__(self, counted):
        self.tried, self.breaks = Counter(), []
        code = f"with open({str(counted)!r}, 'a') as file: file.write('of-a-stranger\\n')"
        call = {"name": "evaluate_code", "arguments": {"code": code}}
        client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        requests = [("initialize", client), ("tools/call", call)]
        lines = [{"jsonrpc": "2.0", "id": i, "method": name, "params": what} for i, (name, what) in enumerate(requests)]
        nrepl = b"d4:code%d:%s2:id1:12:op4:evale" % (len(code), code.encode())
        self.says = {
            "MCP": "".join(json.dumps(line) + "\n" for line in lines).encode().hex(),
            "nREPL": nrepl.hex(),
            "HTTP": b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n".hex(),
            "nothing whole": b"{".hex(),
        }
        script = [sys.executable, "-I", "-S", str(TESTS / "fuzz" / "stranger.py"), f"import os\n{other_user.BECOME}"]
        self.process = None
        if posix_only.is_root() and sys.platform == "linux":
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(script, stdin=pipe, stdout=pipe, text=True, cwd="/")

    def request(self, **act):
        """Perform an action, and return its result."""
        (name, over) = next(iter(act.items()))
        self.tried[name] += 1 if over is True or isinstance(over, str) else len(over)
        self.process.stdin.write(json.dumps(act) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def try_doors(self, live, kernel_port):
        """Connect to all ports, and try to read files."""
        if self.process is None:
            return
        doors = [live.port]
        with contextlib.suppress(OSError, AssertionError, KeyError), live.client() as client:
            rows = client.call("list_sessions")["sessions"]
            doors += [int(row["address"].rpartition(":")[2]) for row in rows if row["key"] == "py"]
        answered = self.request(knock=doors, says=self.says)
        self.breaks += [f"{door} answered {came}" for door, came in answered.items() if came]
        # ZeroMQ greets everybody, so for a kernel it only matters that no code runs.
        self.request(knock=[kernel_port], says=self.says)
        private = (live.folder / "state", live.port_file.parent)
        for file in map(Path, self.request(read=str(live.folder))):
            if any(file.is_relative_to(folder) for folder in private):
                self.breaks.append(f"{file} can be read")

    @contextlib.contextmanager
    def listening_on(self, *ports):
        """Listen on the ports of a killed process while the context is active."""
        if self.process is None:
            yield
            return
        self.tried["taken"] += len(self.request(take=ports))
        yield
        self.breaks += [f"heard at {ports}: {data[:200]}" for data in self.request(leave=True)]

    def end(self):
        """Wait until its process has ended."""
        if self.process is not None:
            self.process.communicate()


def prepare(workspace):
    """Write the notebooks: a valid, a broken, a large and a wide one."""
    workspace.mkdir(parents=True)
    for case in CASES.iterdir():
        (workspace / f"{case.name}.ipynb").write_bytes(case.read_bytes())
    (workspace / "sound.ipynb").write_text('{"cells":[%s],"nbformat":4}' % (CELL % ""))
    (workspace / "wide.ipynb").write_text('{"cells":[%s],"nbformat":4}' % (WIDE % ("x" * 30_000_000)))
    (workspace / "heavy.ipynb").write_text('{"cells":[],"nbformat":4,"metadata":{"a":[' + "[]," * 5_000_000 + "1]}}")


class Comparison:
    """A comparison of what the clients sent with the log and the history of their server."""

    def __init__(self, clients):
        self.clients = clients
        self.killed, self.compared = [], Counter()

    @property
    def sent(self):
        return {mark: item for client in self.clients for mark, item in list(client.sent.items())}

    def done(self, since, until):
        """Return the markers of code that was sent and completed within this time."""
        return {
            mark for mark, item in self.sent.items()
            if item.outcome == "done" and item.begun > since and item.ended < until
        }  # fmt: skip

    def check_log(self, live, began, first_line):
        """Check the newest rows of a server's log, which started at `began` and had its first line soon afterwards."""
        requested = time.monotonic()
        rows = newest_rows(live, LOG_ROWS)
        lines = [row["line"] for row in rows]
        assert lines == sorted(set(lines)), "a line of the log stands twice, or not in its order"
        codes = [row for row in rows if row["category"] == "evaluatedCode"]
        marks = self._check("the log", [(row["text"], row["who"], row["repl-session-key"]) for row in codes])
        sent = self.sent
        if lines[0] > first_line:  # more than was requested, or than the log holds
            began = max([began, *(sent[mark].ended for mark in marks[:1])])
        done = self.done(began, requested)
        assert done <= set(marks), f"the log lacks what was done: {sorted(done - set(marks))[:5]}"
        results = Counter()
        for row in rows:
            if row["category"] == "evaluationResults" and row["text"].strip("'\"") in sent:
                mark = row["text"].strip("'\"")
                results[mark] += 1
                assert (row["who"], row["repl-session-key"]) == (sent[mark].who, sent[mark].key), row
        assert all(results[mark] == 1 for mark in done), "a result stands twice in the log, or is missing"
        self.compared["results in the log"] += len(results)

    def check_history(self, folder):
        """Check the complete history, while no server is using it."""
        [file] = folder.glob("state/codriver/workspaces/*/eval-history.transit.json")
        history = History(file, max_entities=1_000_000, max_bytes=1 << 30)
        loaded = history.load()
        assert loaded.report is None, loaded.report
        entries = loaded.entities
        assert [entry.line for entry in entries] == sorted({entry.line for entry in entries}), (
            "its lines are not in order"
        )
        marks = self._check("the history", [(entry.text, entry.who, entry.session_key) for entry in entries])
        lost = {
            mark for mark in self.done(0, float("inf")) - set(marks)
            if not any(0 <= at - self.sent[mark].ended < UNFLUSHED_S for at in self.killed)
        }  # fmt: skip
        assert not lost, f"the history lacks what was done: {sorted(lost)[:5]}"
        self.compared["done, and not in the history"] = len(self.done(0, float("inf")) - set(marks))

    def _check(self, name, rows):
        """Check that each row was sent as it is, only once, and in the order of the calls. Return the markers."""
        sent, marks, latest = self.sent, [], 0.0
        by_code = {item.code: mark for mark, item in sent.items()}
        for text, who, key in rows:
            if "client" not in text:
                continue  # a flood, an endless loop, a cell
            mark = by_code.get(text)
            assert mark, f"{name} has what nobody sent: {text}"
            item = sent[mark]
            assert (item.who, item.key) == (who, key), f"{name} has another caller of {mark}: {who} in {key}"
            assert item.ended > latest, f"{name} has {mark} behind what was sent after its answer"
            latest = max(latest, item.begun)
            marks.append(mark)
        twice = [mark for mark, times in Counter(marks).items() if times > 1]
        assert not twice, f"{name} has twice: {twice[:5]}"
        self.compared[f"evaluations in {name}"] += len(marks)
        return marks


def newest_rows(live, most):
    """Return the newest rows of a server's log, at most `most`, oldest first."""
    reported = live.run("log", "--json", "--limit", str(most))
    assert reported.returncode == 0, f"the log was not told: {reported.stderr}"
    return [json.loads(line) for line in reported.stdout.splitlines()]


class Attack:
    """The servers, kernels and clients of one attack, and what was counted."""

    def __init__(self, folder, seed):
        self.folder, self.seed, self.dice = folder, seed, random.Random(seed)
        self.counted, self.is_over = folder / "counted", threading.Event()
        self.counted.touch()
        prepare(folder / "workspace")
        user_settings_file(folder).write_text(SETTINGS)
        self.kills, self.stranger = Counter(), Stranger(self.counted)
        folder.chmod(0o755)  # nothing but their own modes keeps the other user from the files below

    def run(self, minutes):
        """Run the attack, and return the counts."""
        with contextlib.ExitStack() as repls:
            self.kernel = repls.enter_context(real_kernels.fresh("ipykernel"))
            ports = json.loads(self.kernel.file.read_text())
            self.kernel_ports = [ports[f"{name}_port"] for name in ("shell", "iopub", "stdin", "control", "hb")]
            self.options = ["--repl", "python", "--kernel", f"jup={self.kernel.file}"]
            for name in ("jvm", "basilisp"):
                self.options += ["--nrepl", f"{name}={repls.enter_context(real_repls.fresh(name)).address}"]
            self._begin()
            clients = [Client(self.live, number, self.counted, self.is_over, self.seed) for number in range(CLIENTS)]
            self.comparison = Comparison(clients)
            for client in clients:
                client.start()
            ends = time.monotonic() + 60 * minutes
            while time.monotonic() < ends:
                time.sleep(self.dice.uniform(0.3, 20))
                self.stranger.try_doors(self.live, self.dice.choice(self.kernel_ports))
                how = self.dice.choice(["kill", "kill", "stop", "kernel", "worker", "pause"])
                self.kills[how] += 1
                getattr(self, f"_{how}")()
            self.is_over.set()
            for item in clients:
                item.join(300)
            try:
                self.stranger.end()
                return self._judge(clients)
            finally:
                for element in clients:
                    with contextlib.suppress(OSError):
                        element.client.close()
                self.live.stop()

    def _begin(self):
        self.began = time.monotonic()
        self.live = Live(self.folder, *self.options)
        self.first_line = newest_rows(self.live, 1)[0]["line"]

    def _begin_again(self):
        with self.stranger.listening_on(self.port):
            time.sleep(self.dice.uniform(0, 3))
        self._begin()

    def _kill(self):
        self.port = self.live.port
        self.comparison.killed.append(time.monotonic())
        self.live.process.kill()
        self.live.stop()
        self._begin_again()

    def _stop(self):
        self.port = self.live.port
        self.comparison.check_log(self.live, self.began, self.first_line)
        self.live.stop()
        self._begin_again()

    def _kernel(self):
        self.kernel.kill()
        with self.stranger.listening_on(*self.kernel_ports):
            time.sleep(self.dice.uniform(0, 3))
        self.kernel.start_again()

    def _worker(self):
        """End the embedded REPL as a crash would, which the server starts again."""
        with self.live.client(name="watcher") as client, contextlib.suppress(ConnectionError):
            client.call(
                "evaluate_code", code="import os; os.kill(os.getpid(), 9)", replSessionKey="py", timeoutMs=60_000
            )

    def _pause(self):
        self.live.process.send_signal(signal.Signals["SIGSTOP"])
        time.sleep(self.dice.uniform(0.2, 3))
        self.live.process.send_signal(signal.Signals["SIGCONT"])

    def _judge(self, clients):
        """Check the results, and return the counts."""
        assert not [client.name for client in clients if client.is_alive()], "a call was never answered"
        assert not [again for client in clients for again in client.answered_again()], "a call was answered twice"
        assert not self.stranger.breaks, self.stranger.breaks[:9]
        ran = Counter(self.counted.read_text().split())
        sent = self.comparison.sent
        assert not [mark for mark, times in ran.items() if times > 1], "code ran twice"
        assert "of-a-stranger" not in ran, "another user's code ran"
        done = self.comparison.done(0, float("inf"))
        assert done <= set(ran), f"answered as done, and did not run: {sorted(done - set(ran))[:5]}"
        others = [(mark, sent[mark]) for mark in done if sent[mark].result.strip("'\"") != mark]
        assert not others, f"{len(others)} answers are another's, or have no value: {others[:3]}"
        self.comparison.check_log(self.live, self.began, self.first_line)
        self.live.stop()
        self.comparison.check_history(self.folder)
        may_have_run = ("done", "lost", "running", "interrupted")
        unsent = {mark for mark, element in sent.items() if element.outcome not in may_have_run}
        return {
            "kills": dict(self.kills),
            "another user": dict(self.stranger.tried),
            "calls": dict(sum((client.calls for client in clients), Counter())),
            "evaluations": dict(Counter(item.outcome for item in sent.values())),
            "interrupted": dict(Counter(item.key for item in sent.values() if item.outcome == "interrupted")),
            "by REPL": dict(Counter(sent[mark].key for mark in ran)),
            "said not to have run, and ran": sorted((mark, sent[mark].outcome) for mark in unsent & set(ran))[:9],
            "ran": len(ran),
            "compared": dict(self.comparison.compared),
        }


def main():
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(json.dumps(Attack(Path(folder), seed).run(minutes), indent=1) + "\n")


if __name__ == "__main__":
    main()
