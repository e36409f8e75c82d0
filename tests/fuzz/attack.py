"""An attack by what no test does together: ten clients, a real kernel, hostile notebooks, floods, kills at any moment.

Run with `python tests/fuzz/attack.py [MINUTES] [SEED]` (10, 1). The server is killed or ended at random moments, and
so is the kernel; clients evaluate in both REPLs, run cells, look at notebooks, print floods, interrupt and query.
Then each call was answered once, or told as lost; no code ran twice, none that was answered as done is missing in the
file that it wrote to, and no line of the history stands twice. Prints counts, and fails where one of these does not
hold.

As root on Linux another user of the machine is beside them, who knocks at the ports of the server, of its REPL and of
the kernel, reads what lies in their folders, and listens at the ports of those that were killed: no byte comes to that
user, and no code of theirs runs.
"""

import contextlib
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "support")]

import other_user  # noqa: E402 - found by the lines above
import posix_only  # noqa: E402
import real_kernels  # noqa: E402
from live_server import Live  # noqa: E402

CLIENTS = 10
CASES = TESTS / "fuzz" / "cases" / "notebook"
CELL = '{"cell_type":"code","source":"1 + 1","outputs":[%s]}'
WIDE = CELL % '{"output_type":"stream","text":"%s\U0001f600"}'
FLOODS = (
    "print('y' * 30_000_000)",
    "display({'text/plain': 'a' * 20_000_000}, raw=True)",
    "[print('z' * 99) for _ in range(9999)]",
)
HISTORY = """[:find (count ?e) (count-distinct ?code) (count-distinct ?line) :in $ $history
              :where [$history ?e :output/text ?code] [(clojure.string/includes? ?code "counted")]
                     [$history ?e :output/line ?line]]"""


def outcome(message):
    """How a call ended: its status, `ok`, `lost` where it may have run, or why it did not."""
    if "error" in message:
        fields = {"ok": False, "reason": message["error"]["message"]}
    else:
        fields = json.loads(message["result"]["content"][0]["text"])
    if fields["ok"]:
        return fields.get("status", "ok")
    if "may have run" in json.dumps(fields):
        return "lost"
    why = fields.get("reason", fields.get("status"))
    return "not carried out" if "was not carried out" in why else why


class Client(threading.Thread):
    """One client behind a relay, which calls without a pause until all is over."""

    def __init__(self, live, number, counted, is_over, seed):
        super().__init__(name=f"client{number}", daemon=True)
        self.client = live.relay(name=self.name)
        self.counted, self.is_over = counted, is_over
        self.dice = random.Random(f"{seed} {number}")
        self.calls = Counter()
        self.outcomes, self.asked = {}, set()
        self.notebooks = sorted(path.name for path in live.workspace.glob("*.ipynb"))

    def call(self, tool, **arguments):
        """Call and wait for the answer, whatever it is; how it ended."""
        self.calls[tool] += 1
        asked = self.client.begin_call(tool, **arguments)
        self.asked.add(asked)
        return outcome(self.client.answer(asked))

    def run(self):
        number = 0
        while not self.is_over.is_set():
            number += 1
            act = self.dice.random()
            if act < 0.6:
                mark, key = f"{self.name}-{number}-", self.dice.choice(["jup", "py"])
                code = f"with open({str(self.counted)!r}, 'a') as file: file.write('{mark}\\n')"
                self.outcomes[mark] = self.call("evaluate_code", code=code, replSessionKey=key, timeoutMs=60_000)
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
        """Answers to calls that were answered before."""
        return [one for one in self.client.notifications if "method" not in one and one.get("id") in self.asked]


