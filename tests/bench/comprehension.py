"""Test whether a reader who only knows the tool list finds the right first call for a task.

A reader receives the instructions and the list of tools like a model, and the tasks, and writes one call for each.

    python tests/bench/comprehension.py list > LIST          what a reader gets
    python tests/bench/comprehension.py judge ANSWERS ...    the calls, run and judged

Tasks are lines of JSON with `n`, `task`, and `right`, a description of a correct call for people. If a program can
judge the call, a task also has `check` and the states to create `before` it. Otherwise, the answer of the call is
printed for people to judge. An answer is also a line, with `n`, `tool` (null for none), `arguments`, and `guess`, which
is true if the reader was unsure.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from comprehension_workspace import FILES, prepared
from jsonschema import ValidationError, validate
from live_server import until
from reading_cost import SEEN_BY_MODELS, compact

TASKS = Path(__file__).with_name("comprehension.jsonl")
READER = "reader"
QUICK_S = 5.0
"""Maximum time for a call that must not wait for a running job."""
PROMPT = """\
The lines above are the instructions and the tools of an MCP server, as you would get them. Below are tasks, each for
itself. For each task write the ONE call that you would make first, as a line of JSON:
{"n": 1, "tool": "...", "arguments": {...}, "guess": false}
Set guess to true where you are not sure that the call does what the task asks for. Set tool to null where no tool
fits. Write nothing else. Look at no files; what you see here is all there is.
"""


@dataclass
class Outcome:
    """What one call led to."""

    task: dict
    call: dict
    answer: str = ""
    ran: list = field(default_factory=list)
    seconds: float = 0.0
    faults: list = field(default_factory=list)


def read_lines(file):
    """Return the objects of a file of JSON lines."""
    return [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines() if line.strip()]


def listing(client):
    """Return the instructions and the tools as a model reads them."""
    tools = client.request("tools/list")["result"]["tools"]
    rows = [compact({key: tool[key] for key in SEEN_BY_MODELS}).decode() for tool in tools]
    return client.about["instructions"] + "\n\n" + "\n".join(rows)


def edit(client, path, old, new, **more):
    """Change a file through the server, as the reader."""
    client.call("edit_files", edits=[{"filePath": path, "oldText": old, "newText": new}], **more)


STORE_IMPORT = "def store_import():\n    import time\n    time.sleep(3)\n    return 'imported'\n"
ROWS = "import time\ntime.sleep(1)\nfor n in range(4): print('row', n)\ntime.sleep(30)"
STATES = {
    "failed run": lambda live, client: client.call("run_tests", paths=["tests/test_prices.py"]),
    "key error": lambda live, client: client.call("run_tests", paths=["tests/test_settings.py"]),
    "orders": lambda live, client: python(client, "orders = list(range(41))"),
    "edited names": lambda live, client: (
        client.call("run_tests"),
        save(live, "store/names.py", '.replace(" ", "-")', '.replace(" ", "_")'),
    ),
    "stale": lambda live, client: save(live, "store/prices.py", "RATE = 0.19", "RATE = 0.07"),
    "hung": lambda live, client: python(client, "kept_value = 'still here'\nwhile True: pass", timeoutMs=300),
    "pdb": lambda live, client: python(client, "import store.prices as p, pdb\npdb.runcall(p.gross, 250)",
                                       timeoutMs=5000),
    "background": lambda live, client: (
        python(client, "'over'", background=True),
        python(client, ROWS, background=True),
        until(lambda: "row 3" in json.dumps(client.call("repl_output_log", limit=5)), "the output"),
    ),
    "store import": lambda live, client: python(client, STORE_IMPORT),
    "short job": lambda live, client: python(client, STORE_IMPORT + "store_import()", background=True),
    "own edit": lambda live, client: edit(client, "store/pages.py", "SIZE = 10", "SIZE = 12"),
    "long list": lambda live, client: python(client, "[2 * n for n in range(2000)]", detail=False),
    "long output": lambda live, client: python(
        client, "for n in range(2000): print('warning' if n == 500 else 'note', n)", detail=False
    ),
    "library error": lambda live, client: python(client, "import json\njson.loads('{')"),
    "fetch": lambda live, client: python(client, "async def fetch(): return 'fetched'"),
}  # fmt: skip
"""The states to create before a call, by name."""


def python(client, code, **more):
    """Evaluate in the Python session, as the reader."""
    return client.call("evaluate_code", code=code, replSessionKey="py", **more)


def save(live, path, old, new):
    """Change a file as an editor does."""
    file = live.workspace / path
    file.write_text(file.read_text().replace(old, new))


def run(found, tasks, calls):
    """Yield the outcome of each task's call."""
    by_number = {call["n"]: call for call in calls}
    for task in tasks:
        call = by_number.get(task["n"]) or {"tool": None, "arguments": {}}
        found.reset()
        with found.live.client(name=READER) as client:
            for state in task.get("before", ()):
                STATES[state](found.live, client)
            found.ran_file.write_text("")
            outcome = Outcome(task, call)
            tools = {tool["name"]: tool for tool in client.request("tools/list")["result"]["tools"]}
            run_one(client, tools, outcome)
            outcome.ran = [test.rpartition("::")[2] for test in found.ran()]
            if "check" in task and not outcome.faults:
                judge(found, client, outcome)
            settle(client)
        yield outcome


