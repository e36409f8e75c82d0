"""Servers shared by the processes of a test run: used by one process at a time, and stopped with the last one."""

import os
import subprocess
import sys
from pathlib import Path

import lent_servers
import pytest
import real_repls
from live_server import until

SUPPORT = Path(lent_servers.__file__).parent
BORROWER = """
import sys
import lent_servers, real_repls
for line in sys.stdin:
    print(lent_servers.give_back() if line.strip() == "give back" else real_repls.repl("python").address, flush=True)
"""


@pytest.fixture
def process(tmp_path):
    """Return a function that creates another process of a separate test run."""
    env = {**os.environ, lent_servers.SHARED: str(tmp_path), "PYTHONPATH": str(SUPPORT)}
    started = []

    def start():
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", BORROWER], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        )
        return started[-1]

    yield start
    for item in started:
        end(item)


def end(process):
    process.stdin.close()
    process.wait(60)
    process.stdout.close()


def request(process, words):
    process.stdin.write(f"{words}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def running(folder):
    return [path.parent for path in folder.glob("*/report") if lent_servers._is_locked(path)]


def test_only_one_process_at_a_time_can_borrow_a_server(process, tmp_path):
    first, second = process(), process()
    mine, other = request(first, "borrow"), request(second, "borrow")
    assert mine != other
    assert request(first, "borrow") == mine
    request(first, "give back")
    assert request(process(), "borrow") == mine
    assert len(running(tmp_path)) == 2


def test_a_shared_server_ends_with_its_last_user_however_that_process_ends(process, tmp_path):
    first, second = process(), process()
    address = request(first, "borrow")
    request(first, "give back")
    assert request(second, "borrow") == address
    end(first)
    assert request(second, "borrow") == address
    assert len(running(tmp_path)) == 1
    second.kill()
    until(lambda: not running(tmp_path), "the end of the server")


def test_a_server_whose_owner_has_exited_cannot_be_borrowed_again(process, tmp_path):
    first, second = process(), process()
    address = request(first, "borrow")
    end(first)
    assert request(second, "borrow") != address


def test_a_shared_server_that_has_exited_is_replaced():
    ours = real_repls.repl("python")
    ours.kill()
    assert real_repls.repl("python").is_running()
