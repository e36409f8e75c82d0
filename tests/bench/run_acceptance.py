"""Check eight properties of `codriver run` in 18 kinds of programs, and print what was seen.

`python tests/bench/run_acceptance.py FOLDER [TITLE…]` uses the environment of `run_programs.py` in FOLDER. Each program
is started plainly, with `codriver run`, and with code evaluated in it, several times:

1. value: code is evaluated in the process that handles requests, and sees a value that a request changed. After a save,
   the same key leads to the new process.
2. waiting: all processes have the same threads, descriptors, modules and `sys.path` as in a plain start.
3. forks: 50 forks of each process cause as many warnings as in a plain start, before code is evaluated and after the
   server was killed. The threads of the REPL have ended then, and the next server finds the program.
4. signals: Ctrl-C in a terminal and SIGTERM have the same effects, as have the output and the exit status.
5. sitecustomize: the user's own one runs once in each process.
6. coverage: the report is the same.
7. refused: a process ignores a request in a directory that others may enter.
8. pruned: the directory of a killed run is removed.

Differences count if they occur three times in succession. The exit status is 1 if something was not seen.
"""

import contextlib
import json
import os
import re
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests"), str(ROOT / "tests" / "support")]

from live_server import serving  # noqa: E402
from run_program_kinds import GUNICORN_SETTLED, KINDS  # noqa: E402
from run_programs import ATTACHED, PLAIN, PYTHON, RUN, Trial, compare, environment_of, free_port  # noqa: E402

FORKS = 50
STATE_SIGNAL = signal.SIGRTMIN + 7
TRIES = 3
"""How often a check is done before differences count."""
STATE_S = 30
"""Maximum time for a process to describe itself."""
HANG_UP_S = 30
COLUMNS = (
    "1 value",
    "1 reload",
    "2 waiting",
    "3 forks",
    "4 signals",
    "5 sitecustomize",
    "6 coverage",
    "7 refused",
    "8 pruned",
)
SITECUSTOMIZE = f"""\
import os, signal, sys
sys.customized = getattr(sys, "customized", 0) + 1

def describe(*_, fork=os.fork, wait=os.waitpid, end=os._exit, listdir=os.listdir, readlink=os.readlink):
    state = {{"modules": sorted(sys.modules), "path": sys.path, "customized": sys.customized}}
    state["threads"] = len(listdir("/proc/self/task"))
    state["descriptors"] = []
    for name in listdir("/proc/self/fd"):
        try:
            state["descriptors"].append(readlink("/proc/self/fd/" + name))
        except OSError:
            pass
    import json, warnings
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range({FORKS}):
            pid = fork()
            if not pid:
                end(0)
            try:
                wait(pid, 0)
            except OSError:
                pass
    state["warnings"] = len(caught)
    name = os.path.join(os.environ["STATES"], str(os.getpid()))
    with open(name + ".draft", "w") as file:
        json.dump(state, file)
    os.rename(name + ".draft", name)

signal.signal({int(STATE_SIGNAL)}, describe)
"""
"""The user's own `sitecustomize`. On a signal, a process describes itself and forks on its main thread."""


def _kind(title, **changes):
    (kind,) = (kind for kind in KINDS if kind.title == title)
    return replace(kind, **changes)


HUP = {"save": ("shop.py", "HUP")}
PROGRAMS = {
    "Flask": _kind("Flask --debug", fails=""),
    "Django": _kind("Django runserver", fails=""),
    "uvicorn": _kind("uvicorn --reload", fails=""),
    "gunicorn": _kind("gunicorn --reload", fails=""),
    "gunicorn --preload": _kind("gunicorn --preload"),
    "gunicorn, gevent": _kind("gunicorn -k gevent", **HUP),
    "Celery": _kind("Celery, prefork"),
    "hypercorn": _kind("hypercorn"),
    "asyncio": _kind("asyncio"),
    "multiprocessing, fork": _kind("pool, fork", has_order=False),
    "multiprocessing, spawn": _kind("pool, spawn", has_order=False),
    "pytest": _kind("pytest"),
    "pytest-xdist": _kind("pytest-xdist"),
    "uv run": _kind("uv run"),
    "debugpy": _kind("debugpy"),
    "coverage": _kind("coverage"),
    "ddtrace": _kind("ddtrace"),
    "ddtrace before": _kind("ddtrace before"),
}
NO_RELOAD = {
    "gunicorn --preload": "its workers never load changed code",
    "Celery": "it has no reloader",
    "hypercorn": "it was started without a reloader",
}
"""Why a program does not load saved files. Scripts and tests never do."""


