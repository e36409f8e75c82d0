"""Compare Jupyter kernels through the adapter with a minimal client: an evaluation, many prints, a large value, memory.

Run with `python tests/bench/kernel_bench.py`. The minimal client is the blocking one of jupyter_client, which sends a
request and reads until the reply and the idle status. Both use the same kernel in turns. The embedded worker is
measured as well.
"""

import os
import queue
import tempfile
import time
from pathlib import Path

import anyio
import real_kernels
import real_repls
from evaluations import evaluate
from live_server import serving, until
from memory_bench import settled_kib
from report import main

from codriver.core.requests import Request
from codriver.features.export.fresh_runs import connectors
from codriver.repls.kinds import split_address

ROUNDS = 20
BATCH = 10
WARM_UP = 20
PRINTS = 20_000
VALUE_CHARACTERS = 10_000_000
KERNELS = 3
REST_S = 0.02
"""Pause after each evaluation, in which the other client reads its messages and the kernel tidies up."""


def connect(address, listener=lambda _evaluation, _event: None):
    protocol, place = split_address(address)
    return connectors()[protocol](place, listener=listener, workspace=None, is_remote=False)


def evaluate_by_hand(client, code):
    """Evaluate with the minimal correct code, which waits for the reply and the idle status, in any order."""
    sent = client.execute(code)
    is_replied = is_idle = False
    while not (is_replied and is_idle):
        if not is_idle:
            message = client.get_iopub_msg(timeout=60)
            is_ours = message["parent_header"].get("msg_id") == sent
            is_idle = is_ours and message["content"].get("execution_state") == "idle"
        try:
            reply = client.get_shell_msg(timeout=60 if is_idle and not is_replied else 0)
            is_replied = is_replied or reply["parent_header"].get("msg_id") == sent
        except queue.Empty:
            continue


async def compare(kernel, worker, rounds):
    """Measure `1+2` in milliseconds: with minimal code, through the adapter, and in the embedded worker."""
    samples = {"jupyter_client by hand": [], "adapter, kernel": [], "adapter, embedded worker": []}
    number = 0

    async def through(adapter, name):
        nonlocal number
        number += 1
        began = time.perf_counter()
        await evaluate(adapter, Request(f"e{number}", "1+2"))
        samples[name].append(1000 * (time.perf_counter() - began))
        await anyio.sleep(REST_S)

    with real_kernels.client(kernel.file) as client:
        client.wait_for_ready(timeout=60)
        async with connect(kernel.address) as adapter, connect(worker.address) as embedded:
            for turn in range(rounds + 1):
                for _ in range(WARM_UP if turn == 0 else BATCH):
                    began = time.perf_counter()
                    evaluate_by_hand(client, "1+2")
                    samples["jupyter_client by hand"].append(1000 * (time.perf_counter() - began))
                    await anyio.sleep(REST_S)
                for _ in range(WARM_UP if turn == 0 else BATCH):
                    await through(adapter, "adapter, kernel")
                for _ in range(WARM_UP if turn == 0 else BATCH):
                    await through(embedded, "adapter, embedded worker")
                while True:
                    try:
                        client.get_iopub_msg(timeout=0)
                    except queue.Empty:
                        break
                if turn == 0:
                    for values in samples.values():
                        values.clear()
    return samples


async def printed(kernel):
    """Return how many of the flushed prints were received, and in how many seconds."""
    texts = []

    def listen(_evaluation, event):
        if getattr(event, "stream", None) == "out":
            texts.append(event.text)

    async with connect(kernel.address, listen) as adapter:
        began = time.perf_counter()
        await evaluate(adapter, Request("p", f"for i in range({PRINTS}): print(i, flush=True)"))
        elapsed_s = time.perf_counter() - began
    return "".join(texts).splitlines(), elapsed_s


async def large_value(kernel):
    """Return how many characters of a value of ten million were received, and in how many seconds."""
    values = []

    def listen(_evaluation, event):
        if hasattr(event, "bundle") and hasattr(event, "text"):
            values.append(event.text)

    async with connect(kernel.address, listen) as adapter:
        began = time.perf_counter()
        await evaluate(adapter, Request("v", f"'x' * {VALUE_CHARACTERS}"))
        elapsed_s = time.perf_counter() - began
    return len(values[0]), elapsed_s


def memory(report):
    """Return the additional memory of the server for a first kernel, including the import, and for each further one."""
    with tempfile.TemporaryDirectory() as name:
        kernels = [real_kernels.start("ipykernel") for _ in range(KERNELS)]
        try:
            sizes = []
            for count in range(KERNELS + 1):
                named = [word for kernel in kernels[:count] for word in ("--kernel", str(kernel.file))]
                with serving(Path(name) / str(count), "--repl", "none", *named) as live, live.client() as client:
                    connected = ["connected"] * count
                    until(
                        lambda client=client, connected=connected: (
                            [row["phase"] for row in client.call("list_sessions")["sessions"]] == connected
                        ),
                        "the kernels",
                    )
                    sizes.append(settled_kib(live))
        finally:
            for kernel in kernels:
                kernel.stop()
    title = "memory of the server with kernels"
    report.fact(title, "the first kernel, with jupyter_client", (sizes[1] - sizes[0]) / 1024, "MiB")
    each = (sizes[-1] - sizes[1]) / 1024 / (KERNELS - 1)
    report.fact(title, "each further kernel", each, "MiB", at_most=4.0)


def first_evaluation_s(repl):
    """Return the seconds from the start of a server until its REPL has evaluated something."""
    with tempfile.TemporaryDirectory() as name:
        began = time.perf_counter()
        with serving(Path(name), "--repl", repl) as live, live.client() as client:
            client.call("evaluate_code", code="1+2", timeoutMs=60_000)
            return time.perf_counter() - began


def starts(report):
    """Measure the time to the first evaluation, for a kernel alone and for a server with its worker or a kernel."""
    samples = {"kernel alone": [], "server with its worker": [], "server with its kernel": []}
    os.environ["CODRIVER_PYTHON"] = str(real_kernels.VENV / "bin" / "python")
    try:
        for _ in range(report.rounds(5)):
            began = time.perf_counter()
            kernel = real_kernels.start("ipykernel")
            samples["kernel alone"].append(time.perf_counter() - began)
            kernel.stop()
            samples["server with its worker"].append(first_evaluation_s("python"))
            samples["server with its kernel"].append(first_evaluation_s("jupyter"))
    finally:
        del os.environ["CODRIVER_PYTHON"]
    report.table("start until the first evaluation, Jupyter kernel", "s", samples, base="kernel alone")


def measure(report):
    title = "one evaluation, Jupyter kernel"
    if why := real_kernels.missing("ipykernel"):
        report.skip(title, why)
        return
    kernel, worker = real_kernels.kernel("ipykernel"), real_repls.repl("python")
    samples = anyio.run(compare, kernel, worker, report.rounds(ROUNDS))
    report.table(title, "ms", samples, base="jupyter_client by hand", at_most={"adapter, kernel": 1.3})
    lines, elapsed_s = anyio.run(printed, kernel)
    title = "20,000 flushed prints"
    report.fact(title, "lines missing", PRINTS - len([line for line in lines if line.isdecimal()]), "", at_most=0)
    report.fact(title, "time", elapsed_s, "s")
    arrived, elapsed_s = anyio.run(large_value, kernel)
    report.fact("a value of 10 MB", "characters missing", VALUE_CHARACTERS + 2 - arrived, "", at_most=0)
    report.fact("a value of 10 MB", "time", elapsed_s, "s")
    starts(report)
    memory(report)


if __name__ == "__main__":
    main(measure)
