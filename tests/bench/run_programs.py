"""Start many kinds of programs plainly, with `codriver run`, and with code evaluated in them, and compare them.

`python tests/bench/run_programs.py FOLDER [TITLE…]` creates an environment for the programs in FOLDER with uv, unless
it exists. RUN_PYTHON is the version of its Python, 3.12 by default, and RUN_PACKAGES a list of its packages. Each
program must have the same output, error output and exit status in all three ways. The exit status is 1 if there are
differences, or if a value is not the expected one.
"""

import contextlib
import difflib
import http.client
import os
import pty
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests"), str(ROOT / "tests" / "support")]

from live_server import serving  # noqa: E402
from run_program_kinds import KINDS  # noqa: E402

PYTHON = os.environ.get("RUN_PYTHON", "3.12")
REQUIREMENTS = os.environ.get(
    "RUN_PACKAGES",
    "flask django uvicorn gunicorn gevent hypercorn celery pytest pytest-xdist debugpy coverage ddtrace granian "
    "eventlet opentelemetry-distro",
).split()
CODRIVER = [sys.executable, "-E", "-m", "codriver"]
"""Without -E, the `sitecustomize` of a program also runs in the process that becomes the program."""
PLAIN, RUN, ATTACHED = "plain", "run", "attached"
WAIT_S = 60
INTERVAL_S = 0.02
RESTART_S = 2.0
"""How long after its start the next process of a reloader may take to be connected."""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Outcome:
    """What a program printed, how it ended, and what was evaluated in it."""

    lines: tuple = ()
    status: object = None
    errors: tuple = ()
    value: object = None
    attach_ms: float = 0.0
    restart_ms: float = 0.0
    """When the next process was connected, after its start."""
    served_ms: float = 0.0
    """When the next process answered its first request, after its start."""