def processes_of(pid):
    """Return the ids of a process and its descendants that can describe themselves, in the order of their start."""
    found, parents = [], {}
    for directory in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            rest = (directory / "stat").read_text().rpartition(")")[2].split()
            if rest[0] != "Z":
                parents.setdefault(int(rest[1]), []).append((int(rest[19]), int(directory.name)))
    todo = [(0, pid)]
    while todo:
        started, one = todo.pop()
        found.append((started, one))
        todo += parents.get(one, [])
    return [one for _, one in sorted(found) if catches(one)]


def catches(pid):
    """Return whether a process has a handler for the signal."""
    try:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    except OSError:
        return False
    return bool(int(status["SigCgt"], 16) & 1 << int(STATE_SIGNAL) - 1)


@dataclass
class Findings:
    """What was seen of a program, and what was not, by column."""

    wrong: dict = field(default_factory=dict)
    seen: dict = field(default_factory=dict)

    def note(self, column, differences, seen="seen"):
        self.seen.setdefault(column, seen)
        self.wrong.setdefault(column, []).extend(differences)

    def cell(self, column):
        if self.wrong.get(column):
            return "**no**: " + "; ".join(dict.fromkeys(map(str, self.wrong[column])))[:160].replace("|", "/")
        return self.seen.get(column, "")


class StatedTrial(Trial):
    """A program whose processes describe themselves."""

    def __init__(self, *arguments, findings):
        super().__init__(*arguments)
        self.findings = findings
        self.states = []
        self.site = tempfile.TemporaryDirectory()
        folder = Path(self.site.name)
        (folder / "sitecustomize.py").write_text(SITECUSTOMIZE)
        (folder / "states").mkdir()
        environ = {"PYTHONPATH": str(folder), "STATES": str(folder / "states"), **self.kind.environ}
        self.kind = replace(self.kind, environ=environ, save=(), fails="", hangs_up=False)

    def describe(self):
        """Return what each process says about itself."""
        folder = Path(self.site.name) / "states"
        pids = processes_of(self.process.pid)
        found = []
        for pid in pids:
            os.kill(pid, STATE_SIGNAL)
            deadline = time.monotonic() + STATE_S
            while not (folder / str(pid)).exists() and time.monotonic() < deadline:
                time.sleep(0.02)
            with contextlib.suppress(OSError):
                state = json.loads((folder / str(pid)).read_text())
                state["path"] = [path.replace(self.site.name, "SITE") for path in state["path"]]
                state["descriptors"] = sorted(self.kind_of(link) for link in state["descriptors"])
                found.append({"pid": pid, **state})
                (folder / str(pid)).unlink()
        return found

    def kind_of(self, link):
        """Return what kind of file a descriptor refers to, without numbers and random names."""
        names = r"/dev/shm/pym-[\w-]+|(?<=/wgunicorn-)\w+|(?<=-tracer-info-)\w+|(?<=/pymp-)[\w/-]+|\d+"
        return re.sub(names, "", link.replace(str(self.folder), ""))

    def use(self):
        super_kind, self.kind = self.kind, replace(self.kind, key="")
        super().use()
        self.kind = super_kind
        self.states = self.describe()
        if self.way != ATTACHED:
            return
        self.refuse()
        self.evaluate()
        self.hang_up()

    def directory(self):
        environ = Path(f"/proc/{processes_of(self.process.pid)[-1]}/environ").read_bytes().split(b"\0")
        return Path(next(part for part in environ if part.startswith(b"CODRIVER_RUN=")).partition(b"=")[2].decode())

    def refuse(self):
        """Check that no process answers a request in a directory that others may enter."""
        directory, wrong = self.directory(), []
        directory.chmod(0o750)
        for state in self.states:
            request, tasks = directory / f"{state['pid']}.request", Path(f"/proc/{state['pid']}/task")
            threads = len([*tasks.iterdir()])  # ddtrace starts threads after the process has described itself
            request.write_text("{}")
            os.kill(state["pid"], signal.SIGURG)
            time.sleep(0.2)
            if not request.exists() or len([*tasks.iterdir()]) > threads:
                wrong.append(f"process {state['pid']} answered")
            request.unlink(missing_ok=True)
        directory.chmod(0o700)
        self.findings.note("7 refused", wrong)

    def hang_up(self):
        """Kill the server, check that nothing is left of the REPL, and evaluate through the next server."""
        self.client.close()
        self.live.stop(signal.SIGKILL)
        deadline = time.monotonic() + HANG_UP_S
        before = {state["pid"]: state for state in self.states}
        wrong = ["the threads of the REPL did not end"]
        while wrong and time.monotonic() < deadline:
            counts = {
                pid: len([*Path(f"/proc/{pid}/task").iterdir()]) for pid in before if Path(f"/proc/{pid}").exists()
            }
            if all(count <= before[pid]["threads"] for pid, count in counts.items()):
                wrong = []
            time.sleep(0.05)
        after = {state["pid"]: state for state in self.describe()}
        for pid, state in after.items():
            if pid in before and state["threads"] > before[pid]["threads"]:
                wrong.append(f"{state['threads']} threads instead of {before[pid]['threads']}")
            if pid in before and state["warnings"] and not before[pid]["warnings"]:
                wrong.append(f"{state['warnings']} warnings after the server was killed")
        self.live.process = self.live.start("serve", "--port", "0")
        self.live.process.stdout.readline()
        self.client = self.live.client(name="bench")
        self.outcome.value = None
        self.evaluate()
        if self.outcome.value != self.kind.result:
            wrong.append(f"the next server got {self.outcome.value}")
        self.findings.note("3 forks", wrong)


