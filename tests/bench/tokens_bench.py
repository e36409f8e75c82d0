"""Measure what a model has to read: lists, answers, skills and whole tasks, by client and next to other servers.

Run with `python tests/bench/run.py tokens`. Everything except the tasks is exact and the same on every machine. Clojure
needs the JVM nREPL that the tests use. Other servers are installed from PyPI if they are missing.
"""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

from peers import ENVIRONMENTS, PEERS, MissingPeerError, serving_peer
from reading_cost import (
    LISTING,
    OF_EVERY_PROFILE,
    PROFILES,
    SCHEMAS,
    CountingClient,
    answers_of,
    clojure,
    normalized,
    python,
    skills_of,
    text_of,
    workspace_of,
)
from reading_tasks import TASKS, run_calls
from real_repls import missing, repl
from report import main

WIRE, READ = "bytes on the wire", "bytes that the model reads"

WIRE_GOALS = {"python, 1+2": 230, "clojure, 1+2": 230, "python, 1/0": 430, "clojure, 1/0": 430}
WIRE_GOALS |= {f"{name}, exception six frames deep": 1000 for name in ("python", "clojure")}
WIRE_GOALS |= {f"{name}, list of 1,000,000": 700 for name in ("python", "clojure")}
WIRE_GOALS |= {f"{name}, {SCHEMAS}": 1500 for name in ("python", "clojure")}
READ_GOALS = {"python, 1+2": 60, "clojure, 1+2": 60, "the two skills": 8000}
READ_GOALS |= {f"python, {LISTING}": 10_000, f"clojure, {LISTING}": 10_800}
READ_GOALS |= {f"{name}, {row}": 3700 for name in ("python", "clojure") for row in ("10 MB printed", "200,000 lines")}
WIRE_GOALS |= {f"{name}, 10 MB printed": 7800 for name in ("python", "clojure")}
LOOK_GOALS = {"30 steps in pdb": 3000, "nine looks at a loop of 10 s": 4000}
STEPPED = "def go(n):\n    for i in range(n):\n        t = i\n        t += 1\n"
LOOP = "import time\nfor n in range(100):\n    print('line number', n, 'of the loop here')\n    time.sleep(0.1)\n"

TASKS_BEFORE = {
    "fix a failing test": 17_059,
    "find a slow function": 47_482,
    "build a parser test-first": 21_585,
    "recover after an endless loop": 182_320,
    "take over from another agent": 111_428,
}
"""Bytes read for each task before answers were made lean; the goal is a third."""


def languages(report):
    """Return the languages that are available on this machine."""
    yield python()
    if why := missing("jvm"):
        report.skip("what a model reads in a Clojure workspace", why)
    else:
        yield clojure(repl("jvm").endpoint)


def measure(report):
    costs = {}
    for language in languages(report):
        with tempfile.TemporaryDirectory() as folder, workspace_of(language, folder) as live:
            costs |= answers_of(language, live)
            if language.name == "python":
                costs |= skills_of(live)
    profiles = tuple(f", {profile}" for profile in PROFILES)
    plain = {row: cost for row, cost in costs.items() if not row.endswith(profiles)}
    report.grid("bytes of one answer", {row: {WIRE: cost.wire} for row, cost in plain.items()}, WIRE_GOALS)
    read = {row: cost for row, cost in plain.items() if cost.read}
    report.grid("what the model reads of it", {row: {READ: cost.read} for row, cost in read.items()}, READ_GOALS)
    _measure_profiles(report, costs)
    _measure_peers(report, costs)
    _measure_looks(report)
    _measure_tasks(report)


