"""`kill -9` at random moments loses nothing reported as written, and leaves no partial file."""

import json
import subprocess
import sys

import pytest
from alike import rounds

KILLS = rounds(100, 35)

# Each round: a child restores the history, adds entries while a thread flushes them, and says through a pipe which
# lines it has given and which are flushed. It is killed at a random moment; then the history must hold all that was
# flushed.
ROUNDS = """
import json, os, random, select, signal, sys, threading, time
from pathlib import Path
from codriver.log.history import History
from codriver.log.log_entries import Entry

path, kills = Path(sys.argv[1]), int(sys.argv[2])

def child(pipe):
    history = History(path, max_entities=400)
    line = history.load().next_line
    said = threading.Lock()

    def flush():
        while True:
            upto = added[0]
            history.flush()
            say("flushed", upto)

    def say(word, number):
        with said:
            os.write(pipe, f"{word} {number}\\n".encode())

    added = [line - 1]
    threading.Thread(target=flush, daemon=True).start()
    while True:
        say("given", line)
        history.add(Entry(line, "evaluatedCode", "x" * random.randrange(6000), 0, evaluation=str(line)))
        added[0] = line
        line += 1
        if random.random() < 0.3:
            time.sleep(0.002)

def words_of(said):
    return [line.split() for line in said.decode().split("\\n")[:-1]]

def has_flushed(said):
    given = [int(line) for word, line in words_of(said) if word == "given"]
    return given and any(word == "flushed" and int(line) >= given[0] for word, line in words_of(said))

for number in range(kills):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            child(writing)
        finally:
            os._exit(70)
    os.close(writing)
    select.select([reading], [], [], 30)
    said = b""
    # Each second one has flushed something of its own by then, on any machine.
    while number % 2 and not has_flushed(said) and (more := os.read(reading, 2**16)):
        said += more
    time.sleep(random.random() * 0.06)
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    with open(reading, "rb") as told:
        words = words_of(said + told.read())
    given = [int(line) for word, line in words if word == "given"]
    flushed = max((int(line) for word, line in words if word == "flushed"), default=0)
    loaded = History(path, max_entities=400).load()
    held = [entry.line for entry in loaded.entities]
    print(json.dumps({
        "killed": os.WIFSIGNALED(status),
        "report": loaded.report,
        "lost": [line for line in given if line <= flushed and line not in held and line >= held[0]],
        "unknown": [line for line in held if line >= given[0] and line not in given] if given else [],
        "repeats": bool(given) and loaded.next_line <= given[-1],
        "given": len(given),
        "flushed": flushed >= given[0] if given else False,
    }), flush=True)
"""


@pytest.mark.slow
def test_killing_the_server_at_any_moment_loses_nothing_that_was_flushed(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", ROUNDS, str(tmp_path / "state" / "eval-history.transit.json"), str(KILLS)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rounds = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rounds) == KILLS
    assert all(item["killed"] for item in rounds)
    assert [item["report"] for item in rounds if item["report"]] == []
    assert [item["lost"] for item in rounds if item["lost"]] == []
    assert [item["unknown"] for item in rounds if item["unknown"]] == []
    assert not any(item["repeats"] for item in rounds)
    assert sum(item["given"] for item in rounds) > KILLS  # the children did work before they were killed
    assert sum(item["flushed"] for item in rounds) > KILLS // 4