class KilledTrial(Trial):
    """A program that is killed after it was used, with all of its processes."""

    def use(self):
        super().use()
        self.kill_all()


def compare_states(plain, other):
    """Yield the differences between the processes of two starts of a program, without the warnings of forks."""
    if len(plain) != len(other):
        yield f"{len(other)} processes instead of {len(plain)}"
    for one, two in zip(plain, other, strict=False):
        for name in ("threads", "descriptors", "path"):
            if one[name] != two[name]:
                yield f"{name} {two[name]} instead of {one[name]}"
        if one["modules"] != two["modules"]:
            yield f"modules {sorted(set(one['modules']) ^ set(two['modules']))}"


def start_all_ways(live, kind, environment, trial_class=Trial, **named):
    """Run a program in three ways, and return the outcomes and the trials."""
    outcomes, trials = {}, {}
    port = free_port()
    for way in (PLAIN, RUN, ATTACHED):
        trial = trial_class(live, live.client(name="bench"), kind, way, environment, port, **named)
        trials[way], outcomes[way] = trial, run_trial(trial)
        trial.client.close()
    return outcomes, trials


def run_trial(trial):
    """Run a program, end what is left of it, and return the outcome."""
    try:
        return trial.run()
    except (TimeoutError, AssertionError, OSError, StopIteration) as error:
        return replace(trial.outcome, errors=(*trial.outcome.errors, f"{type(error).__name__}: {error}"))
    finally:
        trial.kill_all()


def check_states(live, kind, environment, findings):
    outcomes, trials = start_all_ways(live, kind, environment, StatedTrial, findings=findings)
    for way, outcome in outcomes.items():
        outcome.lines = tuple(line.replace(trials[way].site.name, "SITE") for line in outcome.lines)
    plain, run = trials[PLAIN].states, trials[RUN].states
    findings.note("2 waiting", compare_states(plain, run))
    for way in (RUN, ATTACHED):
        states = trials[way].states
        findings.note(
            "5 sitecustomize", [f"{state['customized']} times" for state in states if state["customized"] != 1]
        )
        # If a program has threads of its own, how many of the forks cause a warning is a matter of time.
        warnings = [[state["warnings"] > 0 for state in of] for of in (plain, states)]
        wrong = [] if warnings[0] == warnings[1] else [f"warnings in {warnings[1]} instead of {warnings[0]}"]
        findings.note("3 forks", wrong)
    differences = [*compare(kind, outcomes)]
    findings.note("4 signals", differences)
    if kind.title == "coverage":
        report = [line for line in outcomes[PLAIN].lines if "TOTAL" in line]
        findings.note("6 coverage", [*differences, *([] if report else ["no report"])])


