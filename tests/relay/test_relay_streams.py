"""The relay works with any kind of standard streams: non-blocking, closed, full, or without a reader."""

import contextlib
import os
import shlex
import subprocess
import sys

import pytest

from codriver.systems.pipes import make_nonblocking
from relay.relay_process import RELAY, WAIT_S, answer, encode, request

BIG = 1_000_000
STREAMS = ("stdin", "stdout", "stderr")


@pytest.fixture
def pipe(stack):
    """Return the two ends of a pipe as file descriptors."""
    ends = os.pipe()
    for end in ends:
        stack.callback(os.close, end)
    return ends


@pytest.fixture
def start(stack):
    """Start the relay with the given streams, and pipes for the others."""

    def start(*arguments, redirect="", **streams):
        command = shlex.join([sys.executable, "-I", "-S", str(RELAY), *map(str, arguments)])
        streams = dict.fromkeys(STREAMS, subprocess.PIPE) | streams
        process = subprocess.Popen(["/bin/sh", "-c", f"exec {command} {redirect}"], bufsize=0, **streams)
        stack.callback(close, process)
        return process

    def close(process):
        process.kill()
        process.wait(WAIT_S)
        for name in STREAMS:
            stream = getattr(process, name)
            if stream is not None:
                stream.close()

    return start


def test_no_output_is_lost_on_a_non_blocking_stdout(start, host, pipe):
    reading, writing = pipe
    make_nonblocking(writing)
    process = start(host.port, stdout=writing)
    process.stdin.write(encode(request(1)))
    peer = host.accept()
    peer.read()
    lines = [encode(answer(number, {"text": "x" * (BIG if number == 1 else 10)})) for number in range(3)]
    peer.send(*lines)
    process.stdin.write(encode(request(2)))
    assert peer.read() == request(2)
    with os.fdopen(os.dup(reading), "rb") as out:
        assert [out.readline() for _ in lines] == lines


def test_a_non_blocking_stdin_is_read_to_its_end(start, host, pipe):
    reading, writing = pipe
    make_nonblocking(reading)
    process = start(host.port, stdin=reading)
    peer = host.accept()
    for number in range(3):
        os.write(writing, encode(request(number)))
        assert peer.read() == request(number)
        peer.send(answer(number))
        assert process.stdout.readline() == encode(answer(number))


@pytest.mark.parametrize("redirect", ["1>&-", "2>&-", "1>&- 2>&-"])
def test_a_standard_stream_closed_before_the_start_is_not_mistaken_for_another_stream(start, host, redirect):
    process = start(host.port, "--verbose", redirect=redirect)
    process.stdin.write(encode(request(1)))
    peer = host.accept()
    assert peer.read() == request(1)
    peer.send(answer(1))
    process.stdin.write(encode(request(2)))
    assert peer.read() == request(2)
    if "1>" not in redirect:
        assert process.stdout.readline() == encode(answer(1))


@pytest.mark.parametrize("redirect", ["<&-", "<&- 1>&-", "<&- 1>&- 2>&-"])
def test_a_stdin_closed_before_the_start_is_treated_as_end_of_file(start, host, redirect):
    process = start(host.port, redirect=redirect)
    assert host.accept().read_line() == b""
    assert process.wait(WAIT_S) == 0


def test_an_unread_stderr_does_not_block_the_relay(start, host, pipe):
    _, writing = pipe
    make_nonblocking(writing)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, bytes(4096))
    os.set_blocking(writing, True)
    process = start(host.port, "--verbose", stderr=writing)
    process.stdin.write(encode(request(1)))
    assert host.accept().read() == request(1)


def test_a_stderr_without_a_reader_does_not_end_the_relay(start, host):
    process = start(host.port, "--verbose")
    process.stderr.close()
    process.stdin.write(encode(request(1)))
    assert host.accept().read() == request(1)