def _measure_looks(report):
    """Measure what a model reads when it queries the same evaluation repeatedly."""
    read = {}
    with tempfile.TemporaryDirectory() as folder, workspace_of(python(), folder) as live, live.client() as client:
        (Path(live.workspace) / "shop.py").write_text(STEPPED)
        counting = CountingClient(client, live.workspace)

        def begin(code, **arguments):
            message, _ = counting.request(
                "tools/call", {"name": "evaluate_code", "arguments": {"code": code, **arguments}}
            )
            text = text_of(message["result"])
            return json.loads(text)["evaluationId"], len(normalized(text.encode(), live.workspace))

        stepping, _ = begin("import pdb, shop\npdb.runcall(shop.go, 100)")
        counting.read = 0
        for _ in range(30):
            counting.call("send_input", evaluationId=stepping, text="n")
        read["30 steps in pdb"] = {READ: counting.read}
        counting.call("send_input", evaluationId=stepping, text="q")
        looping, counting.read = begin(LOOP, timeoutMs=1000)
        for _ in range(8):
            counting.call("get_evaluation", evaluationId=looping, waitMs=1100)
        read["nine looks at a loop of 10 s"] = {READ: counting.read}
    report.grid("what the model reads of one evaluation in many answers", read, LOOK_GOALS)


def _measure_profiles(report, costs):
    """Measure the rows that may differ by client."""
    rows = [row for row in costs if row.endswith((LISTING, SCHEMAS, *OF_EVERY_PROFILE))]
    grid = {
        row: {name: costs[row if name == "unknown" else f"{row}, {name}"].wire for name in PROFILES} for row in rows
    }
    report.grid("bytes on the wire by client", grid)


def _measure_peers(report, costs):
    """Measure the rows of the Python workspace next to those of other servers."""
    rows = {row.partition(", ")[2]: cost for row, cost in costs.items() if row.startswith("python, ")}
    displayed = (LISTING, *python().rows)
    found = {"codriver": {row: rows[row] for row in displayed}}
    for peer in PEERS:
        try:
            found[peer.package] = _answers_of_peer(peer)
        except MissingPeerError as error:
            report.skip(f"beside {peer.package}", str(error))
    for title, part in ((WIRE, "wire"), (READ, "read")):
        grid = {row: {name: getattr(costs[row], part) for name, costs in found.items()} for row in displayed}
        report.grid(f"Python, beside other servers: {title}", grid)


def _answers_of_peer(peer):
    language = python()
    with tempfile.TemporaryDirectory() as folder:
        for name, text in language.files.items():
            (Path(folder) / name).write_text(text)
        with serving_peer(peer, Path(folder)) as client:
            counting = CountingClient(client, folder, ENVIRONMENTS / peer.package)
            costs = {LISTING: counting.listing()[0]}
            counting.call(peer.tool, **peer.arguments("0"))
            for row, code in language.rows.items():
                costs[row], _ = counting.call(peer.tool, **peer.arguments(code))
        return costs


def _measure_tasks(report):
    """Measure everything that one agent reads for a task, counting its tools and instructions once."""
    known = {language.name: language for language in languages(report)}
    grid = {}
    for task in TASKS:
        if task.language in known:
            read, of_list = _cost_of_task(task, known[task.language])
            grid[task.name] = {"bytes read": read, "of them answers": read - of_list}
    before = {name: TASKS_BEFORE[name] for name in grid}
    columns = next(iter(grid.values()))
    grid["all of them"] = {column: sum(row[column] for row in grid.values()) for column in columns}
    before["all of them"] = sum(before.values())
    report.grid("what a model reads for a task", grid, {name: bytes_read // 3 for name, bytes_read in before.items()})


def _cost_of_task(task, language):
    with (
        tempfile.TemporaryDirectory() as folder,
        workspace_of(replace(language, files=language.files | task.files), folder) as live,
    ):
        with live.client(name="agent-a") as other:
            run_calls(CountingClient(other, live.workspace), task.before, live.workspace)
        with live.client(name=PROFILES["unknown"]) as client:
            counting = CountingClient(client, live.workspace)
            listing, _ = counting.listing()
            run_calls(counting, task.calls, live.workspace)
            return counting.read, listing.read


if __name__ == "__main__":
    main(measure)
