"""How the server verifies the process from which it requested a REPL, and the directories used for this."""

# mypy: disable-error-code="attr-defined"
# It is skipped on Windows, which lacks some of these functions.

import contextlib
import json
import os
import socket
import sys
import threading
from pathlib import Path

import anyio
import pytest

from codriver.features.run import program_sockets, requests
from codriver.features.run.processes import RunProcess
from codriver.repls.contract.adapter import ReplUnreachableError

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="`codriver run` refuses Windows"),
]


@pytest.fixture(params=[True, False], ids=["linux", "macos"])
def directory(request, tmp_path, monkeypatch):
    """Return the directory of a run. The addresses of sockets are as on one of the systems."""
    if request.param and sys.platform != "linux":
        pytest.skip("this system has no paths of open directories")
    monkeypatch.setattr(program_sockets, "HAS_DESCRIPTOR_PATHS", request.param)
    path = tmp_path / "run"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(requests, "ANSWER_TIMEOUT_S", 0.6)
    monkeypatch.setattr(os, "kill", lambda _pid, _number: None)


def connect_as_requested(directory, hello, done):
    """Do what a program does when asked for a REPL, and send this."""
    requested = directory / f"{os.getpid()}.request"
    while not requested.exists():
        pass
    request = json.loads(requested.read_text())
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(directory / request["socket"]))
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):  # the connection was closed by the server
            sock.sendall(json.dumps(hello(request)).encode() + b"\nafter")
            done.append(sock.recv(1))


async def answered(directory, hello, pid=None):
    done = []
    thread = threading.Thread(target=connect_as_requested, args=(directory, hello, done), daemon=True)
    thread.start()
    try:
        return await requests.request_stream(directory, pid or os.getpid())
    finally:
        await anyio.to_thread.run_sync(thread.join)


async def test_the_requested_process_is_accepted_and_no_byte_of_its_repl_is_lost(directory, hurried):
    del hurried

    def hello(request):
        return {"secret": request["secret"], "pid": os.getpid(), "applications": ["Flask shop.app"]}

    async with anyio.create_task_group() as tasks:
        done = []

        async def ask():
            done.append(await requests.request_stream(directory, os.getpid()))

        tasks.start_soon(ask)
        thread = threading.Thread(target=connect_as_requested, args=(directory, hello, []), daemon=True)
        thread.start()
    ((stream, applications),) = done
    assert applications == ["Flask shop.app"]
    assert stream.socket.recv(5) == b"after"
    stream.socket.close()
    thread.join()
    assert [*directory.iterdir()] == []  # a test


async def test_a_peer_with_a_wrong_or_replayed_secret_is_disconnected(directory, hurried):
    del hurried
    seen = ["0" * 32]

    def hello(request):
        seen.append(request["secret"])
        return {"secret": seen[-2], "applications": []}

    for _ in range(2):
        with pytest.raises(ReplUnreachableError, match="Call start_repl"):
            await answered(directory, hello)
    assert len(set(seen)) == 3, "each request has a secret of its own"


async def test_a_peer_other_than_the_requested_process_is_disconnected(directory, hurried, monkeypatch):
    del hurried
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    monkeypatch.setattr(requests, "check_private", lambda _: None)
    with pytest.raises(ReplUnreachableError):
        await answered(directory, lambda request: {"secret": request["secret"], "applications": []})


async def test_a_process_that_is_importing_modules_is_reported_as_importing(directory, hurried, monkeypatch):
    del hurried
    monkeypatch.setattr(requests, "CONNECT_TIMEOUT_S", 1.0)
    request = directory / f"{os.getpid()}.request"
    monkeypatch.setattr(os, "kill", lambda _pid, _number: os.utime(request))
    with pytest.raises(ReplUnreachableError, match="still importing modules"):
        await requests.request_stream(directory, os.getpid())


async def test_a_process_that_has_read_the_request_has_more_time_to_connect(directory, hurried, monkeypatch):
    del hurried
    checks, is_late = [], threading.Event()

    def find_process(pid):
        checks.append(pid)
        if len(checks) * requests.SIGNAL_RETRY_INTERVAL_S > requests.ANSWER_TIMEOUT_S:
            is_late.set()
        return object()

    def connect(request):
        is_late.wait(60)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(directory / request["socket"]))
            hello = {"secret": request["secret"], "pid": os.getpid(), "applications": []}
            sock.sendall(json.dumps(hello).encode() + b"\n")

    def accept(_pid, _number):
        request = directory / f"{os.getpid()}.request"
        threads.append(threading.Thread(target=connect, args=(json.loads(request.read_text()),), daemon=True))
        request.unlink()
        threads[-1].start()

    threads = []
    monkeypatch.setattr(requests, "find_process", find_process)
    monkeypatch.setattr(os, "kill", accept)
    stream, _ = await requests.request_stream(directory, os.getpid())
    stream.socket.close()
    threads[0].join()


@pytest.mark.parametrize("mode", [0o750, 0o707, 0o777])
async def test_a_directory_open_to_others_is_refused(directory, mode):
    directory.chmod(mode)
    with pytest.raises(ReplUnreachableError, match="the directory is not private"):
        await requests.request_stream(directory, os.getpid())


async def test_a_directory_of_another_user_is_refused(directory, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: directory.stat().st_uid + 1)
    with pytest.raises(ReplUnreachableError, match="the directory is not private"):
        await requests.request_stream(directory, os.getpid())


@pytest.mark.parametrize(
    ("state", "phase", "reason"),
    [
        ({"is_ready": True}, "unnoticed", "the main thread ran no Python code for 3 s. Either it is in C code"),
        ({"is_ready": True}, "accepted", "it may be very busy"),
        ({"is_ready": True}, "delayed", "still importing modules"),
        ({"is_ready": True, "is_blocking": True}, "unnoticed", "the program blocks SIGURG"),
        ({"is_ready": False, "is_ignoring": True}, "unnoticed", "the program ignores SIGURG"),
        (
            {"is_ready": False},
            "unnoticed",
            "its handler for SIGURG was replaced. If so, call start_repl() in the program",
        ),
        (None, "unnoticed", "the process has ended"),
    ],
)
async def test_a_process_that_does_not_answer_is_reported_with_the_likely_reason(state, phase, reason, monkeypatch):
    environ = {b"CODRIVER_RUN": b"/run"}
    process = None if state is None else RunProcess(7, 1, 3, ("python", "shop.py"), environ=environ, **state)
    monkeypatch.setattr(requests, "find_process", lambda _: process)
    assert reason in requests.silence_reason(7, phase)


async def test_a_link_in_place_of_the_directory_is_refused(tmp_path, directory):
    link = Path(tmp_path / "link")
    link.symlink_to(directory)  # noqa: ASYNC240  # a test
    with pytest.raises(ReplUnreachableError, match="not a directory"):
        await requests.request_stream(link, os.getpid())