def run_one(client, tools, outcome):
    """Validate a call by the listed schema, and make it."""
    name, arguments = outcome.call["tool"], outcome.call.get("arguments") or {}
    if name not in tools:
        outcome.faults.append(f"{name} is not listed")
        return
    listed = tools[name]["inputSchema"]
    strange = sorted({*arguments} - {*listed.get("properties", ()), "who", "replSessionKey"})
    try:
        validate(arguments, listed)
    except ValidationError as error:
        outcome.faults.append(f"schema: {error.message}")
    if strange:
        outcome.faults.append(f"not listed: {', '.join(strange)}")
    began = time.monotonic()
    message = client.request("tools/call", {"name": name, "arguments": arguments})
    outcome.seconds = time.monotonic() - began
    content = message.get("result", {}).get("content", ())
    outcome.answer = "".join(item.get("text", "") for item in content) or json.dumps(message)


def judge(found, client, outcome):
    """Add what is wrong with the outcome of a call to its faults."""
    check, answer, ran, faults = outcome.task["check"], outcome.answer, outcome.ran, outcome.faults
    workspace = found.live.workspace
    faults += [f"does not show {item}" for item in check.get("shows", ()) if not re.search(item, answer)]
    faults += [f"shows {item}" for item in check.get("hides", ()) if re.search(item, answer)]
    if "ran" in check and ran != check["ran"]:
        faults.append(f"ran {ran}")
    faults += [f"did not run {item}" for item in check.get("ran_includes", ()) if item not in ran]
    faults += [f"ran {item}" for item in check.get("ran_excludes", ()) if item in ran]
    faults += [f"ran {element} {ran.count(element)} times" for element, n in check.get("ran_count", {}).items()
               if ran.count(element) != n]  # fmt: skip
    if check.get("lacks_ran") and ran:
        faults.append("ran tests")
    for path, pattern in check.get("file", {}).items():
        file = workspace / path
        if not re.search(pattern, file.read_text() if file.exists() else ""):
            faults.append(f"{path} lacks {pattern}")
    faults += [f"{path} changed" for path in check.get("same", ()) if (workspace / path).read_text() != FILES[path]]
    given = json.dumps(outcome.call.get("arguments"))
    faults += [f"lacks {item}" for item in check.get("given", ()) if item not in given]
    if check.get("ok") and not json.loads(answer).get("ok"):
        faults.append("is refused")
    if check.get("quick") and outcome.seconds > QUICK_S:
        faults.append(f"waited {outcome.seconds:.0f} s")
    if "idle" in check:
        value = client.call("evaluate_code", code="1 + 41", replSessionKey=check["idle"], timeoutMs=5000).get("result")
        faults += [] if value == "42" else ["the session is busy"]
    if "live" in check:
        key, code, expected = check["live"]
        value = client.call("evaluate_code", code=code, replSessionKey=key, timeoutMs=5000).get("result")
        faults += [] if value == expected else [f"the session has {value}"]


def settle(client):
    """End what a task left running, so that the next one finds the sessions free."""
    for _ in range(4):
        rows = client.call("status", about="jobs").get("jobs", [])
        busy = [row for row in rows if row.get("status") in ("running", "needs-input", "queued")]
        if not busy:
            return
        for row in busy:
            client.call("interrupt_evaluation", evaluationId=row["evaluationId"])


def report(outcomes, *, is_verbose):
    """Print each outcome that is not right, and the counts."""
    right = guesses = 0
    for outcome in outcomes:
        guesses += bool(outcome.call.get("guess"))
        good = not outcome.faults and "check" in outcome.task
        right += good
        mark = "right" if good else "WRONG" if outcome.faults else "to judge"
        mark += ", a guess" if outcome.call.get("guess") else ""
        print(f"{outcome.task['n']:3} {mark}: {'; '.join(outcome.faults)}", flush=True)
        if is_verbose or not good:
            print(f"    task: {outcome.task['task']}")
            print(f"    call: {outcome.call['tool']} {json.dumps(outcome.call.get('arguments'))}")
            print(f"    answer: {outcome.answer[:600]}")
            if "check" not in outcome.task:
                print(f"    right is: {outcome.task['right']}")
    print(f"{right} right, {guesses} marked as guesses")


def main():
    """Print the list for a reader, or run and judge readers' calls."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("list", "judge"))
    parser.add_argument("answers", nargs="*", type=Path)
    parser.add_argument("--tasks", type=Path, default=TASKS)
    parser.add_argument("--only", type=int, nargs="*")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    tasks = [task for task in read_lines(options.tasks) if not options.only or task["n"] in options.only]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, prepared(folder) as found:
        port = found.other_nrepl.rpartition(":")[2]
        for task in tasks:
            task["task"] = task["task"].replace("OTHER_PORT", port)
        if options.what == "list":
            with found.live.client(name=READER) as client:
                print(listing(client).replace(str(found.live.workspace), "/home/you/store"))
            print("\n" + PROMPT)
            for task in tasks:
                print(f"{task['n']}. {task['task']}".replace(port, "7999"))
            return
        for answers in options.answers:
            print(f"== {answers}")
            calls = json.loads(json.dumps(read_lines(answers)).replace("7999", port))
            report(run(found, tasks, calls), is_verbose=options.verbose)


if __name__ == "__main__":
    sys.exit(main())