def steady_lines(kind, lines):
    """Return the lines that are the same in each plain run that Ctrl-C ends.

    The children of a pool print where each was interrupted. A worker of gunicorn receives the terminal's signal and one
    from its arbiter, and whether it prints that it exits depends on which is first.
    """
    if kind.key == "pool":
        return ()
    if kind.settled == GUNICORN_SETTLED:
        return tuple(line for line in lines if not re.search(r"Worker exiting|Worker \S+ was sent SIG", line))
    return lines


def check_signals(live, kind, environment, findings):
    for changes in ({"is_terminal": True, "end": "^C", "send": ""}, {"end": "TERM", "send": ""}):
        if changes["end"] != kind.end:
            changed = replace(kind, save=(), fails="", **changes)
            outcomes, _ = start_all_ways(live, changed, environment)
            for outcome in outcomes.values():  # the terminal may display ^C before or after what the program prints
                outcome.lines = tuple(line.replace("^C", "") for line in outcome.lines)
                if changed.end == "^C":
                    outcome.lines = steady_lines(changed, outcome.lines)
            findings.note("4 signals", [f"{changes['end']}: {line}" for line in compare(changed, outcomes)])


def check_value(live, title, kind, environment, findings):
    """Evaluate a value, save a file if the program loads it, kill it, and wait until its directory is removed."""
    with live.client(name="bench") as client:
        outcome = run_trial(KilledTrial(live, client, replace(kind, end=""), ATTACHED, environment, free_port()))
        wrong = [] if outcome.value == kind.result else [f"{kind.code} is {outcome.value}"]
        findings.note("1 value", [*outcome.errors, *wrong], f"seen, {outcome.attach_ms:.0f} ms")
        if kind.save:
            late = [] if outcome.restart_ms else ["the new process was not connected"]
            findings.note("1 reload", late, f"seen, {outcome.restart_ms:.0f} ms, served {outcome.served_ms:.0f}")
        else:
            findings.note("1 reload", [], f"none: {NO_RELOAD.get(title, 'it loads no saved files')}")
        deadline, left = time.monotonic() + HANG_UP_S, [""]
        while left and time.monotonic() < deadline:
            client.call("list_sessions")
            directories = Path(live.environ["XDG_STATE_HOME"]).glob("codriver/workspaces/*/programs/*-*")
            left = [path.name for path in directories]
            time.sleep(0.05)
        findings.note("8 pruned", left)


def repeat(check, live, kind, environment, findings):
    """Do a check again if there are differences, and add the findings of the last time.

    Some programs print or open something else at times, also without `codriver run`.
    """
    for _ in range(TRIES):
        found = Findings()
        check(live, kind, environment, found)
        if not any(found.wrong.values()):
            break
    for column, lines in found.wrong.items():
        findings.note(column, lines)


def main():
    environment = environment_of(Path(sys.argv[1]).resolve())
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell, and its programs, ignore it
    wrong = 0
    print(f"| program, Python {PYTHON} | {' | '.join(COLUMNS)} |")
    print(f"|{' --- |' * (len(COLUMNS) + 1)}")
    for title in sys.argv[2:] or PROGRAMS:
        kind, findings = PROGRAMS[title], Findings()
        place = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # a killed process may still write
        with place as folder, serving(Path(folder)) as live:
            check_value(live, title, kind, environment, findings)
            for check in (check_states, check_signals):
                repeat(check, live, kind, environment, findings)
        cells = [findings.cell(column) for column in COLUMNS]
        wrong += any(cell.startswith("**no**") for cell in cells)
        print(f"| {title} | {' | '.join(cells)} | load {os.getloadavg()[0]:.0f}", flush=True)
        for column, lines in findings.wrong.items():
            for line in dict.fromkeys(lines):
                print(f"    {column}: {line}", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
