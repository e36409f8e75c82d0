"""Tests of a Python REPL run in a process of their own.

The new process is a child of the REPL: the same interpreter, in the REPL's folder, with the environment of the REPL's
start, if the system tells it. Its output goes through a file: unlike a pipe, a file cannot be held open by processes
that a test left running.
"""

from __future__ import annotations

import base64
import builtins
import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile

from .run_values import be_deaf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO, Any

POLL_S, GRACE_S = 0.03, 5
NEEDS = ["hy"]
"""Without these modules a new process could not read this REPL's code."""


def environment() -> dict[str, str]:
    """The environment of the REPL's start, without later changes by its code."""
    try:
        with open("/proc/self/environ", "rb") as file:
            pairs = [one.partition(b"=") for one in file.read().split(b"\0") if b"=" in one]
        return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
    except OSError:
        return dict(os.environ)


def lay_former(folder: str, process: str, former: Sequence[Sequence[str]]) -> None:
    """Write the files into a folder that a new process needs to see the state before an edit.

    Each file comes as its path, the digest of its present bytes, and its former bytes in base 64; nothing for a new
    file. A file that is not as the edit left it ends the run.
    """
    places: dict[str, str] = {}
    for path, digest, *contents in former:
        with open(path, "rb") as file:
            if hashlib.sha256(file.read()).hexdigest() != digest:
                raise RuntimeError(path + " is not as the edit left it")
        places[path] = place = os.path.join(folder, "former-" + str(len(places)))
        for content in contents:
            with open(place, "wb") as file:
                file.write(base64.b64decode(content))
    with open(os.path.join(folder, "former.json"), "w", encoding="utf-8") as table:
        json.dump(places, table)
    with open(os.path.join(folder, "sitecustomize.py"), "w", encoding="utf-8") as program:
        program.write(process)


def end(child: subprocess.Popen[bytes], kind: int) -> None:
    """End a running process, and all that it started, by a signal."""
    if child.poll() is None:
        with contextlib.suppress(OSError):
            os.killpg(child.pid, kind) if hasattr(os, "killpg") else child.terminate()


def interpreter() -> str:
    """The path of this interpreter, which Hy calls its own program."""
    return getattr(sys.modules.get("hy"), "sys_executable", None) or sys.executable


def is_stopped_before_its_end(child: subprocess.Popen[bytes], printed: IO[str]) -> bool:
    """Wait for the new process, and print its output; whether it was interrupted."""
    try:
        while child.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(POLL_S)
            print(printed.read(), end="")
    except KeyboardInterrupt:
        be_deaf()
        end(child, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_S)
        return True
    finally:
        end(child, getattr(signal, "SIGKILL", signal.SIGTERM))
        child.wait()
        print(printed.read(), end="")
    return False


def answer_of(said: dict[str, Any]) -> object:
    """The answer of the new process; its error is raised in the same class."""
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


def run_anew(process: str, program: str, root: str, former: Sequence[Sequence[str]], *arguments: object) -> object:
    """The answer of a test program to arguments, from a new process with the text `process`, in the folder `root`.

    The process, and each Python that it starts, sees the files of `former` as they were.
    """
    with tempfile.TemporaryDirectory(prefix="codriver-tests-") as folder:
        result, output = os.path.join(folder, "result"), os.path.join(folder, "output")
        asked: dict[str, object] = {"program": program, "arguments": arguments, "result": result}
        asked["needs"] = [name for name in NEEDS if name in sys.modules]
        asked["is_as_before"], variables = bool(former), environment()
        if former:
            lay_former(folder, process, former)
            others = [one for one in [variables.get("PYTHONPATH")] if one]
            variables["PYTHONPATH"] = os.pathsep.join([folder, *others])
        with open(output, "wb") as out, open(output, encoding="utf-8", errors="replace") as printed:
            child = subprocess.Popen(  # noqa: S603  # the REPL's own interpreter
                [interpreter(), "-c", process],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=variables,
                cwd=root or None,
                start_new_session=True,
            )
            with child.stdin as lifeline:  # type: ignore[union-attr]  # stdout is a pipe
                with contextlib.suppress(BrokenPipeError):
                    lifeline.write(json.dumps(asked).encode() + b"\n")
                    lifeline.flush()
                is_stopped = is_stopped_before_its_end(child, printed)
        if os.path.exists(result):
            with open(result, encoding="utf-8") as file:
                said = json.load(file)
            if not is_stopped or "answer" in said:
                return answer_of(said)
        if is_stopped:
            raise KeyboardInterrupt
        raise RuntimeError("the new process ended before the tests did, with status " + str(child.returncode))
