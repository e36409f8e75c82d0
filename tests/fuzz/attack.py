"""An attack by what no test does together: ten clients, a real kernel, hostile notebooks, floods, kills at any moment.

Run with `python tests/fuzz/attack.py [MINUTES] [SEED]` (10, 1). The server is killed or ended at random moments, and
so is the kernel; clients evaluate in both REPLs, run cells, look at notebooks, print floods, interrupt and query.
Then each call was answered once, or told as lost; no code ran twice, none that was answered as done is missing in the
file that it wrote to, and no line of the history stands twice. Prints counts, and fails where one of these does not
hold.
"""

import contextlib
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "support")]

import real_kernels  # noqa: E402 - found by the lines above
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
    kills = Counter()
    with real_kernels.fresh("ipykernel") as kernel:
        options = ("--repl", "python", "--kernel", f"jup={kernel.file}")
        live = Live(folder, *options)
        clients = [Client(live, number, counted, is_over, seed) for number in range(CLIENTS)]
        for one in clients:
            one.start()
        ends = time.monotonic() + 60 * minutes
        while time.monotonic() < ends:
            time.sleep(dice.uniform(0.3, 20))
            how = dice.choice(["kill", "kill", "stop", "kernel"])
            kills[how] += 1
            if how == "kernel":
                kernel.kill()
                kernel.start_again()
                continue
            if how == "kill":
                live.process.kill()
            live.stop()
            live = Live(folder, *options)
        is_over.set()
        for one in clients:
            one.join(300)
        try:
            return judge(live, clients, counted, kills)
        finally:
            for one in clients:
                with contextlib.suppress(OSError):
                    one.client.close()
            live.stop()


def judge(live, clients, counted, kills):
    """The counts, when all that must hold does."""
    assert not [one.name for one in clients if one.is_alive()], "a call was never answered"
    assert not [again for one in clients for again in one.answered_again()], "a call was answered twice"
    ran = Counter(counted.read_text().split())
    outcomes = {mark: how for one in clients for mark, how in one.outcomes.items()}
    assert not [mark for mark, times in ran.items() if times > 1], "code ran twice"
    done = {mark for mark, how in outcomes.items() if how == "done"}
    assert done <= set(ran), f"answered as done, and did not run: {sorted(done - set(ran))[:5]}"
    with live.client() as client:
        [[entries, codes, lines]] = client.call("repl_output_log", query=HISTORY)["result"]
    assert entries == codes == lines, "a line of the history stands twice"
    unsent = {mark for mark, how in outcomes.items() if how not in ("done", "lost", "running", "interrupted")}
    return {
        "kills": dict(kills),
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
