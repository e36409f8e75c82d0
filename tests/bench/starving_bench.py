"""Measure one client's pings while others send standing queries, slow queries, files, brackets and long texts.

Run with `python tests/bench/run.py starving`.
"""

import contextlib
import os
import tempfile
import threading
import time
from pathlib import Path

from live_server import serving
from report import main

SLOW = '[:find ?l :where [?e :output/text ?t] [(re-find #"(?:a|a|ab)+b+$" ?t)] [?e :output/line ?l]]'
TEXT = "a" * 40 + "c"
HUNGRY = 4
CALLS = 200
P99_MS = 500


def standing(client, _live):
    for _ in range(CALLS):
        client.begin_call("wait_for", query=SLOW, timeoutMs=600_000)


def asking(client, _live):
    for _ in range(CALLS):
        client.begin_call("repl_output_log", query=SLOW)


def loading(client, live):
    pipe = live.workspace / "pipe.py"
    with contextlib.suppress(FileExistsError):
        os.mkfifo(pipe)
    for _ in range(CALLS):
        client.begin_call("load_file", filePath=str(pipe), replSessionKey="py")


def sending_elements(client, _live):
    head = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_sessions","arguments":{"x":['
    for _ in range(3):
        client.write(head + b"[]," * (4 * 2**20) + b"1]}}}\n")
        client.receive()


def sending_text(client, _live):
    for _ in range(3):
        client.call("evaluate_code", code=f"len('{chr(228) * 2 * 2**20}')", replSessionKey="py")


def bracketing(client, _live):
    client.call("evaluate_code", code="(quote (a b c))\n" * 30_000 + "(", replSessionKey="lpy", timeoutMs=60_000)


def pings_ms(live, work, rounds):
    """Return the time of each of a victim's pings while all hungry clients are active."""
    with contextlib.ExitStack() as stack:
        victim = stack.enter_context(live.client(name="victim"))
        hungry = [stack.enter_context(live.client(name="hungry")) for _ in range(HUNGRY)]
        workers = [threading.Thread(target=work, args=(client, live), daemon=True) for client in hungry]
        for worker in workers:
            worker.start()
        found = []
        while len(found) < rounds or any(worker.is_alive() for worker in workers):
            began = time.perf_counter()
            victim.request("ping")
            found.append((time.perf_counter() - began) * 1000)
            time.sleep(0.01)
        return sorted(found)


def measure(report):
    works = [standing, asking, sending_elements, sending_text, bracketing]
    works += [loading] if hasattr(os, "mkfifo") else []
    for work in works:
        with (
            tempfile.TemporaryDirectory() as folder,
            serving(Path(folder), "--repl", "python", "--repl", "lisp") as live,
        ):
            with live.client() as first:
                for key, code in (("py", repr(TEXT)), ("lpy", "1")):
                    first.call("evaluate_code", code=code, replSessionKey=key, timeoutMs=60_000)
            found = pings_ms(live, work, report.rounds(300))
            title = f"a victim's pings beside {HUNGRY} hungry clients"
            report.fact(title, f"{work.__name__}: median", found[len(found) // 2], "ms")
            report.fact(title, f"{work.__name__}: 99 %", found[len(found) * 99 // 100], "ms", at_most=P99_MS)


if __name__ == "__main__":
    main(measure)
