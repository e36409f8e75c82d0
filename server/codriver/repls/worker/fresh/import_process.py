"""A process that imports modules for a comparison. It is paused while evaluations are running, and killed after use."""

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

COMPARE_OPTION = "--compare"
"""The argument that makes `__main__` run the import program."""
TIME_CHECK_INTERVAL_S = 0.1
"""The interval at which the time limit is checked, in seconds."""
HASH_SEEDS = "1", "2"
"""Hash seeds for two imports of the same source, so that anything that depends on the order of sets differs."""


def _parse_result(data: bytes, spec: dict[str, Any]) -> dict[str, Any]:
    """Parse the result of an importing process. An invalid result means that the import failed."""
    try:
        found: dict[str, Any] = json.loads(data)
    except ValueError:
        return {"failed": f"the import of {', '.join(spec['edited'])} ended the importing process"}
    return found


if sys.platform == "win32":

    class ImportProcess:
        """A process that runs `import_program`. On Windows it cannot be paused."""

        def __init__(self, program: str, hash_seed: str) -> None:
            import subprocess

            arguments = [sys.executable, "-B", program, COMPARE_OPTION]
            environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(  # noqa: S603  # our own program
                arguments, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environment
            )

        def result(
            self, spec: dict[str, Any], seconds: float, is_requested: Callable[[], bool]
        ) -> dict[str, Any] | None:
            """Send the specification and wait for the result. Returns None if that takes longer than `seconds`."""
            del is_requested
            try:
                data, _ = self._process.communicate(json.dumps(spec).encode(), timeout=seconds)
            except Exception:  # a timeout; its class is imported above
                return None
            finally:
                self._process.kill()
            return _parse_result(data, spec)

        def pause(self) -> None:
            """Do nothing, because Windows cannot pause processes."""

        def resume(self) -> None:
            """Do nothing, because Windows cannot pause processes."""

else:

    class ImportProcess:
        """A process that runs `import_program` in a separate process group."""

        def __init__(self, program: str, hash_seed: str) -> None:
            arguments = [
                sys.executable,
                "-B",
                *(["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []),
                program,
                COMPARE_OPTION,
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
            """Send the specification and wait for the result.

            Returns None if it takes longer than `seconds`, not counting pauses, or is no longer needed.
            """
            try:
                with contextlib.suppress(BrokenPipeError):  # it ended early, so the result will be incomplete
                    self._send(json.dumps(spec).encode())
                data = self._read(seconds, is_requested)
            finally:
                self._end()
            return None if data is None else _parse_result(data, spec)

        def pause(self) -> None:
            """Pause the process while an evaluation is running."""
            self._is_paused = True
            self._signal(signal.SIGSTOP)

        def resume(self) -> None:
            """Let the process continue."""
            self._signal(signal.SIGCONT)
            self._is_paused = False

        def _send(self, data: bytes) -> None:
            try:
                while data:
                    data = data[os.write(self._input, data) :]
            finally:
                os.close(self._input)

        def _read(self, seconds: float, is_requested: Callable[[], bool]) -> bytes | None:
            """Read until the process closes its output.

            Returns None if time is up, or the result is no longer needed.
            """
            poll = select.poll()
            poll.register(self._output, select.POLLIN)
            data = b""
            while seconds > 0 and is_requested():
                if poll.poll(TIME_CHECK_INTERVAL_S * 1000):
                    more = os.read(self._output, 2**16)
                    if not more:
                        return data
                    data += more
                elif not self._is_paused:
                    seconds -= TIME_CHECK_INTERVAL_S
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