class Trial:
    """One program in one way."""

    def __init__(self, live, client, kind, way, environment, port):
        self.live, self.client, self.kind, self.way = live, client, kind, way
        self.environment, self.port = environment, port
        self.folder = live.workspace
        self.outcome = Outcome()
        self.output = {"stdout": b"", "stderr": b""}
        self.compared = {}
        """How many bytes of the output are compared with a plain run; all if it is empty."""

    def run(self):
        for path in [*self.folder.iterdir()]:
            if path.name not in (".calva", "codriver.toml"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for name, text in self.kind.files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)
        self.start()
        try:
            self.use()
        finally:
            self.end()
        return self.outcome

    def start(self):
        ours = shlex.join([*CODRIVER, "run", "-w", str(self.folder), "--"])
        text = self.kind.command.replace("PORT", str(self.port)).replace("ENVIRONMENT", str(self.environment))
        if self.way == PLAIN:
            text = text.replace("RUN ", "")
        else:
            text = text.replace("RUN ", f"{ours} ") if "RUN " in text else f"{ours} {text}"
        environ = {name: value for name, value in self.live.environ.items() if not name.startswith("PYTEST_")}
        environ |= {"PATH": f"{self.environment / 'bin'}{os.pathsep}{environ['PATH']}", "PYTHONUNBUFFERED": "1"}
        environ |= {"PYTHONDONTWRITEBYTECODE": "1", "DD_TRACE_ENABLED": "false"} | self.kind.environ
        environ.pop("VIRTUAL_ENV", None)
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.terminal, other = pty.openpty() if self.kind.is_terminal else (None, None)
        if self.kind.is_terminal:
            streams = dict.fromkeys(streams, other)
        words = shlex.split(text)
        found = shutil.which(words[0], path=environ["PATH"])
        self.process = subprocess.Popen(
            [found or words[0], *words[1:]], cwd=self.folder, env=environ, start_new_session=True,
            preexec_fn=_own_terminal if self.kind.is_terminal else None,  # noqa: PLW1509  # it makes one system call
            **streams,
        )  # fmt: skip
        if self.kind.is_terminal:
            os.close(other)
            readers = [("stdout", self.terminal)]
        else:
            readers = [(name, getattr(self.process, name).fileno()) for name in self.output]
        self.readers = [threading.Thread(target=self.read, args=reader, daemon=True) for reader in readers]
        for reader in self.readers:
            reader.start()

    def read(self, name, descriptor):
        with contextlib.suppress(OSError):
            while data := os.read(descriptor, 65536):
                self.output[name] += data

    def until(self, condition, what):
        deadline = time.monotonic() + WAIT_S
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise TimeoutError(what)
            time.sleep(INTERVAL_S)
        return value

    def get(self):
        with (
            contextlib.suppress(OSError, http.client.HTTPException),
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=5) as got,
        ):
            return got.read().decode()

    def use(self):
        """Wait until the program is ready, use it, evaluate code in it, and restart it."""
        kind = self.kind
        if kind.ready == "/":
            self.until(self.get, "an answer to a request")
        elif kind.ready:
            self.until(lambda: kind.ready.encode() in b"".join(self.output.values()), f"the text {kind.ready!r}")
        for name in kind.ready_files:
            self.until((self.folder / name).exists, f"the file {name}")
        if kind.settled and any(self.environment.glob(f"lib/*/site-packages/{kind.settled[0]}")):
            self.until(lambda: kind.settled[1].encode() in b"".join(self.output.values()), f"{kind.settled[1]!r}")
        if kind.before:
            environ = {
                **self.live.environ,
                "PATH": f"{self.environment / 'bin'}{os.pathsep}{self.live.environ['PATH']}",
            }
            subprocess.run(shlex.split(kind.before), cwd=self.folder, env=environ, check=True, capture_output=True)
        if self.way == ATTACHED and kind.key:
            self.evaluate()
        if self.way == ATTACHED and kind.hangs_up:
            self.client.close()
            self.live.stop()
            tasks = Path(f"/proc/{self.process.pid}/task")
            self.until(lambda: len([*tasks.iterdir()]) == 1, "the threads of the REPL to end")
        if kind.save:
            self.save()
        if kind.fails:
            self.break_program()

    def rows(self):
        return [row for row in self.client.call("list_sessions")["sessions"] if row.get("kind") != "python"]

    def evaluate(self):
        key = self.kind.key
        if key.endswith(":CHILD"):
            name = key.removesuffix(":CHILD")
            key = next(row["key"] for row in self.rows()[::-1] if row["key"].startswith(name) and row.get("role"))
        started = time.perf_counter()
        answer = self.client.call("evaluate_code", code=self.kind.code, replSessionKey=key)
        self.outcome.attach_ms = (time.perf_counter() - started) * 1000
        self.outcome.value = answer.get("result") or str({**answer, "sessions": self.rows()})

    def save(self):
        """Save a changed file, wait for the next process, and check that it has the same key."""
        before = {row["key"]: row for row in self.rows()}.get(self.kind.key)
        file = self.folder / self.kind.save[0]
        time.sleep(1.1)  # some reloaders compare modification times in seconds
        file.write_text(file.read_text().replace("version 1", "version 2"))
        self.signal_save()
        self.until(lambda: self.get() == "version 2", "the new version")
        served = time.clock_gettime(time.CLOCK_BOOTTIME)
        if self.way != ATTACHED:
            return

        def next_row():
            row = {row["key"]: row for row in self.rows()}.get(self.kind.key, {})
            return row if (row.get("phase"), row.get("generation")) == ("connected", 2) else None

        row = self.until(next_row, "the session of the next process")
        answer = self.client.call("evaluate_code", code="import os; os.getpid()", replSessionKey=self.kind.key)
        started = int(Path(f"/proc/{answer['result']}/stat").read_text().rpartition(")")[2].split()[19]) / TICKS
        uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
        self.outcome.restart_ms = (uptime - started) * 1000
        self.outcome.served_ms = (served - started) * 1000
        if row["processId"] == before["processId"] or row["processId"] != int(answer["result"]):
            self.outcome.errors += (f"the session is still that of process {row['processId']}",)

    def break_program(self):
        """Save a file with a syntax error, check how that is reported, and correct it."""
        file = self.folder / self.kind.save[0]
        text = file.read_text()
        time.sleep(1.1)  # as above
        self.compared = {
            name: len(data) for name, data in self.output.items()
        }  # how often it fails is a matter of time
        file.write_text("def broken(:\n" + text)
        self.signal_save()
        self.until(lambda: self.get() != "version 2", "the program to fail")
        if self.way == ATTACHED:
            self.until(self.is_failure_reported, "a report of the failed start")
        if self.kind.fails == "program":
            return
        time.sleep(1.1)
        file.write_text(text.replace("version 2", "version 3"))
        self.until(lambda: self.get() == "version 3", "the corrected version")
        if self.way == ATTACHED:
            self.until(lambda: self.row().get("phase") == "connected", "the session of the corrected program")

    def signal_save(self):
        for name in self.kind.save[1:]:
            os.kill(self.process.pid, getattr(signal, f"SIG{name}"))

    def row(self):
        return {row["key"]: row for row in self.rows()}.get(self.kind.key, {})

    def is_failure_reported(self):
        """Return whether the session and an evaluation in it report the syntax error."""
        if self.kind.fails == "start" and "SyntaxError" not in self.row().get("note", ""):
            return False
        answer = self.client.call("evaluate_code", code=self.kind.code, replSessionKey=self.kind.key)
        return not answer["ok"] and "SyntaxError" in str(answer)

    def kill_all(self):
        """Kill the processes of the program that are left."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def request_end(self):
        """Write what the program still reads, and do what makes it end."""
        kind, process = self.kind, self.process
        with contextlib.suppress(BrokenPipeError):
            if kind.send and kind.is_terminal:
                os.write(self.terminal, kind.send.encode())
            elif kind.send:
                process.stdin.write(kind.send.encode())
                process.stdin.flush()
        if kind.send and kind.is_terminal:
            self.until(lambda: b"read one" in self.output["stdout"], "the line to be read")
        if kind.end == "^C":
            os.write(self.terminal, b"\x03")
        elif kind.end == "release":
            (self.folder / "release").write_text("")
        elif kind.end not in ("eof", ""):
            time.sleep(0.5)  # a signal that comes before the program waits for it is lost, also without Codriver
            os.kill(process.pid, getattr(signal, f"SIG{kind.end}"))

    def end(self):
        self.request_end()
        kind, process = self.kind, self.process
        try:
            if kind.end == "eof" and process.stdin:
                process.stdin.close()
            self.outcome.status = process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.outcome.errors += (f"it did not end within {WAIT_S} s",)
            self.kill_all()
            process.wait()
        if process.stdin and not process.stdin.closed:
            process.stdin.close()
        if kind.end in ("TERM", "KILL"):  # children that do not notice it would keep the output open
            self.kill_all()
        for reader in self.readers:
            reader.join(WAIT_S)
        self.outcome.lines = tuple(
            f"{name}: {line}"
            for name, data in self.output.items()
            for line in _lines(data[: self.compared.get(name)], self.kind.has_order, self.folder)
        )
        if self.terminal is not None:
            os.close(self.terminal)


def _own_terminal():
    """Make the terminal on standard input the controlling one, so that Ctrl-C sends a signal."""
    import fcntl  # noqa: PLC0415  # in the child only
    import termios  # noqa: PLC0415  # as above

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _lines(data, has_order, folder):
    """Return the lines without what differs between two plain runs: numbers of processes, times and addresses.

    If they have no order, their number depends on how often the program was requested, and each is returned once.
    """
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    text = text.replace(str(folder), "FOLDER")
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "TIME", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|0x[0-9a-f]+|\bgw\d\b|/mp-\w+", "ID", text)
    lines = re.sub(r"\d[\d.,:-]*\d(?:e[+-]\d+)?(?=[sm]?\b)", "#", text).splitlines()
    return lines if has_order else sorted(set(lines))


def environment_of(folder):
    """Return the environment for the programs, which is created if it is missing."""
    environment = folder / f"environment-{PYTHON.replace('/', '_')}"
    if not (environment / "ok").exists():
        subprocess.run(["uv", "venv", "-q", "--clear", "-p", PYTHON, environment], check=True)
        subprocess.run(["uv", "pip", "install", "-q", "-p", environment / "bin" / "python", *REQUIREMENTS], check=True)
        (environment / "ok").touch()
    return environment


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def compare(kind, outcomes):
    """Return what is wrong, one line each."""
    plain = outcomes[PLAIN]
    for way, outcome in outcomes.items():
        yield from (f"{way}: {error}" for error in outcome.errors)
        # gunicorn ends with 1 or 3, depending on when it notices that its workers have failed.
        if outcome.status != plain.status and kind.fails != "program":
            yield f"{way}: exit status {outcome.status} instead of {plain.status}"
        for line in difflib.ndiff(plain.lines, outcome.lines):
            if line[0] in "+-":
                yield f"{way}: {line}"
    value = outcomes[ATTACHED].value if ATTACHED in outcomes else None
    if kind.key and value != kind.result:
        yield f"{kind.code} is {value} instead of {kind.result}"
    if outcomes.get(ATTACHED, plain).restart_ms > RESTART_S * 1000:
        yield f"the next process was connected {outcomes[ATTACHED].restart_ms:.0f} ms after its start"


def try_kind(live, client, kind, environment):
    outcomes = {}
    port = free_port()
    for way in (PLAIN, RUN, ATTACHED) if kind.key else (PLAIN, RUN):
        try:
            with contextlib.ExitStack() as own:
                if kind.hangs_up and way == ATTACHED:
                    live = own.enter_context(serving(Path(own.enter_context(tempfile.TemporaryDirectory()))))
                    client = own.enter_context(live.client(name="bench"))
                trial = Trial(live, client, kind, way, environment, port)
                outcomes[way] = trial.run()
        except (TimeoutError, AssertionError, OSError, StopIteration) as error:
            outcomes[way] = replace(trial.outcome, errors=(*trial.outcome.errors, f"{type(error).__name__}: {error}"))
    return outcomes


def main():
    folder = Path(sys.argv[1]).resolve()
    titles = sys.argv[2:]
    folder.mkdir(parents=True, exist_ok=True)
    environment = environment_of(folder)
    wrong = 0
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell, and its programs, ignore it
    with tempfile.TemporaryDirectory() as place, serving(Path(place)) as live, live.client(name="bench") as client:
        print(f"| program, Python {PYTHON} | exit status | same | attach to first value | reload |")
        print("| --- | --- | --- | --- | --- |")
        for kind in KINDS:
            if titles and kind.title not in titles:
                continue
            outcomes = try_kind(live, client, kind, environment)
            differences = [*compare(kind, outcomes)]
            wrong += bool(differences)
            last = outcomes.get(ATTACHED, Outcome())
            cells = [
                kind.title,
                str(outcomes[PLAIN].status),
                "no" if differences else "yes",
                f"{last.attach_ms:.0f} ms" if last.attach_ms else "",
                f"connected {last.restart_ms:.0f} ms after its start, first answer after {last.served_ms:.0f} ms"
                if last.restart_ms
                else "",
            ]
            print(f"| {' | '.join(cells)} |", flush=True)
            for line in differences[:30]:
                print(f"    {line}", flush=True)
    print(f"\n{wrong} of {len(titles or KINDS)} programs differ")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