class Stranger:
    """Another user of the machine, who acts as `stranger.py` says; nobody where this one is not root."""

    def __init__(self, counted):
        self.tried, self.breaks = Counter(), []
        code = f"with open({str(counted)!r}, 'a') as file: file.write('of-a-stranger\\n')"
        call = {"name": "evaluate_code", "arguments": {"code": code}}
        client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        asked = [("initialize", client), ("tools/call", call)]
        lines = [{"jsonrpc": "2.0", "id": i, "method": name, "params": what} for i, (name, what) in enumerate(asked)]
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

    def ask(self, **act):
        """What came of an act."""
        (name, over) = next(iter(act.items()))
        self.tried[name] += 1 if over is True or isinstance(over, str) else len(over)
        self.process.stdin.write(json.dumps(act) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def try_doors(self, live, kernel_port):
        """Knock at all ports, and read."""
        if self.process is None:
            return
        doors = [live.port]
        with contextlib.suppress(OSError, AssertionError, KeyError), live.client() as client:
            rows = client.call("list_sessions")["sessions"]
            doors += [int(row["address"].rpartition(":")[2]) for row in rows if row["key"] == "py"]
        answered = self.ask(knock=doors, says=self.says)
        self.breaks += [f"{door} answered {came}" for door, came in answered.items() if came]
        # ZeroMQ greets everybody: of a kernel it counts alone that nothing runs.
        self.ask(knock=[kernel_port], says=self.says)
        private = (live.folder / "state", live.port_file.parent)
        for file in map(Path, self.ask(read=str(live.folder))):
            if any(file.is_relative_to(folder) for folder in private):
                self.breaks.append(f"{file} can be read")

    @contextlib.contextmanager
    def in_place_of(self, *ports):
        """Listen, for the length of the context, where somebody was killed."""
        if self.process is None:
            yield
            return
        self.tried["taken"] += len(self.ask(take=ports))
        yield
        self.breaks += [f"heard at {ports}: {data[:200]}" for data in self.ask(leave=True)]

    def end(self):
        """Let it end."""
        if self.process is not None:
            self.process.communicate()


def prepare(workspace):
    """The notebooks: sound, broken, heavy, wide."""
    workspace.mkdir(parents=True)
    for case in CASES.iterdir():
        (workspace / f"{case.name}.ipynb").write_bytes(case.read_bytes())
    (workspace / "sound.ipynb").write_text('{"cells":[%s],"nbformat":4}' % (CELL % ""))
    (workspace / "wide.ipynb").write_text('{"cells":[%s],"nbformat":4}' % (WIDE % ("x" * 30_000_000)))
    (workspace / "heavy.ipynb").write_text('{"cells":[],"nbformat":4,"metadata":{"a":[' + "[]," * 5_000_000 + "1]}}")


def attack(folder, minutes, seed):
    """What was counted."""
    dice, counted, is_over = random.Random(seed), folder / "counted", threading.Event()
    counted.touch()
    prepare(folder / "workspace")
    kills, stranger = Counter(), Stranger(counted)
    folder.chmod(0o755)  # nothing but their own modes keeps the other user from the files below
    with real_kernels.fresh("ipykernel") as kernel:
        names = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")
        kernel_ports = list(map(json.loads(kernel.file.read_text()).get, names))
        options = ("--repl", "python", "--kernel", f"jup={kernel.file}")
        live = Live(folder, *options)
        clients = [Client(live, number, counted, is_over, seed) for number in range(CLIENTS)]
        for one in clients:
            one.start()
        ends = time.monotonic() + 60 * minutes
        while time.monotonic() < ends:
            time.sleep(dice.uniform(0.3, 20))
            stranger.try_doors(live, dice.choice(kernel_ports))
            how = dice.choice(["kill", "kill", "stop", "kernel"])
            kills[how] += 1
            if how == "kernel":
                kernel.kill()
                with stranger.in_place_of(*kernel_ports):
                    time.sleep(dice.uniform(0, 3))
                kernel.start_again()
                continue
            port = live.port
            if how == "kill":
                live.process.kill()
            live.stop()
            with stranger.in_place_of(port):
                time.sleep(dice.uniform(0, 3))
            live = Live(folder, *options)
        is_over.set()
        for one in clients:
            one.join(300)
        try:
            stranger.end()
            return judge(live, clients, counted, kills, stranger)
        finally:
            for one in clients:
                with contextlib.suppress(OSError):
                    one.client.close()
            live.stop()


def judge(live, clients, counted, kills, stranger):
    """The counts, when all that must hold does."""
    assert not [one.name for one in clients if one.is_alive()], "a call was never answered"
    assert not [again for one in clients for again in one.answered_again()], "a call was answered twice"
    assert not stranger.breaks, stranger.breaks[:9]
    ran = Counter(counted.read_text().split())
    outcomes = {mark: how for one in clients for mark, how in one.outcomes.items()}
    assert not [mark for mark, times in ran.items() if times > 1], "code ran twice"
    assert "of-a-stranger" not in ran, "another user's code ran"
    done = {mark for mark, how in outcomes.items() if how == "done"}
    assert done <= set(ran), f"answered as done, and did not run: {sorted(done - set(ran))[:5]}"
    with live.client() as client:
        [[entries, codes, lines]] = client.call("repl_output_log", query=HISTORY)["result"]
    assert entries == codes == lines, "a line of the history stands twice"
    unsent = {mark for mark, how in outcomes.items() if how not in ("done", "lost", "running", "interrupted")}
    return {
        "kills": dict(kills),
        "another user": dict(stranger.tried),
        "calls": dict(sum((one.calls for one in clients), Counter())),
        "evaluations": dict(Counter(outcomes.values())),
        "said not to have run, and ran": sorted((mark, outcomes[mark]) for mark in unsent & set(ran))[:9],
        "ran": len(ran),
        "in the history": codes,
    }


def main():
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(json.dumps(attack(Path(folder), minutes, seed), indent=1) + "\n")


if __name__ == "__main__":
    main()
