"""Request a REPL from a process with a file and a signal, and accept the stream over which it connects.

The process proves with a one-time secret that it read the request, and the kernel identifies the process and the user
that connected. Connections from anyone else are closed.
"""

# mypy: disable-error-code="attr-defined"
# Windows is not supported, and lacks some of these functions.

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

import anyio

from codriver import files
from codriver.features.run.process_table import find_process
from codriver.features.run.program_sockets import listen_for_program, peer_ids
from codriver.features.run.run_directory import InsecureDirectoryError, check_private
from codriver.files import Links
from codriver.repls.contract.adapter import ReplUnreachableError
from codriver.repls.contract.endpoints import AcceptedStream

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ANSWER_TIMEOUT_S: Final = 3.0
"""How long a process may take to notice a signal, which Python handles between two instructions of its main thread."""
CONNECT_TIMEOUT_S: Final = 9.0
"""Maximum time for a process that has noticed a signal to finish its imports and connect. Callers wait 10 s."""
HELLO_TIMEOUT_S: Final = 10.0
"""Maximum time for a connected process to load the REPL, which may include compiling it, and to identify itself."""
SIGNAL_RETRY_INTERVAL_S: Final = 0.1
"""Time after which the signal is sent again. A program that is starting does not answer during some imports."""
MAX_HELLO_BYTES: Final = 65536
"""Maximum size of the line in which a process identifies itself."""

RequestPhase = Literal["unnoticed", "delayed", "accepted"]
"""What a process has done with a request.

`delayed` means that the process cannot start a thread yet, because it is importing modules of the standard library. It
reports this by touching the request's file, whose modification time the server has set to 0.
"""


async def request_stream(directory: Path, pid: int) -> tuple[AcceptedStream, Sequence[str]]:
    """Request a REPL from a process. Return the stream to the REPL, and the applications found in the process.

    Raises:
        ReplUnreachableError: the process has ended or does not answer, or another process connected.
    """
    process = f"process {pid}"
    secret = secrets.token_hex(16)
    request = directory / f"{pid}.request"
    try:
        check_private(directory)
        with listen_for_program(directory) as (listener, address):
            data = json.dumps({"socket": address, "secret": secret}).encode()
            files.replace(request, data, links=Links.ANY, is_durable=False)
            os.utime(request, (0, 0))
            end_of_silence = anyio.current_time() + ANSWER_TIMEOUT_S
            with anyio.move_on_after(CONNECT_TIMEOUT_S):
                while _read_phase(request) != "unnoticed" or anyio.current_time() < end_of_silence:
                    if (accepted := await _accept(listener, request, pid, secret)) is not None:
                        return accepted
            raise ReplUnreachableError(process, silence_reason(pid, _read_phase(request)))
    except ProcessLookupError:
        raise ReplUnreachableError(process, "the process has ended") from None
    except InsecureDirectoryError as error:
        raise ReplUnreachableError(process, f"{error.filename}: {error.strerror}") from error
    except OSError as error:
        raise ReplUnreachableError(process, f"requesting a REPL failed: {error.strerror or error}") from error
    finally:
        for left in (request.name, f"{pid}.taken", f"{pid}.taken.failed"):
            with suppress(OSError):
                files.remove(directory / left)


def _read_phase(request: Path) -> RequestPhase:
    """Return the phase that a process has reached in handling a request."""
    try:
        return "delayed" if request.stat().st_mtime else "unnoticed"
    except FileNotFoundError:
        return "accepted"


async def _accept(
    listener: socket.socket, request: Path, pid: int, secret: str
) -> tuple[AcceptedStream, Sequence[str]] | None:
    """Signal a process, and wait for `SIGNAL_RETRY_INTERVAL_S` until it connects.

    Return the stream to its REPL and the applications found in it, or None if it has not connected.
    """
    if request.exists():  # noqa: ASYNC240  # one system call on a local file system
        os.kill(pid, signal.SIGURG)
    with anyio.move_on_after(SIGNAL_RETRY_INTERVAL_S):
        await anyio.wait_readable(listener)
        sock, _ = listener.accept()
        if (applications := await _verify_peer(sock, pid, secret)) is not None:
            return AcceptedStream(f"process {pid}", sock), applications
    if find_process(pid) is None:
        raise ProcessLookupError
    failed = request.with_name(f"{pid}.taken.failed")
    if failed.exists():
        words = files.read_text(failed, files.FileRules(Links.ANY, 65536)).strip().rpartition("\n")[2]
        raise ReplUnreachableError(f"process {pid}", f"the REPL could not be started in the process: {words}")
    return None


async def _verify_peer(sock: socket.socket, pid: int, secret: str) -> Sequence[str] | None:
    """Return the applications of the process that has connected, or None if it is not the expected one."""
    if peer_ids(sock) == (pid, os.getuid()):
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError), anyio.CancelScope(shield=True):
            with anyio.fail_after(HELLO_TIMEOUT_S):
                hello = json.loads(await _read_line(sock))
            if secrets.compare_digest(str(hello["secret"]), secret):
                return [str(line)[:200] for line in hello["applications"]]
    sock.close()
    return None


async def _read_line(sock: socket.socket) -> bytes:
    """Read one line byte by byte, because the data after it belongs to the REPL."""
    sock.setblocking(False)  # noqa: FBT003  # as above
    data = b""
    while not data.endswith(b"\n") and len(data) < MAX_HELLO_BYTES:
        await anyio.wait_readable(sock)
        seen = sock.recv(MAX_HELLO_BYTES, socket.MSG_PEEK)
        if not seen:
            raise ConnectionResetError
        data += sock.recv(seen.find(b"\n") + 1 or len(seen))
    return data


def silence_reason(pid: int, phase: RequestPhase) -> str:
    """Return the likely reason why a process did not answer in time."""
    process = find_process(pid)
    if process is None:
        return "the process has ended"
    if phase == "accepted":
        return (
            f"the process read the request but did not connect within {CONNECT_TIMEOUT_S:g} s: it may be very busy "
            "(call again later), or have run out of open files, threads or memory"
        )
    if phase == "delayed":
        return "the program is still importing modules. Call again later"
    if not process.is_ready:
        return process.no_repl_reason or "the program replaced the handler for SIGURG"
    if process.is_blocking:
        return "the program blocks SIGURG"
    return (
        f"the main thread ran no Python code for {ANSWER_TIMEOUT_S:g} s. Either it is in C code, such as a long "
        "query or a library's lock (call again later), or the program has replaced the handler for SIGURG"
    )
