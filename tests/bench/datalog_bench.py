"""Compare the output log with npm `datascript` on the same data.

Both sides run each query in turns, from its text to its answer, with 1,000 and with 10,000 entities. The answers must
be equal. Then entities are added to a full log, so that each one evicts the oldest. Needs `npm install` in tests/node.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

from report import Report, main

from codriver.log.log_entries import UNASSIGNED_LINE, Entry
from codriver.log.output_log import OutputLog

SCRIPT = Path(__file__).with_name("datalog_datascript.mjs")
ROUNDS = 15
TURNS = 5
INSERTS = 2000
INSERT = "insert with eviction"
WHOS = ("ann", "bob", "cleo", "dan")

NEWEST = "[:find (max ?l) . :where [_ :output/line ?l]]"
ERRORS = """[:find ?l ?t :in $ ?since
             :where [?e :output/category "evaluationErrorOutput"] [?e :output/line ?l] [(> ?l ?since)]
                    [?e :output/text ?t]]"""
BY_WHO = """[:find ?l ?c ?t :in $ ?since
             :where [?e :output/who "ann"] [?e :output/line ?l] [(> ?l ?since)]
                    [?e :output/category ?c] [?e :output/text ?t]]"""
COUNTS = "[:find ?c (count ?e) :where [?e :output/category ?c]]"
RESULTS = """[:find ?code ?result
              :where [?a :output/category "evaluatedCode"] [?a :output/text ?code] [?a :output/evaluation ?id]
                     [?b :output/evaluation ?id] [?b :output/category "evaluationResults"] [?b :output/text ?result]]"""
QUERIES = {
    "newest line": (NEWEST, False),
    "errors since a line": (ERRORS, True),
    "one who since a line": (BY_WHO, True),
    "count by category": (COUNTS, False),
    "code with its result": (RESULTS, False),
}
"""By name: the query, and whether it takes a line."""


def entries(first: int, count: int) -> list[dict[str, object]]:
    """Return the log entries of a day: code, two lines of output, a result, and sometimes an error."""
    made: list[dict[str, object]] = []
    for line in range(first, first + count):
        evaluation, place = divmod(line, 5)
        category = (
            "evaluatedCode",
            "evaluationOutput",
            "evaluationOutput",
            "evaluationErrorOutput",
            "evaluationResults",
        )
        made.append(
            {
                "category": category[place] if place != 3 or evaluation % 3 == 0 else "evaluationOutput",
                "text": f"text {line} of evaluation {evaluation}",
                "timestamp": 1_700_000_000_000 + line * 7,
                "who": WHOS[evaluation % len(WHOS)],
                "namespace": "user",
                "session_key": "clj",
                "evaluation": f"e{evaluation}",
            }
        )
    return made


ATTRIBUTES = {"namespace": "ns", "session_key": "repl-session-key"}


def as_entity(line: int, entry: dict[str, object]) -> dict[str, object]:
    named = {f":output/{ATTRIBUTES.get(name, name)}": value for name, value in entry.items()}
    return {":output/line": line, **named}


def for_datascript(text: str) -> str:
    """Convert a query for DataScript's JavaScript API, in which attributes are strings."""
    return re.sub(r":output/[a-z-]+", r'"\g<0>"', text)


class DataScript:
    """The process with DataScript in it, queried one line at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["node", str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def request(self, work: dict[str, object]) -> dict[str, dict]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(work) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("node or datascript is missing: run npm install in tests/node")
        return json.loads(line)

    def close(self) -> None:
        self._process.communicate()


def run_codriver(log: OutputLog, queries: dict[str, tuple[str, list[object]]]) -> dict[str, dict]:
    answers = {}
    for name, (text, inputs) in queries.items():
        times = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            answer = log.query(text, inputs=inputs)
            times.append((time.perf_counter() - start) * 1000)
        answers[name] = {"times": times, "result": answer.result}
    return answers


def insert(log: OutputLog, made: list[dict[str, object]]) -> list[float]:
    times = []
    for entry in made:
        start = time.perf_counter()
        log.append(Entry(UNASSIGNED_LINE, **entry))  # type: ignore[arg-type]
        times.append((time.perf_counter() - start) * 1000)
    return times


def same(left: object, right: object) -> bool:
    if isinstance(left, list) and isinstance(right, list):
        return sorted(map(json.dumps, left)) == sorted(map(json.dumps, right))
    return left == right


def report_times(report: Report, name: str, size: int, our_times: list[float], their_times: list[float]) -> None:
    samples = {"datascript": their_times, "codriver": our_times}
    limit = 0.5 if name == INSERT else 1
    title = f"log: {name}, {size:,} entities"
    report.table(title, "ms", samples, base="datascript", at_most={"codriver": limit})


def measure_at(report: Report, size: int, datascript: DataScript) -> None:
    made = entries(1, size)
    added = entries(size + 1, INSERTS)
    log = OutputLog(max_entities=size)
    insert(log, made)
    queries = {name: (text, [size * 9 // 10] if since else []) for name, (text, since) in QUERIES.items()}
    work = {
        "entities": [as_entity(line, entry) for line, entry in enumerate(made, 1)],
        "queries": {name: {"text": for_datascript(text), "inputs": inputs} for name, (text, inputs) in queries.items()},
        "rounds": ROUNDS,
        "inserts": [as_entity(line, entry) for line, entry in enumerate(added, size + 1)],
    }
    our_times: dict[str, list[float]] = {name: [] for name in queries}
    their_times: dict[str, list[float]] = {name: [] for name in queries}
    their_inserts: list[float] = []
    for _ in range(TURNS):
        our_answers = run_codriver(log, queries)
        answer = datascript.request(work)
        their_inserts += answer["inserts"]["times"]
        for name in queries:
            if not same(our_answers[name]["result"], answer["answers"][name]["result"]):
                raise SystemExit(f"the answers of {name!r} differ at {size} entities")
            our_times[name] += our_answers[name]["times"]
            their_times[name] += answer["answers"][name]["times"]
    for name in queries:
        report_times(report, name, size, our_times[name], their_times[name])
    our_inserts = [t for turn in range(TURNS) for t in insert(log, entries(size + 1 + turn * INSERTS, INSERTS))]
    report_times(report, INSERT, size, our_inserts, their_inserts)


def measure(report: Report) -> None:
    """Measure at both sizes."""
    if not (SCRIPT.parents[1] / "node" / "node_modules" / "datascript").exists():
        report.skip("the log against npm datascript", "run `npm install` in tests/node first")
        return
    datascript = DataScript()
    for size in (1_000, 10_000):
        measure_at(report, size, datascript)
    datascript.close()


if __name__ == "__main__":
    main(measure)
