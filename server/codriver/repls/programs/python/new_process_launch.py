"""Start test runs in a new process from a Python REPL.

The new process is a child of the REPL. It uses the same interpreter and directory and, if the system provides it, the
environment with which the REPL was started. Output goes through a file because a pipe would be kept open by processes
that a test leaves running.
"""

from __future__ import annotations

import builtins
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile

from .run_values import ignore_interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any

POLL_S, GRACE_S = 0.03, 5
"""Seconds between checks of the process, and seconds that it has to exit after it was interrupted."""


def start_environment() -> dict[str, str]:
    """Return the environment with which the REPL was started, without later changes.

    Returns the current environment if the system does not provide it.
    """
    try:
        with open("/proc/self/environ", "rb") as file:
            pairs = [variable.partition(b"=") for variable in file.read().split(b"\0") if b"=" in variable]
        return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
    except OSError:
        return dict(os.environ)


def end(child: subprocess.Popen[bytes], kind: int) -> None:
    """Send a signal to a process and all processes that it started, if it is still running."""
    if child.poll() is None:
        with contextlib.suppress(OSError):
            os.killpg(child.pid, kind) if hasattr(os, "killpg") else child.terminate()


def wait_until_exit(child: subprocess.Popen[bytes], printed: IO[str]) -> bool:
    """Print the output of the new process until it exits, and return whether the wait was interrupted."""
    try:
        while child.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(POLL_S)
            print(printed.read(), end="")
    except KeyboardInterrupt:
        ignore_interrupts()
        end(child, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_S)
        return True
    finally:
        end(child, getattr(signal, "SIGKILL", signal.SIGTERM))
        child.wait()
        print(printed.read(), end="")
    return False


def answer_of(answer: dict[str, Any]) -> object:
    """Return the new process's answer. If the process failed, raise its error, with the same class if possible."""
    if "answer" in answer:
        return answer["answer"]
    name, words = answer["error"]
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            failure = kind(words)
        except TypeError:
            failure = None
        if failure is not None:
            raise failure
    raise RuntimeError(name + ": " + words)


def run_in_new_process(process: str, program: str, root: str, *arguments: object) -> object:
    """Run a test program in a new process in the directory `root`, and return its answer.

    `process` is the source code that the new process runs.

    Raises:
        RuntimeError: the process ended before the tests did.
    """
    with tempfile.TemporaryDirectory(prefix="codriver-tests-") as directory:
        result, output = os.path.join(directory, "result"), os.path.join(directory, "output")
        request: dict[str, object] = {"program": program, "arguments": arguments, "result": result}
        with open(output, "wb") as out, open(output, encoding="utf-8", errors="replace") as printed:
            child = subprocess.Popen(  # noqa: S603  # the REPL's own interpreter
                [sys.executable, "-c", process],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=start_environment(),
                cwd=root or None,
                start_new_session=True,
            )
            with child.stdin as lifeline:  # type: ignore[union-attr]  # stdout is a pipe
                with contextlib.suppress(BrokenPipeError):
                    lifeline.write(json.dumps(request).encode() + b"\n")
                    lifeline.flush()
                is_stopped = wait_until_exit(child, printed)
        if os.path.exists(result):
            with open(result, encoding="utf-8") as file:
                answer = json.load(file)
            if not is_stopped or "answer" in answer:
                return answer_of(answer)
        if is_stopped:
            raise KeyboardInterrupt
        raise RuntimeError("the new process ended before the tests did, with status " + str(child.returncode))
