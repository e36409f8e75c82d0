"""A process that imports modules for a comparison: started, paused while evaluations run, read, and ended."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

COMPARE = "--compare"
"""The argument that makes `__main__` the program of such a process."""
TICK_S = 0.1
"""How often the process is checked against its time."""
HASH_SEEDS = "1", "2"
"""Two imports of one source have different seeds, so that what depends on the order of a set differs in them."""


def _parsed(data: bytes, spec: dict[str, Any]) -> dict[str, Any]:
    """Parse the result of a process; one that ended without a result failed."""
    try:
        found: dict[str, Any] = json.loads(data)
    except ValueError:
        return {"failed": f"the import of {', '.join(spec['edited'])} ended the process that did it"}
    return found


if sys.platform == "win32":

    class ImportProcess:
        """One process of `import_program`, which cannot be paused here."""

        def __init__(self, program: str, hash_seed: str) -> None:
            import subprocess

            arguments = [sys.executable, "-B", program, COMPARE]
            environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(  # noqa: S603  # our own program
                arguments, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environment
            )

        def result(
            self, spec: dict[str, Any], seconds: float, is_requested: Callable[[], bool]
        ) -> dict[str, Any] | None:
            """Send what to do, and wait for the result; None if it took too long."""
            del is_requested
            try:
                data, _ = self._process.communicate(json.dumps(spec).encode(), timeout=seconds)
            except Exception:  # a timeout, whose class is imported above
                return None
            finally:
                self._process.kill()
            return _parsed(data, spec)

        def pause(self) -> None:
            """Nothing: the process goes on."""

        def resume(self) -> None:
            """Nothing: the process goes on."""

else:

    class ImportProcess:
        """One process of `import_program`, in a process group of its own. POSIX only."""

        def __init__(self, program: str, hash_seed: str) -> None:
            arguments = [
                sys.executable,
                "-B",
                *(["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []),
                program,
                COMPARE,
            ]
            reading, self._input = os.pipe()
            self._output, writing = os.pipe()
            actions = [
                (os.POSIX_SPAWN_DUP2, reading, 0),
                (os.POSIX_SPAWN_DUP2, writing, 1),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ]
            environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
            try:
                self._process = os.posix_spawn(
                    sys.executable, arguments, environment, file_actions=actions, setpgroup=0
                )
            finally:
                os.close(reading)
                os.close(writing)
            self._is_paused = False

        def result(
            self, spec: dict[str, Any], seconds: float, is_requested: Callable[[], bool]
        ) -> dict[str, Any] | None:
            """Send what to do, and wait for the result; None if it is not wanted any more, or took too long.

            Time in which the process is paused does not count.
            """
            try:
                with contextlib.suppress(BrokenPipeError):  # it ended before it read: so does what it writes
                    self._send(json.dumps(spec).encode())
                data = self._read(seconds, is_requested)
            finally:
                self._end()
            return None if data is None else _parsed(data, spec)

        def pause(self) -> None:
            """Stop the process while an evaluation runs."""
            self._is_paused = True
            self._signal(signal.SIGSTOP)

        def resume(self) -> None:
            """Let the process go on."""
            self._signal(signal.SIGCONT)
            self._is_paused = False

        def _send(self, data: bytes) -> None:
            try:
                while data:
                    data = data[os.write(self._input, data) :]
            finally:
                os.close(self._input)

        def _read(self, seconds: float, is_requested: Callable[[], bool]) -> bytes | None:
            """Read until the process closes its output; None if it is not wanted any more, or the time is over."""
            poll = select.poll()
            poll.register(self._output, select.POLLIN)
            data = b""
            while seconds > 0 and is_requested():
                if poll.poll(TICK_S * 1000):
                    more = os.read(self._output, 2**16)
                    if not more:
                        return data
                    data += more
                elif not self._is_paused:
                    seconds -= TICK_S
            return None

        def _signal(self, number: int) -> None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if self._process:
                    os.killpg(self._process, number)

        def _end(self) -> None:
            self._signal(signal.SIGKILL)
            os.close(self._output)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._process, 0)
            self._process = 0
