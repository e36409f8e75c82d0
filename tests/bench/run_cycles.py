"""Attach to a program of `codriver run` and hang up many times, and compare what the program and the server hold.

`python tests/bench/run_cycles.py FOLDER [CYCLES]` uses the environment of `run_programs.py` in FOLDER. In each cycle a
client connects to the server, evaluates in the program, and watches a function. Then the program's REPL is
disconnected. Memory, descriptors, threads, modules and objects of the last cycle are compared with those of cycle 20,
in the program and in the server. The cycles start when the server stores as many evaluations, log entries and watched
calls as it may.
"""

import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests"), str(ROOT / "tests" / "support")]

import run_load  # noqa: E402
from live_server import serving, until, user_settings_file  # noqa: E402
from run_programs import CODRIVER, environment_of, free_port  # noqa: E402

STORED = 1000
"""Maximum number of evaluations and log entries in the server's log. The server itself stores as many evaluations."""
FILLING = 2 * STORED
"""Number of evaluations before the first cycle, and of watches. Each leaves an entry, and 2,000 are stored."""
FIRST = 20
"""The cycle with which later ones are compared. Until then, caches are filled."""
COUNTS = (
    "import gc, sys, threading; _ = gc.collect(); [len(sys.modules), len(gc.get_objects()), threading.active_count()]"
)
NO_COUNTS = f"_ = {COUNTS!r}; [0, 0, 0]"
"""As much code as `COUNTS` for cycles whose counts are not printed, because counting objects takes most of a cycle."""
WATCHED = {"function": "shop.total", "limit": 5}


def state(pid):
    """Return the resident memory in KiB, the descriptors and the threads of a process."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {
        "KiB": int(status["VmRSS"].split()[0]),
        "descriptors": len([*Path(f"/proc/{pid}/fd").iterdir()]),
        "threads": int(status["Threads"]),
    }


HANG_UP = """\
import gc, threading
def drop(repl=next(one for one in gc.get_objects() if type(one).__name__ == "EmbeddedRepl" and one.port)):
    for connection in repl._connections:
        connection.close()
threading.Timer(0.02, drop).start()
del drop
"""
"""Closes the program's connection from the program, as if the server had been lost."""


def cycle(live, code):
    """Connect, evaluate code that returns counts, watch, and hang up. Return the counts."""
    with contextlib.closing(live.client(name="bench")) as client:
        watched = client.call("watch_calls", replSessionKey="shop", **WATCHED)
        answer = client.call("evaluate_code", code=code, replSessionKey="shop")
        assert watched["ok"], watched
        client.call("evaluate_code", code=HANG_UP, replSessionKey="shop")
        until(lambda: is_attached(client, answer["generation"] + 1), "the server to attach again")
        return dict(zip(("modules", "objects", "Python threads"), json.loads(answer["result"]), strict=True))


def is_attached(client, generation):
    """Return whether the program has a REPL with this generation."""
    row = next((row for row in client.call("list_sessions")["sessions"] if row["key"] == "shop"), {})
    return (row.get("phase"), row.get("generation")) == ("connected", generation)


def main():
    environment = environment_of(Path(sys.argv[1]).resolve())
    cycles = int(sys.argv[2]) if len(sys.argv) > 2 else 500
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as running:
        settings = user_settings_file(place)
        settings.write_text(f'toolset = "full"\nhistoryMaxEntities = {STORED}\nlogMaxEntities = {STORED}\n')
        live = running.enter_context(serving(Path(place)))
        command, text = run_load.PROGRAMS["Flask"]
        (live.workspace / "shop.py").write_text(text)
        port = free_port()
        words = [*CODRIVER, "run", "-w", str(live.workspace), "--", *shlex.split(command.replace("PORT", str(port)))]
        environ = {**live.environ, "PATH": f"{environment / 'bin'}{os.pathsep}{live.environ['PATH']}"}
        program = subprocess.Popen(
            words, cwd=live.workspace, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            run_load.wait_for(port)
            measure(live, program.pid, cycles)
        finally:
            program.terminate()
            program.wait(run_load.WAIT_S)


def fill(live):
    """Evaluate and watch as in the cycles until the server drops old evaluations, log entries and watched calls."""
    with contextlib.closing(live.client(name="bench")) as client:
        for number in range(FILLING):
            answer = client.call("evaluate_code", code=f"_ = {number}, {HANG_UP!r}; {NO_COUNTS}", replSessionKey="shop")
            assert answer["ok"], answer
            for limit in (5, 0):
                answer = client.call("watch_calls", replSessionKey="shop", **WATCHED | {"limit": limit})
                assert answer["ok"], answer


def measure(live, pid, cycles):
    fill(live)
    print("| cycle | program | | | | | server | | |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    print("| | KiB | descriptors | threads | modules | objects | KiB | descriptors | threads |", flush=True)
    for number in range(1, cycles + 1):
        is_printed = number in (1, FIRST, cycles) or number % 100 == 0
        counts = cycle(live, COUNTS if is_printed else NO_COUNTS)
        if is_printed:
            of_program, of_server = state(pid) | counts, state(live.process.pid)
            names = ("KiB", "descriptors", "threads", "modules", "objects")
            cells = [str(number), *(str(of_program[name]) for name in names), *map(str, of_server.values())]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
