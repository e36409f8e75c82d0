"""The part of a Python REPL's test program that runs the tests in a process of their own.

The new process is a child of the REPL: the same interpreter, in the REPL's folder, with the environment that the REPL
was started with where the system tells it. It knows nothing of what the REPL has loaded. What it prints goes through a
file, which unlike a pipe cannot be held open by what a test leaves running. It ends with the REPL, whose end of its
standard input closes then.
"""

from __future__ import annotations

from typing import Final

_CHILD: Final = """
import builtins, importlib, json, os, signal, sys, threading

lifeline, nothing = os.dup(0), os.open(os.devnull, os.O_RDONLY)
with os.fdopen(lifeline, "rb", 0, closefd=False) as told:
    asked = json.loads(told.readline())
os.dup2(nothing, 0)
os.close(nothing)


def watch():
    while os.read(lifeline, 4096):
        pass
    os._exit(1)


threading.Thread(target=watch, daemon=True).start()
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = [""]
folder = os.getcwd()
source = os.path.join(folder, "src")
roots = [folder]
if os.path.isdir(source) and not os.path.exists(os.path.join(source, "__init__.py")):
    roots.append(source)
sys.path[:] = roots + [entry for entry in sys.path if entry not in ("", *roots)]
space = {"__name__": "tests"}
try:
    for name in asked["needs"]:
        importlib.import_module(name)
    exec(asked["program"], space)
    said = {"answer": space["answer"](*asked["arguments"])}
except BaseException as error:
    said = {"error": [type(error).__name__, str(error)]}
sys.stdout.flush()
sys.stderr.flush()
with open(asked["result"] + ".new", "w", encoding="utf-8") as file:
    json.dump(said, file)
os.replace(asked["result"] + ".new", asked["result"])
# What tests left running would keep a process from ending.
os._exit(0)
"""

_PARENT: Final = """
import builtins, json, os, signal, subprocess, sys, tempfile

CHILD = %r
POLL_S, GRACE_S = 0.03, 5
# Without these a new process could not read what this REPL runs.
NEEDS = ["hy"]


def environment():
    # What the REPL's code has changed in it since does not count.
    try:
        with open("/proc/self/environ", "rb") as file:
            pairs = [one.partition(b"=") for one in file.read().split(b"\\0") if b"=" in one]
        return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
    except OSError:
        return dict(os.environ)


def be_deaf():
    if getattr(signal.getsignal(signal.SIGINT), "__name__", "") == "_on_signal":
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def end(child, kind):
    if child.poll() is None:
        try:
            os.killpg(child.pid, kind) if hasattr(os, "killpg") else child.terminate()
        except OSError:
            pass


def python():
    # Hy calls its own program this interpreter.
    return getattr(sys.modules.get("hy"), "sys_executable", None) or sys.executable


def ended(child, printed):
    try:
        while child.poll() is None:
            try:
                child.wait(POLL_S)
            except subprocess.TimeoutExpired:
                pass
            print(printed.read(), end="")
    except KeyboardInterrupt:
        be_deaf()
        end(child, signal.SIGINT)
        try:
            child.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            pass
        return True
    finally:
        end(child, getattr(signal, "SIGKILL", signal.SIGTERM))
        child.wait()
        print(printed.read(), end="")
    return False


def answer_of(said):
    if "answer" in said:
        return said["answer"]
    name, words = said["error"]
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            failure = kind(words)
        except TypeError:
            failure = None
        if failure is not None:
            raise failure
    raise RuntimeError(name + ": " + words)


def run_anew(program, root, *arguments):
    with tempfile.TemporaryDirectory(prefix="codriver-tests-") as folder:
        result, output = os.path.join(folder, "result"), os.path.join(folder, "output")
        asked = {"program": program, "arguments": arguments, "result": result}
        asked["needs"] = [name for name in NEEDS if name in sys.modules]
        with open(output, "wb") as out, open(output, encoding="utf-8", errors="replace") as printed:
            child = subprocess.Popen(
                [python(), "-c", CHILD], stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT,
                env=environment(), cwd=root or None, start_new_session=True,
            )
            with child.stdin as lifeline:
                try:
                    lifeline.write(json.dumps(asked).encode() + b"\\n")
                    lifeline.flush()
                except BrokenPipeError:
                    pass
                is_stopped = ended(child, printed)
        if os.path.exists(result):
            with open(result, encoding="utf-8") as file:
                said = json.load(file)
            if not is_stopped or "answer" in said:
                return answer_of(said)
        if is_stopped:
            raise KeyboardInterrupt
        raise RuntimeError("the new process ended before the tests did, with status " + str(child.returncode))
"""

FRESH: Final = _PARENT % _CHILD
"""Defines `run_anew`, which takes the text of a test program and the arguments of its `answer`."""
